"""What decisions are made about: clusters of one profile, engines on pools of one shape, and whole replicas."""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.index import Facts, Place
from modelplane.placement.matching import EngineAllocation, Unmatched, engine_allocations, is_exhaustive
from modelplane.placement.packing import Packable, pack
from modelplane.placement.partitions import most_on_node
from modelplane.placement.pool_usage import PoolUsage, add, devices_held, fits
from modelplane.placement.request import EngineRequest
from modelplane.placement.values import Cluster

_CACHED = 65_536


class ClusterView(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Clusters of one profile. The sample stands for all clusters that have the same profile and facts."""

    profile: ClusterProfile
    facts: Facts
    sample: Cluster
    tier: int | None = None
    """The tier of these clusters, from 0; None where the deployment has no tiers."""


class PoolView(msgspec.Struct, frozen=True, eq=False):
    """An engine on pools of one shape and usage."""

    engine: EngineRequest
    kind: PoolShape
    usage: PoolUsage


class Fit(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How an engine would fit a pool."""

    allocation: EngineAllocation
    after: PoolUsage
    """The usage of the pool with the engine."""
    free_share: float
    """The share of the pool's devices that stay free."""
    price: tuple[float, str] | None
    """What the engine costs an hour, and in which currency; None where the pool has no price."""


class EngineFits(msgspec.Struct, frozen=True, eq=False):
    """All ways in which an engine would fit a pool, the preferred first."""

    fits: tuple[Fit, ...] = ()
    proven: bool = True
    """Whether there are no others: neither the allocations nor a packing were searched for in part only."""


class OfferedAssignment(msgspec.Struct, frozen=True, eq=False, gc=False):
    kind: PoolShape
    position: int
    """Of the pool on its cluster; negative where each place of the offer has its own."""
    fit: Fit


class PlacementOption(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Places that can take a replica and get equal scores, with where each engine would go."""

    view: ClusterView
    places: tuple[Place, ...]
    assignments: tuple[OfferedAssignment, ...]
    load: int = 0
    """Replicas of the deployment on each of these clusters."""
    returning: bool = False
    """Whether a replica of the deployment leaves one of these clusters in the same cycle."""
    version: int = 0
    """0 for places that are as the fleet has them. Otherwise one cluster as it is after this many changes."""

    @property
    def devices(self) -> int:
        return sum(assignment.fit.allocation.devices for assignment in self.assignments)

    @property
    def cluster(self) -> ClusterName:
        return self.places[0][0]

    @property
    def headroom(self) -> float:
        """The share of devices that stay free, of the pool that gets fullest."""
        return min(assignment.fit.free_share for assignment in self.assignments)

    @property
    def price(self) -> tuple[float, str] | None:
        """What the replica costs an hour, and in which currency; None where a pool has no price."""
        if len(self.assignments) == 1:
            return self.assignments[0].fit.price
        prices = [assignment.fit.price for assignment in self.assignments]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices) or len({currency for _, currency in known}) != 1:
            return None
        return sum(amount for amount, _ in known), known[0][1]


def pods_price(kind: PoolShape, pods: PoolUsage) -> tuple[float, str] | None:
    """Each pod pays for the part of its node that it takes, by the device that it takes most of."""
    if kind.price is None:
        return None
    return kind.price.per_node_hour * nodes_taken(kind, pods), kind.price.currency


def nodes_taken(kind: PoolShape, pods: PoolUsage) -> float:
    """Each pod takes a part of its node: of the devices of which it takes most."""
    if kind.hardware.domain is not None:
        return float(kind.hardware.domain.nodes * sum(number for _, number in pods))
    return sum(
        number * max(demand[0] / max(most_on_node(demand, kind.counts), 1) for demand in shape)
        for shape, number in pods
    )


def _free_share(kind: PoolShape, usage: PoolUsage) -> float:
    """Of a pool that an engine fits: it has nodes and devices."""
    domain = kind.hardware.domain
    if kind.hardware.is_divided or domain is not None:
        # Parts of devices cannot be counted together with those that they are parts of.
        nodes = kind.nodes * (domain.nodes if domain is not None else 1)
        return max(0.0, 1.0 - nodes_taken(kind, usage) / nodes)
    return max(0.0, 1.0 - devices_held(usage) / kind.devices)


@lru_cache(maxsize=_CACHED)
def first_fit(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> Fit | None:
    """The first allocation of an engine that fits a pool, with the usage that results."""
    return next(_fits(engine, kind, usage), None)


@lru_cache(maxsize=_CACHED)
def engine_fits(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> EngineFits:
    if isinstance(engine_allocations(engine, kind.hardware), Unmatched):
        return EngineFits()
    found = tuple(_fits(engine, kind, usage))
    proven = is_exhaustive(engine, kind.hardware) and not (kind.packed and _is_undecided(engine, kind, usage))
    return EngineFits(found, proven)


def _fits(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> Iterator[Fit]:
    for allocation, after in _outcomes(engine, kind, usage):
        if fits(kind.counts, kind.nodes, after, packed=kind.packed, foreign=kind.foreign, bound=kind.bound):
            yield Fit(allocation, after, _free_share(kind, after), pods_price(kind, allocation.pods))


def _is_undecided(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> bool:
    return any(
        not fits(kind.counts, kind.nodes, after, packed=False, foreign=kind.foreign, bound=kind.bound)
        and pack(kind.counts, kind.nodes, after) is Packable.UNKNOWN
        for _, after in _outcomes(engine, kind, usage)
    )


def _outcomes(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> Iterator[tuple[EngineAllocation, PoolUsage]]:
    """Allocations of the engine with the usage that would result. Of those that use the pool alike, the first."""
    allocations = engine_allocations(engine, kind.hardware)
    tried: set[PoolUsage] = set()
    for allocation in () if isinstance(allocations, Unmatched) else allocations:
        if allocation.pods not in tried:
            tried.add(allocation.pods)
            yield allocation, add(usage, allocation.pods)
