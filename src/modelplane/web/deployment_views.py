"""Deployments: rows with their load, and one with its tree, its roll-out and why replicas are where they are."""

from collections.abc import Iterator

from modelplane.api.codec import decode
from modelplane.api.models import Candidate, ModelDeployment, NotReady, TemplateRevision
from modelplane.api.objects import text_at
from modelplane.views.overview import DeploymentRow
from modelplane.views.rollouts import revisions_of, rollout_view
from modelplane.web.activities import deployment_activities
from modelplane.web.paging import ViewQuery, select
from modelplane.web.shapes import (
    DeploymentPage,
    DeploymentShown,
    NotReadyGroup,
    PlacementCandidate,
    ReplicaPods,
    RevisionRow,
    RowPage,
)
from modelplane.web.snapshot import DashboardSnapshot, ObjectPlace
from modelplane.web.timeline import events_about
from modelplane.web.trees import MAX_BRANCHES, bound_pods_of, digests_of, object_tree, worst_first


def deployments_page(snapshot: DashboardSnapshot, query: ViewQuery) -> RowPage[DeploymentShown]:
    ours = (row for row in snapshot.overview.deployments if query.namespace in {"", row.namespace})
    return select(ours, query, words=_words, state=lambda row: row.health.state, show=lambda row: _shown(snapshot, row))


def deployment_page(snapshot: DashboardSnapshot, query: ViewQuery) -> DeploymentPage:
    place = (query.namespace, query.name)
    tree, omitted = object_tree(snapshot, "ModelDeployment", place)
    manifest = snapshot.objects["ModelDeployment"][place]
    status = decode(ModelDeployment, manifest).status
    row = next(row for row in snapshot.overview.deployments if (row.namespace, row.name) == place)
    placement = status.placement
    return DeploymentPage(
        deployment=_shown(snapshot, row),
        rollout_message=rollout_view(manifest).message,
        activities=tuple(deployment_activities(manifest)),
        not_ready=tuple(_not_ready(group) for group in status.not_ready),
        candidates=tuple(_candidate(found) for found in placement.candidates) if placement else (),
        candidates_omitted=(placement.omitted if placement else None) or 0,
        revisions=tuple(_revision(each) for each in reversed(revisions_of(manifest))),
        tree=tree,
        omitted=omitted,
        pods=tuple(_pods(snapshot, place)),
        events=events_about(snapshot, "ModelDeployment", *place),
    )


def _words(row: DeploymentRow) -> str:
    return f"{row.namespace}/{row.name} {row.health.why} {row.placement}"


def _shown(snapshot: DashboardSnapshot, row: DeploymentRow) -> DeploymentShown:
    place = (row.namespace, row.name)
    return DeploymentShown(
        namespace=row.namespace,
        name=row.name,
        health=row.health,
        wanted=row.wanted,
        placed=row.placed,
        serving=row.serving,
        placement=row.placement,
        rollout=rollout_view(snapshot.objects["ModelDeployment"][place]).state.value,
        load=snapshot.loads[place],
    )


def _not_ready(group: NotReady) -> NotReadyGroup:
    return NotReadyGroup(
        reason=group.reason,
        replicas=group.replicas,
        cluster=group.cluster or "",
        since=group.since or "",
        message=group.message or "",
        replaced_at=group.replaced_at or "",
    )


def _candidate(found: Candidate) -> PlacementCandidate:
    return PlacementCandidate(
        cluster=found.cluster or "",
        pool=found.pool or "",
        verdict=found.verdict or "",
        filter=found.filter_ or "",
        reason=found.reason or "",
        score=found.score or "",
    )


def _revision(found: TemplateRevision) -> RevisionRow:
    return RevisionRow(
        revision=found.revision,
        created_at=found.created_at or "",
        cause=found.change_cause or "",
        images=tuple(found.images),
        halted=found.halted or "",
    )


def _pods(snapshot: DashboardSnapshot, place: ObjectPlace) -> Iterator[ReplicaPods]:
    """Where the pods of the shown replicas are, as far as the status of their clusters names nodes."""
    replicas = worst_first(snapshot, snapshot.replicas_of.get(place, ()))[:MAX_BRANCHES]
    digests = digests_of(snapshot, replicas)
    clusters = {text_at(snapshot.objects["ModelReplica"][each], "spec", "clusterName") for each in replicas}
    for cluster in sorted(clusters):
        for pod in bound_pods_of(snapshot, cluster):
            known = digests.get(pod.replica or "")
            if known is not None:
                yield ReplicaPods(
                    replica=known[1],
                    cluster=cluster,
                    pool=pod.pool,
                    node=pod.node,
                    pods=pod.pods,
                    devices=pod.devices,
                )
