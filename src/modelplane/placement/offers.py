"""What decisions are made about: clusters of one make, engines on pools of one kind, and whole seats for a replica."""

from functools import lru_cache

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.index import Facts, Place
from modelplane.placement.matching import EngineWay, Unmatched, engine_ways
from modelplane.placement.request import EngineRequest
from modelplane.placement.room import Use, add, devices_in, fits
from modelplane.placement.values import Cluster

_CACHED = 65_536


class ClusterView(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A make of cluster. The sample stands for all clusters that have the same traits and facts."""

    traits: ClusterProfile
    facts: Facts
    sample: Cluster


class PoolView(msgspec.Struct, frozen=True, eq=False):
    """An engine on a kind of pool in one state of use."""

    engine: EngineRequest
    kind: PoolShape
    use: Use


class Fit(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How an engine would sit on a pool."""

    way: EngineWay
    after: Use
    """The use of the pool once the engine is seated."""
    free_share: float
    """The share of the pool's devices that stay free."""
    price: tuple[float, str] | None
    """What the engine costs an hour, and in which currency; None where the pool has no price."""


class OfferedAssignment(msgspec.Struct, frozen=True, eq=False, gc=False):
    kind: PoolShape
    position: int
    """Of the pool on its cluster; negative where each place of the offer has its own."""
    fit: Fit


class PlacementOption(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Places that can take a replica and are alike to the one who asks, with where each engine would go."""

    view: ClusterView
    places: tuple[Place, ...]
    seats: tuple[OfferedAssignment, ...]
    load: int = 0
    """Replicas of the deployment on each of these clusters."""
    returning: bool = False
    """Whether a replica of the deployment leaves one of these clusters in the same pass."""
    version: int = 0
    """0 for places that are as the fleet has them. Otherwise one cluster as it is after so many changes in the pass."""

    @property
    def devices(self) -> int:
        return sum(seat.fit.way.devices for seat in self.seats)

    @property
    def cluster(self) -> ClusterName:
        return self.places[0][0]

    @property
    def headroom(self) -> float:
        """The share of devices that stay free, of the pool that gets fullest."""
        return min(seat.fit.free_share for seat in self.seats)

    @property
    def price(self) -> tuple[float, str] | None:
        """What the replica costs an hour, and in which currency; None where a pool has no price."""
        if len(self.seats) == 1:
            return self.seats[0].fit.price
        prices = [seat.fit.price for seat in self.seats]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices) or len({currency for _, currency in known}) != 1:
            return None
        return sum(amount for amount, _ in known), known[0][1]


def _price(kind: PoolShape, way: EngineWay) -> tuple[float, str] | None:
    """Each pod pays for the part of its node that it takes, by the device that it takes most of."""
    if kind.price is None:
        return None
    nodes = 0.0
    for shape, pods in way.pods:
        part = max(
            count / sum(have for bit, have in enumerate(kind.counts) if mask >> bit & 1) for count, mask in shape
        )
        nodes += pods * part
    return kind.price.per_node_hour * nodes, kind.price.currency


def _free_share(kind: PoolShape, use: Use) -> float:
    devices = kind.devices
    return max(0.0, 1.0 - devices_in(use) / devices) if devices else 0.0


@lru_cache(maxsize=_CACHED)
def first_fit(engine: EngineRequest, kind: PoolShape, use: Use) -> Fit | None:
    """The first way to serve an engine on a pool that there is room for, with the use that results."""
    ways = engine_ways(engine, kind.hardware)
    if isinstance(ways, Unmatched):
        return None
    for way in ways:
        after = add(use, way.pods)
        if fits(kind.counts, kind.nodes, after, packed=kind.packed):
            return Fit(way, after, _free_share(kind, after), _price(kind, way))
    return None
