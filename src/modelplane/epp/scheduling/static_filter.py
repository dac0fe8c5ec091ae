"""Filters that read only the labels of an endpoint, so that their result never changes."""

from collections.abc import Callable, Sequence

from modelplane.api.identity import IdentityMemo
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal


class StaticFilter:
    """Calls `judge` once for each endpoint of a pool."""

    __slots__ = ("_answers", "_judge", "name")

    def __init__(self, name: str, judge: Callable[[Endpoint], Refusal | None]) -> None:
        self.name = name
        self._judge = judge
        self._answers: IdentityMemo[Sequence[Endpoint], tuple[Refusal | None, ...]] = IdentityMemo(self._all, 1)

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        return self._judge(endpoint)

    def narrow(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        return self._answers(endpoints) if type(endpoints) is tuple else self._all(endpoints)

    def _all(self, endpoints: Sequence[Endpoint]) -> tuple[Refusal | None, ...]:
        return tuple(map(self._judge, endpoints))
