"""The inputs of a replica: its cluster, its caches, what its pods refer to, and its pods where the host sees them.

Each is unresolved, absent or present. An absent or invalid input deletes nothing: it becomes a condition.
"""

from dataclasses import dataclass, field

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, unknown
from modelplane.api.errors import InvalidObject
from modelplane.api.labels import REPLICA
from modelplane.api.meta import ClusterName, ObjectMeta
from modelplane.api.models import CacheMount, CacheOnCluster, InferenceCluster, ModelCache, ModelReplica, Scheduling
from modelplane.api.objects import API_VERSION, Manifest, items_at, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.agent_condition import has_agent
from modelplane.compose.caching.storage import source_fault
from modelplane.compose.causes import STAGING_FAULTS, Cause, in_words
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import ComposeRequest, Requirement, Use
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.replica_references import ReplicaReferences, reference_requirements, resolve_references

_CLUSTER, _PODS, _ADMISSIONS = "cluster", "pods", "admissions"
_AWAY = (Reason.AGENT_DISCONNECTED, Reason.AGENT_UNKNOWN)


@dataclass(frozen=True, slots=True)
class ReplicaInputs:
    cluster: InferenceCluster | None
    caches: dict[str, ModelCache] | None
    """None while one of them is not there."""
    scheduled: Condition
    caches_ready: Condition
    references: ReplicaReferences
    address: str | None = field(default=None)
    lost: Cause | None = None
    """That its cluster stopped answering, and when."""
    by_agent: Cause | None = None
    """What is said of objects that cannot be read, on a cluster that is reached through its agent."""


def requirements(replica: ModelReplica, cluster: InferenceCluster | None = None) -> dict[str, Requirement]:
    """`cluster` where it is known: what is read of its scheduler depends on it."""
    wanted = {_CLUSTER: Requirement(API_VERSION, "InferenceCluster", name=replica.spec.cluster_name)}
    namespace = replica.metadata.namespace
    for mount in replica.spec.caches:
        wanted[_cache_key(mount.name)] = Requirement(API_VERSION, "ModelCache", name=mount.name, namespace=namespace)
    name = ClusterName(replica.spec.cluster_name)
    wanted[_PODS] = pods_requirement(namespace, replica.metadata.name, name)
    admissions = admissions_requirement(namespace, name, cluster.spec.scheduling) if cluster is not None else None
    wanted |= reference_requirements(replica)
    return wanted if admissions is None else {**wanted, _ADMISSIONS: admissions}


def pods_requirement(namespace: str, name: str, cluster: ClusterName) -> Requirement:
    """The pods of a replica on its cluster."""
    return Requirement("v1", "Pod", namespace=remote_namespace(namespace), labels={REPLICA: name}, cluster=cluster)


def admissions_requirement(namespace: str, cluster: ClusterName, scheduling: Scheduling) -> Requirement | None:
    """The objects by which the cluster's scheduler admits a tenant's pods; None where it has none."""
    found = SCHEDULERS[scheduling.type_].admission(scheduling)
    return None if found is None else Requirement(*found, namespace=remote_namespace(namespace), cluster=cluster)


def admissions_of(request: ComposeRequest[ModelReplica]) -> tuple[Manifest, ...]:
    """The objects that admit pods of its namespace. A host that does not see them shows none."""
    return request.fetched(_ADMISSIONS) or ()


def pods_of(request: ComposeRequest[ModelReplica]) -> tuple[Manifest, ...]:
    """Its pods. A host that does not see the cluster's pods shows none."""
    return request.fetched(_PODS) or ()


def pods_are_observed(request: ComposeRequest[ModelReplica]) -> bool:
    """Whether the host sees the pods of the cluster. Where it does not, why they do not serve is not known."""
    return request.fetched(_PODS) is not None


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
    references = resolve_references(request)
    reached = (_lost(cluster), None) if cluster is None or not has_agent(cluster) else (None, _by_agent(cluster))
    return ReplicaInputs(cluster, caches, scheduled, staged, references, _address(request, cluster), *reached)


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
        # What was observed of its nodes is no input here, and long for a large cluster.
        cluster = with_chosen_scheduler(decode(InferenceCluster, {**found[0], "status": _status(found[0])}))
        _check_name(cluster.metadata, name)
    except InvalidObject as error:
        return None, fails(ConditionType.SCHEDULED, Reason.INVALID, f"cluster {name}: {error}; running pods stay")
    return cluster, holds(ConditionType.SCHEDULED, Reason.PLACED, f"on cluster {name}")


