"""What is right, told from the objects alone and without the product's own code: the ground that checkers stand on.

The same questions are asked of the API server (the truth) and of the view of a control plane: a decision on a view that
is late is right when the view gives a reason for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from modelplane.api.labels import CLUSTER, DEPLOYMENT
from modelplane.api.objects import (
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.api.timestamps import epoch_s
from modelplane.compose.context import remote_namespace
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.views import Facts
from modelplane.testing.world.weights import cache_phase, mounted_caches

_READINESS = frozenset({"Ready", "ClusterReady", "GatewayReady"})


@cache
def tenant_place(namespace: str) -> str:
    """The namespace of a tenant on workload clusters."""
    return remote_namespace(namespace)


def replicas_of(facts: Facts, deployment: Manifest) -> list[Manifest]:
    """Those that are not being deleted."""
    uid = uid_of(deployment)
    return [
        item
        for item in facts.all_of("ModelReplica")
        if text_at(item, "spec", "deployment", "uid") == uid and not is_deleting(item)
    ]


def shows_serving(replica: Manifest) -> bool:
    held = {
        text_at(condition, "type")
        for condition in items_at(replica, "status", "conditions")
        if text_at(condition, "status") == "True"
    }
    return {"WorkloadReady", "RouteReady"} <= held


def is_held(item: Manifest, kind: str) -> bool:
    """Whether a condition is True."""
    return any(
        text_at(condition, "type") == kind and text_at(condition, "status") == "True"
        for condition in items_at(item, "status", "conditions")
    )


def demands(replica: Manifest) -> Counter[str]:
    """Devices that a replica holds, by pool."""
    found: Counter[str] = Counter()
    for pool, pods, devices in _members(replica):
        found[pool] += pods * devices
    return found


def pods_on(facts: Facts, cluster: str, pool: str) -> list[int]:
    """The devices of each pod that is promised a pool."""
    return [
        devices
        for item in facts.all_of("ModelReplica")
        if text_at(item, "spec", "clusterName") == cluster
        for where, pods, devices in _members(item)
        if where == pool
        for _ in range(pods)
    ]


def _members(replica: Manifest) -> Iterator[tuple[str, int, int]]:
    """The pool, the number of pods and the devices of a pod."""
    for engine in items_at(replica, "spec", "engines"):
        for member in items_at(engine, "members"):
            pods = int_at(engine, "copies", default=1) * int_at(member, "nodes", default=1)
            devices = sum(int_at(request, "count", default=1) for request in items_at(member, "deviceRequests"))
            yield text_at(member, "nodePoolName"), pods, devices


def capacity_of(cluster: Manifest, pool: str) -> int:
    nodes, devices = _nodes_of(cluster, pool)
    return nodes * devices


def _nodes_of(cluster: Manifest, pool: str) -> tuple[int, int]:
    """Nodes of a pool, as declared or as published, whichever is more; and the devices of one."""
    published = {text_at(each, "name"): each for each in items_at(cluster, "status", "gpuPools")}
    declared = {text_at(each, "name"): int_at(each, "nodeCount") for each in items_at(cluster, "spec", "nodePools")}
    shown = published.get(pool, {})
    devices = sum(int_at(device, "count") for device in items_at(shown, "devices"))
    return max(declared.get(pool, 0), int_at(shown, "nodes")), devices


def held_on(facts: Facts, cluster: str, pool: str, *, without: Iterable[ObjectId] = ()) -> int:
    gone = set(without)
    return sum(
        demands(item)[pool]
        for item in facts.all_of("ModelReplica")
        if text_at(item, "spec", "clusterName") == cluster and _id(item) not in gone
    )


def why_wrong(facts: Facts, deployment: Manifest, replica: Manifest, now: float) -> str:
    """Why a replica should not be where it is; empty where nothing is wrong."""
    cluster = facts.get(ObjectId("InferenceCluster", "", text_at(replica, "spec", "clusterName")))
    if cluster is None:
        # A list that lacks a cluster decides nothing; the replica must have asked for it by name, too.
        return "its cluster is gone" if _misses_cluster(replica) else ""
    wanted = mapping_at(deployment, "spec", "clusterSelector", "matchLabels")
    if not wanted.items() <= labels_of(cluster).items():
        return "its cluster is not selected"
    if any(text_at(taint, "effect") == "NoExecute" for taint in items_at(cluster, "spec", "taints")):
        return "its cluster is tainted"
    if isinstance(value_at(cluster, "spec", "drain"), Mapping):
        return "its cluster is drained"
    if _is_preempted(facts, replica):
        return "it is preempted"
    if _failing(cluster, deployment, now):
        return "its cluster fails for longer than its grace"
    return (
        _in_the_way(facts, cluster, replica)
        or _edited(deployment, replica)
        or _unsuitable(facts, cluster, deployment, replica)
    )


def _in_the_way(facts: Facts, cluster: Manifest, replica: Manifest) -> str:
    """What makes a replica leave that does not serve."""
    if shows_serving(replica):
        return ""
    if has_failed_cache(facts, replica, name_of(cluster)):
        return "its cache failed there"
    return "its pool is promised twice" if _is_crowded(facts, cluster, replica) else ""


def has_failed_cache(facts: Facts, user: Manifest, cluster: str) -> bool:
    """Whether a cache that a deployment or a replica mounts is not staged on a cluster, and will not be soon."""
    found = (facts.get(ObjectId("ModelCache", namespace_of(user), name)) for name in mounted_caches(user))
    return any(cache_phase(cache, cluster) == "Failed" for cache in found)


def _misses_cluster(replica: Manifest) -> bool:
    return any(text_at(each, "reason") == "ClusterMissing" for each in items_at(replica, "status", "conditions"))


def _is_preempted(facts: Facts, replica: Manifest) -> bool:
    where = labels_of(replica).get(CLUSTER)
    return any(
        value_at(other, "spec", "preempts") and labels_of(other).get(CLUSTER) == where
        for other in facts.all_of("ModelReplica")
    )


def _is_crowded(facts: Facts, cluster: Manifest, replica: Manifest) -> bool:
    """Whether a pool of the replica is promised twice, or its scheduler can bind pods so that one finds no node."""
    where = name_of(cluster)
    return any(
        held_on(facts, where, pool) > capacity_of(cluster, pool)
        or _may_strand(pods_on(facts, where, pool), *_nodes_of(cluster, pool))
        for pool in demands(replica)
    )


def _may_strand(pods: list[int], nodes: int, devices: int) -> bool:
    """Whether the other pods are enough to leave a pod too few devices on each node."""
    return any(sum(pods) - pod >= nodes * (devices - pod + 1) for pod in set(pods))


def _failing(cluster: Manifest, deployment: Manifest, now: float) -> bool:
    grace = int_at(deployment, "spec", "failover", "gracePeriodSeconds", default=300)
    since = [
        epoch_s(text_at(condition, "lastTransitionTime"))
        for condition in items_at(cluster, "status", "conditions")
        if text_at(condition, "type") in _READINESS and text_at(condition, "status") != "True"
    ]
    return any(since_s is not None and since_s + grace <= now for since_s in since)


def _edited(deployment: Manifest, replica: Manifest) -> str:
    """Whether it holds something else than the deployment asks for."""
    engines = list(items_at(replica, "spec", "engines"))
    members = [member for engine in engines for member in items_at(engine, "members")]
    requested = [_request(each) for each in items_at(deployment, "spec", "nodeSelector", "devices")]
    for member in members:
        if [_request(each) for each in items_at(member, "deviceRequests")] != requested:
            return "the deployment asks for other devices"
    copies = int_at(deployment, "spec", "workers", "count", default=1)
    if any(int_at(engine, "copies", default=1) != copies for engine in engines):
        return "the deployment asks for other workers"
    return ""


def _request(item: Manifest) -> tuple[int, tuple[str, ...]]:
    return int_at(item, "count", default=1), tuple(text_at(each, "cel") for each in items_at(item, "selectors"))


def _unsuitable(facts: Facts, cluster: Manifest, deployment: Manifest, replica: Manifest) -> str:
    declared = {text_at(pool, "name"): text_at(pool, "className") for pool in items_at(cluster, "spec", "nodePools")}
    for pool in demands(replica):
        if pool not in declared:
            return f"its cluster has no pool {pool}"
        found = facts.get(ObjectId("InferenceClass", "", declared[pool]))
        shown = next((each for each in items_at(cluster, "status", "gpuPools") if text_at(each, "name") == pool), None)
        for described in (mapping_at(found, "spec") if found is not None else {}, shown or {}):
            if described and not _suits(described, deployment):
                return f"pool {pool} does not suit"
    return ""


def _suits(described: Manifest, deployment: Manifest) -> bool:
    devices = list(items_at(described, "devices"))
    for wanted in items_at(deployment, "spec", "nodeSelector", "devices"):
        count, selectors = _request(wanted)
        fitting = [
            device
            for device in devices
            if all(text_at(device, "attributes", "productName", "string") in text for text in selectors)
        ]
        if sum(int_at(device, "count") for device in fitting) < count:
            return False
    return True


def deployment_of(facts: Facts, replica: Manifest) -> Manifest | None:
    found = facts.get(ObjectId("ModelDeployment", namespace_of(replica), labels_of(replica).get(DEPLOYMENT, "")))
    return found if found is not None and uid_of(found) == text_at(replica, "spec", "deployment", "uid") else None


def _id(item: Manifest) -> ObjectId:
    return ObjectId(str(item.get("kind")), namespace_of(item), name_of(item))
