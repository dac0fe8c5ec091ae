"""A simulated Kubernetes cluster: its controllers over one store, one workqueue and real engines.

Every controller is level-based:

    nodes            hardware: Nodes, ResourceSlices, DeviceClasses         what the pools declare
    node-lifecycle   unreachable, cordoned and removed nodes, evictions     kube-controller-manager
    deployments      ReplicaSets of a Deployment, rollouts, its status      kube-controller-manager
    replicasets      pods of a ReplicaSet                                   kube-controller-manager
    leaderworkersets StatefulSets of leaders and of their workers, status   LeaderWorkerSet's controller and webhook
    podcliquesets    pods of a PodCliqueSet, status                         Grove's controllers
    jobs             pods of a Job, until enough have succeeded             kube-controller-manager
    volumes          PersistentVolumes of claims                            kube-controller-manager and a provisioner
    inferencepools   status of InferencePools                               the Gateway controller
    llminferenceservices  workloads, Service and pool of one                KServe
    statefulsets     pods of a StatefulSet                                  kube-controller-manager
    claims           ResourceClaims from templates, their release           kube-controller-manager
    scheduler        binding, DRA allocation                                kube-scheduler
    podgrouper       PodGroups for pods that name none, their status        KAI's and Volcano's controllers
    queues           use of the queues                                      KAI's and Volcano's controllers
    kueue            Workloads, their admission, use of the queues          Kueue
    kubelet          containers, engines, pod status                        kubelet
    services         EndpointSlices                                         kube-controller-manager
    gateways         status of Gateways and HTTPRoutes                      the Gateway controller
    gateway-view     what the gateway's proxy serves                        the Gateway controller
    garbage          dependents of deleted objects                          kube-controller-manager
    namespaces       contents of deleted namespaces                         kube-controller-manager

They communicate through objects only. A change of the store enqueues objects for the controllers that depend on it.

Statuses report what was simulated. Not modelled: CPU and memory of nodes, DNS and cluster addresses, cluster
autoscaling, Events other than warnings, preemption, and defaults that a real API server writes into
specs. Each controller documents what it leaves out. Objects of other kinds are stored and ignored.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import Json, Manifest, is_deleting, manifest
from modelplane.envoy.view import GatewayView
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop, LoopStats
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.settings import LoopSettings
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.api import ClusterApi
from modelplane.sim.cluster.claims import Claims
from modelplane.sim.cluster.compute_domains import ComputeDomains
from modelplane.sim.cluster.controller import ClusterController, ClusterStore, ControllerContext, WorkItem
from modelplane.sim.cluster.deployments import Deployments
from modelplane.sim.cluster.engines import EngineFactory
from modelplane.sim.cluster.evictions import evictable
from modelplane.sim.cluster.foreign import set_foreign_pods
from modelplane.sim.cluster.garbage import GarbageCollector, Namespaces
from modelplane.sim.cluster.gateway_view import GatewayViewController
from modelplane.sim.cluster.gateways import GatewayController
from modelplane.sim.cluster.grove import PodCliqueSets
from modelplane.sim.cluster.inference_pools import InferencePools
from modelplane.sim.cluster.jobs import Jobs
from modelplane.sim.cluster.kserve import LlmInferenceServices
from modelplane.sim.cluster.kubelet import Kubelet
from modelplane.sim.cluster.kueue import Kueue
from modelplane.sim.cluster.lws import LeaderWorkerSets
from modelplane.sim.cluster.node_lifecycle import NodeLifecycle, node_of, node_ref
from modelplane.sim.cluster.nodes import Nodes
from modelplane.sim.cluster.objects import annotated, with_spec
from modelplane.sim.cluster.podgrouper import PodGrouper
from modelplane.sim.cluster.pools import NodePoolSpec
from modelplane.sim.cluster.prerequisites import apply_prerequisites
from modelplane.sim.cluster.quotas import Queues
from modelplane.sim.cluster.replicasets import ReplicaSets
from modelplane.sim.cluster.scheduler import KubeScheduler
from modelplane.sim.cluster.services import Services
from modelplane.sim.cluster.settings import CRASH, FAULTS, FAULTY_DEVICES, LOST, OUT_OF_MEMORY, ClusterSettings
from modelplane.sim.cluster.sim_settings import SimSettings
from modelplane.sim.cluster.statefulsets import StatefulSets
from modelplane.sim.cluster.volume_folders import VolumeFolders
from modelplane.sim.cluster.volumes import Volumes

_DEFAULTS = ClusterSettings()
# A key such as the scheduler's stands for every pod of the cluster, so many changes a second are no conflict.
_LOOP = LoopSettings(breaker_passes=20_000)

OnFailed = Callable[[WorkItem, Exception, int], None]


class SimulatedCluster:
    """One cluster. Others read and write its objects through `api`."""

    def __init__(
        self,
        name: str,
        store: ClusterStore,
        clock: Clock,
        engines: EngineFactory,
        settings: ClusterSettings = _DEFAULTS,
        *,
        on_failed: OnFailed | None = None,
    ) -> None:
        self.name = name
        self.api = ClusterApi(name, store)
        self._store = store
        self._clock = clock
        self._settings = settings
        context = ControllerContext(name, store, clock, settings)
        self._loop: Loop[WorkItem] = Loop(self._reconcile, clock=clock, workers=1, settings=_LOOP, on_failed=on_failed)
        self._nodes = Nodes(context)
        self._kubelet = Kubelet(context, engines, self._enqueuer(Kubelet.name))
        self._gateways = GatewayController(context)
        self._gateway_view = GatewayViewController(context, self._gateways)
        self._controllers = _by_name(
            [self._nodes, *_others(context), self._kubelet, self._gateways, self._gateway_view]
        )
        self._by_kind: dict[tuple[str, str], Sequence[ClusterController]] = {}
        self.pools: tuple[NodePoolSpec, ...] = ()
        self._unsubscribe: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def reachable(self) -> bool:
        """Whether the cluster's API is reachable."""
        return self.api.reachable

    @property
    def started(self) -> bool:
        return self._task is not None

    def set_pools(self, pools: Iterable[NodePoolSpec]) -> None:
        """Set the hardware. Pods of removed nodes are lost."""
        self.pools = tuple(pools)
        self._nodes.set_pools(self.pools)
        self._loop.add(WorkItem(Nodes.name, self._nodes.key))

    def set_prerequisites(self, objects: Iterable[Json]) -> None:
        """Set the objects that a platform team creates beforehand."""
        with self._store.batch():
            apply_prerequisites(self._store, objects)

    def set_sim_settings(self, sim_settings: SimSettings) -> None:
        """Set the defaults for pods without simulation annotations."""
        before, self._kubelet.sim_settings = self._kubelet.sim_settings, sim_settings
        if before.faults != sim_settings.faults:
            for pod in self._store.list("", "Pod"):
                self._loop.add(WorkItem(Kubelet.name, ref_of(pod)))

    def set_gateway_address(self, address: str | None) -> None:
        """Set the address of the cluster's gateway, `host:port`."""
        self._gateways.address = address
        for ref in self._gateways.all():
            self._loop.add(WorkItem(GatewayController.name, ref))
        self._loop.add(WorkItem(GatewayViewController.name, self._gateway_view.key))

    def gateway_view(self) -> GatewayView | None:
        """What the cluster's gateway serves; None while it is unreachable."""
        return self._gateway_view.view() if self.reachable else None

    def on_gateway_view_change(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever `gateway_view` changed."""
        self._gateway_view.subscribe(listener)

    def stats(self) -> LoopStats[WorkItem]:
        return self._loop.stats()

    async def settle(self, within_s: float, *, quiet_s: float = 1.0) -> bool:
        """Wait until the cluster has nothing to do for quiet_s; False when time ran out."""
        ends = self._clock.monotonic() + within_s
        while (left := ends - self._clock.monotonic()) > 0 and await self._loop.settle(left, quiet_s=quiet_s):
            if not self._kubelet.busy:
                return True
            await self._kubelet.wait_for_event(ends - self._clock.monotonic())
        return False

    async def caught_up(self, within_s: float = 60.0) -> bool:
        """Wait until every object was reconciled: from then on statuses are up to date."""
        return await self._loop.settle(within_s, quiet_s=0.0)

    async def start(self) -> None:
        """Start the controllers."""
        if self._task is not None:
            raise RuntimeError(f"cluster {self.name} is already running")
        for namespace in self._settings.namespaces:
            if self._store.get(ObjectRef("", "Namespace", "", namespace)) is None:
                self._store.create(manifest("v1", "Namespace", namespace))
        self._unsubscribe = self._store.subscribe(self._on_change)
        self._enqueue_all()
        self._task = asyncio.create_task(self._loop.run(), name=f"cluster {self.name}")

    async def stop(self) -> None:
        """Stop the controllers and every engine. The objects stay as they are."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._unsubscribe is not None:
            self._unsubscribe()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._kubelet.power_off()

    async def run(self) -> None:
        """Run until cancelled."""
        await self.start()
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        finally:
            await self.stop()

    async def fail(self) -> None:
        """Fail the cluster: its API becomes unreachable, its engines stop, its objects stay as they are."""
        self.api.reachable = False
        self._gateway_view.close()
        await self._kubelet.power_off()

    async def recover(self) -> None:
        """Recover the cluster, as after a power cut: every container restarts."""
        self.api.reachable = True
        self._enqueue_all()

    def lose_node(self, name: str) -> None:
        """Lose a node. It turns NotReady after node_grace_s."""
        self._store.replace(annotated(self._node(name), LOST, repr(self._clock.now())))

    def restore_node(self, name: str) -> None:
        self._store.replace(annotated(self._node(name), LOST, None))

    def cordon_node(self, name: str, *, cordoned: bool = True) -> None:
        """Mark a node unschedulable. Its pods stay."""
        self._store.replace(with_spec(self._node(name), unschedulable=cordoned))

    def taint_devices(self, name: str, devices: str) -> None:
        """Its driver taints these devices of a node, separated by commas, as unhealthy. Empty: none of them."""
        self._store.replace(annotated(self._node(name), FAULTY_DEVICES, devices or None))

    def drain_node(self, name: str) -> tuple[int, int]:
        """Cordon a node and evict its pods. Returns how many are evicted, and how many their budgets keep for now."""
        self.cordon_node(name)
        everywhere = self._store.list("", "Pod")
        pods = [pod for pod in everywhere if node_of(pod) == name and not is_deleting(pod)]
        evicted = evictable(pods, everywhere, self._store.list("policy", "PodDisruptionBudget"))
        with self._store.batch():
            for pod in evicted:
                self._store.delete(ref_of(pod))
        return len(evicted), len(pods) - len(evicted)

    def crash_pod(self, namespace: str, name: str) -> None:
        """Its containers exit once and restart."""
        self._store.replace(annotated(self._pod(namespace, name), CRASH, repr(self._clock.now())))

    def kill_pod(self, namespace: str, name: str) -> None:
        """Its engine is killed for want of memory, and restarts."""
        mark = f"{OUT_OF_MEMORY} {self._clock.now()!r}"
        self._store.replace(annotated(self._pod(namespace, name), CRASH, mark))

    def empty_volumes(self, namespace: str, cache: str) -> int:
        """Remove what is on the volumes of a cache, as by hand. Returns how many there are."""
        return VolumeFolders(self._settings.volumes, self.name, self._store).empty(namespace, cache)

    def set_foreign_pods(self, pool: str, *, gpus: int, count: int) -> None:
        """Have pods of others on a pool."""
        set_foreign_pods(self._store, self.pools, pool, gpus=gpus, count=count)

    def set_faults(self, namespace: str, name: str, faults: str | None) -> None:
        """Set the faults of a pod's engine."""
        self._store.replace(annotated(self._pod(namespace, name), FAULTS, faults))

    def _pod(self, namespace: str, name: str) -> Manifest:
        pod = self._store.get(ObjectRef("", "Pod", namespace, name))
        if pod is None:
            raise NotFoundError(f"cluster {self.name} has no pod {namespace}/{name}")
        return pod

    def _node(self, name: str) -> Manifest:
        node = self._store.get(node_ref(name))
        if node is None:
            raise NotFoundError(f"cluster {self.name} has no node {name}")
        return node

    async def _reconcile(self, work: WorkItem) -> Outcome:
        if not self.reachable:
            return Done()
        with self._store.batch():
            return self._controllers[work.controller].reconcile(work.ref)

    def _on_change(self, change: StoreChange) -> None:
        for controller in self._listeners(change.ref.group, change.ref.kind):
            for ref in controller.enqueue_for(change):
                self._loop.add(WorkItem(controller.name, ref))

    def _listeners(self, group: str, kind: str) -> Sequence[ClusterController]:
        """The controllers that depend on a kind."""
        found = self._by_kind.get((group, kind))
        if found is None:
            everyone = self._controllers.values()
            found = [each for each in everyone if each.kinds is None or (group, kind) in each.kinds]
            self._by_kind[group, kind] = found
        return found

    def _enqueue_all(self) -> None:
        """The kubelet first: engines of an earlier process no longer run, and must not get requests."""
        for pod in self._store.list("", "Pod"):
            self._loop.add(WorkItem(Kubelet.name, ref_of(pod)))
        for group, kind in self._store.kinds():
            for item in self._store.list(group, kind):
                self._on_change(StoreChange(ChangeType.ADDED, ref_of(item), item, None, self._store.revision))
        self._loop.add(WorkItem(Nodes.name, self._nodes.key))
        self._loop.add(WorkItem(GatewayViewController.name, self._gateway_view.key))

    def _enqueuer(self, controller: str) -> Callable[[ObjectRef], None]:
        return lambda ref: self._loop.add(WorkItem(controller, ref))


def _others(context: ControllerContext) -> Sequence[ClusterController]:
    """The controllers that need only the context."""
    return [
        NodeLifecycle(context),
        Deployments(context),
        ReplicaSets(context),
        LeaderWorkerSets(context),
        PodCliqueSets(context),
        LlmInferenceServices(context),
        Jobs(context),
        Volumes(context),
        InferencePools(context),
        StatefulSets(context),
        Claims(context),
        ComputeDomains(context),
        KubeScheduler(context),
        PodGrouper(context),
        Queues(context),
        Kueue(context),
        Services(context),
        GarbageCollector(context),
        Namespaces(context),
    ]


def _by_name(controllers: Iterable[ClusterController]) -> dict[str, ClusterController]:
    return {controller.name: controller for controller in controllers}
