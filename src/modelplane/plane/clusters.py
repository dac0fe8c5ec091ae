"""Runs one simulated cluster for each InferenceCluster, with the hardware of its InferenceClasses.

Annotations of the InferenceCluster are its simulation settings (failure, load times, node stock), so they survive a
restart of the plane. A cluster counts as reachable once its controllers have reconciled every object: until then its
statuses are out of date.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from modelplane.api.codec import decode
from modelplane.api.errors import NotFoundError
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceClass, InferenceCluster
from modelplane.api.objects import GROUP, Manifest, mapping_at, namespace_of
from modelplane.envoy import GatewayView, free_port
from modelplane.envoy.ports import release_port
from modelplane.plane.controller import PlaneController
from modelplane.plane.ownership import composition_metadata_of
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cloud import ManagedKey, SimulatedProviders, made_nodes
from modelplane.sim.cluster.cluster import SimulatedCluster
from modelplane.sim.cluster.controller import WorkItem, changed
from modelplane.sim.cluster.engines import EngineFactory
from modelplane.sim.cluster.objects import annotated
from modelplane.sim.cluster.pools import NodePoolSpec, pools_of
from modelplane.sim.cluster.prerequisites import prerequisites
from modelplane.sim.cluster.settings import FAILED, ClusterSettings
from modelplane.sim.cluster.sim_settings import SimSettings, sim_settings_of

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_CLUSTER_KEY = "cloud-cluster"
CLOUD_SPEED = 60.0
"""How much faster clusters are made than on a cloud: a cluster of GKE in 8 s and not in 8 minutes."""
_WORKERS = 4  # a cluster that recovers slowly must not block the others


class Clusters:
    def __init__(
        self,
        controller: PlaneController,
        clock: Clock,
        engines_of: Callable[[ClusterName], EngineFactory],
        settings: ClusterSettings,
        *,
        gateway_view_changed: Callable[[ClusterName], None],
        cloud_speed: float = CLOUD_SPEED,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._engines_of = engines_of
        self._settings = settings
        self._gateway_view_changed = gateway_view_changed
        self._running: dict[ClusterName, SimulatedCluster] = {}
        self._ports: dict[ClusterName, int] = {}
        self._namespaces = {namespace_of(item) for item in controller.plane.list(GROUP, "ModelDeployment")}
        self.loop: Loop[ClusterName] = Loop(self._reconcile, clock=clock, workers=_WORKERS, on_failed=_report)
        self.providers = SimulatedProviders(
            controller.plane, clock, _managed_key, speed=cloud_speed, changed=self.loop.add
        )
        self.providers.restore(iter(controller.plane.kinds()))
        controller.plane.subscribe(self._on_change)
        self._enqueue_all()

    def gateway_view(self, name: ClusterName) -> GatewayView | None:
        """What the gateway of a cluster serves; None while the cluster is unreachable."""
        cluster = self._running.get(name)
        return cluster.gateway_view() if cluster is not None else None

    def get(self, name: ClusterName) -> SimulatedCluster | None:
        return self._running.get(name)

    def fail(self, name: ClusterName) -> None:
        """Stop the cluster's API, gateway and engines until `recover`."""
        self.annotate(name, FAILED, "true")

    def recover(self, name: ClusterName) -> None:
        self.annotate(name, FAILED, None)

    def annotate(self, name: ClusterName, key: str, value: str | None) -> None:
        """Set a simulation annotation of an InferenceCluster; None removes it."""
        self._controller.plane.replace(annotated(self.declared(name), key, value))

    def declared(self, name: ClusterName) -> Manifest:
        """Its InferenceCluster."""
        found = self._controller.plane.get(ObjectRef(GROUP, "InferenceCluster", "", name))
        if found is None:
            raise NotFoundError(f"InferenceCluster {name} not found")
        return found

    def pools(self, name: ClusterName) -> tuple[str, ...]:
        """The names of its pools, as declared."""
        return tuple(pool.name for pool in decode(InferenceCluster, self.declared(name)).spec.node_pools)

    async def stop(self) -> None:
        for cluster in self._running.values():
            await cluster.stop()
        for port in self._ports.values():
            release_port(port, _HOST)

    def _on_change(self, change: StoreChange) -> None:
        if change.ref.group == GROUP and change.ref.kind == "InferenceCluster":
            if not changed(change, _stated):
                return
            self.loop.add(ClusterName(change.ref.name))
        elif change.ref.group == GROUP and change.ref.kind == "InferenceClass":
            self._enqueue_all()
        elif change.ref.group == GROUP and change.ref.kind == "ModelDeployment":
            self._note_namespace(change.ref.namespace)

    def _note_namespace(self, namespace: str) -> None:
        """Each namespace with deployments has a queue of its own, on clusters that are set up so."""
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        for manifest in self._controller.plane.list(GROUP, "InferenceCluster"):
            self.loop.add(ClusterName(decode(InferenceCluster, manifest).metadata.name))

    async def _reconcile(self, name: ClusterName) -> Outcome:
        manifest = self._controller.plane.get(ObjectRef(GROUP, "InferenceCluster", "", name))
        if manifest is None:
            await self._remove(name)
            return Done()
        sim_settings = sim_settings_of(manifest)
        declared = decode(InferenceCluster, manifest)
        made = self.providers.ready_keys(name) if declared.spec.cluster.source != "Existing" else None
        if made is not None and _CLUSTER_KEY not in made and name not in self._running:
            return Done()
        cluster = self._running.get(name) or self._make(name)
        cluster.set_sim_settings(sim_settings)
        pools = _made_pools(pools_of(declared, self._classes()), made)
        cluster.set_pools(sim_settings.limited(pools))
        resources, namespaces = self._settings.device_resources, self._namespaces
        cluster.set_prerequisites(prerequisites(declared, pools, resources, sim_settings.quota, namespaces))
        await self._switch(name, cluster, sim_settings)
        return Done()

    def _classes(self) -> Mapping[str, InferenceClass]:
        found = (decode(InferenceClass, item) for item in self._controller.plane.list(GROUP, "InferenceClass"))
        return {each.metadata.name: each for each in found}

    def _make(self, name: ClusterName) -> SimulatedCluster:
        store = self._controller.add_cluster(name)
        self._controller.set_reachable(name, reachable=False)
        broke = partial(_report_work, name)
        engines = self._engines_of(name)
        cluster = SimulatedCluster(name, store, self._clock, engines, self._settings, on_failed=broke)
        self._ports[name] = free_port(_HOST)
        cluster.set_gateway_address(f"{_HOST}:{self._ports[name]}")
        cluster.on_gateway_view_change(partial(self._gateway_view_changed, name))
        self._running[name] = cluster
        return cluster

    async def _switch(self, name: ClusterName, cluster: SimulatedCluster, sim_settings: SimSettings) -> None:
        """Fail or recover. The plane learns of a failure at once, of a recovery once statuses are up to date."""
        if sim_settings.failed:
            self._controller.set_reachable(name, reachable=False)
            await cluster.fail()
        elif not cluster.reachable:
            await cluster.recover()
        if not cluster.started:
            await cluster.start()
        if cluster.reachable and not self._controller.is_reachable(name):
            await cluster.caught_up()
            self._controller.set_reachable(name, reachable=True)

    async def _remove(self, name: ClusterName) -> None:
        cluster = self._running.pop(name, None)
        if cluster is not None:
            await cluster.stop()
            self._controller.drop_cluster(name)
            release_port(self._ports.pop(name), _HOST)
            self._gateway_view_changed(name)


