"""Drains of an InferenceCluster: its taints with their times, and how far a drain is.

`spec.drain` of a cluster or a pool is a NoExecute taint under a key that nothing tolerates. A taint that does not say
when it was added counts from when it was first seen: the composer of the cluster writes that into the status, and
keeps it there while the taint stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.labels import DRAIN
from modelplane.api.models import InferenceCluster, ModelReplica, NodePoolDrain, NoExecuteTaint, StatusDrain, Taint
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.contract import Event, EventType
from modelplane.placement.taints import FOREVER, drains_at
from modelplane.placement.values import Effect, PlacementTaint

_Times = Mapping[tuple[str, str, str], str | None]
"""By pool (empty: the cluster), key and value."""


@dataclass(frozen=True, slots=True)
class ClusterTaints:
    """As placement reads them."""

    cluster: tuple[PlacementTaint, ...]
    pools: Mapping[str, tuple[PlacementTaint, ...]]
    """Of those pools that have any."""


_NONE = ClusterTaints((), {})


def cluster_taints(cluster: InferenceCluster) -> ClusterTaints:
    spec = cluster.spec
    if not (spec.taints or spec.drain or any(pool.taints or pool.drain for pool in spec.node_pools)):
        return _NONE
    times = {(found.pool or "", found.key, found.value or ""): found.time_added for found in _known(cluster)}
    pools = {pool.name: _taints(pool.taints, pool.drain, pool.name, times) for pool in spec.node_pools}
    return ClusterTaints(
        _taints(spec.taints, spec.drain, "", times), {name: found for name, found in pools.items() if found}
    )


def _known(cluster: InferenceCluster) -> tuple[NoExecuteTaint, ...]:
    return cluster.status.no_execute_taints


def _taints(
    taints: Sequence[Taint], drain: NodePoolDrain | None, pool: str, times: _Times
) -> tuple[PlacementTaint, ...]:
    if not taints and drain is None:
        return ()
    found = [
        PlacementTaint(
            taint.key,
            taint.value or "",
            Effect(taint.effect),
            epoch_s(taint.time_added or times.get((pool, taint.key, taint.value or ""))),
        )
        for taint in taints
    ]
    if drain is not None:
        since = epoch_s(times.get((pool, DRAIN, "")))
        deadline_s = None if drain.deadline_seconds is None else float(drain.deadline_seconds)
        found.append(PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, since, drain.parallelism, deadline_s))
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.effect)))


def seen_taints(cluster: InferenceCluster, now: float) -> tuple[NoExecuteTaint, ...]:
    """The NoExecute taints and drains, each with its time: its own, the one known, or now."""
    found = cluster_taints(cluster)
    everywhere = [("", found.cluster), *found.pools.items()]
    return tuple(
        _seen(taint, pool, now) for pool, taints in everywhere for taint in taints if taint.effect is Effect.NO_EXECUTE
    )


def _seen(taint: PlacementTaint, pool: str, now: float) -> NoExecuteTaint:
    since = taint.since if taint.since is not None else now
    return NoExecuteTaint(
        pool=pool or None,
        key=taint.key,
        value=taint.value or None,
        time_added=timestamp(since) if since else None,
    )


@dataclass(frozen=True, slots=True)
class DrainReport:
    """How far a drain is, and what there is to tell of it."""

    status: StatusDrain | None
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()


def report_drain(
    cluster: InferenceCluster, replicas: Iterable[ModelReplica] | None, now: float, *, unread: int = 0
) -> DrainReport:
    """`cluster` has the taints as seen. None for replicas that are not fetched leaves the report as it was.

    `unread` replicas cannot be decoded: what they tolerate is not known, so they count as those that have to leave.
    """
    taints = cluster_taints(cluster)
    draining = [taint for taint in (*taints.cluster, *_of_pools(taints)) if taint.effect is Effect.NO_EXECUTE]
    before = cluster.status.drain
    if not draining:
        return _ended(cluster, before)
    if replicas is None:
        return DrainReport(before)
    left = unread + sum(_must_leave(replica, taints) for replica in replicas)
    total = max((before.total if before else 0) or 0, left)
    status = StatusDrain(
        start_time=_first(taint.since for taint in draining),
        deadline=_first(_deadline(taint) for taint in draining),
        replicas=left,
        total=total,
        summary=f"{left} of {total} left",
    )
    return DrainReport(status, (_drained(status, now),), tuple(_events(before, status)))


def _of_pools(taints: ClusterTaints) -> Iterable[PlacementTaint]:
    return (taint for found in taints.pools.values() for taint in found)


def _must_leave(replica: ModelReplica, taints: ClusterTaints) -> bool:
    """Whether a drain moves it, now or when the time is over for which it tolerates a taint."""
    pools = {member.node_pool_name for engine in replica.spec.engines for member in engine.members}
    there = [*taints.cluster, *(taint for pool in sorted(pools) for taint in taints.pools.get(pool, ()))]
    return any(drains_at(taint, replica.spec.tolerations) < FOREVER for taint in there)


def _deadline(taint: PlacementTaint) -> float | None:
    return None if taint.since is None or taint.deadline_s is None else taint.since + taint.deadline_s


def _first(times: Iterable[float | None]) -> str | None:
    known = [time for time in times if time is not None]
    return timestamp(min(known)) if known else None


def _drained(status: StatusDrain, now: float) -> Condition:
    if not status.replicas:
        return holds(ConditionType.DRAINED, Reason.DRAINED, f"0 of {status.total} replicas are left")
    deadline = epoch_s(status.deadline)
    message = f"{status.replicas} of {status.total} replicas are left"
    if deadline is not None:
        over = f"the deadline {status.deadline} is over, they leave without successors"
        message += f"; {over if deadline <= now else f'the deadline is {status.deadline}'}"
    return fails(ConditionType.DRAINED, Reason.DRAINING, message)


def _events(before: StatusDrain | None, status: StatusDrain) -> Iterable[Event]:
    if before is None and status.replicas:
        yield Event(EventType.NORMAL, Reason.DRAINING, f"{status.replicas} replicas have to leave")
    if not status.replicas and (before is None or before.replicas):
        yield Event(EventType.NORMAL, Reason.DRAINED, f"0 of {status.total} replicas are left")


def _ended(cluster: InferenceCluster, before: StatusDrain | None) -> DrainReport:
    """Nothing is drained. A condition that was written before must not go on saying that something is.

    Unknown, since `kubectl get` shows the reason of what is False.
    """
    if before is None and not any(found.type == ConditionType.DRAINED for found in cluster.status.conditions):
        return DrainReport(None)
    condition = unknown(ConditionType.DRAINED, Reason.NOT_DRAINING, "neither the cluster nor a pool of it is drained")
    return DrainReport(None, (condition,), tuple(_end_events(before)))


def _end_events(before: StatusDrain | None) -> Iterable[Event]:
    if before is not None:
        message = f"the drain was ended; {before.replicas or 0} of {before.total or 0} replicas stay"
        yield Event(EventType.NORMAL, Reason.NOT_DRAINING, message)


def with_seen(cluster: InferenceCluster, taints: tuple[NoExecuteTaint, ...]) -> InferenceCluster:
    """The cluster with the times of its taints as they will be written."""
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, no_execute_taints=taints))
