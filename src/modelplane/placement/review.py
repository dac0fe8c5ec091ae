"""Retain: which replicas stay where they are.

A replica stays while its cluster exists and every pool that it is pinned to still serves its engines, whatever else
becomes better elsewhere. It is dropped at once when a NoExecute taint drains it, or it was evicted for a replica of
higher priority. Everything else that makes its place wrong (edited selectors, relabelled clusters, a cluster that is
gone or failed for longer than its grace) marks it as moving: it stays until a successor takes over. So does one that
cannot run where it is, because nodes of its pool are away or others hold its devices, once that and its not serving
have lasted for longer than its grace: until then a node may reboot.

Replicas are looked at in one order, by cluster and index, each on the site as those before it leave it. One that asks
for more than it has grows in place only where its pools, its namespace's quota and the cluster's queue still bear it;
the first that they do not bear moves, and what it holds stays charged as it is.

Most replicas are where they should be, on clusters where nothing happens. What is known of one of them holds for all
that were seated alike, so these are told by a look at a few fields.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from modelplane.api.labels import selects
from modelplane.api.meta import PoolName
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.decisions import Dropped, DropReason
from modelplane.placement.evicted import condemned
from modelplane.placement.filters import label_keys
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import EngineWay, Unmatched, engine_ways
from modelplane.placement.request import EngineRequest
from modelplane.placement.room import fits
from modelplane.placement.taints import FOREVER, drains_at
from modelplane.placement.values import Cluster, MemberAssignment, PlacedReplica, PlacementTaint, Pool, PoolAssignment
from modelplane.placement.wording import Mismatch

_CACHED = 16_384


@dataclass(slots=True)
class ReplicaReview:
    kept: list[PlacedReplica] = field(default_factory=list)
    moving: list[tuple[PlacedReplica, str]] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    leaving: list[PlacedReplica] = field(default_factory=list)
    """Being deleted already. They hold their place until they are gone."""
    requeue_at: float = FOREVER


def review(state: SchedulingCycle) -> ReplicaReview:
    found = ReplicaReview()
    seen = _Undisturbed(state)
    for holding in state.fleet.owned_by(state.ask.deployment):
        if seen.is_one(holding):
            found.kept.append(holding)
        else:
            _consider(state, holding, found)
            seen.note(holding, found)
    return found


class _Undisturbed:
    """Tells replicas that stay as they are without a closer look, by others that did in the same pass."""

    __slots__ = ("_known", "_labels", "_plain", "_sites")

    def __init__(self, state: SchedulingCycle) -> None:
        self._sites = state.fleet.sites
        self._plain = (state.ask.priority, state.ask.protected, False, "", ())
        self._labels = tuple(sorted(set(label_keys(state.ask.cluster_selector, *state.ask.required))))
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}
        """Seats, pools and traits that go together, by identity; they are kept, so that the identities stay theirs."""

    def is_one(self, holding: PlacedReplica) -> bool:
        site = self._sites[holding.cluster]
        fields = (holding.priority, holding.protected, holding.leaving, holding.fault, holding.preempts)
        return self._key(holding, site) in self._known and fields == self._plain and not site.evicting

    def note(self, holding: PlacedReplica, found: ReplicaReview) -> None:
        """Remember the seats of one that was looked at and stays as it is, where nothing but them mattered."""
        site = self._sites[holding.cluster]
        if found.kept and found.kept[-1] is holding and _is_calm(site):
            self._known[self._key(holding, site)] = holding.seats, site.pools, site.traits

    def _key(self, holding: PlacedReplica, site: ClusterInfo) -> tuple[object, ...]:
        """What of a replica and its cluster decides, with the values of the labels that are selected by."""
        key = id(holding.seats), id(site.pools), id(site.traits)
        if not self._labels or site.cluster is None:
            return key
        return *key, *(site.cluster.labels.get(label) for label in self._labels)


def _is_calm(site: ClusterInfo) -> bool:
    """Whether nothing about a cluster and its pools may drive a replica away."""
    traits = site.traits
    disturbed = traits.taints or traits.fault or not traits.ready
    return not disturbed and not any(pool.taints or pool.meant or pool.others_held for pool in site.pools)


def _consider(state: SchedulingCycle, holding: PlacedReplica, found: ReplicaReview) -> None:
    site = state.site(holding.cluster)
    if holding.leaving:
        found.leaving.append(holding)
        return
    dropped = _must_go(state, holding, site, found)
    if dropped is not None:
        found.dropped.append(dropped)
        return
    wrong = _misplaced(state, holding, site, found)
    seats = _reseated(state, holding, site) if wrong is None else ""
    if isinstance(seats, str):
        found.moving.append((holding, wrong or seats))
    else:
        kept = _renewed(state, holding, site, seats)
        found.kept.append(kept)
        if kept is not holding:
            state.renew(kept)


def _must_go(state: SchedulingCycle, holding: PlacedReplica, site: ClusterInfo, found: ReplicaReview) -> Dropped | None:
    if site.cluster is None:
        return None
    for taint in _taints(holding, site, site.cluster):
        at = drains_at(taint, state.ask.tolerations)
        if at <= state.now:
            return Dropped(holding, DropReason.TAINTED, f"taint {taint.key} drains it")
        found.requeue_at = min(found.requeue_at, at)
    if holding.id in condemned(site):
        return Dropped(holding, DropReason.PREEMPTED, "a replica of higher priority takes its place")
    return None


def _taints(holding: PlacedReplica, site: ClusterInfo, cluster: Cluster) -> Iterable[PlacementTaint]:
    yield from cluster.taints
    for seat in holding.seats:
        position = site.position(seat.pool)
        if position is not None:
            yield from site.pools[position].taints


def _misplaced(state: SchedulingCycle, holding: PlacedReplica, site: ClusterInfo, found: ReplicaReview) -> str | None:
    """Why the cluster is the wrong one."""
    ask, cluster = state.ask, site.cluster
    if cluster is None:
        return f"cluster {holding.cluster} does not exist"
    if holding.fault:
        return f"it cannot be read: {holding.fault}"
    if cluster.fault:
        return None
    if not selects(ask.cluster_selector, cluster.labels):
        return "its cluster no longer matches the clusterSelector"
    if ask.required and not any(selects(selector, cluster.labels) for selector in ask.required):
        return "its cluster matches none of the required selectors"
    if not ask.failover.replace:
        return None
    if not cluster.ready and cluster.unready_since is not None and _is_over(state, cluster.unready_since, found):
        return f"its cluster is not ready for longer than {ask.failover.grace_s:g} s"
    return _starved(state, holding, site, found)


def _is_over(state: SchedulingCycle, since: float, found: ReplicaReview) -> bool:
    """Whether the grace period from a moment on is over; otherwise the pass is to be repeated when it is."""
    ends = since + state.ask.failover.grace_s
    if state.now < ends:
        found.requeue_at = min(found.requeue_at, ends)
    return state.now >= ends


def _starved(state: SchedulingCycle, holding: PlacedReplica, site: ClusterInfo, found: ReplicaReview) -> str | None:
    """What it lacks to run, where that will not come by itself: nodes that are away, or devices that others hold."""
    if holding.serving or holding.idle_since is None:
        return None
    pools = [pool for seat in holding.seats for pool in site.pools if pool.name == seat.pool]
    lacking = [pool for pool in pools if pool.meant or pool.others_held]
    if not lacking or holding.id not in state.stranded_on(holding.cluster):
        return None
    since = holding.idle_since
    for pool in lacking:
        if pool.meant and pool.short_since is None:
            return None
        since = max(since, pool.short_since or since)
    return _lack(lacking[0]) if _is_over(state, since, found) else None


def _lack(pool: Pool) -> str:
    held = sum(number for _, number in pool.others_held)
    parts = [f"has {pool.nodes} of {pool.meant} nodes"] if pool.meant else []
    parts += [f"lacks {held} devices that others hold or that are not there"] if held else []
    return f"it cannot run: pool {pool.name} {' and '.join(parts)}"


def _reseated(state: SchedulingCycle, holding: PlacedReplica, site: ClusterInfo) -> tuple[PoolAssignment, ...] | str:
    """Its seats by what the deployment asks today, on the pools that it has; or why that cannot be."""
    if site.traits.fault:
        return holding.seats
    pinned = {seat.engine: seat for seat in holding.seats}
    if pinned.keys() != {engine.name for engine in state.ask.engines}:
        return "the deployment has other engines"
    seats: list[PoolAssignment] = []
    for engine in state.ask.engines:
        before = pinned[engine.name]
        position = site.position(before.pool)
        if position is None:
            return f"its cluster has no pool {before.pool}"
        hardware = site.pools[position].hardware
        if hardware.fault:
            return holding.seats
        options = _seats_on(engine, before.pool, hardware)
        if isinstance(options, Unmatched):
            return f"pool {before.pool}: {Mismatch(options, hardware)}"
        seats.append(before if before in options else options[0])
    if tuple(seats) == holding.seats:
        return holding.seats
    changed = site.with_holdings([msgspec.structs.replace(holding, seats=tuple(seats))])
    return too_much(site, changed, holding.deployment.namespace) or tuple(seats)


@lru_cache(maxsize=_CACHED)
def _seats_on(engine: EngineRequest, pool: PoolName, hardware: Hardware) -> tuple[PoolAssignment, ...] | Unmatched:
    ways = engine_ways(engine, hardware)
    return ways if isinstance(ways, Unmatched) else tuple(make_seat(engine, pool, way) for way in ways)


def too_much(before: ClusterInfo, after: ClusterInfo, namespace: str) -> str | None:
    """What a change asks of a site beyond what it has; None where all of it fits. Asking for less is no harm."""
    for kind, was, use in zip(before.kinds, before.uses, after.uses, strict=True):
        if was != use and not fits(kind.counts, kind.nodes, use, packed=kind.packed):
            return "what it asks for no longer fits its pool"
    had, quota = before.traits.quota_left(namespace), after.traits.quota_left(namespace)
    if had is not None and quota is not None and quota[0] < min(had[0], 0):
        return f"what it asks for exceeds the quota of namespace {namespace}"
    room, left = before.traits.queue_left, after.traits.queue_left
    if room is not None and left is not None and left < min(room, 0):
        return "what it asks for exceeds the cluster's queue"
    return None


def is_within(site: ClusterInfo, bound: ClusterInfo, namespace: str) -> bool:
    """Whether nothing of a site is used more than on another."""
    for use, most in zip(site.uses, bound.uses, strict=True):
        known = dict(most)
        if any(number > known.get(shape, 0) for shape, number in use):
            return False
    quotas = site.traits.quota_left(namespace), bound.traits.quota_left(namespace)
    queues = site.traits.queue_left, bound.traits.queue_left
    return (quotas[0] or (0,)) >= (quotas[1] or (0,)) and (queues[0] or 0) >= (queues[1] or 0)


def _renewed(
    state: SchedulingCycle, holding: PlacedReplica, site: ClusterInfo, seats: tuple[PoolAssignment, ...]
) -> PlacedReplica:
    preempts = holding.preempts
    if preempts:
        there = {found.digest for found in site.held.values()}
        preempts = tuple(digest for digest in preempts if digest in there)
    ask = state.ask
    same = (holding.seats, holding.preempts, holding.priority, holding.protected)
    if same == (seats, preempts, ask.priority, ask.protected):
        return holding
    return msgspec.structs.replace(
        holding, seats=seats, preempts=preempts, priority=ask.priority, protected=ask.protected
    )


@lru_cache(maxsize=_CACHED)
def make_seat(engine: EngineRequest, pool: PoolName, way: EngineWay) -> PoolAssignment:
    """What a replica records of an engine: the claims that its cluster will see, without those that only steered."""
    members = tuple(
        MemberAssignment(
            member.nodes * engine.copies, tuple(claim for claim in served.claims if claim.device_class is not None)
        )
        for member, served in zip(engine.members, way.members, strict=True)
    )
    return PoolAssignment(engine.name, pool, members)