def _status(cluster: Manifest) -> Manifest:
    """What its replicas read of a cluster's status, without what is garbled: that is no reason not to render."""
    gateway = {name: text_at(cluster, "status", "gateway", name) for name in ("address", "hostname")}
    conditions = [item for item in items_at(cluster, "status", "conditions") if _is_condition(item)]
    scheduler = text_at(cluster, "status", "inClusterScheduler", "type")
    return {
        "conditions": conditions,
        "gateway": gateway,
        **({"inClusterScheduler": {"type": scheduler}} if scheduler in SCHEDULERS.keys() - {"Auto"} else {}),
    }


def _is_condition(item: Manifest) -> bool:
    try:
        decode(Condition, item)
    except InvalidObject:
        return False
    return True


def _check_name(metadata: ObjectMeta, name: str, namespace: str = "") -> None:
    """Names of rendered objects follow from these, so an object without them must not be rendered with."""
    if (metadata.name, metadata.namespace) != (name, namespace):
        raise InvalidObject("metadata has another name or namespace than was asked for")


def _check_source(cache: ModelCache) -> None:
    """Claims are named after it."""
    if (fault := source_fault(cache)) is not None:
        raise InvalidObject(fault)


def _lost(cluster: InferenceCluster | None) -> Cause | None:
    for condition in cluster.status.conditions if cluster else ():
        if condition.type == ConditionType.CLUSTER_READY and condition.reason == Reason.CLUSTER_LOST:
            since = condition.last_transition_time
            name = cluster.metadata.name if cluster else ""
            return Cause(Reason.CLUSTER_LOST, f"cluster {name} does not answer", since)
    return None


def _by_agent(cluster: InferenceCluster) -> Cause:
    """Unknown is not lost: requests of users do not pass through the tunnel."""
    name = cluster.metadata.name
    for connected in cluster.status.conditions:
        if connected.type == ConditionType.AGENT_CONNECTED and connected.status is not ConditionStatus.TRUE:
            reason = next((each for each in _AWAY if each == connected.reason), Reason.AGENT_UNKNOWN)
            return Cause(reason, f"cluster {name} is not reached: {connected.message}", connected.last_transition_time)
    return Cause(Reason.UNRESOLVED, f"objects on cluster {name} cannot be read")


def _address(request: ComposeRequest[ModelReplica], cluster: InferenceCluster | None) -> str | None:
    """Where the cluster's gateway answers, by HTTPS where it lets in fleet gateways only.

    What was known stays while the cluster cannot be read.
    """
    gateway = cluster.status.gateway if cluster else None
    if gateway is None or not gateway.address:
        return request.resource.status.address
    return f"{'https' if gateway.hostname else 'http'}://{gateway.address}"


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
            _check_name(found[mount.name].metadata, mount.name, request.resource.metadata.namespace)
            _check_source(found[mount.name])
        except InvalidObject as error:
            return None, fails(ConditionType.CACHES_READY, Reason.INVALID, f"cache {mount.name}: {error}")
    return found, _staged(mounts, found, request.resource.spec.cluster_name)


def _staged(mounts: tuple[CacheMount, ...], caches: dict[str, ModelCache], cluster: str) -> Condition:
    for mount in mounts:
        name = mount.name
        status = next((item for item in caches[name].status.clusters if item.name == cluster), None)
        if status is not None and _is_staged(mount, status):
            continue
        if status is not None and (status.phase == "Failed" or status.reason in STAGING_FAULTS):
            message = f"cache {name} on {cluster}: {_failure(status)}"
            return fails(ConditionType.CACHES_READY, Reason.CACHE_FAILED, in_words(message))
        stage = (status.reason or status.phase) if status is not None else "Pending"
        message = f"cache {name} on {cluster}: {stage}{_progress(status)}"
        return fails(ConditionType.CACHES_READY, Reason.CACHE_STAGING, in_words(message))
    return holds(
        ConditionType.CACHES_READY, Reason.CACHES_STAGED, f"{len(caches)} of {len(caches)} caches staged on {cluster}"
    )


def _is_staged(mount: CacheMount, status: CacheOnCluster) -> bool:
    """Whether what the replica mounts is complete. Claims that we did not make have no keys."""
    if status.staged_keys and mount.key is not None:
        return mount.key in status.staged_keys
    return status.phase == "Ready"


def _failure(status: CacheOnCluster) -> str:
    return ": ".join(part for part in (status.reason, status.message) if part) or "staging failed"


def _progress(status: CacheOnCluster | None) -> str:
    if status is None:
        return ""
    staged, total = status.staged_bytes, status.total_bytes
    counted = f", {_gib(staged)} of {_gib(total)} GiB" if staged is not None and total else ""
    return counted + (f": {status.message}" if status.message else "")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"
