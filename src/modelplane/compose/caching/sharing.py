"""Caches of one namespace with the same source share a volume on each cluster: one of them owns it.

An owner is a cache whose status says that it stages the source there itself, or still has the volume though its own
source is another by now; without one, the oldest that will. The others report what it reports, and must be deleted
before it: see `uses` of the composer. It keeps the volume while they use it.
"""

import msgspec

from modelplane.api.labels import selects
from modelplane.api.meta import ClusterName
from modelplane.api.models import CacheOnCluster, InferenceCluster, ModelCache
from modelplane.api.reasons import Reason
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import storage_of


def owner_of(inputs: CacheInputs, cluster: InferenceCluster) -> ModelCache | None:
    """The other cache whose volume is used on a cluster; None where this one stages it itself."""
    name = ClusterName(cluster.metadata.name)
    own = entry_of(inputs.cache, name)
    if own is not None and own.shared_with is None and _has_begun(own):
        return None
    # One that is being deleted has its volume until its users are gone, and this one is a user.
    owners = [other for other in inputs.others if _owns(inputs, other, name)]
    staying = (other for other in inputs.others if other.metadata.deletion_timestamp is None)
    alike = (other for other in staying if _is_alike(inputs, other))
    coming = (other for other in alike if _will_stage(other, cluster))
    first = min(owners or [inputs.cache, *coming], key=_age)
    return None if first is inputs.cache else first


def shared_entry(inputs: CacheInputs, owner: ModelCache, cluster: ClusterName) -> CacheOnCluster:
    """What the cache that has the volume says of it."""
    theirs = entry_of(owner, cluster) or CacheOnCluster(name=cluster, phase="Pending", reason=Reason.UNRESOLVED.value)
    key = inputs.source.key if inputs.source is not None else ""
    if not _is_alike(inputs, owner):
        theirs = CacheOnCluster(name=cluster, phase="Ready", reason=Reason.STAGED.value, staged_keys=(key,))
    return msgspec.structs.replace(theirs, shared_with=owner.metadata.name)


def needed_keys(inputs: CacheInputs, cluster: ClusterName) -> set[str]:
    """Keys of volumes on a cluster that replicas mount, or that other caches use."""
    own = inputs.cache.metadata.name
    users = (other for other in inputs.others if (found := entry_of(other, cluster)) and found.shared_with == own)
    shared = (source.key for other in users if (source := source_of(other)) is not None)
    return {*inputs.mounted_keys(cluster), *shared}


def is_owner_unread(inputs: CacheInputs, known: CacheOnCluster) -> bool:
    """Whether the list lacks the cache whose volume is used. It is not deleted before this one: the list is short."""
    return known.shared_with is not None and known.shared_with not in {other.metadata.name for other in inputs.others}


def entry_of(cache: ModelCache, cluster: ClusterName) -> CacheOnCluster | None:
    return next((found for found in cache.status.clusters if found.name == cluster), None)


def _is_alike(inputs: CacheInputs, other: ModelCache) -> bool:
    if storage_of(other).type != "PVC":
        return False
    source = source_of(other)
    return source is not None and inputs.source is not None and source.key == inputs.source.key


def _owns(inputs: CacheInputs, other: ModelCache, cluster: ClusterName) -> bool:
    entry = entry_of(other, cluster)
    if entry is None or entry.shared_with is not None or inputs.source is None:
        return False
    return inputs.source.key in entry.staged_keys or (_is_alike(inputs, other) and _has_begun(entry))


def _has_begun(entry: CacheOnCluster) -> bool:
    return entry.phase in {"Hydrating", "Ready"} or bool(entry.staged_keys)


def _will_stage(other: ModelCache, cluster: InferenceCluster) -> bool:
    everywhere = other.spec.replication == "AllMatchingClusters"
    return everywhere and selects(other.spec.cluster_selector, cluster.metadata.labels)


def _age(cache: ModelCache) -> tuple[str, str]:
    return cache.metadata.creation_timestamp or "~", cache.metadata.name
