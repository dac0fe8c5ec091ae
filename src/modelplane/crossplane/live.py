"""The fleet, kept by watching: nothing fleet-sized goes through Crossplane, and a change wakes whom it concerns.

Clusters, replicas, caches and deployments are listed and watched; of each only what decisions read is kept. Until all
of them were listed once, calls are answered as if nothing were kept, from what Crossplane fetches.

A placement that was just decided counts at once, before its replica is seen: two deployments cannot take the same
devices through one server. What another server decided in the same moment is settled by the next pass of whoever was
second, once both are seen.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from modelplane.api.labels import CLUSTER
from modelplane.api.meta import ClusterName, Uid
from modelplane.api.meta import Key as Owner
from modelplane.api.objects import GROUP, VERSION, Manifest, text_at, value_at
from modelplane.compose.contract import Requirement
from modelplane.crossplane import dependency_digest as facts
from modelplane.crossplane.packaging import WAKE_ANNOTATION
from modelplane.crossplane.requeue import Subject, Waker
from modelplane.crossplane.usage_nudger import Departures
from modelplane.crossplane.workload_informers import Observatory
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
from modelplane.placement.snapshot import Fleet
from modelplane.reconcile.live_fleet import LiveFleet
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

CLUSTERS = GroupVersionResource(GROUP, VERSION, "inferenceclusters")
REPLICAS = GroupVersionResource(GROUP, VERSION, "modelreplicas")
CACHES = GroupVersionResource(GROUP, VERSION, "modelcaches")
DEPLOYMENTS = GroupVersionResource(GROUP, VERSION, "modeldeployments")
_NAMES = {CLUSTERS: "InferenceCluster", REPLICAS: "ModelReplica", CACHES: "ModelCache", DEPLOYMENTS: "ModelDeployment"}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_ASSUMED_S = 60.0
"""How long a decision counts that was never seen to be carried out."""
_DEPARTURES_PAUSE_S = 1.5
_WATCHING = InformerSettings(backoff_most_s=5.0)
"""Four watches cost an API server nothing when it comes back, and every placement waits for them."""


class Kept(msgspec.Struct, frozen=True):
    """What stays of an object: packed, for there may be tens of thousands."""

    packed: bytes
    told: str
    """What it was last woken with."""

    @property
    def manifest(self) -> dict[str, object]:
        return msgspec.json.decode(self.packed, type=dict[str, object])


class Live:
    """Knowledge of a function server that may look at the API itself."""

    def __init__(
        self, client: KubeClient, registry: CollectorRegistry, *, pause_s: float = 2.0, observe: bool = False
    ) -> None:
        """`observe` looks at the workload clusters too, with the kubeconfigs that they were adopted with."""
        self._lock = RLock()
        self._observatory = Observatory(client, self._shows_something_else) if observe else None
        self._fleet = LiveFleet(capacity_changed=self._room_changed)
        self._waiting: set[NamespacedName] = set()
        self._assumed: dict[ObjectRef, float] = {}
        self._on_cluster: dict[str, set[NamespacedName]] = {}
        self._informers: dict[GroupVersionResource, Informer[Kept]] = {
            kind: Informer(client, Query(kind), keep, settings=_WATCHING)
            for kind, keep in (
                (CLUSTERS, _keep),
                (REPLICAS, _keep_replica),
                (CACHES, _keep),
                (DEPLOYMENTS, _keep_deployment),
            )
        }
        self._waker = Waker(client, self._facts, registry, pause_s=pause_s)
        self._departures = Departures(client, pause_s=min(pause_s, _DEPARTURES_PAUSE_S))
        for kind, informer in self._informers.items():
            informer.listen(lambda events, kind=kind: self._heard(kind, events))  # type: ignore[misc]  # a bound default

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run()
        finally:
            if self._observatory is not None:
                await self._observatory.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
            await self._listed()
            tasks.create_task(self._waker.run())
            tasks.create_task(self._departures.run())

    async def _listed(self) -> None:
        """Once everything is known: whoever was told something else while nobody watched is woken."""
        await self.wait_synced()
        with self._lock:
            for kind in _FACTS:
                for key, kept in self._snapshot(kind).items():
                    self._waker.seen((kind, key), kept.told)

    async def wait_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_synced()

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self._informers.values())

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(informer.problem for informer in self._informers.values() if informer.problem)

    def fleet(self) -> Fleet | None:
        if not self.synced:
            return None
        with self._lock:
            self._forget_unseen()
            return self._fleet.snapshot()

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        if requirement.cluster is not None:
            return self._observatory.find(requirement) if self._observatory is not None else None
        kind = _KINDS.get(requirement.kind)
        if kind is None or not self.synced:
            return None
        with self._lock:
            return tuple(item.manifest for item in self._matching(kind, requirement))

    def turn(self, kind: str) -> AbstractContextManager[Any]:
        """Deployments are decided one after the other: each sees what the one before it took."""
        return self._lock if kind == "ModelDeployment" else nullcontext()

    def decided(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Count the replicas of a deployment from now on, seen or not."""
        if kind != "ModelDeployment" or not self.synced:
            return
        with self._lock:
            for manifest in manifests:
                ref = _ref(REPLICAS, _key(manifest))
                if manifest.get("kind") == "ModelReplica" and _key(manifest) not in self._snapshot(REPLICAS):
                    self._assumed[ref] = time.monotonic() + _ASSUMED_S
                    self._fleet.heard(StoreChange(ChangeType.ADDED, ref, manifest, None, 0))

    def _matching(self, kind: GroupVersionResource, requirement: Requirement) -> Iterator[Kept]:
        held = self._snapshot(kind)
        if requirement.name is not None:
            found = held.get(NamespacedName(requirement.namespace or "", requirement.name))
            if found is not None:
                yield found
            return
        for key in sorted(self._candidates(kind, requirement)):
            item = held.get(key)
            if item is not None and requirement.namespace in {None, key.namespace} and _has(item, requirement.labels):
                yield item

    def _candidates(self, kind: GroupVersionResource, requirement: Requirement) -> Sequence[NamespacedName]:
        cluster = requirement.labels.get(CLUSTER)
        if kind == REPLICAS and cluster is not None:
            return list(self._on_cluster.get(cluster, ()))
        return list(self._snapshot(kind))

    def _snapshot(self, kind: GroupVersionResource) -> Mapping[NamespacedName, Kept]:
        return self._informers[kind].snapshot

    def _forget_unseen(self) -> None:
        now = time.monotonic()
        for ref in [ref for ref, until in self._assumed.items() if until < now]:
            del self._assumed[ref]
            self._fleet.heard(StoreChange(ChangeType.DELETED, ref, {}, None, 0))

    def _heard(self, kind: GroupVersionResource, events: Sequence[InformerEvent[Kept]]) -> None:
        with self._lock:
            for event in events:
                self._follow(kind, event)

    def _follow(self, kind: GroupVersionResource, event: InformerEvent[Kept]) -> None:
        manifest = event.value.manifest
        gone = event.change is ChangeKind.DELETED
        ref = _ref(kind, event.key)
        self._assumed.pop(ref, None)
        if kind != DEPLOYMENTS:
            change = ChangeType.DELETED if gone else ChangeType.MODIFIED
            self._fleet.heard(StoreChange(change, ref, manifest, None, 0))
        subject = (kind, event.key)
        _FOLLOW[kind](self, event.key, manifest, gone=gone)
        if kind == CACHES:
            return
        if gone:
            self._waker.gone(subject)
        else:
            self._waker.seen(subject, event.value.told)

    def _shows_something_else(self, cluster: ClusterName) -> None:
        self._waker.concerns((CLUSTERS, NamespacedName("", cluster)))

    def _follow_cluster(self, key: NamespacedName, manifest: Manifest, *, gone: bool) -> None:
        if self._observatory is not None:
            self._observatory.drop(ClusterName(key.name)) if gone else self._observatory.follow(manifest)
        concerned = self._on_cluster.get(key.name, ())
        for replica in concerned:
            self._waker.concerns((REPLICAS, replica))
        for deployment in {self._owner(replica) for replica in concerned}:
            self._waker.concerns((DEPLOYMENTS, deployment))

    def _follow_replica(self, key: NamespacedName, manifest: Manifest, *, gone: bool) -> None:
        cluster = text_at(manifest, "spec", "clusterName")
        there = self._on_cluster.setdefault(cluster, set())
        (there.discard if gone else there.add)(key)
        if not there:
            del self._on_cluster[cluster]
        self._waker.concerns((CLUSTERS, NamespacedName("", cluster)))
        if gone:
            self._departures.gone(key)
        elif text_at(manifest, "metadata", "deletionTimestamp"):
            self._departures.leaving(key, manifest)

    def _follow_cache(self, key: NamespacedName, _manifest: Manifest, *, gone: bool) -> None:
        del gone
        for replica in self._snapshot(REPLICAS):
            if replica.namespace == key.namespace:
                self._waker.concerns((REPLICAS, replica))

    def _follow_deployment(self, key: NamespacedName, manifest: Manifest, *, gone: bool) -> None:
        waits = not gone and value_at(manifest, "status", "waiting") is True
        (self._waiting.add if waits else self._waiting.discard)(key)

    def _owner(self, replica: NamespacedName) -> NamespacedName:
        held = self._snapshot(REPLICAS).get(replica)
        return NamespacedName(replica.namespace, text_at(held.manifest, "spec", "deployment", "name") if held else "")

    def _room_changed(self) -> None:
        for deployment in self._waiting:
            self._waker.concerns((DEPLOYMENTS, deployment))

    def _facts(self, subject: Subject) -> str | None:
        kind, key = subject
        with self._lock:
            held = self._snapshot(kind).get(key)
            if held is None or not self.synced:
                return None
            return _FACTS[kind](self, key, held.manifest)

    def _facts_of_cluster(self, key: NamespacedName, _manifest: Manifest) -> str:
        held = self._snapshot(REPLICAS)
        there = [held[each].manifest for each in self._on_cluster.get(key.name, ()) if each in held]
        observed = self._observatory.digest(ClusterName(key.name)) if self._observatory is not None else ""
        return facts.of_cluster(there, observed)

    def _facts_of_replica(self, key: NamespacedName, manifest: Manifest) -> str:
        name = text_at(manifest, "spec", "clusterName")
        cluster = self._snapshot(CLUSTERS).get(NamespacedName("", name))
        mounted = value_at(manifest, "spec", "caches")
        names = [text_at(item, "name") for item in mounted] if isinstance(mounted, list) else []
        caches = [self._snapshot(CACHES).get(NamespacedName(key.namespace, each)) for each in names]
        return facts.of_replica(cluster.manifest if cluster else None, [c.manifest for c in caches if c], name)

    def _facts_of_deployment(self, key: NamespacedName, manifest: Manifest) -> str:
        owner = Owner(key.namespace, key.name, Uid(text_at(manifest, "metadata", "uid")))
        return facts.of_deployment(self._fleet.snapshot(), owner, waiting=key in self._waiting)


