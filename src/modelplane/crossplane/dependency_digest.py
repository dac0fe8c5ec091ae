"""A digest of what a composite depends on beside itself and what it composed.

A server that watches the fleet writes it on the composite when it changes, and Crossplane calls for that composite.
Every server computes the same digest from the same objects, so equal dependencies requeue nothing.

    ModelReplica       the spec of its cluster, the address of the cluster's gateway, whether the cluster answers, the
                       state of its caches there, and why its pods do not serve where they are watched
    InferenceCluster   the replicas on it and what they hold, and what is observed on it
    ModelDeployment    the clusters of its replicas that are not well, and the keys of the caches of its namespace;
                       while replicas wait for capacity, all capacity, and where those caches are
    ModelCache         what it needs of each cluster, the replicas that mount it and whether they find it incomplete,
                       the other caches of its namespace, and what its loaders say where they are watched
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
import xxhash

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.meta import ClusterName, Key
from modelplane.api.objects import Manifest, items_at, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.caching.complaints import incomplete_since
from modelplane.compose.caching.progress import newest_status
from modelplane.compose.pod_causes import by_engine, pods_cause
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo, PlacementTaint

_encode = msgspec.json.Encoder(order="deterministic").encode
_PLACE = (("metadata", "name"), ("spec", "clusterName"))
_IGNORED = frozenset({"crossplane", "cordoned", "taints", "drain"})
"""Fields of a cluster's spec that its replicas do not depend on: Crossplane's list of composed objects grows with each
replica, and whether a cluster is cordoned or drained matters to deployments."""


def of_replica(
    cluster: Manifest | None,
    caches: Iterable[Manifest],
    name: str,
    pods: Collection[Manifest] | None = None,
    admissions: Iterable[Manifest] = (),
) -> str:
    """`name` is the cluster's. `pods` are those of the replica; None where they are not watched.

    `admissions` are the Workloads of its namespace there. They count while its pods wait for a gate.
    """
    known = None if cluster is None else (_spec(cluster), value_at(cluster, "status", "gateway"), _lost(cluster))
    states = sorted((_cache_state(cache, name) for cache in caches), key=str)
    waits = pods is not None and any(value_at(pod, "spec", "schedulingGates") for pod in pods)
    gates = sorted((item for item in admissions), key=str) if waits else None
    return _digest([known, states, None if pods is None else _pods(pods), gates])


def _lost(cluster: Manifest) -> object:
    """Since when a cluster does not answer, or its agent is away."""
    for condition in items_at(cluster, "status", "conditions"):
        kind, reason = condition.get("type"), condition.get("reason")
        away = kind == ConditionType.AGENT_CONNECTED and condition.get("status") != ConditionStatus.TRUE
        if away or (kind == ConditionType.CLUSTER_READY and reason == Reason.CLUSTER_LOST):
            return [reason, condition.get("lastTransitionTime") or True]
    return None


def _pods(pods: Iterable[Manifest]) -> object:
    """The causes that the replica shows, of its engines and of what is beside them."""
    return [pods_cause(part) for part in by_engine(pods)]


def _spec(cluster: Manifest) -> object:
    spec = cluster.get("spec")
    return {name: spec[name] for name in spec if name not in _IGNORED} if isinstance(spec, Mapping) else spec


def _cache_state(cache: Manifest, cluster: str) -> list[object]:
    clusters = value_at(cache, "status", "clusters")
    there = [item for item in (clusters if isinstance(clusters, list) else ()) if _field(item, "name") == cluster]
    return [text_at(cache, "metadata", "name"), cache.get("spec"), [_staging(item) for item in there]]


def _staging(entry: Manifest) -> list[object]:
    """Without bytes and rates, which change every few seconds."""
    return [entry.get(name) for name in ("name", "phase", "reason", "stagedKeys", "sharedWith")]


def of_cache(
    name: str,
    clusters: Iterable[Manifest],
    replicas: Iterable[Manifest],
    others: Iterable[Manifest],
    staging: Iterable[object] = (),
) -> str:
    """`replicas` and `others` are those of its namespace. `staging` is what is seen of it on clusters."""
    mounts = [
        [*(text_at(item, *path) for path in _PLACE), text_at(mount, "key"), incomplete_since(item)]
        for item in replicas
        for mount in items_at(item, "spec", "caches")
        if mount.get("name") == name
    ]
    beside = [
        [
            text_at(item, "metadata", "name"),
            text_at(item, "metadata", "deletionTimestamp"),
            item.get("spec"),
            [_staging(entry) for entry in items_at(item, "status", "clusters")],
        ]
        for item in others
    ]
    known = [sorted(map(_for_caches, clusters), key=str), sorted(mounts), sorted(beside, key=str)]
    return _digest([*known, sorted(staging, key=str)])


def of_loaders(pods: Collection[Manifest]) -> list[object]:
    """How far the loaders are, and why they do not start."""
    return [newest_status(pods), pods_cause(pods)]


def _for_caches(cluster: Manifest) -> list[object]:
    ready = next((each for each in items_at(cluster, "status", "conditions") if each.get("type") == "Ready"), {})
    return [
        text_at(cluster, "metadata", "name"),
        text_at(cluster, "metadata", "deletionTimestamp"),
        value_at(cluster, "metadata", "labels"),
        value_at(cluster, "spec", "storage"),
        value_at(cluster, "spec", "backend", "images", "loader"),
        value_at(cluster, "spec", "cordoned"),
        ready.get("status"),
    ]


def of_cluster(replicas: Iterable[Manifest], observed: str = "") -> str:
    """`observed` is the digest of the objects on the cluster, where they are watched."""
    return _digest(
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
    """Clusters that are well do not count, so a deployment is not requeued by its own placements.

    Nor does what they can run: a replica that its cluster refuses says so itself, and that requeues its deployment.
    """
    clusters = sorted({replica.cluster for replica in fleet.owned_by(deployment)})
    unhealthy = [state for name in clusters if (state := _unhealthy(fleet, name)) is not None]
    caches = [
        [cache.name, cache.key, sorted(cache.keys.items()), _where(cache) if waiting else None]
        for (namespace, _), cache in sorted(fleet.caches.items())
        if namespace == deployment.namespace
    ]
    return _digest([unhealthy, caches, _capacity(fleet, digest_pools or pools_digest) if waiting else None])


def _where(cache: CacheInfo) -> list[object]:
    causes = [[[why, sorted(where)] for why, where in found] for found in (cache.refused, cache.stalled)]
    return [cache.settled, sorted(cache.staged), sorted(cache.awaited), *causes]


def _unhealthy(fleet: Fleet, name: ClusterName) -> object:
    cluster = fleet.cluster(name)
    if cluster is None:
        return [name, None]
    taints = [_taint(taint) for taint in cluster.taints]
    drained = [[pool.name, *map(_taint, pool.taints)] for pool in cluster.pools if pool.taints]
    if cluster.ready and not cluster.cordoned and not taints and not drained:
        return None
    return [name, cluster.ready, cluster.cordoned, taints, drained]


def _taint(taint: PlacementTaint) -> list[object]:
    return [taint.key, taint.value, str(taint.effect), taint.since]


def _capacity(fleet: Fleet, digest_pools: Callable[[object], str]) -> str:
    """Everything that decides whether a waiting replica fits: pools, who may use them, and what is held."""
    clusters = [
        [
            cluster.name,
            cluster.ready,
            cluster.cordoned,
            bool(cluster.deletion),
            sorted(cluster.labels.items()),
            digest_pools(cluster.pools),
            [_taint(taint) for taint in cluster.taints],
            xxhash.xxh3_64_hexdigest(cluster.rendering),
            cluster.packing,
            cluster.quotas,
            cluster.queue,
            cluster.namespace_queues,
        ]
        for cluster in fleet.clusters
    ]
    held = [
        [replica.deployment.namespace, replica.deployment.name, replica.cluster, replica.index]
        for replica in fleet.replicas
    ]
    return _digest([clusters, held])


def pools_digest(pools: object) -> str:
    """Clusters whose pools are equal share one value of them, so hosts cache this by identity."""
    return xxhash.xxh3_64_hexdigest(repr(pools).encode())


def _digest(dependencies: object) -> str:
    return xxhash.xxh3_64_hexdigest(_encode(dependencies))


def _field(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, Mapping) else None
