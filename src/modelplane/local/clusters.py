"""A simulated cluster for every InferenceCluster that exists, with the hardware that its classes say."""

from collections.abc import Callable, Mapping

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceClass, InferenceCluster
from modelplane.local.cluster.cluster import SimulatedCluster
from modelplane.local.cluster.engines import EngineFactory
from modelplane.local.cluster.pools import pools_of
from modelplane.local.cluster.settings import ClusterSettings
from modelplane.local.controller import Controller
from modelplane.local.envoy import GatewayView, free_port
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Outcome, Settled
from modelplane.reconcile.store import Change, ObjectRef

_GROUP = "modelplane.ai"
_HOST = "127.0.0.1"


class Clusters:
    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        engines: EngineFactory,
        settings: ClusterSettings,
        *,
        edges_changed: Callable[[], None],
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._engines = engines
        self._settings = settings
        self._edges_changed = edges_changed
        self._running: dict[ClusterName, SimulatedCluster] = {}
        self.loop: Loop[ClusterName] = Loop(self._reconcile, clock=clock, workers=1)
        controller.plane.subscribe(self._heard)
        self._look_at_all()

    def edges(self) -> dict[ClusterName, GatewayView]:
        views = {name: cluster.edge_view() for name, cluster in self._running.items()}
        return {name: view for name, view in views.items() if view is not None}

    def get(self, name: ClusterName) -> SimulatedCluster | None:
        return self._running.get(name)

    async def stop(self) -> None:
        for cluster in self._running.values():
            await cluster.stop()

    def _heard(self, change: Change) -> None:
        if change.ref.group == _GROUP and change.ref.kind == "InferenceCluster":
            self.loop.add(ClusterName(change.ref.name))
        elif change.ref.group == _GROUP and change.ref.kind == "InferenceClass":
            self._look_at_all()

    def _look_at_all(self) -> None:
        for manifest in self._controller.plane.list(_GROUP, "InferenceCluster"):
            self.loop.add(ClusterName(decode(InferenceCluster, manifest).metadata.name))

    async def _reconcile(self, name: ClusterName) -> Outcome:
        manifest = self._controller.plane.get(ObjectRef(_GROUP, "InferenceCluster", "", name))
        if manifest is None:
            await self._remove(name)
            return Settled()
        cluster = self._running.get(name) or await self._add(name)
        cluster.set_pools(pools_of(decode(InferenceCluster, manifest), self._classes()))
        return Settled()

    def _classes(self) -> Mapping[str, InferenceClass]:
        found = (decode(InferenceClass, item) for item in self._controller.plane.list(_GROUP, "InferenceClass"))
        return {each.metadata.name: each for each in found}

    async def _add(self, name: ClusterName) -> SimulatedCluster:
        store = self._controller.add_cluster(name)
        cluster = SimulatedCluster(name, store, self._clock, self._engines, self._settings)
        cluster.set_edge_address(f"{_HOST}:{free_port(_HOST)}")
        cluster.on_edge_change(self._edges_changed)
        await cluster.start()
        self._running[name] = cluster
        return cluster

    async def _remove(self, name: ClusterName) -> None:
        cluster = self._running.pop(name, None)
        if cluster is not None:
            await cluster.stop()
            self._controller.drop_cluster(name)
            self._edges_changed()
