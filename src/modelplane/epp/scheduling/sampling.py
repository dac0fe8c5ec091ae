"""Random choice that does not depend on the order in which endpoints are listed.

Positions are sorted by the endpoints' names before a number is drawn, so the same endpoints, seed and request give the
same result however discovery lists them.
"""

from collections.abc import Callable, Sequence

from modelplane.api.identity import IdentityMemo
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Scored


class NameOrder:
    """Sorts positions by the endpoints' names, which are read once for a pool."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: IdentityMemo[Sequence[Endpoint], tuple[str, ...]] = IdentityMemo(_names_unless_in_order, 1)

    def sort(self, endpoints: Sequence[Endpoint], positions: Sequence[int]) -> Sequence[int]:
        """The positions, which come in ascending order."""
        names = self._names(endpoints) if type(endpoints) is tuple else _names_unless_in_order(endpoints)
        return sorted(positions, key=names.__getitem__) if names else positions

    def pick_one(self, context: SchedulingContext, endpoints: Sequence[Endpoint], positions: Sequence[int]) -> int:
        """One of the positions, each as likely as another."""
        return self.sort(endpoints, positions)[_below(context, len(positions))]


def pick_in_order(
    order: Callable[[SchedulingContext, Sequence[Endpoint], Sequence[float]], Sequence[int]],
    context: SchedulingContext,
    scored: Sequence[Scored[Endpoint]],
) -> Sequence[Scored[Endpoint]]:
    """The `pick` of a picker that has `order`."""
    found = order(context, [each.candidate for each in scored], [each.total for each in scored])
    return [scored[at] for at in found]


def _names_unless_in_order(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    names = tuple([endpoint.name for endpoint in endpoints])
    return () if list(names) == sorted(names) else names


def shuffled(context: SchedulingContext, positions: Sequence[int]) -> list[int]:
    mixed = list(positions)
    for last in range(len(mixed) - 1, 0, -1):
        other = _below(context, last + 1)
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


def _below(context: SchedulingContext, bound: int) -> int:
    # The product of a double below 1 and a whole number never rounds up to that number.
    return int(context.chance() * bound)
