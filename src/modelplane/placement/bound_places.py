"""Where pods are known to be: those whose claims a cluster reports as allocated, node by node.

A report names a replica by its digest and a pod by how many devices it claims. It counts where that determines the
shape of the pod, and where no more pods are reported than the replica has: during a restart old and new ones are there
together, and none of them counts as bound then. What is not known to be on a node may be on any.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from modelplane.placement.matching import PodShape, held_shape
from modelplane.placement.pool_usage import EMPTY, BoundNodes, PoolUsage, add
from modelplane.placement.values import BoundPods, Cluster, PlacedReplica, Pool, ReplicaKey


class BoundPlace(NamedTuple):
    """Pods of one shape on a node."""

    position: int
    """Of the pool."""
    node: str
    shape: PodShape
    pods: int


Places = Mapping[ReplicaKey | None, tuple[BoundPlace, ...]]
"""By replica; None for pods of others."""


def find_places(cluster: Cluster, pools: tuple[Pool, ...], replicas: Iterable[PlacedReplica]) -> Places:
    reported: dict[str, list[BoundPods]] = {}
    for found in cluster.bound:
        reported.setdefault(found.replica, []).append(found)
    places: dict[ReplicaKey | None, tuple[BoundPlace, ...]] = {}
    for replica in replicas:
        known = _places_of(replica, pools, reported.get(replica.digest, ()))
        if known:
            places[replica.id] = known
    others = _places_of_others(pools, reported.get("", ()))
    if others:
        places[None] = others
    return places


def update_places(
    places: Places,
    cluster: Cluster,
    pools: tuple[Pool, ...],
    added: Iterable[PlacedReplica],
    removed: Iterable[ReplicaKey],
) -> Places:
    """The places after some replicas left and others came; the same where none of them has any."""
    # A replica that was only just decided has no pods, so nothing is reported of it.
    started = [replica for replica in added if replica.created]
    gone = {key for key in (*removed, *(replica.id for replica in started)) if key in places}
    if not started and not gone:
        return places
    left = {key: found for key, found in places.items() if key not in gone}
    return {**find_places(cluster, pools, started), **left}


def bound_nodes(places: Iterable[tuple[BoundPlace, ...]], position: int) -> BoundNodes:
    """The pods of each node of a pool."""
    nodes: dict[str, PoolUsage] = {}
    for found in places:
        for place in found:
            if place.position == position:
                nodes[place.node] = add(nodes.get(place.node, EMPTY), ((place.shape, place.pods),))
    return tuple(sorted(nodes.values()))


def _places_of(
    replica: PlacedReplica, pools: tuple[Pool, ...], reported: Iterable[BoundPods]
) -> tuple[BoundPlace, ...]:
    found: list[BoundPlace] = []
    for pods in reported:
        for position, pool in enumerate(pools):
            if pool.hardware.domain is not None:
                continue
            shapes = _shapes_on(replica, pool, pods.devices) if pool.name == pods.pool else set()
            if len(shapes) == 1:
                found.append(BoundPlace(position, pods.node, next(iter(shapes)), pods.pods))
    return tuple(place for place in found if _is_complete(replica, pools, found, place))


def _shapes_on(replica: PlacedReplica, pool: Pool, devices: int) -> set[PodShape]:
    """The shapes of its pods on a pool that claim so many devices."""
    shapes: set[PodShape] = set()
    for assignment in replica.assignments:
        for member in assignment.members if assignment.pool == pool.name else ():
            claimed = sum(claim.count for claim in member.claims if claim.device_class is not None)
            shape = held_shape(member.claims, pool.hardware)
            if shape and claimed == devices:
                shapes.add(shape)
    return shapes


def _is_complete(replica: PlacedReplica, pools: tuple[Pool, ...], found: list[BoundPlace], place: BoundPlace) -> bool:
    """Whether the replica has as many pods of the shape as are reported."""
    reported = sum(each.pods for each in found if (each.position, each.shape) == (place.position, place.shape))
    pool = pools[place.position]
    has = sum(
        member.pods
        for assignment in replica.assignments
        if assignment.pool == pool.name
        for member in assignment.members
        if held_shape(member.claims, pool.hardware) == place.shape
    )
    return reported <= has


def _places_of_others(pools: tuple[Pool, ...], reported: Iterable[BoundPods]) -> tuple[BoundPlace, ...]:
    """Those that lie together as the pool reports: a claim of several devices of one kind, or single devices."""
    found: list[BoundPlace] = []
    for pods in reported:
        for position, pool in enumerate(pools):
            if pool.name == pods.pool and pool.hardware.domain is None:
                found += _place_of_others(position, pool, pods)
    return tuple(found)


def _place_of_others(position: int, pool: Pool, pods: BoundPods) -> list[BoundPlace]:
    known = {(name, size): number for name, size, number in pool.claims_of_others}
    for bit, kind in enumerate(pool.hardware.kinds):
        if kind.name == pods.device and kind.device_class is not None and known.get((kind.name, pods.devices)):
            shape = (pool.hardware.demand(min(pods.devices, kind.count), 1 << bit, None),)
            return [BoundPlace(position, pods.node, shape, min(pods.pods, known[kind.name, pods.devices]))]
    return []
