"""The inputs of rendering a replica: its cluster, its caches, and the Secrets and ConfigMaps that its pods name.

Each is unresolved, absent or present. An absent or invalid input deletes nothing: it becomes a condition.
"""

from dataclasses import dataclass, field

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.errors import InvalidObject
from modelplane.api.models import InferenceCluster, ModelCache, ModelReplica
from modelplane.api.objects import API_VERSION, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, Requirement, Use
from modelplane.compose.replica_references import ReplicaReferences, reference_requirements, resolve_references

_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ReplicaInputs:
    cluster: InferenceCluster | None
    caches: dict[str, ModelCache] | None
    """None while one of them is not there."""
    scheduled: Condition
    caches_ready: Condition
    references: ReplicaReferences
    address: str | None = field(default=None)


def requirements(replica: ModelReplica) -> dict[str, Requirement]:
    wanted = {_CLUSTER: Requirement(API_VERSION, "InferenceCluster", name=replica.spec.cluster_name)}
    namespace = replica.metadata.namespace
    for mount in replica.spec.caches:
        wanted[_cache_key(mount.name)] = Requirement(API_VERSION, "ModelCache", name=mount.name, namespace=namespace)
    return {**wanted, **reference_requirements(replica)}


def uses(replica: ModelReplica) -> tuple[Use, ...]:
    """What must outlive the replica: without its cluster's credentials nothing of it could be removed there."""
    cluster = Use(API_VERSION, "InferenceCluster", replica.spec.cluster_name, reason="a replica runs on the cluster")
    namespace = replica.metadata.namespace
    caches = (
        Use(API_VERSION, "ModelCache", mount.name, namespace, "a replica mounts the cache")
        for mount in replica.spec.caches
    )
    return (cluster, *caches)


def gather(request: ComposeRequest[ModelReplica]) -> ReplicaInputs:
    cluster, scheduled = _cluster(request)
    caches, staged = _caches(request)
    return ReplicaInputs(cluster, caches, scheduled, staged, resolve_references(request), _address(request, cluster))


def _cache_key(name: str) -> str:
    return f"cache-{name}"


def _cluster(request: ComposeRequest[ModelReplica]) -> tuple[InferenceCluster | None, Condition]:
    name = request.resource.spec.cluster_name
    found = request.fetched(_CLUSTER)
    if found is None:
        return None, unknown(ConditionType.SCHEDULED, Reason.UNRESOLVED, f"cluster {name} is not read yet")
    if not found:
        message = f"cluster {name} does not exist; running pods stay"
        return None, fails(ConditionType.SCHEDULED, Reason.CLUSTER_MISSING, message)
    try:
        # What was observed of a cluster is no input here, and long for a large one.
        cluster = decode(InferenceCluster, {**found[0], "status": {"gateway": value_at(found[0], "status", "gateway")}})
    except InvalidObject as error:
        return None, fails(ConditionType.SCHEDULED, Reason.INVALID, f"cluster {name}: {error}; running pods stay")
    return cluster, holds(ConditionType.SCHEDULED, Reason.PLACED, f"on cluster {name}")


def _address(request: ComposeRequest[ModelReplica], cluster: InferenceCluster | None) -> str | None:
    """Where the cluster's gateway answers. What was known stays while the cluster cannot be read."""
    gateway = cluster.status.gateway if cluster else None
    return f"http://{gateway.address}" if gateway and gateway.address else request.resource.status.address


def _caches(request: ComposeRequest[ModelReplica]) -> tuple[dict[str, ModelCache] | None, Condition]:
    mounts = request.resource.spec.caches
    if not mounts:
        return {}, holds(ConditionType.CACHES_READY, Reason.NO_CACHES)
    found: dict[str, ModelCache] = {}
    for mount in mounts:
        items = request.fetched(_cache_key(mount.name))
        if items is None:
            message = f"cache {mount.name} is not read yet"
            return None, unknown(ConditionType.CACHES_READY, Reason.UNRESOLVED, message)
        if not items:
            message = f"cache {mount.name} does not exist; running pods stay"
            return None, fails(ConditionType.CACHES_READY, Reason.CACHE_MISSING, message)
        try:
            found[mount.name] = decode(ModelCache, items[0])
        except InvalidObject as error:
            return None, fails(ConditionType.CACHES_READY, Reason.INVALID, f"cache {mount.name}: {error}")
    return found, _staged(found, request.resource.spec.cluster_name)


def _staged(caches: dict[str, ModelCache], cluster: str) -> Condition:
    for name, cache in caches.items():
        status = next((item for item in cache.status.clusters if item.name == cluster), None)
        phase = status.phase if status else "Pending"
        if phase == "Failed":
            message = f"cache {name} on {cluster}: {(status and status.message) or 'staging failed'}"
            return fails(ConditionType.CACHES_READY, Reason.CACHE_FAILED, message)
        if phase != "Ready":
            message = f"cache {name} on {cluster}: {phase}"
            return fails(ConditionType.CACHES_READY, Reason.CACHE_STAGING, message)
    return holds(
        ConditionType.CACHES_READY, Reason.CACHES_STAGED, f"{len(caches)} of {len(caches)} caches staged on {cluster}"
    )
