"""What goes on in a fleet: roll-outs, drains, failovers with the time of the next step, stagings and upgrades."""

from collections.abc import Iterator
from contextlib import suppress

from modelplane.api.codec import decode, decode_readable
from modelplane.api.errors import InvalidObject
from modelplane.api.models import InferenceCluster, ModelCache, ModelDeployment
from modelplane.api.objects import Manifest, items_at, text_at, value_at
from modelplane.views.caches import amount
from modelplane.views.cluster_software import software_row
from modelplane.views.rollouts import RolloutPhase, rollout_view
from modelplane.web.cluster_marks import SETTLED
from modelplane.web.shapes import Activity
from modelplane.web.snapshot import DashboardSnapshot, once_per_snapshot

_WHOLE = 100


@once_per_snapshot
def activities(snapshot: DashboardSnapshot) -> tuple[Activity, ...]:
    """What has a time comes first, the soonest before the others."""
    found = [*_of_deployments(snapshot), *_drains(snapshot), *_stagings(snapshot), *_upgrades(snapshot)]
    return tuple(sorted(found, key=lambda each: (not each.until, each.until, each.kind, each.namespace, each.name)))


def deployment_activities(item: Manifest) -> Iterator[Activity]:
    """The failovers and the roll-out of one deployment."""
    yield from _failovers(item)
    if value_at(item, "status", "rollout", "complete") is not True:
        yield from _rollout(item)


def _of_deployments(snapshot: DashboardSnapshot) -> Iterator[Activity]:
    for item in snapshot.objects["ModelDeployment"].values():
        with suppress(InvalidObject):
            yield from deployment_activities(item)


def _failovers(item: Manifest) -> Iterator[Activity]:
    if not any(text_at(group, "replacedAt") for group in items_at(item, "status", "notReady")):
        return
    deployment = decode(ModelDeployment, item)
    for group in deployment.status.not_ready:
        if group.replaced_at:
            noun = "replica" if group.replicas == 1 else "replicas"
            yield Activity(
                kind="Failover",
                object_kind="ModelDeployment",
                namespace=deployment.metadata.namespace,
                name=deployment.metadata.name,
                state=group.reason,
                message=f"{group.replicas} {noun} lost with cluster {group.cluster or '-'}",
                until=group.replaced_at,
            )


def _rollout(item: Manifest) -> Iterator[Activity]:
    found = rollout_view(item)
    if found.state in {RolloutPhase.COMPLETE, RolloutPhase.UNOBSERVED}:
        return
    deployment = decode(ModelDeployment, item)
    rollout = deployment.status.rollout
    ready = (rollout.ready_replicas if rollout else None) or 0
    canary = rollout.canary if rollout else None
    yield Activity(
        kind="Rollout",
        object_kind="ModelDeployment",
        namespace=deployment.metadata.namespace,
        name=deployment.metadata.name,
        state=found.state.value,
        message=found.message,
        percent=_percent(ready, deployment.spec.replicas),
        until=(canary.next_at if canary else None) or "",
    )


def _drains(snapshot: DashboardSnapshot) -> Iterator[Activity]:
    drained = (item for item in snapshot.objects["InferenceCluster"].values() if value_at(item, "status", "drain"))
    for cluster in decode_readable(InferenceCluster, drained):
        drain = cluster.status.drain
        if drain is not None:
            total, left = drain.total or 0, drain.replicas or 0
            yield Activity(
                kind="Drain",
                object_kind="InferenceCluster",
                name=cluster.metadata.name,
                state="Drained" if not left else "Draining",
                message=drain.summary or "",
                percent=_percent(total - left, total) if total else _WHOLE,
                until=(drain.deadline or "") if left else "",
            )


def _upgrades(snapshot: DashboardSnapshot) -> Iterator[Activity]:
    """Of the software of clusters: those that are upgraded, and those that wait for their wave or are stopped."""
    clusters = snapshot.objects["InferenceCluster"].values()
    going = (item for item in clusters if text_at(item, "status", "software", "phase") not in {"", SETTLED})
    for cluster in decode_readable(InferenceCluster, going):
        row = software_row(cluster)
        if row is not None:
            wave = "" if row.wave is None else f"wave {row.wave}: "
            yield Activity(
                kind="Upgrade",
                object_kind="InferenceCluster",
                name=row.cluster,
                state=row.phase,
                message=f"{wave}{row.why}".rstrip(": ") or f"release {row.release}",
            )


def _stagings(snapshot: DashboardSnapshot) -> Iterator[Activity]:
    for cache in decode_readable(ModelCache, snapshot.objects["ModelCache"].values()):
        going = [entry for entry in cache.status.clusters if entry.phase == "Hydrating"]
        if going:
            staged = sum(entry.staged_bytes or 0 for entry in going)
            total = sum(entry.total_bytes or 0 for entry in going)
            noun = "cluster" if len(going) == 1 else "clusters"
            yield Activity(
                kind="Staging",
                object_kind="ModelCache",
                namespace=cache.metadata.namespace,
                name=cache.metadata.name,
                state="Hydrating",
                message=f"{amount(staged)} of {amount(total)} on {len(going)} {noun}" if total else "",
                percent=_percent(staged, total) if total else None,
            )


def _percent(part: int, whole: int) -> int:
    return min(part * _WHOLE // whole, _WHOLE) if whole else 0
