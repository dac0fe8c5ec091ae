"""What a server with --live knows of the fleet: requirements from the informers, and the fleet with assumed replicas.

A replica that was just placed is assumed: it counts before it is observed, so two deployments cannot take the same
devices through one server. What it preempts goes when it is observed: its write may be refused. Two servers may place
at once; the next pass of the later deployment resolves that, when both replicas are observed. Until every kind is
listed, nothing is known and Crossplane fetches.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any

from modelplane.api.labels import CLUSTER
from modelplane.api.objects import GROUP, Manifest, text_at, value_at
from modelplane.compose.contract import Requirement
from modelplane.crossplane.fleet_informers import DEPLOYMENTS, KIND_NAMES, REPLICAS, CachedObject, FleetInformers
from modelplane.crossplane.workload_informers import WorkloadInformers
from modelplane.kube import ChangeKind, GroupVersionResource, InformerEvent, NamespacedName
from modelplane.placement.snapshot import Fleet
from modelplane.reconcile.live_fleet import LiveFleet
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

_KINDS = {name: kind for kind, name in KIND_NAMES.items()}
_ASSUMED_S = 60.0
"""How long a replica is assumed that is never observed."""


class InformerFleetCache:
    """The FleetCache of a server that watches. `lock` is held while a ModelDeployment is decided."""

    def __init__(
        self,
        informers: FleetInformers,
        workloads: WorkloadInformers | None,
        lock: RLock,
        *,
        capacity_changed: Callable[[], None],
    ) -> None:
        self._informers = informers
        self._workloads = workloads
        self._lock = lock
        self._fleet = LiveFleet(capacity_changed=capacity_changed)
        self._assumed: dict[ObjectRef, float] = {}

    def on_event(self, kind: GroupVersionResource, event: InformerEvent[CachedObject]) -> None:
        ref = _ref(kind, event.key)
        self._assumed.pop(ref, None)
        if kind != DEPLOYMENTS:
            change = ChangeType.DELETED if event.change is ChangeKind.DELETED else ChangeType.MODIFIED
            self._fleet.apply(StoreChange(change, ref, event.value.manifest, None, 0))

    def fleet(self) -> Fleet | None:
        if not self._informers.synced:
            return None
        with self._lock:
            self._expire_assumed()
            return self._fleet.snapshot()

    def snapshot(self) -> Fleet:
        """The fleet as the events made it, listed or not."""
        return self._fleet.snapshot()

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        if requirement.cluster is not None:
            return self._workloads.find(requirement) if self._workloads is not None else None
        kind = _KINDS.get(requirement.kind)
        if kind is None or not self._informers.synced:
            return None
        with self._lock:
            return tuple(item.manifest for item in self._matching(kind, requirement))

    def decision_lock(self, kind: str) -> AbstractContextManager[Any]:
        """Deployments are decided one after the other, so each sees the replicas that the one before placed."""
        return self._lock if kind == "ModelDeployment" else nullcontext()

    def assume(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Count the replicas that a ModelDeployment placed, observed or not."""
        if kind != "ModelDeployment" or not self._informers.synced:
            return
        with self._lock:
            for manifest in manifests:
                key = _key(manifest)
                if manifest.get("kind") == "ModelReplica" and key not in self._informers.objects(REPLICAS):
                    ref = _ref(REPLICAS, key)
                    self._assumed[ref] = time.monotonic() + _ASSUMED_S
                    self._fleet.assume(ref, manifest)

    def _expire_assumed(self) -> None:
        now = time.monotonic()
        for ref in [ref for ref, until in self._assumed.items() if until < now]:
            del self._assumed[ref]
            self._fleet.apply(StoreChange(ChangeType.DELETED, ref, {}, None, 0))

    def _matching(self, kind: GroupVersionResource, requirement: Requirement) -> Iterator[CachedObject]:
        objects = self._informers.objects(kind)
        if requirement.name is not None:
            found = objects.get(NamespacedName(requirement.namespace or "", requirement.name))
            if found is not None:
                yield found
            return
        cluster = requirement.labels.get(CLUSTER) if kind == REPLICAS else None
        for key in sorted(objects if cluster is None else self._informers.replicas_on(cluster)):
            item = objects.get(key)
            if item is not None and requirement.namespace in {None, key.namespace} and _has(item, requirement.labels):
                yield item


def _ref(kind: GroupVersionResource, key: NamespacedName) -> ObjectRef:
    return ObjectRef(GROUP, KIND_NAMES[kind], key.namespace, key.name)


def _key(manifest: Manifest) -> NamespacedName:
    return NamespacedName(text_at(manifest, "metadata", "namespace"), text_at(manifest, "metadata", "name"))


def _has(item: CachedObject, labels: Mapping[str, str]) -> bool:
    if not labels:
        return True
    found = value_at(item.manifest, "metadata", "labels")
    return isinstance(found, Mapping) and all(found.get(name) == text for name, text in labels.items())
