"""Which composites depend on an object of the fleet, and the digest of what each of them depends on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName, Key, Uid
from modelplane.api.models import Scheduling
from modelplane.api.objects import Manifest, items_at, mapping_at, name_of, text_at, value_at
from modelplane.compose.caching.inputs import claim_requirement, loaders_requirement
from modelplane.compose.replica_inputs import admissions_requirement, pods_requirement
from modelplane.crossplane import dependency_digest
from modelplane.crossplane.fleet_informers import CACHES, CLUSTERS, DEPLOYMENTS, REPLICAS, CachedObject, FleetInformers
from modelplane.crossplane.requeue import CompositeKey
from modelplane.crossplane.workload_informers import WorkloadInformers
from modelplane.kube import GroupVersionResource, InformerEvent, NamespacedName
from modelplane.placement.snapshot import Fleet

_SETTLED = frozenset({"Ready", "Failed"})


@dataclass(frozen=True, slots=True)
class Dependents:
    """Call it while the lock of the informers is held."""

    informers: FleetInformers
    workloads: WorkloadInformers | None
    fleet: Callable[[], Fleet]
    digest_pools: Callable[[object], str]

    def enqueue_for(self, kind: GroupVersionResource, event: InformerEvent[CachedObject]) -> Iterator[CompositeKey]:
        """The composites that a change of one object may change."""
        if kind == CLUSTERS:
            replicas = self.informers.replicas_on(event.key.name)
            yield from ((REPLICAS, replica) for replica in replicas)
            yield from ((DEPLOYMENTS, owner) for owner in {self._deployment_of(replica) for replica in replicas})
            yield from ((CACHES, cache) for cache in self.informers.objects(CACHES))
        elif kind == REPLICAS:
            yield CLUSTERS, NamespacedName("", text_at(event.value.manifest, "spec", "clusterName"))
            for mount in items_at(event.value.manifest, "spec", "caches"):
                yield CACHES, NamespacedName(event.key.namespace, text_at(mount, "name"))
        elif kind == CACHES:
            # Its replicas mount it, deployments place by it, and caches with the same source share its volume.
            for users in (REPLICAS, DEPLOYMENTS, CACHES):
                yield from ((users, key) for key in self._in_namespace(users, event.key.namespace) if key != event.key)

    def _in_namespace(self, kind: GroupVersionResource, namespace: str) -> list[NamespacedName]:
        return [key for key in self.informers.objects(kind) if key.namespace == namespace]

    def _deployment_of(self, replica: NamespacedName) -> NamespacedName:
        held = self.informers.objects(REPLICAS).get(replica)
        return NamespacedName(replica.namespace, text_at(held.manifest, "spec", "deployment", "name") if held else "")

    def digest(self, composite: CompositeKey) -> str | None:
        """None for a composite that is gone, and until every kind is listed."""
        kind, key = composite
        held = self.informers.objects(kind).get(key)
        if held is None or not self.informers.synced:
            return None
        if kind == CLUSTERS:
            return self._of_cluster(key.name)
        if kind == CACHES:
            return self._of_cache(key, held.manifest)
        return self._of_replica(key, held.manifest) if kind == REPLICAS else self._of_deployment(key, held.manifest)

    def _of_cache(self, key: NamespacedName, manifest: Manifest) -> str:
        clusters = (item.manifest for item in self.informers.objects(CLUSTERS).values())
        replicas = self._manifests(REPLICAS, key.namespace)
        others = [item for item in self._manifests(CACHES, key.namespace) if name_of(item) != key.name]
        return dependency_digest.of_cache(key.name, clusters, replicas, others, self._staging(key, manifest))

    def _staging(self, key: NamespacedName, manifest: Manifest) -> list[object]:
        """What is seen of a cache on the clusters that do not hold it yet, or whose claim it has not made."""
        if self.workloads is None:
            return []
        claim = text_at(manifest, "spec", "storage", "existingPVC", "claimName")
        found: list[object] = []
        for entry in items_at(manifest, "status", "clusters"):
            cluster = ClusterName(text_at(entry, "name"))
            if claim:
                found.append([cluster, self.workloads.find(claim_requirement(key.namespace, claim, cluster))])
            elif entry.get("phase") not in _SETTLED:
                pods = self.workloads.find(loaders_requirement(key.namespace, key.name, cluster))
                found.append([cluster, None if pods is None else dependency_digest.of_loaders(pods)])
        return found

    def _manifests(self, kind: GroupVersionResource, namespace: str) -> list[Manifest]:
        objects = self.informers.objects(kind)
        return [objects[key].manifest for key in self._in_namespace(kind, namespace)]

    def _of_cluster(self, name: str) -> str:
        objects = self.informers.objects(REPLICAS)
        replicas = [objects[key].manifest for key in self.informers.replicas_on(name) if key in objects]
        observed = self.workloads.digest(ClusterName(name)) if self.workloads is not None else ""
        return dependency_digest.of_cluster(replicas, observed)

    def _of_replica(self, key: NamespacedName, manifest: Manifest) -> str:
        name = text_at(manifest, "spec", "clusterName")
        cluster = self.informers.objects(CLUSTERS).get(NamespacedName("", name))
        mounted = value_at(manifest, "spec", "caches")
        names = [text_at(item, "name") for item in mounted] if isinstance(mounted, list) else []
        caches = [self.informers.objects(CACHES).get(NamespacedName(key.namespace, each)) for each in names]
        known = cluster.manifest if cluster else None
        return dependency_digest.of_replica(
            known,
            [cache.manifest for cache in caches if cache],
            name,
            self._pods(key, ClusterName(name)),
            self._admissions(key, ClusterName(name), known),
        )

    def _admissions(self, key: NamespacedName, name: ClusterName, cluster: Manifest | None) -> tuple[Manifest, ...]:
        if self.workloads is None or cluster is None:
            return ()
        try:
            scheduling = decode(Scheduling, mapping_at(cluster, "spec", "scheduling"))
        except InputError:
            return ()
        wanted = admissions_requirement(key.namespace, name, scheduling)
        return (self.workloads.find(wanted) if wanted is not None else None) or ()

    def _pods(self, key: NamespacedName, cluster: ClusterName) -> tuple[Manifest, ...] | None:
        if self.workloads is None:
            return None
        return self.workloads.find(pods_requirement(key.namespace, key.name, cluster))

    def _of_deployment(self, key: NamespacedName, manifest: Manifest) -> str:
        deployment = Key(key.namespace, key.name, Uid(text_at(manifest, "metadata", "uid")))
        waiting = key in self.informers.unscheduled
        return dependency_digest.of_deployment(
            self.fleet(), deployment, waiting=waiting, digest_pools=self.digest_pools
        )
