"""Caches of one namespace with the same source share a volume on each cluster: one of them owns it.

An owner is a cache whose status says that it stages the source there itself; without one, the oldest that will. The
others report what it reports, and must be deleted before it: see `uses` of the composer.
"""

from modelplane.api.labels import selects
from modelplane.api.meta import ClusterName
from modelplane.api.models import CacheOnCluster, InferenceCluster, ModelCache
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import storage_of


def owner_of(inputs: CacheInputs, cluster: InferenceCluster) -> ModelCache | None:
    """The other cache whose volume is used on a cluster; None where this one stages it itself."""
    name = ClusterName(cluster.metadata.name)
    own = entry_of(inputs.cache, name)
    if own is not None and own.shared_with is None and _has_begun(own):
        return None
    alike = [other for other in inputs.others if _is_alike(inputs, other)]
    owners = [other for other in alike if (found := entry_of(other, name)) is not None and _owns(found)]
    coming = [other for other in alike if _will_stage(other, cluster) and _age(other) < _age(inputs.cache)]
    return min(owners or coming, key=_age, default=None)


def entry_of(cache: ModelCache, cluster: ClusterName) -> CacheOnCluster | None:
    return next((found for found in cache.status.clusters if found.name == cluster), None)


def _is_alike(inputs: CacheInputs, other: ModelCache) -> bool:
    if other.metadata.deletion_timestamp is not None or storage_of(other).type != "PVC":
        return False
    source = source_of(other)
    return source is not None and inputs.source is not None and source.key == inputs.source.key


def _owns(entry: CacheOnCluster) -> bool:
    return entry.shared_with is None and _has_begun(entry)


def _has_begun(entry: CacheOnCluster) -> bool:
    return entry.phase in {"Hydrating", "Ready"} or bool(entry.staged_keys)


def _will_stage(other: ModelCache, cluster: InferenceCluster) -> bool:
    everywhere = other.spec.replication == "AllMatchingClusters"
    return everywhere and selects(other.spec.cluster_selector, cluster.metadata.labels)


def _age(cache: ModelCache) -> tuple[str, str]:
    return cache.metadata.creation_timestamp or "~", cache.metadata.name
