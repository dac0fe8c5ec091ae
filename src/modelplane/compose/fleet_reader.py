"""Fleets of listed objects, for hosts that show an unchanged object as the same mapping again.

An object is decoded once for as long as it is shown, and lists of the same objects give the same fleet: the next
deployment that is called with them need not build it.
"""

from collections.abc import Callable, Iterable
from operator import is_
from typing import Final, TypeVar

from modelplane.api.identity import IdentityMemo
from modelplane.api.objects import Manifest
from modelplane.compose.fleet_snapshot import read_cache, read_cluster, read_replica
from modelplane.placement.snapshot import Fleet

CLUSTERS: Final = 2_048
REPLICAS: Final = 16_384
CACHES: Final = 4_096
T = TypeVar("T")
_Lists = tuple[tuple[Manifest, ...], tuple[Manifest, ...], tuple[Manifest, ...]]
"""Of clusters, replicas and caches."""


class FleetReader:
    """Threads share it without a lock: a race reads an object twice."""

    def __init__(self) -> None:
        self._clusters = IdentityMemo(read_cluster, CLUSTERS)
        self._replicas = IdentityMemo(read_replica, REPLICAS)
        self._caches = IdentityMemo(read_cache, CACHES)
        self._newest: tuple[_Lists, Fleet] | None = None

    def __call__(
        self, clusters: Iterable[Manifest], replicas: Iterable[Manifest], caches: Iterable[Manifest] = ()
    ) -> Fleet:
        """As `fleet_of`."""
        shown = tuple(clusters), tuple(replicas), tuple(caches)
        known = self._newest
        if known is not None and all(map(_are_same, known[0], shown)):
            return known[1]
        fleet = Fleet.of(
            _read(self._clusters, shown[0]), _read(self._replicas, shown[1]), _read(self._caches, shown[2])
        )
        self._newest = (shown, fleet)
        return fleet


def _are_same(known: tuple[Manifest, ...], shown: tuple[Manifest, ...]) -> bool:
    return len(known) == len(shown) and all(map(is_, known, shown))


def _read(read: Callable[[Manifest], T | None], items: Iterable[Manifest]) -> Iterable[T]:
    return (found for item in items if (found := read(item)) is not None)
