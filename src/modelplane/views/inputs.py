"""What the scheduler looks at, gathered from manifests: for plans, explanations and replays without a plane.

A cluster whose manifest has no status yet is taken as it would be once it runs: its pools come from the classes beside
it, by the same composer that publishes them in a plane, and it counts as ready. One that carries a status is taken as
it says; where manifests lie over it that edit it or its classes, its pools are worked out again (see `repool`).
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.meta import Key
from modelplane.api.models import InferenceCluster, InferenceClusterStatus, ModelDeployment, StatusGateway
from modelplane.api.objects import Manifest, metadata_of, name_of, namespace_of
from modelplane.api.reasons import Reason
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.framework.registry import Registry
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE, read_profile
from modelplane.placement.snapshot import Fleet
from modelplane.views.repool import pools_of, repooled
from modelplane.views.shapes import RecordedDecision

SNAPSHOT_KIND = "FleetSnapshot"
ASSUMED_ADDRESS = "assumed.invalid"
"""Gateway address of a cluster that was never observed."""

_PARTS: Mapping[str, str] = {
    "InferenceCluster": "clusters",
    "ModelReplica": "replicas",
    "ModelCache": "caches",
    "ModelDeployment": "deployments",
    "InferenceClass": "classes",
}
KINDS: Mapping[str, str] = {kind: f"{kind.lower()}{'es' if kind.endswith('s') else 's'}" for kind in _PARTS}
"""The kinds that placement looks at, by the name of their lists in an API."""


class FleetManifests(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests by kind, each sorted by namespace and name."""

    clusters: tuple[Manifest, ...] = ()
    replicas: tuple[Manifest, ...] = ()
    caches: tuple[Manifest, ...] = ()
    deployments: tuple[Manifest, ...] = ()
    classes: tuple[Manifest, ...] = ()
    now: float = 0.0
    profile: PlacementProfile = DEFAULT_PROFILE
    profile_document: Manifest | None = None
    """The profile as it is written down, where it is not the usual one. A snapshot brings it; see `placed_by`."""
    refused: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """What clusters refuse, for each deployment that a snapshot has a decision of; see `requests`."""

    def placed_by(self, document: Manifest, registry: Registry | None = None) -> "FleetManifests":
        """The same, with the plugins that a PlacementProfile names."""
        built = read_profile(document, registry)
        return msgspec.structs.replace(self, profile=built, profile_document=document)

    def fleet(self) -> Fleet:
        return fleet_of(self.completed().clusters, self.replicas, self.caches)

    def completed(self) -> "FleetManifests":
        """The same, with the pools of clusters that have no status worked out from their classes."""
        return msgspec.structs.replace(self, clusters=tuple(self._complete(cluster) for cluster in self.clusters))

    def deployment(self, name: str, namespace: str | None = None) -> ModelDeployment:
        named = (item for item in self.deployments if name_of(item) == name and namespace in {None, namespace_of(item)})
        found = [decode(ModelDeployment, item) for item in named]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(one.metadata.namespace for one in found)
            raise InputError(f"several namespaces have a ModelDeployment {name} ({places}); say which with -n")
        raise NotFoundError(f"there is no ModelDeployment {name}" + (f" in namespace {namespace}" if namespace else ""))

    def _complete(self, manifest: Manifest) -> Manifest:
        cluster = _readable(manifest)
        if cluster is None or cluster.status.gpu_pools or cluster.status.conditions:
            return manifest
        composed = inference_cluster.compose(ComposeRequest(cluster)).ready
        if composed is not None and composed.reason == Reason.NOT_SUPPORTED:
            return {**manifest, "status": encode(InferenceClusterStatus(conditions=(composed,)))}
        pools = pools_of(cluster, {name_of(item): item for item in self.classes})
        ready = Condition(
            type=ConditionType.READY, status=ConditionStatus.TRUE, reason=Reason.AVAILABLE, message="assumed"
        )
        assumed = InferenceClusterStatus(
            conditions=(ready,), gateway=StatusGateway(address=ASSUMED_ADDRESS), gpu_pools=pools
        )
        return {**manifest, "status": encode(assumed)}


def gather(manifests: Iterable[Manifest], *, now: float = 0.0) -> FleetManifests:
    """Inputs from objects in any order; kinds that placement does not read are left alone. Later ones win."""
    found: dict[str, dict[tuple[str, str], Manifest]] = {part: {} for part in _PARTS.values()}
    profile: Manifest | None = None
    refused: dict[str, Mapping[str, str]] = {}
    for manifest in manifests:
        if manifest.get("kind") == SNAPSHOT_KIND:
            now = _recorded_s(manifest) or now
            profile = _profile(manifest)
            refused |= {one.deployment: one.refused for one in recorded_decisions(manifest)}
        for item in _objects(manifest):
            part = _PARTS.get(str(item.get("kind")))
            if part is not None:
                found[part][namespace_of(item), name_of(item)] = item
    parts = {part: tuple(item for _, item in sorted(items.items())) for part, items in found.items()}
    return FleetManifests(
        clusters=parts["clusters"],
        replicas=parts["replicas"],
        caches=parts["caches"],
        deployments=parts["deployments"],
        classes=parts["classes"],
        now=now,
        profile_document=profile,
        refused=refused,
    )


