"""The providers of clouds and of Helm charts: each managed resource is ready after the time that such a thing takes.

A resource starts when what it refers to is ready. One that is changed is not ready for as long again. A pool whose
InferenceCluster has no stock of its nodes fails as its cloud would, until it is restocked. The annotation of
CLOUD_FAULTS lets any resource fail, with its message.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, Json, Manifest, mapping_at, name_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ChangeType, ObjectRef, Store, StoreChange
from modelplane.sim.cluster.objects import annotation, condition_is
from modelplane.sim.cluster.sim_settings import stock_of

_log = logging.getLogger(__name__)
CLOUD_FAULTS = "sim.modelplane.ai/cloud-faults"
"""Of an InferenceCluster: resources that fail and why, such as `cluster=forbidden; nat=limit reached`."""
_GROUPS = (".m.upbound.io", "helm.m.crossplane.io", "k3s.m.crossplane.io")
_POOL = "cloud-pool-"
_NODE = ".node-"
_POLL_S = 1.0
_RETRY_S = 5.0
_SECONDS: Mapping[str, float] = {
    "Cluster": 480.0,
    "KubernetesCluster": 420.0,
    "Kubernetes": 420.0,
    "KubernetesNodePool": 240.0,
    "Node": 60.0,
    "NodePool": 180.0,
    "NodeGroup": 180.0,
    "KubernetesClusterNodePool": 240.0,
    "NATGateway": 120.0,
    "FileSystem": 60.0,
    "MountTarget": 90.0,
    "Addon": 60.0,
    "Release": 45.0,
}
"""About what they take on the clouds."""
_QUICK_S = 15.0
_STOCKOUTS: Mapping[str, str] = {
    "container.gcp.m.upbound.io": "the zones do not have enough resources for the request (GCE_STOCKOUT)",
    "eks.aws.m.upbound.io": "InsufficientInstanceCapacity: no capacity of the instance type in the zones",
    "containerservice.azure.m.upbound.io": "AllocationFailed: no capacity for the VM size in the zones",
}
"""In the clouds' own words, by API group; others say that there is no capacity."""


@dataclass(frozen=True, slots=True)
class ManagedKey:
    """Whose resource it is, and the composer's key of it."""

    cluster: ClusterName
    key: str