_FOLLOW: Mapping[GroupVersionResource, Callable[..., None]] = {
    CLUSTERS: Live._follow_cluster,  # noqa: SLF001  of the same class
    REPLICAS: Live._follow_replica,  # noqa: SLF001  as above
    CACHES: Live._follow_cache,  # noqa: SLF001  as above
    DEPLOYMENTS: Live._follow_deployment,  # noqa: SLF001  as above
}
_FACTS: Mapping[GroupVersionResource, Callable[..., str]] = {
    CLUSTERS: Live._facts_of_cluster,  # noqa: SLF001  of the same class
    REPLICAS: Live._facts_of_replica,  # noqa: SLF001  as above
    DEPLOYMENTS: Live._facts_of_deployment,  # noqa: SLF001  as above
}


def _ref(kind: GroupVersionResource, key: NamespacedName) -> ObjectRef:
    return ObjectRef(GROUP, _NAMES[kind], key.namespace, key.name)


def _key(manifest: Manifest) -> NamespacedName:
    return NamespacedName(text_at(manifest, "metadata", "namespace"), text_at(manifest, "metadata", "name"))


def _has(item: Kept, labels: Mapping[str, str]) -> bool:
    if not labels:
        return True
    found = value_at(item.manifest, "metadata", "labels")
    return isinstance(found, Mapping) and all(found.get(name) == text for name, text in labels.items())


