"""Placement and rendering from documents alone: what a plane would decide and write, without one."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest, labels_of, name_of, namespace_of, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Local, Remote, Requirement
from modelplane.compose.images import RELEASE_IMAGES, ReleaseImages
from modelplane.compose.registry import COMPOSERS
from modelplane.k8s.admission.layout import Document
from modelplane.placement.schedule import Schedule
from modelplane.placement.schedule import schedule as place
from modelplane.views.inputs import FleetManifests, gather
from modelplane.views.requests import request_of


def fleet_from(documents: Iterable[Document], *, now: float = 0.0) -> FleetManifests:
    """The fleet that documents describe: clusters with their classes, deployments, replicas and caches.

    A cluster without a status counts as ready, with the pools that its spec and its classes state. `now` is the time of
    decisions in seconds of the epoch. A FleetSnapshot (`modelplane fleet snapshot`) is a document, too.
    """
    return gather(_manifests(documents), now=now)


def schedule(fleet: FleetManifests, deployment: str, namespace: str | None = None) -> Schedule:
    """Where the replicas of one ModelDeployment go, with the trace of every cluster and pool.

    `pending` counts the replicas that find no place. `plan` decides for all deployments, one after the other.
    """
    known = fleet.fleet()
    request = request_of(fleet, fleet.deployment(deployment, namespace), known)
    return place(request, known, fleet.now, profile=fleet.profile)


def compose_document(document: Document, documents: Iterable[Document] = (), *, now: float = 0.0) -> ComposeResult:
    """What the composer of the document's kind answers: desired objects, status, conditions and requirements.

    `documents` are other objects: the fleet, and what the composer requires.
    """
    others = _manifests(documents)
    fleet = gather(others, now=now).completed()
    (manifest,) = _manifests([document])
    return _compose(manifest, [*fleet.clusters, *others], fleet)


def render(fleet: FleetManifests, *, images: ReleaseImages = RELEASE_IMAGES) -> tuple[Remote, ...]:
    """Every object that the deployments of a fleet become, each with the cluster that it is for.

    Deployments are decided one after the other, as `plan` does it, and their caches count as staged. `images` are
    for clusters that name none.
    InputError: no cluster can run a deployment.
    """
    parts = _by_deployment(fleet, images, checked={_key(item) for item in fleet.deployments})
    return tuple({_identity(each): each for part in parts.values() for each in part}.values())


def render_change(
    before: FleetManifests,
    after: FleetManifests,
    edited: Collection[tuple[str, str]],
    *,
    images: ReleaseImages = RELEASE_IMAGES,
) -> tuple[Remote, ...]:
    """What a change of a fleet renders: every object of the edited deployments, and those of others that change.

    InputError: no cluster can run an edited deployment. Of others that is no reason to refuse the change.
    """
    parts = _by_deployment(after, images, checked=edited)
    if parts.keys() <= set(edited):
        found = [each for part in parts.values() for each in part]
    else:
        held = [each for part in _by_deployment(before, images).values() for each in part]
        known = {_identity(each): each.manifest for each in held}
        rendered = ((key, each) for key, part in parts.items() for each in part)
        found = [each for key, each in rendered if key in edited or known.get(_identity(each)) != each.manifest]
    return tuple({_identity(each): each for each in found}.values())


def _by_deployment(
    fleet: FleetManifests, images: ReleaseImages, *, checked: Collection[tuple[str, str]] = ()
) -> dict[tuple[str, str], list[Remote]]:
    """What each deployment becomes. `checked` must be runnable; others are left out where they are not."""
    fleet, found = fleet.completed(), dict[tuple[str, str], list[Remote]]()
    for deployment in fleet.deployments:
        key = _key(deployment)
        try:
            replicas = _replicas(deployment, fleet)
            known = {_key(item): item for item in (*fleet.replicas, *replicas)}
            fleet = msgspec.structs.replace(fleet, replicas=tuple(known.values()))
            found[key] = [each for replica in replicas for each in _rendered(replica, fleet, images)]
        except InputError:
            if key in checked:
                raise
    return found


def _key(item: Manifest) -> tuple[str, str]:
    return namespace_of(item), name_of(item)


def _identity(item: Remote) -> tuple[str, str, str, str, str]:
    """Replicas of one cluster share some objects, such as the namespace."""
    manifest = item.manifest
    return item.cluster, text_at(manifest, "apiVersion"), text_at(manifest, "kind"), *_key(manifest)


def _replicas(deployment: Manifest, fleet: FleetManifests) -> list[Manifest]:
    result = _compose(deployment, (), fleet)
    _check_runnable(deployment, result)
    local = [item.target.manifest for item in result.desired.values() if isinstance(item.target, Local)]
    return [manifest for manifest in local if manifest.get("kind") == "ModelReplica"]


def _check_runnable(deployment: Manifest, result: ComposeResult) -> None:
    for condition in result.conditions:
        if condition.reason == Reason.NOT_RUNNABLE:
            raise InputError(f"ModelDeployment {namespace_of(deployment)}/{name_of(deployment)}: {condition.message}")


def _rendered(replica: Manifest, fleet: FleetManifests, images: ReleaseImages) -> list[Remote]:
    caches = [_staged(cache, text_at(replica, "spec", "clusterName")) for cache in fleet.caches]
    result = _compose(replica, (*fleet.clusters, *caches), fleet, images)
    accepted = next(condition for condition in result.conditions if condition.type == "Accepted")
    if accepted.status != "True":
        raise InputError(f"ModelReplica {namespace_of(replica)}/{name_of(replica)}: {accepted.message}")
    return [desired.target for desired in result.desired.values() if isinstance(desired.target, Remote)]


def _staged(cache: Manifest, cluster: str) -> Manifest:
    """As it will be: until a cache is there, the workloads that mount it are not written."""
    return {**cache, "status": {"clusters": [{"name": cluster, "phase": "Ready"}]}}


def _compose(
    manifest: Manifest, others: Sequence[Manifest], fleet: FleetManifests, images: ReleaseImages = RELEASE_IMAGES
) -> ComposeResult:
    kind = text_at(manifest, "kind")
    if kind not in COMPOSERS:
        raise InputError(f"{kind or 'a document without a kind'} is not composed; use one of {', '.join(COMPOSERS)}")
    entry = COMPOSERS[kind]
    request = ComposeRequest(
        decode(entry.resource, manifest),
        fleet=fleet.fleet(),
        now=fleet.now,
        profile=fleet.profile,
        images=images,
    )
    wanted = entry.compose(request).requirements
    required = {key: _find(one, others) for key, one in wanted.items() if one.cluster is None}
    return entry.compose(replace(request, required=required))


def _find(wanted: Requirement, others: Sequence[Manifest]) -> tuple[Manifest, ...]:
    found: dict[tuple[str, str], Manifest] = {}
    for item in others:
        same_kind = (item.get("apiVersion"), item.get("kind")) == (wanted.api_version, wanted.kind)
        named = wanted.namespace in {None, namespace_of(item)} and wanted.name in {None, name_of(item)}
        if same_kind and named and wanted.labels.items() <= labels_of(item).items():
            found.setdefault((namespace_of(item), name_of(item)), item)
    return tuple(found.values())


def _manifests(documents: Iterable[Document]) -> list[Manifest]:
    return [document.value for document in documents if isinstance(document.value, dict)]
