"""A workload cluster of a world: provider-kubernetes, nodes with devices, pods of engines, routes and a gateway.

The provider applies the manifests of Objects here and reports them back. A workload's pods take devices of one node of
their pool, become ready after a start, and lose their devices with their node. Who binds first is decided as badly as
a scheduler may: a pod takes any node that has room. Claims and the Jobs that fill them are in `weights`.

Not modelled: gangs, clusters that pack tightly, several kinds of devices on a pool, CPU and memory, image pulls, and
the time pods take to end.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from modelplane.api.labels import POOL, RENDERED, REPLICA
from modelplane.api.objects import (
    Manifest,
    annotations_of,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.store import ApiStore, ObjectId, WorldChange, id_of
from modelplane.testing.world.weights import CLAIM, ClusterVolumes, claims_of

_SYNC_S = 0.5
_RETRY_S = 5.0
_NEVER = float("inf")
_WORKLOADS = frozenset({"Deployment"})


@dataclass(slots=True)
class WorldNode:
    devices: int
    ready: bool = True
    lost: int = 0

    @property
    def usable(self) -> int:
        return max(self.devices - self.lost, 0) if self.ready else 0


@dataclass(slots=True)
class EnginePod:
    stamp: str
    """Of the template that it was made from."""
    devices: int
    node: int | None = None
    ready_at: float = _NEVER
    hung: bool = False

    def is_ready(self, now: float) -> bool:
        return self.node is not None and self.ready_at <= now


@dataclass(slots=True)
class EngineTrouble:
    start_s: float = 4.0
    never_ready: bool = False


@dataclass(slots=True)
class _Workload:
    pool: str
    pods: list[EnginePod] = field(default_factory=list)
    starts: bool = True
    """Whether what its pods mount is there."""


class WorkloadCluster:
    def __init__(
        self,
        name: str,
        store: ApiStore,
        clock: Clockwork,
        random: Random,
        on_empty: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_empty` is told of an engine that would start on an empty directory."""
        self.name = name
        self._store, self._clock, self._random = store, clock, random
        self.reachable = True
        self.dark = False
        """Whether nobody reaches its engines either: the whole cluster is lost, and not its API alone."""
        self.engines = EngineTrouble()
        self.volumes = ClusterVolumes(clock)
        self._on_empty = on_empty
        self.nodes: dict[str, list[WorldNode]] = {}
        self.there: dict[ObjectId, Manifest] = {}
        self.workloads: dict[ObjectId, _Workload] = {}
        self._objects: dict[ObjectId, None] = {}
        self._dirty: dict[ObjectId, None] = {}
        self._planned = False
        self._closed = False
        store.listeners.append(self._notice)
        for item in store.all_of("Object"):
            if text_at(item, "spec", "providerConfigRef", "name") == name:
                self._objects[id_of(item)] = self._dirty[id_of(item)] = None

    @property
    def author(self) -> str:
        return f"provider {self.name}"

    def close(self) -> None:
        """The cluster is gone."""
        self._closed = True

    def set_pool(self, pool: str, nodes: int, devices: int) -> None:
        """So many nodes; the last ones go first, and their pods with them."""
        known = self.nodes.setdefault(pool, [])
        if len(known) == nodes and all(node.devices == devices for node in known):
            return
        del known[nodes:]
        for node in known:
            node.devices = devices
        known += [WorldNode(devices) for _ in range(nodes - len(known))]
        self.shake()

    def serves(self, namespace: str, replica: str) -> bool:
        """Whether a pod of the replica answers requests. `namespace` is the one on this cluster."""
        now = self._clock.elapsed
        return not self.dark and any(pod.is_ready(now) and not pod.hung for pod in self.pods_of(namespace, replica))

    def pods_of(self, namespace: str, replica: str) -> Iterator[EnginePod]:
        for key, workload in self.workloads.items():
            if key.namespace == namespace and labels_of(self.there[key]).get(REPLICA) == replica:
                yield from workload.pods

    def pods(self) -> list[EnginePod]:
        return [pod for workload in self.workloads.values() for pod in workload.pods]

    def restart_pod(self, pod: EnginePod) -> None:
        pod.hung = False
        pod.ready_at = _NEVER if self.engines.never_ready else self._clock.elapsed + self.engines.start_s
        self.shake()
        self._clock.after(self.engines.start_s, self.shake)

    def calm(self) -> None:
        self.reachable, self.dark, self.engines = True, False, EngineTrouble()
        self.volumes.calm()
        for nodes in self.nodes.values():
            for node in nodes:
                node.ready, node.lost = True, 0
        for pod in self.pods():
            if pod.hung or (pod.node is not None and pod.ready_at > self._clock.elapsed + self.engines.start_s):
                self.restart_pod(pod)
        self.touch_all()

    def claims(self) -> list[Manifest]:
        return [item for key, item in self.there.items() if key.kind == CLAIM]

    def mounts(self, claim: Manifest) -> bool:
        """Whether a workload mounts it."""
        return any(id_of(claim) in claims_of(self.there[key]) for key in self.workloads if key in self.there)

    def delete_claim(self, claim: Manifest) -> None:
        """By hand, with its content. The provider makes it anew."""
        self.volumes.meddled = True
        self._remove(id_of(claim))
        self.touch_all()

    def touch_all(self) -> None:
        """Every object is synced again, or fails to be."""
        self._dirty |= self._objects
        self.shake()

    def shake(self) -> None:
        """Something changed here: look at everything soon."""
        if not self._planned:
            self._planned = True
            self._clock.after(_SYNC_S, self._sync)

    def _notice(self, change: WorldChange) -> None:
        shown = change.manifest or change.before
        if self._closed or change.id.kind != "Object" or change.by == self.author or shown is None:
            return
        if text_at(shown, "spec", "providerConfigRef", "name") == self.name:
            self._objects[change.id] = self._dirty[change.id] = None
            self.shake()

    def _sync(self) -> None:
        self._planned = False
        if self._closed:
            return
        dirty, self._dirty = self._dirty, {}
        if not self.reachable:
            self._dirty = {**dirty}
            for key in list(self._objects):
                report_failure(self._store, key, f"observe failed: cannot reach {self.name}", self.author)
            return
        for key in sorted(dirty, key=self._namespaces_first):
            self._sync_object(key)
        self._run_pods()
        self._report()

    def _namespaces_first(self, key: ObjectId) -> bool:
        known = self._store.get(key)
        return known is None or text_at(known, "spec", "forProvider", "manifest", "kind") != "Namespace"

    def _sync_object(self, key: ObjectId) -> None:
        item = self._store.get(key)
        if item is None:
            self._objects.pop(key, None)
            return
        wanted = value_at(item, "spec", "forProvider", "manifest")
        if not isinstance(wanted, Mapping):
            return
        policies = value_at(item, "spec", "managementPolicies")
        if is_deleting(item):
            if isinstance(policies, list) and "*" in policies:
                self._remove(id_of(wanted))
            self._objects.pop(key, None)
            self._store.release(key, self.author)
        elif not self._apply(wanted):
            self._dirty[key] = None
            self._clock.after(_RETRY_S, self.shake)

    def _apply(self, wanted: Manifest) -> bool:
        key = id_of(wanted)
        if key.namespace and ObjectId("Namespace", "", key.namespace) not in self.there:
            return False
        known = self.there.get(key)
        if known is not None and value_at(known, "spec") == value_at(wanted, "spec"):
            metadata = {**_metadata(wanted), "generation": int_at(known, "metadata", "generation")}
            metadata |= self.volumes.metadata(wanted, known)
            self.there[key] = {**known, "metadata": metadata}
            return True
        generation = int_at(known, "metadata", "generation") + 1 if known is not None else 1
        status = {"status": known["status"]} if known is not None and "status" in known else {}
        metadata = {**_metadata(wanted), "generation": generation, **self.volumes.metadata(wanted, known)}
        self.there[key] = {**wanted, **status, "metadata": metadata}
        return True

    def _remove(self, key: ObjectId) -> None:
        known = self.there.pop(key, None)
        if known is not None and key.kind == CLAIM:
            self.volumes.full.discard(uid_of(known))
        self.workloads.pop(key, None)
        if key.kind == "Namespace":
            for inside in [each for each in self.there if each.namespace == key.name]:
                self._remove(inside)
            self._dirty |= self._objects
            self._clock.after(_RETRY_S, self.shake)

    def _run_pods(self) -> None:
        for key, item in self.there.items():
            if key.kind == "Job":
                self._run_job(item)
            if key.kind in _WORKLOADS:
                self._match_pods(key, item)
        for pool, nodes in self.nodes.items():
            self._bind(pool, nodes)

    def _run_job(self, job: Manifest) -> None:
        claims = [self.there.get(key) for key in claims_of(job)]
        again = self.volumes.run_job(job, next(iter(claims), None))
        if again is not None:
            self._clock.after(again, self.shake)

    def _match_pods(self, key: ObjectId, item: Manifest) -> None:
        """As many pods as wanted, made from the newest template."""
        pool = text_at(item, "spec", "template", "spec", "nodeSelector", POOL)
        workload = self.workloads.setdefault(key, _Workload(pool))
        workload.pool = pool
        workload.starts = self._has_weights(key, item)
        stamp, wanted = annotations_of(item).get(RENDERED, ""), int_at(item, "spec", "replicas", default=1)
        workload.pods = [pod for pod in workload.pods if pod.stamp == stamp][:wanted]
        devices = self._devices(item, key.namespace)
        if devices is not None:
            workload.pods += [EnginePod(stamp, devices) for _ in range(wanted - len(workload.pods))]

    def _has_weights(self, key: ObjectId, item: Manifest) -> bool:
        """Whether its pods may start: every claim is there, and full."""
        claims = [self.there.get(each) for each in claims_of(item)]
        empty = [each for each in claims if each is not None and uid_of(each) not in self.volumes.full]
        if empty and not self.volumes.meddled:
            self._on_empty(f"{key} on {self.name} mounts {id_of(empty[0])}, which is empty")
        return None not in claims and not empty

    def _devices(self, item: Manifest, namespace: str) -> int | None:
        """What a pod claims; None while a claim template is missing."""
        total = 0
        for claim in items_at(item, "spec", "template", "spec", "resourceClaims"):
            template = self.there.get(
                ObjectId("ResourceClaimTemplate", namespace, text_at(claim, "resourceClaimTemplateName"))
            )
            if template is None:
                return None
            requests = items_at(template, "spec", "spec", "devices", "requests")
            total += sum(int_at(request, "exactly", "count") for request in requests)
        return total

    def _bind(self, pool: str, nodes: list[WorldNode]) -> None:
        there = [workload for workload in self.workloads.values() if workload.pool == pool]
        pods = [pod for workload in there for pod in workload.pods if workload.starts or pod.node is not None]
        free = [node.usable for node in nodes]
        for pod in pods:
            if pod.node is not None and pod.node < len(nodes) and free[pod.node] >= pod.devices:
                free[pod.node] -= pod.devices
            else:
                pod.node, pod.ready_at = None, _NEVER
        for pod in pods:
            room = [at for at, left in enumerate(free) if left >= pod.devices and nodes[at].ready]
            if pod.node is None and room:
                pod.node = self._random.choice(room)
                free[pod.node] -= pod.devices
                self.restart_pod(pod)

    def _report(self) -> None:
        for key in list(self._objects):
            item = self._store.get(key)
            wanted = value_at(item, "spec", "forProvider", "manifest") if item is not None else None
            if item is None or not isinstance(wanted, Mapping) or is_deleting(item):
                continue
            found = self.there.get(id_of(wanted))
            if found is None:
                continue
            shown = self._with_status(id_of(wanted), found)
            self.there[id_of(wanted)] = shown
            conditions = [{"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}]
            self._store.write_status(key, {"atProvider": {"manifest": shown}, "conditions": conditions}, self.author)

    def _with_status(self, key: ObjectId, item: Manifest) -> Manifest:
        generation = int_at(item, "metadata", "generation")
        match key.kind:
            case "Deployment":
                return {**item, "status": self._workload_status(key, item, generation)}
            case "HTTPRoute":
                held = [
                    {"type": kind, "status": "True", "reason": kind, "observedGeneration": generation}
                    for kind in ("Accepted", "ResolvedRefs")
                ]
                return {**item, "status": {"parents": [{"conditions": held}]}}
            case "PersistentVolumeClaim" | "Job":
                return {**item, "status": self.volumes.status(item)}
            case "Gateway":
                return {**item, "status": {"addresses": [{"value": f"{self.name}.example.com"}]}}
            case _:
                return item

    def _workload_status(self, key: ObjectId, item: Manifest, generation: int) -> dict[str, object]:
        pods = self.workloads[key].pods if key in self.workloads else []
        ready = sum(pod.is_ready(self._clock.elapsed) for pod in pods)
        wanted = int_at(item, "spec", "replicas", default=1)
        # As rendered, one pod may be unavailable: the workload of two is available with one.
        available = "True" if ready >= wanted - 1 else "False"
        return {
            "observedGeneration": generation,
            "replicas": len(pods),
            "updatedReplicas": len(pods),
            "availableReplicas": ready,
            "readyReplicas": ready,
            "conditions": [{"type": "Available", "status": available, "reason": "Pods"}],
        }


def report_failure(store: ApiStore, key: ObjectId, message: str, author: str) -> None:
    """The provider says that it cannot read the cluster. What it read last stays in the status."""
    item = store.get(key)
    if item is not None:
        known = item.get("status")
        conditions = [{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": message}]
        status = {**(known if isinstance(known, Mapping) else {}), "conditions": conditions}
        store.write_status(key, status, author)


def _metadata(item: Manifest) -> dict[str, object]:
    found = item.get("metadata")
    return dict(found) if isinstance(found, Mapping) else {}
