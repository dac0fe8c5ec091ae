"""A simulated Kubernetes cluster: its controllers over one store, one work queue and real engines.

Every controller is level-based and owns its part of the truth:

    nodes            hardware: Nodes, ResourceSlices, DeviceClasses         what the pools declare
    node-lifecycle   silent, cordoned and removed nodes, evictions          kube-controller-manager
    deployments      ReplicaSets of a Deployment, rollouts, its status      kube-controller-manager
    replicasets      pods of a ReplicaSet                                   kube-controller-manager
    leaderworkersets StatefulSets of leaders and of their workers, status   LeaderWorkerSet's controller and webhook
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
    edge             what the gateway's proxy should carry                  the Gateway controller
    garbage          dependents of what is gone                             kube-controller-manager
    namespaces       contents of namespaces that are gone                   kube-controller-manager

They talk through objects only. A change of the store wakes those whom it concerns; with no change nothing runs.

Statuses tell what was simulated to happen. Not modelled: CPU and memory, container images beyond the time they take,
DNS and cluster addresses, cluster autoscaling, Events, preemption, and defaults that a real API server writes into
specs. What each controller leaves out is said where it is. Objects of other kinds are
kept and otherwise ignored.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import Json, Manifest, manifest
from modelplane.envoy.view import GatewayView
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop, LoopStats
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.settings import LoopSettings
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange
from modelplane.sim.cluster.api import ClusterApi
from modelplane.sim.cluster.claims import Claims
from modelplane.sim.cluster.controller import ClusterController, ClusterStore, ControllerContext, Work
from modelplane.sim.cluster.deployments import Deployments
from modelplane.sim.cluster.engines import EngineFactory
from modelplane.sim.cluster.garbage import Garbage, Namespaces
from modelplane.sim.cluster.gateway_view import Edge
from modelplane.sim.cluster.gateways import GatewayController
from modelplane.sim.cluster.inference_pools import InferencePools
from modelplane.sim.cluster.jobs import Jobs
from modelplane.sim.cluster.kserve import LlmInferenceServices
from modelplane.sim.cluster.kubelet import Kubelet
from modelplane.sim.cluster.kueue import Kueue
from modelplane.sim.cluster.lws import LeaderWorkerSets
from modelplane.sim.cluster.node_lifecycle import NodeLifecycle, node_of, node_ref
from modelplane.sim.cluster.nodes import Nodes
from modelplane.sim.cluster.objects import annotated, is_deleting, ref_of, with_spec
from modelplane.sim.cluster.podgrouper import PodGrouper
from modelplane.sim.cluster.pools import NodePoolSpec
from modelplane.sim.cluster.prerequisites import put_furniture
from modelplane.sim.cluster.quotas import Queues
from modelplane.sim.cluster.replicasets import ReplicaSets
from modelplane.sim.cluster.scheduler import KubeScheduler
from modelplane.sim.cluster.services import Services
from modelplane.sim.cluster.settings import CRASH, FAULTS, LOST, ClusterSettings
from modelplane.sim.cluster.sim_settings import Knobs
from modelplane.sim.cluster.statefulsets import StatefulSets
from modelplane.sim.cluster.volumes import Volumes

_DEFAULTS = ClusterSettings()
# A key such as the scheduler's stands for every pod of the cluster, so many changes a second are no fight of writers.
_LOOP = LoopSettings(breaker_passes=20_000)

OnFailed = Callable[[Work, Exception, int], None]


class SimulatedCluster:
    """One cluster. `api` is how everyone else reaches its objects."""

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
        site = ControllerContext(name, store, clock, settings)
        self._loop: Loop[Work] = Loop(self._reconcile, clock=clock, workers=1, settings=_LOOP, on_failed=on_failed)
        self._nodes = Nodes(site)
        self._kubelet = Kubelet(site, engines, self._waker(Kubelet.name))
        self._gateways = GatewayController(site)
        self._edge = Edge(site, self._gateways)
        self._controllers = _by_name([self._nodes, *_others(site), self._kubelet, self._gateways, self._edge])
        self._hearing: dict[tuple[str, str], Sequence[ClusterController]] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def reachable(self) -> bool:
        """Whether the cluster's API answers."""
        return self.api.answers

    @property
    def started(self) -> bool:
        return self._task is not None

    def set_pools(self, pools: Iterable[NodePoolSpec]) -> None:
        """The hardware from now on. Nodes that are no longer there lose their pods."""
        self._nodes.set_pools(pools)
        self._loop.add(Work(Nodes.name, self._nodes.key))

    def furnish(self, objects: Iterable[Json]) -> None:
        """What the platform team set up, from now on."""
        with self._store.batch():
            put_furniture(self._store, objects)

    def set_knobs(self, knobs: Knobs) -> None:
        """What holds from here on for pods that do not say it themselves."""
        before, self._kubelet.knobs = self._kubelet.knobs, knobs
        if before.faults != knobs.faults:
            for pod in self._store.list("", "Pod"):
                self._loop.add(Work(Kubelet.name, ref_of(pod)))

    def set_edge_address(self, address: str | None) -> None:
        """Where the cluster's gateway answers, `host:port`."""
        self._gateways.address = address
        for ref in self._gateways.all():
            self._loop.add(Work(GatewayController.name, ref))
        self._loop.add(Work(Edge.name, self._edge.key))

    def edge_view(self) -> GatewayView | None:
        """What the cluster's proxy should carry. None: nothing answers there."""
        return self._edge.view() if self.reachable else None

    def on_edge_change(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever `edge_view` has become another."""
        self._edge.subscribe(listener)

    def stats(self) -> LoopStats[Work]:
        return self._loop.stats()

    async def settle(self, within_s: float, *, quiet_s: float = 1.0) -> bool:
        """Wait until the cluster has nothing to do for quiet_s; False when time ran out."""
        ends = self._clock.monotonic() + within_s
        while (left := ends - self._clock.monotonic()) > 0 and await self._loop.settle(left, quiet_s=quiet_s):
            if not self._kubelet.busy:
                return True
            await self._kubelet.stirs(ends - self._clock.monotonic())
        return False

    async def caught_up(self, within_s: float = 60.0) -> bool:
        """Wait until everything that is there was looked at: from then on statuses tell what is so."""
        return await self._loop.settle(within_s, quiet_s=0.0)

    async def start(self) -> None:
        """Begin to work, on what is in the store and on whatever changes."""
        if self._task is not None:
            raise RuntimeError(f"cluster {self.name} runs already")
        for namespace in self._settings.namespaces:
            if self._store.get(ObjectRef("", "Namespace", "", namespace)) is None:
                self._store.create(manifest("v1", "Namespace", namespace))
        self._unsubscribe = self._store.subscribe(self._heard)
        self._look_at_everything()
        self._task = asyncio.create_task(self._loop.run(), name=f"cluster {self.name}")

    async def stop(self) -> None:
        """Stop working and end every engine. The objects stay as they are."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._unsubscribe is not None:
            self._unsubscribe()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._kubelet.power_off()

    async def run(self) -> None:
        """Work until cancelled."""
        await self.start()
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        finally:
            await self.stop()

    async def fail(self) -> None:
        """The whole cluster goes dark: its API stops answering, its engines stop, its objects freeze."""
        self.api.answers = False
        self._edge.close()
        await self._kubelet.power_off()

    async def recover(self) -> None:
        """The cluster comes back as after a power cut: every container starts again."""
        self.api.answers = True
        self._look_at_everything()

    def lose_node(self, name: str) -> None:
        """The machine is gone; the cluster finds out when its grace time is over."""
        self._store.replace(annotated(self._node(name), LOST, repr(self._clock.now())))

    def restore_node(self, name: str) -> None:
        self._store.replace(annotated(self._node(name), LOST, None))

    def cordon_node(self, name: str, *, cordoned: bool = True) -> None:
        """Pods that are there stay; no more come."""
        self._store.replace(with_spec(self._node(name), unschedulable=cordoned))

    def drain_node(self, name: str) -> int:
        """No more pods come, and those that are there are told to leave. Returns how many."""
        self.cordon_node(name)
        pods = [pod for pod in self._store.list("", "Pod") if node_of(pod) == name and not is_deleting(pod)]
        with self._store.batch():
            for pod in pods:
                self._store.delete(ref_of(pod))
        return len(pods)

    def crash_pod(self, namespace: str, name: str) -> None:
        """Its containers exit once, and are restarted."""
        self._store.replace(annotated(self._pod(namespace, name), CRASH, repr(self._clock.now())))

    def set_faults(self, namespace: str, name: str, faults: str | None) -> None:
        """What goes wrong with the engine of a pod."""
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

    async def _reconcile(self, work: Work) -> Outcome:
        if not self.reachable:
            return Done()
        with self._store.batch():
            return self._controllers[work.controller].reconcile(work.ref)

    def _heard(self, change: StoreChange) -> None:
        for controller in self._listeners(change.ref.group, change.ref.kind):
            for ref in controller.concerns(change):
                self._loop.add(Work(controller.name, ref))

    def _listeners(self, group: str, kind: str) -> Sequence[ClusterController]:
        """Those whom changes of a kind may concern."""
        found = self._hearing.get((group, kind))
        if found is None:
            everyone = self._controllers.values()
            found = [each for each in everyone if each.kinds is None or (group, kind) in each.kinds]
            self._hearing[group, kind] = found
        return found

    def _look_at_everything(self) -> None:
        """The kubelet first: what ran before this process started no longer runs, and nobody should be sent there."""
        for pod in self._store.list("", "Pod"):
            self._loop.add(Work(Kubelet.name, ref_of(pod)))
        for group, kind in self._store.kinds():
            for item in self._store.list(group, kind):
                self._heard(StoreChange(ChangeType.ADDED, ref_of(item), item, None, self._store.revision))
        self._loop.add(Work(Nodes.name, self._nodes.key))
        self._loop.add(Work(Edge.name, self._edge.key))

    def _waker(self, controller: str) -> Callable[[ObjectRef], None]:
        return lambda ref: self._loop.add(Work(controller, ref))


def _others(site: ControllerContext) -> Sequence[ClusterController]:
    """Those that need nothing but the site."""
    return [
        NodeLifecycle(site),
        Deployments(site),
        ReplicaSets(site),
        LeaderWorkerSets(site),
        LlmInferenceServices(site),
        Jobs(site),
        Volumes(site),
        InferencePools(site),
        StatefulSets(site),
        Claims(site),
        KubeScheduler(site),
        PodGrouper(site),
        Queues(site),
        Kueue(site),
        Services(site),
        Garbage(site),
        Namespaces(site),
    ]


def _by_name(controllers: Iterable[ClusterController]) -> dict[str, ClusterController]:
    return {controller.name: controller for controller in controllers}
