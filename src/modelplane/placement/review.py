"""Retain: which replicas stay where they are.

A replica stays while its cluster exists and every pool that it is pinned to still serves its engines, whatever becomes
better elsewhere. A cluster that the fleet lacks is gone only when the replica says so too, which reads it by name. A
pool that the cluster declares and does not publish is not known to have changed, so the replicas on it stay. So does a
replica that cannot be read. A replica is dropped at once when the deadline of a drain is over (see `drain`), or when
one of higher priority preempted it. Everything else that makes its place wrong (edited selectors, relabelled clusters,
a cluster that is drained, that cannot run it any more, that is gone or has been unready for longer than its grace
period, an older revision that is to be replaced) marks it as moving: it stays until a successor takes over. So does one
that cannot run, because nodes of its pool are missing or others hold its devices, once that and its not serving have
lasted for longer than its grace period: until then a node may reboot. And so does one that holds a faulty device.

Replicas are reviewed in one order, by cluster and index, each on the cluster as those before it leave it. One that
requests more than it has grows in place only where its pools, its namespace's quota and the cluster's queue allow it;
the first that they do not allow moves, and what it holds stays charged as it is.

Most replicas are where they should be, on clusters where nothing changes. What is known of one of them holds for all
with equal assignments, so these are recognised by a few fields.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, product

import msgspec

from modelplane.api.labels import selects
from modelplane.api.meta import PoolName
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.decisions import Dropped, DropReason
from modelplane.placement.drain import TURN_S, DrainTurns, find_drain
from modelplane.placement.filters import label_keys
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import ALLOCATION_BUDGET, EngineAllocation, Unmatched, engine_allocations
from modelplane.placement.pool_usage import fits
from modelplane.placement.preempted import preempted
from modelplane.placement.request import EngineRequest, PlacementRequest
from modelplane.placement.taints import FOREVER
from modelplane.placement.tiers import tier_of
from modelplane.placement.values import Cluster, MemberAssignment, PlacedReplica, Pool, PoolAssignment
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
    turns = DrainTurns(state.fleet, state.request.deployment)
    for replica in state.fleet.owned_by(state.request.deployment):
        if seen.is_one(replica):
            found.kept.append(replica)
        else:
            _consider(state, replica, found, turns)
            seen.note(replica, found)
    return found


class _Undisturbed:
    """Recognises replicas that stay as they are by others that did in the same cycle."""

    __slots__ = ("_infos", "_known", "_labels", "_outdated", "_plain")

    def __init__(self, state: SchedulingCycle) -> None:
        self._infos = state.fleet.infos
        self._outdated = state.request.outdated
        self._plain = (state.request.priority, state.request.protected, False, "", ())
        request = state.request
        keys = label_keys(request.cluster_selector, *request.required, *request.tiers)
        self._labels = tuple(sorted(set(keys)))
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}
        """Assignments, pools and profiles that go together, by identity; kept, so that the identities stay theirs."""

    def is_one(self, replica: PlacedReplica) -> bool:
        info = self._infos[replica.cluster]
        fields = (replica.priority, replica.protected, replica.leaving, replica.fault, replica.preempts)
        if (replica.cluster, replica.index) in self._outdated:
            return False
        return self._key(replica, info) in self._known and fields == self._plain and not info.preempting

    def note(self, replica: PlacedReplica, found: ReplicaReview) -> None:
        """Remembers the assignments of one that was reviewed and stays as it is, where nothing else mattered."""
        info = self._infos[replica.cluster]
        if found.kept and found.kept[-1] is replica and not replica.fault and _is_calm(info):
            self._known[self._key(replica, info)] = replica.assignments, info.pools, info.profile

    def _key(self, replica: PlacedReplica, info: ClusterInfo) -> tuple[object, ...]:
        """What of a replica and its cluster decides, with the values of the labels that are selected by."""
        key = id(replica.assignments), id(info.pools), id(info.profile)
        if not self._labels or info.cluster is None:
            return key
        return *key, *(info.cluster.labels.get(label) for label in self._labels)


def _is_calm(info: ClusterInfo) -> bool:
    """Whether nothing about a cluster and its pools may make a replica leave."""
    cluster_profile = info.profile
    unpublished = info.cluster is None or info.cluster.unpublished_pools or info.cluster.faulty
    disturbed = unpublished or cluster_profile.taints or cluster_profile.fault or not cluster_profile.ready
    return not disturbed and not any(pool.taints or pool.desired_nodes or pool.held_by_others for pool in info.pools)


def _consider(state: SchedulingCycle, replica: PlacedReplica, found: ReplicaReview, turns: DrainTurns) -> None:
    info = state.info(replica.cluster)
    if replica.leaving:
        found.leaving.append(replica)
        return
    dropped = _must_go(state, replica, info, found)
    if dropped is not None:
        found.dropped.append(dropped)
        return
    wrong = _misplaced(state, replica, info, found) or _drained(state, replica, info, found, turns)
    assignments = _reassigned(state, replica, info) if wrong is None else ""
    if isinstance(assignments, str):
        found.moving.append((replica, wrong or assignments))
    else:
        kept = _renewed(state, replica, info, assignments)
        found.kept.append(kept)
        if kept is not replica:
            state.renew(kept)


def _must_go(state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo, found: ReplicaReview) -> Dropped | None:
    if info.cluster is None:
        return None
    drain, later = find_drain(replica, info, state.request.tolerations, state.now)
    found.requeue_at = min(found.requeue_at, later)
    if drain is not None and drain.deadline <= state.now:
        why = f"{drain.why}; its deadline is over and no successor serves"
        return Dropped(replica, DropReason.DRAINED, why)
    if replica.id in preempted(info):
        return Dropped(replica, DropReason.PREEMPTED, "a replica of higher priority preempts it")
    return None


def _drained(
    state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo, found: ReplicaReview, turns: DrainTurns
) -> str | None:
    """Why it leaves a place that is drained, when it is its turn."""
    drain, _ = find_drain(replica, info, state.request.tolerations, state.now)
    if drain is None:
        return None
    if turns.take(replica, drain):
        found.requeue_at = min(found.requeue_at, drain.deadline)
        return drain.why
    found.requeue_at = min(found.requeue_at, drain.deadline, state.now + TURN_S)
    return None


def is_waiting(state: SchedulingCycle, replica: PlacedReplica) -> bool:
    """Whether it stays in a place that is drained until it is its turn."""
    info = state.info(replica.cluster)
    return find_drain(replica, info, state.request.tolerations, state.now)[0] is not None


def _misplaced(state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo, found: ReplicaReview) -> str | None:
    """Why the cluster is the wrong one."""
    request, cluster = state.request, info.cluster
    if cluster is None:
        return f"cluster {replica.cluster} does not exist" if replica.cluster_missing else None
    if cluster.fault:
        return None
    unselected = _unselected(request, cluster)
    if unselected is not None:
        return unselected
    refusal = state.cannot_run(info.profile.rendering)
    if refusal is not None:
        return f"cluster {replica.cluster} cannot run it: {refusal}"
    if (replica.cluster, replica.index) in request.outdated:
        return "it has an older revision"
    if not request.failover.replace:
        return None
    if not cluster.ready and cluster.unready_since is not None and _is_over(state, cluster.unready_since, found):
        return f"its cluster has not been ready for more than {request.failover.grace_s:g} s"
    return _faulty(replica, cluster) or _starved(state, replica, info, found)


def _faulty(replica: PlacedReplica, cluster: Cluster) -> str | None:
    """What is wrong with a device that it holds. It may serve for now: its successor takes over before it fails."""
    why = dict(cluster.faulty).get(replica.digest) if cluster.faulty else None
    return f"it has a faulty device: {why}" if why else None


def _unselected(request: PlacementRequest, cluster: Cluster) -> str | None:
    if not selects(request.cluster_selector, cluster.labels):
        return "its cluster no longer matches the clusterSelector"
    if request.required and not any(selects(selector, cluster.labels) for selector in request.required):
        return "its cluster matches none of the required selectors"
    return "its cluster matches none of the tiers" if tier_of(request, cluster.labels) is None else None


def _is_over(state: SchedulingCycle, since: float, found: ReplicaReview) -> bool:
    """Whether the grace period from a moment on is over; otherwise the cycle is to be repeated when it is."""
    ends = since + state.request.failover.grace_s
    if state.now < ends:
        found.requeue_at = min(found.requeue_at, ends)
    return state.now >= ends


def _starved(state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo, found: ReplicaReview) -> str | None:
    """What it lacks to run, where that will not come by itself: missing nodes, or devices that others hold."""
    if replica.serving or replica.idle_since is None:
        return None
    pools = [pool for assignment in replica.assignments for pool in info.pools if pool.name == assignment.pool]
    lacking = [pool for pool in pools if pool.desired_nodes or pool.held_by_others]
    if not lacking or replica.id not in state.stranded_on(replica.cluster):
        return None
    since = replica.idle_since
    for pool in lacking:
        if pool.desired_nodes and pool.short_since is None:
            return None
        since = max(since, pool.short_since or since)
    return _lack(lacking[0]) if _is_over(state, since, found) else None


def _lack(pool: Pool) -> str:
    held = sum(number for _, number in pool.held_by_others)
    parts = [f"has {pool.nodes} of {pool.desired_nodes} nodes"] if pool.desired_nodes else []
    parts += [f"has {held} devices that are missing or that others hold"] if held else []
    return f"it cannot run: pool {pool.name} {' and '.join(parts)}"


def _reassigned(state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo) -> tuple[PoolAssignment, ...] | str:
    """Its assignments by what the deployment requests today, on the pools that it has; or why that cannot be."""
    if info.cluster is None or info.profile.fault or replica.fault:
        return replica.assignments
    pinned = {assignment.engine: assignment for assignment in replica.assignments}
    if pinned.keys() != {engine.name for engine in state.request.engines}:
        return "the deployment has other engines"
    choices: list[tuple[PoolAssignment, ...]] = []
    for engine in state.request.engines:
        before = pinned[engine.name]
        position = info.position(before.pool)
        if position is None and before.pool in info.cluster.unpublished_pools:
            return replica.assignments
        if position is None:
            return f"its cluster has no pool {before.pool}"
        hardware = info.pools[position].hardware
        if hardware.fault:
            return replica.assignments
        options = _assignments_on(engine, before.pool, hardware)
        if isinstance(options, Unmatched):
            return f"pool {before.pool}: {Mismatch(options, hardware)}"
        choices.append((before,) if before in options else options)
    return _first_that_fits(replica, info, choices)


def _first_that_fits(
    replica: PlacedReplica, info: ClusterInfo, choices: list[tuple[PoolAssignment, ...]]
) -> tuple[PoolAssignment, ...] | str:
    """Its assignments where devices of several classes would do: the preferred ones that fit; or why those do not."""
    lacking = ""
    for assignments in islice(product(*choices), ALLOCATION_BUDGET):
        if assignments == replica.assignments:
            return replica.assignments
        changed = info.with_replicas([msgspec.structs.replace(replica, assignments=assignments)])
        found = too_much(info, changed, replica.deployment.namespace)
        if found is None:
            return assignments
        lacking = lacking or found
    return lacking


@lru_cache(maxsize=_CACHED)
def _assignments_on(
    engine: EngineRequest, pool: PoolName, hardware: Hardware
) -> tuple[PoolAssignment, ...] | Unmatched:
    allocations = engine_allocations(engine, hardware)
    return (
        allocations
        if isinstance(allocations, Unmatched)
        else tuple(make_assignment(engine, pool, allocation) for allocation in allocations)
    )


def too_much(before: ClusterInfo, after: ClusterInfo, namespace: str) -> str | None:
    """What a change requests of a cluster beyond what it has; None where all of it fits."""
    for kind, was, usage in zip(after.kinds, before.usages, after.usages, strict=True):
        if was != usage and not fits(
            kind.counts, kind.nodes, usage, packed=kind.packed, foreign=kind.foreign, bound=kind.bound
        ):
            return "its pool has too few free devices for its new request"
    had, quota = before.profile.quota_left(namespace), after.profile.quota_left(namespace)
    if had is not None and quota is not None and quota[0] < min(had[0], 0):
        return f"its new request exceeds the quota of namespace {namespace}"
    had_left, left = before.profile.queue_left(namespace), after.profile.queue_left(namespace)
    if had_left is not None and left is not None and left < min(had_left, 0):
        return "its new request exceeds the quota of the cluster's queue"
    return None


def is_within(info: ClusterInfo, bound: ClusterInfo, namespace: str) -> bool:
    """Whether nothing of a cluster is used more than on another."""
    for usage, most in zip(info.usages, bound.usages, strict=True):
        known = dict(most)
        if any(number > known.get(shape, 0) for shape, number in usage):
            return False
    quotas = info.profile.quota_left(namespace), bound.profile.quota_left(namespace)
    queues = info.profile.queue_left(namespace), bound.profile.queue_left(namespace)
    return (quotas[0] or ()) >= (quotas[1] or ()) and (queues[0] or 0) >= (queues[1] or 0)


def _renewed(
    state: SchedulingCycle, replica: PlacedReplica, info: ClusterInfo, assignments: tuple[PoolAssignment, ...]
) -> PlacedReplica:
    preempts = replica.preempts
    if preempts:
        there = {found.digest for found in info.held.values()}
        preempts = tuple(digest for digest in preempts if digest in there)
    request = state.request
    same = (replica.assignments, replica.preempts, replica.priority, replica.protected)
    if same == (assignments, preempts, request.priority, request.protected):
        return replica
    return msgspec.structs.replace(
        replica, assignments=assignments, preempts=preempts, priority=request.priority, protected=request.protected
    )


@lru_cache(maxsize=_CACHED)
def make_assignment(engine: EngineRequest, pool: PoolName, allocation: EngineAllocation) -> PoolAssignment:
    """What a replica records of an engine: the claims that its cluster will see, without those that only steered."""
    members = tuple(
        MemberAssignment(
            member.nodes * engine.copies, tuple(claim for claim in served.claims if claim.device_class is not None)
        )
        for member, served in zip(engine.members, allocation.members, strict=True)
    )
    return PoolAssignment(engine.name, pool, members)