class SimulatedProviders:
    """`changed` is called with a cluster when one of its resources became ready or failed."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        key_of: Callable[[Manifest], ManagedKey | None],
        *,
        speed: float,
        changed: Callable[[ClusterName], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._key_of = key_of
        self._speed = speed
        self._changed = changed
        self._ready: dict[str, ManagedKey] = {}
        self._started: dict[ObjectRef, float] = {}
        self._known: dict[ObjectRef, str] = {}
        self.loop: Loop[ObjectRef] = Loop(self._reconcile, clock=clock, on_failed=_report)
        store.subscribe(self._on_change)

    def restore(self, kinds: Iterator[tuple[str, str]]) -> None:
        """Take up what is stored already."""
        for group, kind in kinds:
            for item in self._store.list(group, kind) if _is_managed(group) else ():
                self._note(ObjectRef(group, kind, text_at(item, "metadata", "namespace"), name_of(item)), item)

    def ready_keys(self, cluster: ClusterName) -> frozenset[str]:
        """The keys of the resources of a cluster that are ready."""
        return frozenset(found.key for found in self._ready.values() if found.cluster == cluster)

    def _on_change(self, change: StoreChange) -> None:
        if change.ref.group == GROUP and change.ref.kind == "InferenceCluster":
            for ref in [ref for ref, owner in self._known.items() if owner == change.ref.name]:
                self.loop.add(ref)
        if not _is_managed(change.ref.group):
            return
        if change.type is ChangeType.DELETED:
            self._forget(change.ref, change.manifest)
        else:
            self._note(change.ref, change.manifest)

    def _note(self, ref: ObjectRef, item: Manifest) -> None:
        owner = self._key_of(item)
        if owner is None:
            return
        self._known[ref] = owner.cluster
        if _is_ready(item):
            self._ready[name_of(item)] = owner
        elif condition_is(item, "Ready"):
            self._started.pop(ref, None)
        self.loop.add(ref)

    def _forget(self, ref: ObjectRef, item: Manifest) -> None:
        owner = self._ready.pop(name_of(item), None)
        self._known.pop(ref, None)
        self._started.pop(ref, None)
        self.loop.forget(ref)
        if owner is not None:
            self._changed(owner.cluster)

    async def _reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        owner = self._key_of(item) if item is not None else None
        if item is None or owner is None or _is_ready(item):
            return Done()
        fault = self._fault(owner, ref.group)
        if fault:
            self._write(item, _failed(ref.kind, fault), owner)
            return RequeueAfter(_RETRY_S)
        if not all(name in self._ready for name in references(mapping_at(item, "spec", "forProvider"))):
            return RequeueAfter(_POLL_S)
        now = self._clock.now()
        left = self._started.setdefault(ref, now) + _SECONDS.get(ref.kind, _QUICK_S) / self._speed - now
        if left > 0:
            return RequeueAfter(left)
        self._write(item, {"Ready": "", "Synced": ""}, owner)
        self._ready[name_of(item)] = owner
        self._changed(owner.cluster)
        return Done()

    def _fault(self, owner: ManagedKey, group: str) -> str:
        cluster = self._store.get(ObjectRef(GROUP, "InferenceCluster", "", owner.cluster))
        if cluster is None:
            return ""
        pool = owner.key.removeprefix(_POOL).partition(_NODE)[0]
        if owner.key.startswith(_POOL) and stock_of(cluster).get(pool) == 0:
            return _STOCKOUTS.get(group, "no capacity for the pool")
        return faults_of(annotation(cluster, CLOUD_FAULTS)).get(owner.key.removeprefix("cloud-"), "")

    def _write(self, item: Manifest, said: Mapping[str, str], owner: ManagedKey) -> None:
        """Conditions with a message are False, the others are True."""
        conditions = [
            {
                "type": kind,
                "status": "False" if message else "True",
                "reason": "Available" if not message else "Failed",
                "message": message,
                "observedGeneration": mapping_at(item, "metadata").get("generation"),
                "lastTransitionTime": timestamp(self._clock.now()),
            }
            for kind, message in said.items()
        ]
        status: Json = {"conditions": conditions, "atProvider": _reported(name_of(item))}
        before = {(text_at(each, "type"), text_at(each, "message")) for each in _conditions(item)}
        if before == set(said.items()) and (_is_ready(item) or not condition_is(item, "Ready")):
            return
        self._store.replace_status({**item, "status": status})
        self._changed(owner.cluster)


def made_nodes(pool: str, declared: int, made: frozenset[str]) -> int:
    """The nodes of a pool whose resources are ready: all at once, or one by one."""
    if f"{_POOL}{pool}" in made:
        return declared
    return sum(key.startswith(f"{_POOL}{pool}{_NODE}") for key in made)


def _reported(name: str) -> Json:
    """What only the cloud knows of a resource: of all kinds that composers read something of."""
    return {
        "id": name,
        "email": f"{name}@sim.example",
        "identity": {"principalId": name},
        "vpcConfig": {"clusterSecurityGroupId": f"sg-{name}"},
    }


def _conditions(item: Manifest) -> list[Manifest]:
    found = mapping_at(item, "status").get("conditions")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _is_ready(item: Manifest) -> bool:
    """As it is wanted now."""
    generation = mapping_at(item, "metadata").get("generation")
    seen = [each.get("observedGeneration", generation) for each in _conditions(item) if each.get("type") == "Ready"]
    return condition_is(item, "Ready") and seen == [generation]


def _failed(kind: str, message: str) -> dict[str, str]:
    """Where the provider of such a resource says it."""
    if kind == "Release":
        return {"Ready": "not made", "Synced": f"create failed: failed to install release: {message}"}
    return {"Ready": "not made", "Synced": "", "LastAsyncOperation": message}


def references(body: object) -> Iterator[str]:
    """The names of the resources that one refers to."""
    if not isinstance(body, Mapping):
        return
    for name, value in body.items():
        refs = value if name.endswith("Refs") else [value] if name.endswith("Ref") else []
        if isinstance(refs, list | tuple):
            yield from (str(each["name"]) for each in refs if isinstance(each, Mapping) and "name" in each)
        yield from references(value)


def faults_of(text: str) -> dict[str, str]:
    """The faults of the annotation by resource; what is not written so is ignored."""
    entries = (entry.partition("=") for entry in text.split(";"))
    return {name.strip(): message.strip() for name, _, message in entries if name.strip() and message.strip()}


def _is_managed(group: str) -> bool:
    return group.endswith(_GROUPS)


def _report(ref: ObjectRef, error: Exception, attempt: int) -> None:
    extra = about(LogReason.NOT_SIMULATED, ref.kind, ref.name, ref.namespace)
    _log.error("%s cannot be simulated (attempt %d): %r", ref, attempt, error, exc_info=error, extra=extra)