_METADATA = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "labels")
_encode = msgspec.json.Encoder().encode


def _keep(raw: Manifest) -> Kept:
    return _packed(raw, raw.get("spec"), raw.get("status"))


def _keep_replica(raw: Manifest) -> Kept:
    """Without the pods that it is made of, which nothing here reads and which are most of it."""
    spec = raw.get("spec")
    engines = value_at(raw, "spec", "engines")
    lean = [_without_templates(engine) for engine in engines] if isinstance(engines, list) else engines
    kept = {**spec, "engines": lean} if isinstance(spec, Mapping) else spec
    return _packed(raw, kept, {"conditions": value_at(raw, "status", "conditions") or []})


_NO_PODS: Manifest = {"spec": {"containers": []}}
"""A replica without a template cannot be read, and one that cannot be read holds nothing."""


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


def _keep_deployment(raw: Manifest) -> Kept:
    """Whether it waits for room, and no more: its own calls bring the rest."""
    conditions = value_at(raw, "status", "conditions")
    waits = any(
        isinstance(item, Mapping) and item.get("type") == "ReplicasScheduled" and item.get("status") != "True"
        for item in (conditions if isinstance(conditions, list) else ())
    )
    return _packed(raw, None, {"waiting": waits})


def _packed(raw: Manifest, spec: object, status: object) -> Kept:
    metadata = raw.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    kept = {name: known[name] for name in _METADATA if name in known}
    shown = {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), "metadata": kept, "spec": spec}
    return Kept(_encode({**shown, "status": status or {}}), text_at(raw, "metadata", "annotations", WAKE_ANNOTATION))
