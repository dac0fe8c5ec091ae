"""Why replicas of a ModelDeployment do not serve: by reason and cluster, the worst first, and what happens next."""

from collections.abc import Iterable, Sequence

import msgspec

from modelplane.api.conditions import ConditionStatus
from modelplane.api.meta import ClusterName
from modelplane.api.models import NotReady
from modelplane.api.objects import Manifest, items_at, text_at
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.causes import in_words, rank
from modelplane.placement.request import FailoverPolicy
from modelplane.placement.snapshot import Fleet

MAX_GROUPS = 16
_SHOWN = 3
_MAX_WORDS = 256
_ORDER = ("Accepted", "Scheduled", "CachesReady", "WorkloadReady", "RouteReady")
_HELD_BACK = "the ModelReplica is created when the one that leaves its place is gone"
_REPLACED = frozenset({Reason.CLUSTER_LOST, Reason.AGENT_DISCONNECTED})
_NEXT: dict[str, str] = {
    Reason.AGENT_UNKNOWN: "serving on",
    Reason.IMAGE_PULL_FAILED: "the node tries again",
    Reason.CRASH_LOOPING: "the node restarts it",
    Reason.OOM_KILLED: "the node restarts it",
    Reason.SECRET_MISSING: "it starts once the Secret is there",
    Reason.CONFIG_MAP_MISSING: "it starts once the ConfigMap is there",
    Reason.QUEUE_MISSING: "it starts once the queue is there",
    Reason.QUOTA_EXCEEDED: "it starts once the quota allows it",
    Reason.CLAIM_PENDING: "the scheduler tries again",
    Reason.VOLUME_PENDING: "the scheduler tries again",
    Reason.UNSCHEDULABLE: "the scheduler tries again",
    Reason.CACHE_STAGING: "its pods start once it is staged",
    Reason.CACHE_INCOMPLETE: "the cache is staged again, then its pods start",
    Reason.NOT_SUPPORTED: "nothing changes until it is corrected",
    Reason.INVALID: "nothing changes until it is corrected",
}


IdleReplica = tuple[ClusterName, Manifest | None]
"""The cluster of a replica that does not serve, and the replica as observed; None: not observed yet."""


class _Idle(msgspec.Struct, frozen=True):
    """One replica that does not serve."""

    cluster: ClusterName
    reason: str
    message: str
    since: str


def replicas_not_ready(
    idle: Iterable[IdleReplica],
    fleet: Fleet,
    failover: FailoverPolicy,
    held_back: Iterable[ClusterName] = (),
) -> tuple[NotReady, ...]:
    """The replicas that do not serve, in groups. `held_back` has the clusters of those that are not created yet."""
    groups: dict[tuple[str, ClusterName], list[_Idle]] = {}
    waiting = (_Idle(cluster, Reason.CREATING, _HELD_BACK, "") for cluster in held_back)
    for found in (*(_idle(*each) for each in idle), *waiting):
        groups.setdefault((found.reason, found.cluster), []).append(found)
    made = [_group(replicas, fleet, failover) for replicas in groups.values()]
    made.sort(key=lambda group: (rank(group.reason), -group.replicas, group.cluster or ""))
    return tuple(made[:MAX_GROUPS])


def _idle(cluster: ClusterName, replica: Manifest | None) -> _Idle:
    if replica is None:
        return _Idle(cluster, Reason.CREATING, "the ModelReplica is not observed yet", "")
    reason, message = text_at(replica, "status", "reason"), text_at(replica, "status", "message")
    if reason and reason != Reason.SERVING:
        return _Idle(cluster, reason, message, text_at(replica, "status", "since"))
    failing = {
        str(found.get("type")): found
        for found in items_at(replica, "status", "conditions")
        if found.get("status") != ConditionStatus.TRUE
    }
    for kind in _ORDER:
        if kind in failing:
            reason, message, since = (
                text_at(failing[kind], name) for name in ("reason", "message", "lastTransitionTime")
            )
            return _Idle(cluster, reason, message, since)
    return _Idle(cluster, Reason.STARTING, "the ModelReplica says nothing yet", "")


def _group(replicas: Sequence[_Idle], fleet: Fleet, failover: FailoverPolicy) -> NotReady:
    first = min(replicas, key=lambda found: (found.since or "~", found.message))
    lost = _lost_at(first, fleet)
    replaced = timestamp(lost + failover.grace_s) if lost is not None and failover.replace else None
    return NotReady(
        reason=first.reason,
        replicas=len(replicas),
        cluster=first.cluster,
        since=(timestamp(lost) if lost is not None else first.since) or None,
        message=in_words(first.message) or None,
        replaced_at=replaced,
    )


def _lost_at(found: _Idle, fleet: Fleet) -> float | None:
    """When the cluster of a lost replica was lost, by which its replacement is timed."""
    if found.reason not in _REPLACED:
        return None
    cluster = fleet.cluster(found.cluster)
    return cluster.unready_since if cluster is not None and not cluster.ready else epoch_s(found.since)


def not_ready_words(groups: Sequence[NotReady], wanted: int, now: float, failover: FailoverPolicy) -> str:
    """The worst reasons in one sentence each: how many, why, since when, and what happens next."""
    grouped: dict[tuple[str, str | None], list[NotReady]] = {}
    for group in groups:
        lost = group.reason == Reason.CLUSTER_LOST
        grouped.setdefault((group.reason, group.cluster if lost else group.message), []).append(group)
    parts = [_words(alike, wanted, now, failover) for alike in list(grouped.values())[:_SHOWN]]
    more = sum(group.replicas for alike in list(grouped.values())[_SHOWN:] for group in alike)
    return "; ".join([*parts, f"{more} more for other reasons"] if more else parts)


def _words(alike: Sequence[NotReady], wanted: int, now: float, failover: FailoverPolicy) -> str:
    """Of groups that differ in their clusters."""
    first, count = alike[0], f"{sum(group.replicas for group in alike)} of {wanted}"
    since = min((group.since for group in alike if group.since), default="")
    if first.reason == Reason.CLUSTER_LOST:
        at = f" at {since}" if since else ""
        return f"{count} lost with cluster {first.cluster}{at}; {_replacement(first, now, failover)}"
    names = [group.cluster or "" for group in alike]
    on = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more clusters" if len(names) > _SHOWN else "")
    message_text = f": {in_words(first.message, _MAX_WORDS)}" if first.message else ""
    after = f"; {_NEXT[first.reason]}" if first.reason in _NEXT else ""
    if first.reason == Reason.AGENT_DISCONNECTED:
        after = f"; serving on, {_replacement(first, now, failover)}"
    return f"{count} {first.reason} on {on}{f' since {since}' if since else ''}{message_text}{after}"


def _replacement(group: NotReady, now: float, failover: FailoverPolicy) -> str:
    if not failover.replace:
        return "not replaced, by spec.failover.policy"
    ends = epoch_s(group.replaced_at)
    if ends is None or not now or ends > now:
        return f"replaced at {group.replaced_at}" if group.replaced_at else "replaced after its grace period"
    return "kept until a successor serves"
