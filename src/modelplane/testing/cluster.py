"""A simulated cluster in virtual time, with engines that only count, and builders for what is put into it."""

import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from modelplane.api.labels import CLUSTER_GATEWAY, GPU_TAINT, POOL, SYSTEM_NAMESPACE
from modelplane.api.models import Attribute, Capacity, ClassDevice
from modelplane.api.objects import Manifest, manifest, name_of
from modelplane.apiserver.store.database import Database, SqliteStore
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec, Running, SimulatedCluster
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.engine import Faults
from modelplane.testing.clock import VirtualClock, run_virtual

T = TypeVar("T")

TENANT_NAMESPACE = "team"


class FakeEngines:
    """Starts nothing, responds at once, and records what runs and how each engine was stopped.

    start_s, warm_s, stop_s: how long starting, a warm-up, and stopping with a grace, take. refuses: why a pod's engine
    does not start. answers: whether probes succeed. shown: the pods that engines were last started for, by name.
    faults: what they were set while they ran.
    """

    simulated = True

    def __init__(self, clock: Clock, *, start_s: float = 0.0, stop_s: float = 0.0) -> None:
        self._clock = clock
        self._ports = itertools.count(20_000)
        self.start_s = start_s
        self.warm_s = 0.0
        self.stop_s = stop_s
        self.refuses: Callable[[Manifest], str | None] = lambda _pod: None
        self.answers = True
        self.running: dict[Running, str] = {}
        self.shown: dict[str, Manifest] = {}
        self.faults: dict[str, Faults] = {}
        self._crashes: dict[Running, Callable[[EngineExit | None], None]] = {}
        self.stopped: list[tuple[str, float]] = []

    async def start(
        self,
        pod: Manifest,
        cluster: str,
        *,
        store: ClusterStore | None = None,  # noqa: ARG002  it reads nothing
        crashed: Callable[[EngineExit | None], None] = lambda _ended: None,
    ) -> Running:
        await self._clock.sleep(self.start_s)
        if reason := self.refuses(pod):
            raise RuntimeError(reason)
        running = Running("127.0.0.1", next(self._ports))
        self.running[running] = f"{cluster}/{name_of(pod)}"
        self._crashes[running] = crashed
        self.shown[name_of(pod)] = pod
        return running

    async def start_picker(self, pod: Manifest, _store: ClusterStore) -> Running:
        return await self.start(pod, "picker")

    def crash(self) -> None:
        """Every engine that runs ends by itself."""
        for running in list(self.running):
            self._crashes[running](None)

    async def warm_up(self, _running: Running, _words: Sequence[str]) -> None:
        await self._clock.sleep(self.warm_s)

    async def healthy(self, running: Running) -> bool:
        return self.answers and running in self.running

    def set_faults(self, running: Running, faults: Faults) -> None:
        self.faults[self.running[running]] = faults

    async def stop(self, running: Running, *, grace_s: float) -> None:
        self.stopped.append((self.running.pop(running), grace_s))
        if grace_s:
            await self._clock.sleep(self.stop_s)


@dataclass(frozen=True, slots=True)
class ClusterLab:
    """A started cluster and what is behind it."""

    cluster: SimulatedCluster
    store: SqliteStore
    clock: VirtualClock
    engines: FakeEngines
    broken: list[tuple[object, Exception]] = field(default_factory=list)

    async def settle(self, seconds: float = 600.0) -> None:
        if not await self.cluster.settle(seconds, quiet_s=60.0):
            raise AssertionError(f"the cluster did not settle in {seconds} s: {self.cluster.stats()}")

    def apply(self, *items: Manifest) -> None:
        """Create, or replace what is there."""
        for item in items:
            ref = ref_of(item)
            if self.store.get(ref) is None:
                self.cluster.api.create(item)
            else:
                self.cluster.api.replace(item)

    def get(self, item: Manifest) -> Manifest:
        found = self.store.get(ref_of(item))
        if found is None:
            raise AssertionError(f"{ref_of(item)} is not there")
        return found

    def pods(self) -> tuple[Manifest, ...]:
        return self.store.list("", "Pod")

    def claims(self) -> tuple[Manifest, ...]:
        return self.store.list("resource.k8s.io", "ResourceClaim")


def run_cluster(
    main: Callable[[ClusterLab], Coroutine[object, object, T]],
    *,
    pools: Iterable[NodePoolSpec] = (),
    settings: ClusterSettings | None = None,
    seed: int | None = None,
) -> T:
    """Run `main` with a cluster named east and a tenant's namespace. A defect of a controller fails the run."""

    async def inside(clock: VirtualClock) -> T:
        made = make_lab(clock, settings or ClusterSettings(system_nodes=0))
        made.cluster.set_pools(pools)
        made.cluster.api.create(manifest("v1", "Namespace", TENANT_NAMESPACE))
        await made.cluster.start()
        try:
            result = await main(made)
        finally:
            await made.cluster.stop()
        if made.broken:
            where, error = made.broken[0]
            raise AssertionError(f"{len(made.broken)} passes or listeners broke, the first over {where}") from error
        return result

    return run_virtual(inside, seed=seed)


