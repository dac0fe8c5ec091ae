"""What a function server with --live runs beside its calls, wired together.

FleetInformers      watch the fleet on the control plane
WorkloadInformers   watch Nodes, devices, claims, queues and our pods of the workload clusters (unless --no-observe)
InformerFleetCache  answers calls with the fleet, so that Crossplane sends nothing of its size
Dependents          says which composites a change may change
Requeuer            makes Crossplane call for them
EndpointTrafficScraper  measures what clients get from canaries (with --traffic-metrics)
UsageNudger         makes Crossplane look at the Usages of replicas that are being deleted
"""

import asyncio
from collections.abc import Collection, Sequence
from threading import RLock

from prometheus_client import CollectorRegistry

from modelplane.api.meta import ClusterName
from modelplane.compose.context import remote_namespace
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.dependents import Dependents
from modelplane.crossplane.fleet_cache import InformerFleetCache
from modelplane.crossplane.fleet_informers import (
    CACHES,
    CLUSTERS,
    DEPLOYMENTS,
    REPLICAS,
    CachedObject,
    FleetInformers,
)
from modelplane.crossplane.requeue import CompositeKey, Requeuer
from modelplane.crossplane.traffic_scraper import EndpointTrafficScraper
from modelplane.crossplane.traffic_targets import TrafficTargets
from modelplane.crossplane.usage_nudger import UsageNudger
from modelplane.crossplane.workload_informers import WorkloadInformers
from modelplane.kube import ChangeKind, GroupVersionResource, InformerEvent, KubeClient, NamespacedName

_NUDGE_S = 1.5
_SCRAPE_S = 5.0
_SCRAPES = 3
_LOG_READS = 5
"""Pauses between two readings of what loaders say."""


class Live:
    """Wires the parts and runs them. Events and decisions hold one lock."""

    def __init__(
        self,
        client: KubeClient,
        registry: CollectorRegistry,
        caches: FunctionCaches,
        *,
        pause_s: float = 2.0,
        observe: bool = False,
        traffic_metrics: Sequence[str] = (),
    ) -> None:
        """`observe` watches the workload clusters too, with the kubeconfigs that they were adopted with.

        `traffic_metrics` has the addresses of the metrics that say what clients get from replicas.
        """
        self._lock = RLock()
        self._workloads = WorkloadInformers(client, self, progress_s=pause_s * _LOG_READS) if observe else None
        self.informers = FleetInformers(client, self._on_event, self._lock)
        self.cache = InformerFleetCache(
            self.informers, self._workloads, self._lock, capacity_changed=self._capacity_changed
        )
        self._dependents = Dependents(self.informers, self._workloads, self.cache.snapshot, caches.pools_digest)
        self._requeuer = Requeuer(client, self._digest, registry, pause_s=pause_s)
        self._nudger = UsageNudger(client, pause_s=min(pause_s, _NUDGE_S))
        targets = TrafficTargets(traffic_metrics)
        self._traffic = EndpointTrafficScraper(
            client, targets, self.informers.analysed, interval_s=min(pause_s * _SCRAPES, _SCRAPE_S)
        )
        self._scrapes = bool(traffic_metrics)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.informers.run())
                await self.informers.wait_synced()
                self._observe_all()
                tasks.create_task(self._requeuer.run())
                tasks.create_task(self._nudger.run())
                if self._scrapes:
                    tasks.create_task(self._traffic.run())
        finally:
            if self._workloads is not None:
                await self._workloads.close()

    def _observe_all(self) -> None:
        """Composites whose digest changed while no server watched are requeued."""
        with self._lock:
            for kind in (CLUSTERS, REPLICAS, DEPLOYMENTS, CACHES):
                for key, item in self.informers.objects(kind).items():
                    self._requeuer.observe((kind, key), item.digest)

    def _on_event(self, kind: GroupVersionResource, event: InformerEvent[CachedObject]) -> None:
        self.cache.on_event(kind, event)
        if kind == CLUSTERS and self._workloads is not None:
            self._workloads.on_event(event.change, event.value.manifest)
        for composite in self._dependents.enqueue_for(kind, event):
            self._requeuer.enqueue(composite)
        if kind == REPLICAS:
            self._nudger.on_event(event.change, event.key, event.value.manifest)
        if event.change is ChangeKind.DELETED:
            self._requeuer.forget((kind, event.key))
        else:
            self._requeuer.observe((kind, event.key), event.value.digest)

    def cluster_changed(self, cluster: ClusterName) -> None:
        self._requeuer.enqueue((CLUSTERS, NamespacedName("", cluster)))

    def replicas_changed(self, cluster: ClusterName, replicas: Collection[NamespacedName]) -> None:
        """Requeues the replicas whose pods changed; those with the same cause keep their digest."""
        with self._lock:
            for key in self.informers.replicas_on(cluster):
                if _is_among(key, replicas):
                    self._requeuer.enqueue((REPLICAS, key))

    def caches_changed(self, cluster: ClusterName, caches: Collection[NamespacedName]) -> None:
        """Requeues the caches whose loaders or claims changed."""
        del cluster
        with self._lock:
            for key in self.informers.objects(CACHES):
                if _is_among(key, caches):
                    self._requeuer.enqueue((CACHES, key))

    def _capacity_changed(self) -> None:
        for deployment in self.informers.unscheduled:
            self._requeuer.enqueue((DEPLOYMENTS, deployment))

    def _digest(self, composite: CompositeKey) -> str | None:
        with self._lock:
            return self._dependents.digest(composite)


def _is_among(key: NamespacedName, named: Collection[NamespacedName]) -> bool:
    """Whether an object is one of those that are named by their namespace on a workload cluster."""
    if not any(each.name in {key.name, ""} for each in named):
        return False
    there = remote_namespace(key.namespace)
    return not {(there, key.name), (there, "")}.isdisjoint(named)
