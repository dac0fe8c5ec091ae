"""The fleet as a value: clusters, pools, devices, and who holds what.

A host builds it from the resources that came with one call, or keeps one by watching. Nothing in here is fetched, and
nothing changes: an update makes a new snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.api.meta import ClusterName, Key, PoolName
from modelplane.dra.device import Device


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Identical devices of one node."""

    name: str
    device: Device
    count: int
    device_class: str | None
    """None for synthetic devices, which steer placement and are never claimed."""


@dataclass(frozen=True, slots=True)
class Pool:
    name: PoolName
    nodes: int
    kinds: tuple[DeviceKind, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    name: ClusterName
    labels: Mapping[str, str]
    ready: bool
    cordoned: bool
    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A replica that has a place: whether it runs, starts or was only just decided."""

    deployment: Key
    cluster: ClusterName
    index: int
    pools: Mapping[str, PoolName]
    """The pool of each engine, by the engine's name."""
    nodes: Mapping[PoolName, int]
    """Nodes that its pods take of each pool."""


@dataclass(frozen=True, slots=True)
class Fleet:
    clusters: Mapping[ClusterName, Cluster] = field(default_factory=dict)
    holdings: tuple[Holding, ...] = ()

    def free_nodes(self, cluster: Cluster) -> dict[PoolName, int]:
        """Nodes of each pool that no pod of ours is pinned to. May be negative after a pool shrank."""
        free = {pool.name: pool.nodes for pool in cluster.pools}
        for holding in self.holdings:
            if holding.cluster == cluster.name:
                for pool, nodes in holding.nodes.items():
                    free[pool] = free.get(pool, 0) - nodes
        return free