def _managed_key(item: Manifest) -> ManagedKey | None:
    marks = composition_metadata_of(item)
    if marks is None or marks.owner.ref.kind != "InferenceCluster":
        return None
    return ManagedKey(ClusterName(marks.owner.ref.name), marks.key)


def _made_pools(pools: tuple[NodePoolSpec, ...], made: frozenset[str] | None) -> tuple[NodePoolSpec, ...]:
    """The pools, without nodes where their cloud has not made them yet. None: the cluster exists as declared."""
    if made is None:
        return pools
    return tuple(replace(pool, nodes=made_nodes(pool.name, pool.nodes, made)) for pool in pools)


def _report(name: ClusterName, error: Exception, attempt: int) -> None:
    extra = about(LogReason.NOT_SIMULATED, "InferenceCluster", name)
    _log.error("cluster %s cannot be simulated (attempt %d): %r", name, attempt, error, exc_info=error, extra=extra)


def _report_work(name: ClusterName, work: WorkItem, error: Exception, attempt: int) -> None:
    extra = about(LogReason.RECONCILE_FAILED, work.ref.kind, work.ref.name, work.ref.namespace, cluster=name)
    _log.error("controller %s failed on %s (attempt %d): %r", work.controller, work.ref, attempt, error, extra=extra)


def _stated(cluster: Manifest) -> object:
    """What the simulation depends on."""
    scheduler = mapping_at(cluster, "status", "inClusterScheduler")
    return cluster.get("spec"), mapping_at(cluster, "metadata", "annotations"), scheduler.get("type")
