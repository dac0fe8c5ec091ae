"""Chance that does not depend on the order in which endpoints are listed.

Positions are put in the order of the endpoints' names before chance is asked, so the same endpoints, seed and request
give the same answer however discovery lists them.
"""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.remembered import RememberedFor


class ByName:
    """Positions of endpoints in the order of their names, which is found once for a pool."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: RememberedFor[Endpoint, str] = RememberedFor(_names_unless_in_order)

    def sort(self, endpoints: Sequence[Endpoint], positions: Sequence[int]) -> Sequence[int]:
        """The positions, which come in ascending order."""
        names = self._names.of(endpoints)
        return sorted(positions, key=names.__getitem__) if names else positions

    def one(self, context: SchedulingContext, endpoints: Sequence[Endpoint], positions: Sequence[int]) -> int:
        """One of the positions, each as likely as another."""
        return self.sort(endpoints, positions)[_below(context, len(positions))]


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
    # A product with a number just below 1 can round up to the bound itself.
    return min(int(context.chance() * bound), bound - 1)
