"""Problems of an object, with corrections."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from modelplane.k8s.admission.decode import escape, shorten
from modelplane.k8s.admission.paths import Path, render

MAX_PROBLEMS: Final = 100
"""How many problems of one object are reported."""


class CauseType(StrEnum):
    """The reason of a rejection, as in the Kubernetes API (`status.details.causes[].reason`)."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    UNKNOWN_FIELD = "UnknownField"


BLOCKING: Final = frozenset(
    (CauseType.REQUIRED, CauseType.TYPE, CauseType.NOT_SUPPORTED, CauseType.TOO_LONG, CauseType.TOO_MANY)
)
"""After one of these, rules over the same value are skipped: they expect a valid shape and size."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong at one place.

    `wrong` is the problem and `right` the correction, empty if unknown. `quote` is a scalar that would be valid in
    quotes; the caller that knows its spelling replaces it.
    """

    path: Path
    wrong: str
    right: str = ""
    cause: CauseType = CauseType.INVALID
    quote: str = ""

    @property
    def field(self) -> str:
        return render(self.path)

    @property
    def message(self) -> str:
        """The problem and the correction, on one printable line."""
        parts = (self.wrong, self.right, f'write it in quotes, "{self.quote}"' if self.quote else "")
        return escape("; ".join(part for part in parts if part))

    def __str__(self) -> str:
        return f"{escape(self.field)}: {self.message}"


def collect(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first problems, at most `MAX_PROBLEMS` of them. The rest is not computed."""
    return tuple(islice(problems, MAX_PROBLEMS))


def describe(value: object) -> str:
    """A short description of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{shorten(value)}"'
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return shorten(str(value))


def listing(words: Iterable[str], *, last: str = "or") -> str:
    """`a, b or c`, cut short where there are many."""
    shown = list(islice(words, _MOST_LISTED + 1))
    if len(shown) > _MOST_LISTED:
        shown[-1] = "…"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


_MOST_LISTED: Final = 20
