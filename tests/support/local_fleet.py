"""The embedded plane without its API and its Envoy, in virtual time: composers and simulated clusters."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, Manifest, int_at, text_at
from modelplane.apiserver.store.database import Database
from modelplane.plane.clusters import Clusters
from modelplane.plane.controller import PlaneController
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.cluster import FakeEngines


class LocalFleet:
    """A controller and the clusters that its InferenceClusters declare, with engines that only count."""

    def __init__(self, clock: Clock, database: Database | None = None, settings: ClusterSettings | None = None) -> None:
        self.clock = clock
        self.database = database or Database(None, clock=clock)
        self.controller = PlaneController(self.database, clock, admitted=lambda manifest: manifest)
        self.plane = self.controller.plane
        self.engines = FakeEngines(clock)
        self.clusters = Clusters(
            self.controller,
            clock,
            lambda _name: self.engines,
            settings or ClusterSettings(),
            gateway_view_changed=lambda _name: None,
        )

    @property
    def loops(self) -> tuple[Loop[ObjectRef] | Loop[ClusterName], ...]:
        return self.controller.loop, self.clusters.loop, self.clusters.providers.loop

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest:
        found = self.plane.get(ObjectRef(GROUP, kind, namespace, name))
        if found is None:
            raise AssertionError(f"there is no {kind} {name}")
        return found

    def replicas(self) -> dict[tuple[str, int], str]:
        """Cluster and index of every replica, with whether it is ready or on its way out."""
        found = {}
        for item in self.plane.list(GROUP, "ModelReplica"):
            leaving = text_at(item, "metadata", "deletionTimestamp")
            state = "leaving" if leaving else str(condition_of(item, "Ready").get("status", "Unknown"))
            found[text_at(item, "spec", "clusterName"), int_at(item, "spec", "index")] = state
        return found

    def endpoints(self) -> Counter[str]:
        """How many endpoints lead to each cluster."""
        items = self.plane.list(GROUP, "ModelEndpoint")
        return Counter(text_at(item, "spec", "replica", "clusterName") for item in items)

    def is_ready(self, cluster: str) -> bool:
        return condition_of(self.get("InferenceCluster", cluster), "Ready").get("status") == "True"

    def pods(self, cluster: str) -> tuple[Manifest, ...]:
        return self.database.store(f"cluster/{ClusterName(cluster)}").list("", "Pod")


@asynccontextmanager
async def running_fleet(
    clock: Clock, database: Database | None = None, settings: ClusterSettings | None = None
) -> AsyncIterator[LocalFleet]:
    fleet = LocalFleet(clock, database, settings)
    loops = [asyncio.create_task(loop.run()) for loop in fleet.loops]
    try:
        yield fleet
    finally:
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await fleet.clusters.stop()
