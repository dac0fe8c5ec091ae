"""Chance that does not depend on the order in which endpoints are listed.

Positions are put in the order of the endpoints' names before chance is asked, so the same endpoints, seed and request
give the same answer however discovery lists them.
"""

from collections.abc import Sequence

from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint


def by_name(endpoints: Sequence[Endpoint], positions: Sequence[int]) -> list[int]:
    return sorted(positions, key=[endpoint.name for endpoint in endpoints].__getitem__)


def among(cycle: Cycle, endpoints: Sequence[Endpoint], positions: Sequence[int]) -> int:
    """One of the positions, each as likely as another."""
    return by_name(endpoints, positions)[_below(cycle, len(positions))]


def shuffled(cycle: Cycle, positions: Sequence[int]) -> list[int]:
    mixed = list(positions)
    for last in range(len(mixed) - 1, 0, -1):
        other = _below(cycle, last + 1)
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


def _below(cycle: Cycle, bound: int) -> int:
    # A product with a number just below 1 can round up to the bound itself.
    return min(int(cycle.chance() * bound), bound - 1)