def make_lab(clock: VirtualClock, settings: ClusterSettings, database: Database | None = None) -> ClusterLab:
    broken: list[tuple[object, Exception]] = []
    kept = database or make_database(clock, broken)
    store, engines = kept.store("cluster/east"), FakeEngines(clock)
    cluster = SimulatedCluster(
        "east", store, clock, engines, settings, on_failed=lambda work, error, _: broken.append((work, error))
    )
    return ClusterLab(cluster, store, clock, engines, broken)


def make_database(clock: VirtualClock, broken: list[tuple[object, Exception]]) -> Database:
    """In memory, with ids that count, and listeners whose failures are kept."""
    ids = itertools.count(1)
    return Database(
        None,
        clock=clock,
        new_id=lambda: f"uid-{next(ids):04d}",
        listener_failed=lambda change, error: broken.append((change, error)),
    )


def gpu_pool(name: str = "h200", nodes: int = 1, *, gpus: int = 8, memory: str = "141Gi") -> NodePoolSpec:
    gpu = ClassDevice(
        name="gpu",
        driver="gpu.nvidia.com",
        device_class_name="gpu.nvidia.com",
        count=gpus,
        attributes={"type": Attribute(string="gpu"), "architecture": Attribute(string="Hopper")},
        capacity={"memory": Capacity(value=memory)},
    )
    return NodePoolSpec(name=name, nodes=nodes, devices=(gpu,))


def claim_template(name: str = "model", *, gpus: int = 1, selector: str | None = None) -> dict[str, object]:
    exactly: dict[str, object] = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": gpus}
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    requests = [{"name": "gpu", "exactly": exactly}]
    return manifest(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        name,
        namespace=TENANT_NAMESPACE,
        spec={"spec": {"devices": {"requests": requests}}},
    )


def deployment(
    name: str = "model",
    replicas: int = 1,
    *,
    pool: str = "h200",
    claims: bool = True,
    annotations: Mapping[str, str] | None = None,
    image: str = "vllm/vllm-openai:v1",
    **spec: object,
) -> dict[str, object]:
    """A small rendered replica: `spec` adds to the Deployment's own."""
    container = {"name": "engine", "image": image, "ports": [{"name": "http", "containerPort": 8000}]}
    pod: dict[str, object] = {"nodeSelector": {POOL: pool}, "containers": [container]}
    if claims:
        pod["tolerations"] = [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
        pod["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": name}]
    metadata: dict[str, object] = {"labels": {"app": name}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    template = {"metadata": metadata, "spec": pod}
    return manifest(
        "apps/v1",
        "Deployment",
        name,
        namespace=TENANT_NAMESPACE,
        spec={"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    )


def service(name: str = "model") -> dict[str, object]:
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]}
    return manifest("v1", "Service", name, namespace=TENANT_NAMESPACE, spec=spec)


def gateway() -> dict[str, object]:
    listeners = [{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}]
    spec = {"gatewayClassName": "envoy", "listeners": listeners}
    api = "gateway.networking.k8s.io/v1"
    return manifest(api, "Gateway", CLUSTER_GATEWAY, namespace=SYSTEM_NAMESPACE, spec=spec)


def route(name: str = "model", *, backend: str | None = None, port: int = 80) -> dict[str, object]:
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"name": backend or name, "port": port}],
    }
    spec = {"parentRefs": [{"name": CLUSTER_GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": [rule]}
    return manifest("gateway.networking.k8s.io/v1", "HTTPRoute", name, namespace=TENANT_NAMESPACE, spec=spec)


def leader_worker_set(
    name: str = "gang",
    replicas: int = 1,
    size: int = 2,
    *,
    pool: str = "h200",
    gpus_from: str | None = "model",
    image: str = "vllm/vllm-openai:v1",
    **spec: object,
) -> dict[str, object]:
    """Groups whose pods each take the devices of a claim template; `spec` adds to the LeaderWorkerSet's own."""
    tolerations = [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
    pod: dict[str, object] = {"nodeSelector": {POOL: pool}, "tolerations": tolerations}
    if gpus_from is not None:
        pod["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": gpus_from}]
    worker = {"name": "engine", "image": image, "env": [{"name": "A", "value": "$(LWS_LEADER_ADDRESS)"}]}
    leader = {**worker, "ports": [{"name": "http", "containerPort": 8000}]}
    template = {
        "size": size,
        "leaderTemplate": {"metadata": {"labels": {"app": name}}, "spec": {**pod, "containers": [leader]}},
        "workerTemplate": {"metadata": {"labels": {"part": name}}, "spec": {**pod, "containers": [worker]}},
    }
    return manifest(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        name,
        namespace=TENANT_NAMESPACE,
        spec={"replicas": replicas, "leaderWorkerTemplate": template, **spec},
    )
