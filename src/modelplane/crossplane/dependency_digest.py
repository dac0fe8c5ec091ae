"""What a composite's answer depends on beside itself and what it composed, as one short text.

Whoever watches the fleet writes it on the composite when it changed, and Crossplane calls for just that composite.
Equal facts give equal text, whichever server works it out, so nobody is woken for nothing.

    ModelReplica       its cluster as it is written, where its gateway answers, and how far its caches are
    InferenceCluster   the replicas on it and what they hold, and what is observed on it
    ModelDeployment    which of the clusters that its replicas are on are amiss; and while some wait for room, all room
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
import xxhash

from modelplane.api.meta import ClusterName, Key
from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.placement.snapshot import Fleet

_encode = msgspec.json.Encoder(order="deterministic").encode
_UNREAD = frozenset({"crossplane", "cordoned"})
"""Of a cluster's spec, what its replicas are not made from: Crossplane's list of what it composed grows with each of
them, and whether new ones may come is a matter of deployments."""


def of_replica(cluster: Manifest | None, caches: Iterable[Manifest], name: str) -> str:
    """`name` is the cluster's."""
    known = None if cluster is None else (_written(cluster), value_at(cluster, "status", "gateway"))
    return _text([known, sorted((_staged(cache, name) for cache in caches), key=str)])


def _written(cluster: Manifest) -> object:
    spec = cluster.get("spec")
    return {name: spec[name] for name in spec if name not in _UNREAD} if isinstance(spec, Mapping) else spec


def _staged(cache: Manifest, cluster: str) -> list[object]:
    clusters = value_at(cache, "status", "clusters")
    there = [item for item in (clusters if isinstance(clusters, list) else ()) if _field(item, "name") == cluster]
    return [text_at(cache, "metadata", "name"), cache.get("spec"), there]


def of_cluster(replicas: Iterable[Manifest], observed: str = "") -> str:
    """`observed` stands for what the cluster shows of itself, where somebody looks."""
    return _text(
        [
            observed,
            *sorted(
                (
                    text_at(item, "metadata", "namespace"),
                    text_at(item, "metadata", "name"),
                    xxhash.xxh3_64_hexdigest(_encode(value_at(item, "spec", "engines"))),
                )
                for item in replicas
            ),
        ]
    )


def of_deployment(
    fleet: Fleet, deployment: Key, *, waiting: bool, digest_pools: Callable[[object], str] | None = None
) -> str:
    """Clusters that are well say nothing, so that a deployment is not woken by its own placements."""
    clusters = sorted({holding.cluster for holding in fleet.owned_by(deployment)})
    amiss = [state for name in clusters if (state := _amiss(fleet, name)) is not None]
    return _text([amiss, _room(fleet, digest_pools or pools_digest) if waiting else None])


def _amiss(fleet: Fleet, name: ClusterName) -> object:
    cluster = fleet.cluster(name)
    if cluster is None:
        return [name, None]
    if cluster.ready and not cluster.cordoned and not cluster.taints:
        return None
    taints = [[taint.key, taint.value, str(taint.effect)] for taint in cluster.taints]
    return [name, cluster.ready, cluster.cordoned, taints]


def _room(fleet: Fleet, digest_pools: Callable[[object], str]) -> str:
    """Everything that may let a waiting replica in: pools, who may use them, and what is held."""
    clusters = [
        [cluster.name, cluster.ready, cluster.cordoned, sorted(cluster.labels.items()), digest_pools(cluster.pools)]
        for cluster in fleet.clusters
    ]
    held = [
        [holding.deployment.namespace, holding.deployment.name, holding.cluster, holding.index]
        for holding in fleet.holdings
    ]
    return _text([clusters, held])


def pools_digest(pools: object) -> str:
    """Clusters whose pools are equal share one value of them, so hosts cache this by identity."""
    return xxhash.xxh3_64_hexdigest(repr(pools).encode())


def _text(facts: object) -> str:
    return xxhash.xxh3_64_hexdigest(_encode(facts))


def _field(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, Mapping) else None
