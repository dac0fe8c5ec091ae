"""Informers of the fleet: InferenceClusters, ModelReplicas, ModelCaches and ModelDeployments.

Of each object only what decisions read is kept. Two indexes follow the events: the replicas on a cluster, and the
deployments with replicas that are not scheduled.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import RLock
from typing import Final, NamedTuple

import msgspec

from modelplane.api.objects import GROUP, VERSION, Manifest, int_at, text_at, value_at
from modelplane.compose.canary_analysis import analysed_window_s
from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from modelplane.kube import (
    ChangeKind,
    GroupVersionResource,
    Informer,
    InformerEvent,
    InformerSettings,
    KubeClient,
    NamespacedName,
    Query,
)
from modelplane.views.inputs import FleetManifests

CLUSTERS: Final = GroupVersionResource(GROUP, VERSION, "inferenceclusters")
REPLICAS: Final = GroupVersionResource(GROUP, VERSION, "modelreplicas")
CACHES: Final = GroupVersionResource(GROUP, VERSION, "modelcaches")
DEPLOYMENTS: Final = GroupVersionResource(GROUP, VERSION, "modeldeployments")
KIND_NAMES: Final[Mapping[GroupVersionResource, str]] = {
    CLUSTERS: "InferenceCluster",
    REPLICAS: "ModelReplica",
    CACHES: "ModelCache",
    DEPLOYMENTS: "ModelDeployment",
}
_SETTINGS = InformerSettings(backoff_most_s=5.0)
"""Every placement waits for these four watches, and they cost an API server that comes back nothing."""


class CachedObject(msgspec.Struct, frozen=True):
    """An object trimmed to what decisions read, as JSON: there may be tens of thousands."""

    packed: bytes
    digest: str
    """The dependency digest in its annotation."""

    @property
    def manifest(self) -> dict[str, object]:
        return msgspec.json.decode(self.packed, type=dict[str, object])


class HeldFleet(NamedTuple):
    """Everything that was cached at one time. It may be read in another thread."""

    clusters: tuple[CachedObject, ...]
    replicas: tuple[CachedObject, ...]
    caches: tuple[CachedObject, ...]
    deployments: tuple[CachedObject, ...]

    def manifests(self) -> FleetManifests:
        """As views read them: deployments without their pods, replicas without their templates."""
        clusters, replicas, caches, deployments = (tuple(item.manifest for item in part) for part in self)
        return FleetManifests(clusters=clusters, replicas=replicas, caches=caches, deployments=deployments)


Handler = Callable[[GroupVersionResource, InformerEvent[CachedObject]], None]


class FleetInformers:
    """`handler` is called for each event, after the indexes, while `lock` is held."""

    def __init__(self, client: KubeClient, handler: Handler, lock: RLock) -> None:
        self._handler = handler
        self._lock = lock
        self._on_cluster: dict[str, set[NamespacedName]] = {}
        self._unscheduled: set[NamespacedName] = set()
        self._informers: dict[GroupVersionResource, Informer[CachedObject]] = {
            kind: Informer(client, Query(kind), trim, settings=_SETTINGS)
            for kind, trim in (
                (CLUSTERS, _trim),
                (REPLICAS, _trim_replica),
                (CACHES, _trim),
                (DEPLOYMENTS, _trim_deployment),
            )
        }
        for kind, informer in self._informers.items():
            informer.listen(lambda events, kind=kind: self._on_events(kind, events))  # type: ignore[misc]  # a bound default

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def wait_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_synced()

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self._informers.values())

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(informer.problem for informer in self._informers.values() if informer.problem)

    def objects(self, kind: GroupVersionResource) -> Mapping[NamespacedName, CachedObject]:
        """A live view."""
        return self._informers[kind].snapshot

    def held(self) -> HeldFleet:
        return HeldFleet(*(tuple(self.objects(kind).values()) for kind in (CLUSTERS, REPLICAS, CACHES, DEPLOYMENTS)))

    def replicas_on(self, cluster: str) -> Collection[NamespacedName]:
        return self._on_cluster.get(cluster, ())

    @property
    def unscheduled(self) -> Collection[NamespacedName]:
        """Deployments with replicas that wait for capacity."""
        return self._unscheduled

    def analysed(self) -> dict[NamespacedName, int]:
        """Deployments whose canary is analysed, with the seconds of its window."""
        with self._lock:
            held = [(key, item) for key, item in self.objects(DEPLOYMENTS).items() if _WINDOW_MARK in item.packed]
        return {key: int_at(item.manifest, "status", _WINDOW) for key, item in held}

    def _on_events(self, kind: GroupVersionResource, events: Sequence[InformerEvent[CachedObject]]) -> None:
        with self._lock:
            for event in events:
                self._index(kind, event)
                self._handler(kind, event)

    def _index(self, kind: GroupVersionResource, event: InformerEvent[CachedObject]) -> None:
        deleted = event.change is ChangeKind.DELETED
        if kind == REPLICAS:
            cluster = text_at(event.value.manifest, "spec", "clusterName")
            there = self._on_cluster.setdefault(cluster, set())
            (there.discard if deleted else there.add)(event.key)
            if not there:
                del self._on_cluster[cluster]
        elif kind == DEPLOYMENTS:
            waits = not deleted and value_at(event.value.manifest, "status", "waiting") is True
            (self._unscheduled.add if waits else self._unscheduled.discard)(event.key)


_METADATA = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "labels")
_WINDOW = "analysisWindowSeconds"
_WINDOW_MARK = _WINDOW.encode()
_encode = msgspec.json.Encoder().encode


def _trim(raw: Manifest) -> CachedObject:
    return _packed(raw, raw.get("spec"), raw.get("status"))


def _trim_replica(raw: Manifest) -> CachedObject:
    """Without its pod templates, which nothing here reads and which are most of it."""
    spec = raw.get("spec")
    engines = value_at(raw, "spec", "engines")
    lean = [_without_templates(engine) for engine in engines] if isinstance(engines, list) else engines
    kept = {**spec, "engines": lean} if isinstance(spec, Mapping) else spec
    known = {name: value_at(raw, "status", name) for name in ("address", "servedGeneration")}
    status = {"conditions": value_at(raw, "status", "conditions") or []}
    return _packed(raw, kept, {**status, **{name: value for name, value in known.items() if value}})


_NO_PODS: Manifest = {"spec": {"containers": []}}
"""A replica without a template cannot be decoded, and one that cannot be decoded holds nothing."""


def _without_templates(engine: object) -> object:
    if not isinstance(engine, Mapping):
        return engine
    members = engine.get("members")
    lean = [
        {**member, "template": _NO_PODS}
        for member in (members if isinstance(members, list) else ())
        if isinstance(member, Mapping)
    ]
    return {**engine, "members": lean}


def _trim_deployment(raw: Manifest) -> CachedObject:
    """How many replicas there are, whether some wait for capacity, and the window of its canary's analysis.

    Calls bring the rest.
    """
    conditions = value_at(raw, "status", "conditions")
    waits = any(
        isinstance(item, Mapping) and item.get("type") == "ReplicasScheduled" and item.get("status") != "True"
        for item in (conditions if isinstance(conditions, list) else ())
    )
    window_s = analysed_window_s(raw)
    analysed = {} if window_s is None else {_WINDOW: window_s}
    counts = {"replicas": int_at(raw, "spec", "replicas", default=1)}
    return _packed(raw, counts, {"waiting": waits, "readyReplicas": int_at(raw, "status", "readyReplicas"), **analysed})


def _packed(raw: Manifest, spec: object, status: object) -> CachedObject:
    metadata = raw.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    kept = {name: known[name] for name in _METADATA if name in known}
    shown = {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), "metadata": kept, "spec": spec}
    digest = text_at(raw, "metadata", "annotations", DIGEST_ANNOTATION)
    return CachedObject(_encode({**shown, "status": status or {}}), digest)
