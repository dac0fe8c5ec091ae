"""Which rows a view shows: words, a state, a namespace and a page, as an address has them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from modelplane.api.errors import InputError
from modelplane.views.states import DELETING, NOT_READY, READY, UNKNOWN
from modelplane.web.shapes import HealthCounts, RowPage

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
_MAX_OFFSET: Final = 10_000_000
_MAX_WORDS: Final = 200
STATES: Final = (NOT_READY, UNKNOWN, DELETING, READY)
"""The worst first: that is the order of rows."""
_FIELDS: Final = ("q", "state", "namespace", "name", "type", "offset", "limit")
_Item = TypeVar("_Item")
_Shown = TypeVar("_Shown")


class ViewQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: str = ""
    state: str = ""
    namespace: str = ""
    name: str = ""
    type: str = ""
    offset: int = 0
    limit: int = DEFAULT_LIMIT

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ViewQuery":
        """From the parameters of an address. InputError names the one that is wrong."""
        unknown = sorted(given.keys() - set(_FIELDS))
        if unknown:
            raise InputError(f"{unknown[0]}: is no parameter of a view; those are {', '.join(_FIELDS)}")
        state = given.get("state", "")
        if state not in {"", *STATES}:
            raise InputError(f"state: must be one of {', '.join(STATES)}")
        if len(given.get("q", "")) > _MAX_WORDS:
            raise InputError(f"q: must have at most {_MAX_WORDS} characters")
        return cls(
            q=given.get("q", ""),
            state=state,
            namespace=given.get("namespace", ""),
            name=given.get("name", ""),
            type=given.get("type", ""),
            offset=_number(given, "offset", 0, _MAX_OFFSET),
            limit=_number(given, "limit", DEFAULT_LIMIT, MAX_LIMIT),
        )

    def selects(self, text: str) -> bool:
        """Whether all words are in the text, in any order."""
        known = text.casefold()
        return all(word in known for word in self.q.casefold().split())


def _number(given: Mapping[str, str], field: str, default: int, most: int) -> int:
    text = given.get(field, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text[:12]) > most:
        raise InputError(f"{field}: must be a number from 0 to {most}")
    return int(text)


def count_states(states: Iterable[str]) -> HealthCounts:
    found = dict.fromkeys(STATES, 0)
    for state in states:
        found[state] = found.get(state, 0) + 1
    return HealthCounts(
        total=sum(found.values()),
        ready=found[READY],
        not_ready=found[NOT_READY],
        unknown=found[UNKNOWN],
        deleting=found[DELETING],
    )


def select(
    items: Iterable[_Item],
    query: ViewQuery,
    *,
    words: Callable[[_Item], str],
    state: Callable[[_Item], str],
    show: Callable[[_Item], _Shown],
) -> RowPage[_Shown]:
    """The page of items that a query selects, the worst state first and as they come within a state.

    Only those of the page are shown.
    """
    found = [item for item in items if query.selects(words(item))] if query.q else list(items)
    states = count_states(state(item) for item in found)
    if query.state:
        found = [item for item in found if state(item) == query.state]
    order = {name: number for number, name in enumerate(STATES)}
    found.sort(key=lambda item: order.get(state(item), 0))
    rows = tuple(show(item) for item in found[query.offset : query.offset + query.limit])
    return RowPage(rows=rows, offset=query.offset, limit=query.limit, total=len(found), states=states)
