"""Which clusters hold a cache.

AllMatchingClusters   every cluster that the selector matches
WherePlaced           those with replicas that mount it or caches that share it, and `prewarm` further ones
either                those that the annotation WARM names

A cluster that is being deleted takes no more. One that has the cache already keeps it while replicas on it mount it,
and where it is only missing from the list: a list that lacks it is no decision. Without replicas it leaves at once
where the selector no longer matches, and after `retention.unusedSeconds` under WherePlaced. Where the pass before
counted replicas it stays for another one: a list that lacks replicas once removes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.api.labels import WARM, selects
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, ModelCache
from modelplane.api.timestamps import epoch_s
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.sharing import entry_of, needed_keys

NEXT_PASS_S = 10.0


@dataclass(frozen=True, slots=True)
class Targets:
    wanted: tuple[ClusterName, ...]
    """Where the artifact should be, in order."""
    kept: tuple[ClusterName, ...]
    """Where it is and nothing decides that it leaves."""
    leaves_in_s: float | None = None
    """When a cluster without replicas gives it up."""


def targets(inputs: CacheInputs, present: Iterable[ClusterName]) -> Targets:
    """`present` are the clusters that something of the cache was observed on."""
    here = sorted(set(present))
    clusters = inputs.clusters
    if clusters is None or inputs.replicas is None:
        return Targets((), tuple(here))
    wanted = sorted(_wanted(inputs, clusters, here))
    later: list[float] = []
    kept = [
        name for name in here if name not in wanted and (name not in clusters or _stays(inputs, clusters, name, later))
    ]
    return Targets(tuple(wanted), tuple(kept), min(later, default=None))


def _wanted(
    inputs: CacheInputs, clusters: dict[ClusterName, InferenceCluster], here: list[ClusterName]
) -> set[ClusterName]:
    spec = inputs.cache.spec
    open_ = {name: cluster for name, cluster in clusters.items() if cluster.metadata.deletion_timestamp is None}
    matching = {name for name, cluster in open_.items() if selects(spec.cluster_selector, cluster.metadata.labels)}
    mounted = {name for name in clusters if needed_keys(inputs, name)}
    named = warm_clusters(inputs.cache) & open_.keys()
    if spec.replication == "AllMatchingClusters":
        return matching | mounted | named
    return mounted | named | _prewarmed(matching - mounted - named, here, spec.prewarm, open_)


def _prewarmed(
    free: set[ClusterName], here: list[ClusterName], count: int, clusters: dict[ClusterName, InferenceCluster]
) -> set[ClusterName]:
    """Those that have it already first, then those that take replicas, by name."""
    ranked = sorted(free, key=lambda name: (name not in here, clusters[name].spec.cordoned, name))
    return set(ranked[:count])


def _stays(
    inputs: CacheInputs, clusters: dict[ClusterName, InferenceCluster], name: ClusterName, later: list[float]
) -> bool:
    """Whether a cluster that holds the artifact and need not keeps it for now."""
    cluster = clusters[name]
    known = entry_of(inputs.cache, name)
    since = epoch_s(known.unused_since) if known is not None else None
    now = inputs.request.now
    if since is None or not now:
        later.append(NEXT_PASS_S)
        return True
    if cluster.metadata.deletion_timestamp is not None or inputs.cache.spec.replication == "AllMatchingClusters":
        return False
    left = since + inputs.cache.spec.retention.unused_seconds - now
    if left <= 0:
        return False
    later.append(left)
    return True


def warm_clusters(cache: ModelCache) -> set[ClusterName]:
    """Clusters that were asked for by name."""
    return {ClusterName(name.strip()) for name in cache.metadata.annotations.get(WARM, "").split(",")}
