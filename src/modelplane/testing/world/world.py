"""A world: an API server, control planes, workload clusters and clients on one clock, and the checkers that watch.

What it is made of is real where the product decides (the composers and the whole Crossplane call, placement, the live
fleet) and modelled where others do (API server, watches, Crossplane, provider, kubelet, loader, gateway, clients). Not
modelled: Usages and their order of deletion, the embedded plane's own loop, the picker, and the wake-ups of a live
server (its deployments and caches are called on every change of the fleet instead).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from modelplane.api.objects import Manifest, int_at, items_at, name_of, namespace_of, text_at
from modelplane.testing.world.checkers import Checkers, WorldViolation
from modelplane.testing.world.clients import WorldClients
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.clusters import WorkloadCluster, report_failure
from modelplane.testing.world.control_plane import ControlPlane
from modelplane.testing.world.judge import tenant_place
from modelplane.testing.world.layout import CLASSES, class_manifest, happens, with_caches, world_manifests
from modelplane.testing.world.store import ApiStore, ObjectId, WorldChange, id_of

SETTLE_S = 40.0
USER = "operator"


class World:
    def __init__(
        self,
        seed: int,
        manifests: Sequence[Manifest] | None = None,
        *,
        checkers: Callable[["World"], Checkers] = Checkers,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)  # noqa: S311  reproducible, not secret
        self.clock = Clockwork()
        self.store = ApiStore(lambda: self.clock.now)
        self.probes: Counter[str] = Counter()
        self.story: list[tuple[float, str]] = []
        self._planned: dict[int, Callable[[], None]] = {}
        self._numbers = count()
        self.checkers = checkers(self)
        self._node_devices: dict[str, int] = {}
        self.clusters: dict[str, WorkloadCluster] = {}
        self.planes: list[ControlPlane] = []
        self.add_plane(live=happens(self.random, 0.4))
        self.clients = WorldClients(self)
        self.store.listeners.append(self._follow_pools)
        for item in manifests if manifests is not None else with_caches(seed, world_manifests(self.random)):
            self.store.apply(item, USER)

    @property
    def now(self) -> float:
        return self.clock.now

    def add_plane(self, *, live: bool) -> ControlPlane:
        made = ControlPlane(f"plane-{len(self.planes)}", self.store, self.clock, self.random, self.checkers, live=live)
        self.planes.append(made)
        made.restart()
        return made

    def retire(self, plane: ControlPlane) -> None:
        """It ends for good, whatever it was about to do."""
        plane.paused = True
        if plane in self.planes and len(self.planes) > 1:
            self.planes.remove(plane)
            self.probes.update(plane.probes)

    def run(self, seconds: float) -> None:
        self.clock.run_until(self.clock.elapsed + seconds)
        self.checkers.check_queues()

    def log(self, text: str) -> None:
        self.story.append((self.clock.elapsed, text))

    def probe(self, name: str) -> None:
        self.probes[name] += 1

    def truly_serves(self, replica: Manifest) -> bool:
        """Whether an engine of the replica answers on its cluster, whatever is written about it."""
        cluster = self.clusters.get(text_at(replica, "spec", "clusterName"))
        return cluster is not None and cluster.serves(tenant_place(namespace_of(replica)), name_of(replica))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """After so long, or when the storm is over."""
        number = next(self._numbers)
        self._planned[number] = act
        self.clock.after(seconds, lambda: self._act(number))

    def _act(self, number: int) -> None:
        act = self._planned.pop(number, None)
        if act is not None:
            act()

    def happened(self, fault: str, what: str) -> None:
        self.log(f"{fault}: {what}")
        self.probe(f"fault {fault}")

    def calm(self) -> None:
        """Every fault ends. What operators did stays, but for their mistakes."""
        for number in list(self._planned):
            self._act(number)
        for name in CLASSES:
            self.store.apply(class_manifest(name), USER)
        for cluster in self.clusters.values():
            cluster.calm()
        for plane in self.planes:
            plane.calm()

    def writes_of_planes(self) -> int:
        return sum(not change.by.startswith((USER, "provider", "gc")) for change in self.store.log)

    def all_probes(self) -> Counter[str]:
        found = Counter(self.probes)
        for plane in self.planes:
            found.update(plane.probes)
        return found

    def _follow_pools(self, change: WorldChange) -> None:
        """The cloud makes the nodes that an InferenceCluster declares; a cluster that is deleted is gone."""
        if change.id.kind == "InferenceClass" and change.manifest is not None:
            self._follow_class(change.id.name, change.manifest)
        if change.id.kind != "InferenceCluster":
            return
        if change.manifest is None:
            self._forget(change.id)
            return
        name = change.id.name
        if name not in self.clusters:
            self.clusters[name] = WorkloadCluster(name, self.store, self.clock, self.random, self._empty_directory)
            # One that comes back has none of the claims that Objects describe.
            self.clusters[name].volumes.meddled = self.clock.elapsed > 0
        for pool in items_at(change.manifest, "spec", "nodePools"):
            devices = self._node_devices.get(text_at(pool, "className"), 0)
            self.clusters[name].set_pool(text_at(pool, "name"), int_at(pool, "nodeCount"), devices)

    def _empty_directory(self, words: str) -> None:
        raise WorldViolation("weights", words)

    def _follow_class(self, name: str, item: Manifest) -> None:
        """Nodes are what their class was when it was last readable."""
        devices = sum(
            int_at(each, "count") for each in items_at(item, "spec", "devices") if each.get("deviceClassName")
        )
        if devices:
            self._node_devices[name] = devices

    def _forget(self, key: ObjectId) -> None:
        """Without its provider configuration nothing on it can be removed: operators let go of the Objects."""
        lost = self.clusters.pop(key.name, None)
        if lost is not None:
            lost.close()
        self.clock.after(1.0, lambda: self._let_go(key.name))

    def _let_go(self, cluster: str) -> None:
        if cluster in self.clusters:
            return
        self.clock.after(5.0, lambda: self._let_go(cluster))
        for item in list(self.store.all_of("Object")):
            if text_at(item, "spec", "providerConfigRef", "name") == cluster:
                report_failure(self.store, id_of(item), "connect failed: no ClusterProviderConfig", "provider")
                self.store.release(id_of(item), "gc")