def merge(base: FleetManifests, over: FleetManifests) -> FleetManifests:
    """Both together; of an object that is in both, the second says what it is and the first how it is doing."""
    newer = [_with_status(base, manifest) for manifest in _all(over)]
    merged = gather([*_all(base), *newer], now=over.now or base.now)
    document = over.profile_document or base.profile_document
    clusters = tuple(_repooled(base, over, merged))
    edited = {f"{namespace_of(item)}/{name_of(item)}" for item in over.deployments}
    refused = {name: found for name, found in base.refused.items() if name not in edited} | dict(over.refused)
    return msgspec.structs.replace(merged, clusters=clusters, profile_document=document, refused=refused)


def _repooled(base: FleetManifests, over: FleetManifests, merged: FleetManifests) -> Iterator[Manifest]:
    """The clusters of both, with the pools of those worked out again that were edited or whose classes were."""
    classes = {name_of(item): item for item in merged.classes}
    before = {name_of(item): item for item in base.clusters}
    stated = {name_of(item): "status" in item for item in over.clusters}
    edited = {name_of(item) for item in over.classes}
    for manifest in merged.clusters:
        name = name_of(manifest)
        touched = name in stated or not edited.isdisjoint(_classes_of(manifest))
        if name in before and touched and not stated.get(name, False):
            yield repooled(manifest, before[name], classes)
        else:
            yield manifest


def _classes_of(manifest: Manifest) -> set[str]:
    cluster = _readable(manifest)
    return {pool.class_name for pool in cluster.spec.node_pools} if cluster is not None else set()


def _readable(manifest: Manifest) -> InferenceCluster | None:
    """The cluster, or None where it cannot be read: it is in the fleet with its fault then, and stops nobody."""
    try:
        return decode(InferenceCluster, manifest)
    except InputError:
        return None


def _all(inputs: FleetManifests) -> list[Manifest]:
    return [*inputs.classes, *inputs.clusters, *inputs.replicas, *inputs.caches, *inputs.deployments]


def _with_status(base: FleetManifests, manifest: Manifest) -> Manifest:
    """A manifest from a file has no status and no uid; what is known of the object is kept."""
    part = _PARTS[str(manifest["kind"])]
    key = namespace_of(manifest), name_of(manifest)
    known = next((item for item in getattr(base, part) if (namespace_of(item), name_of(item)) == key), None)
    if known is None:
        return manifest
    kept = {"status": known["status"]} if "status" in known and "status" not in manifest else {}
    stated, before = metadata_of(manifest), metadata_of(known)
    identity = {name: before[name] for name in ("uid", "generation", "creationTimestamp") if name in before}
    return {**manifest, **kept, "metadata": {**identity, **stated}}


def _objects(manifest: Manifest) -> Iterator[Manifest]:
    """The objects of a snapshot, or the object itself."""
    if manifest.get("kind") != SNAPSHOT_KIND:
        yield in_namespace(manifest)
        return
    for part in _PARTS.values():
        items = manifest.get(part, ())
        if not isinstance(items, list | tuple):
            raise InputError(f"{SNAPSHOT_KIND}: {part} must be a list")
        yield from (item for item in items if isinstance(item, Mapping))


def _recorded_s(snapshot: Manifest) -> float:
    now = snapshot.get("now", 0.0)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise InputError(f"{SNAPSHOT_KIND}: now must be a number of seconds")
    return float(now)


def recorded_decisions(snapshot: Mapping[str, object]) -> tuple[RecordedDecision, ...]:
    try:
        return msgspec.convert(snapshot.get("decisions", []), tuple[RecordedDecision, ...])
    except msgspec.ValidationError as error:
        raise InputError(f"{SNAPSHOT_KIND}: decisions: {error}") from error


def _profile(snapshot: Manifest) -> Manifest | None:
    profile = snapshot.get("profile")
    if profile is not None and not isinstance(profile, Mapping):
        raise InputError(f"{SNAPSHOT_KIND}: profile must be an object")
    return profile


def in_namespace(manifest: Manifest, namespace: str = "default") -> Manifest:
    """What `kubectl apply -n` does: an object that names no namespace goes to this one."""
    if str(manifest.get("kind")) not in {"ModelDeployment", "ModelReplica", "ModelCache"} or namespace_of(manifest):
        return manifest
    return {**manifest, "metadata": {**metadata_of(manifest), "namespace": namespace}}


def key_text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"
