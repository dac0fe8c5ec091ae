"""InferenceCluster: what it is made of on a cloud, its software, its gateway, and its pools for placement.

A pool whose InferenceClass is missing or cannot be read keeps its last status: a class that is deleted by mistake must
not displace running replicas. Placement counts the declared nodes; observed capacity refines that.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import msgspec

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER, CLUSTER_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import (
    GpuPool,
    InClusterScheduler,
    InferenceClass,
    InferenceCluster,
    InferenceClusterStatus,
    ModelReplica,
    StatusGateway,
)
from modelplane.api.objects import API_VERSION, Json, manifest
from modelplane.api.reasons import Reason
from modelplane.compose import capacity
from modelplane.compose.agent_condition import agent_condition, stale_after_s, unreached
from modelplane.compose.clouds import ProvisioningPlan, cloud_of, cloud_requirements, plan_cloud
from modelplane.compose.cluster_hop import ClusterHop, cluster_hop, hop_requirements
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    ReadyWhen,
    Remote,
    Requirement,
    Use,
    keep,
)
from modelplane.compose.declared_pools import declared_pool, held_devices, without_free, without_nodes
from modelplane.compose.drains import DrainReport, report_drain, seen_taints, with_seen
from modelplane.compose.free_parts import counted_once, with_free_parts
from modelplane.compose.gang import scheduling_fault
from modelplane.compose.gateway_tracing import cluster_infrastructure, cluster_proxy
from modelplane.compose.placed_replica import placed_replica
from modelplane.compose.pool_hardware import class_kinds
from modelplane.compose.readiness import first_address
from modelplane.compose.refusal import cluster_fault, refuse
from modelplane.compose.stack import (
    StackInputs,
    StackPlan,
    charts_fault,
    chosen_scheduler,
    plan_stack,
    stack_fault,
    stack_requirements,
)
from modelplane.compose.storage_class import class_name, shared_class
from modelplane.compose.telemetry.cluster_telemetry import plan_telemetry, telemetry_requirements
from modelplane.compose.transitions import transitions

GATEWAY_CLASS = "envoy"
_GATEWAY, _STORAGE, _REPLICAS = "gateway", "storage-class", "replicas"
_MAX_MESSAGE = 1024
_HOP_REQUEUE_S = 10.0


def compose(request: ComposeRequest[InferenceCluster]) -> ComposeResult:
    fault = cluster_fault(request.resource) or charts_fault(request)
    if fault is not None and not request.observed:
        return refuse(request, fault)
    cluster = with_seen(request.resource, seen_taints(request.resource, request.now))
    found = {pool.class_name: _class(request, pool.class_name) for pool in cluster.spec.node_pools}
    classes = {name: read for name, read in found.items() if isinstance(read, InferenceClass)}
    provisioned, stack = _plans(request, {name: classes.get(name) for name in found})
    requirements = {**_requirements(cluster), **stack_requirements(cluster), **stack.requirements}
    cluster, scheduler = _scheduled(request, cluster)
    request = replace(request, resource=cluster)
    replicas = {replica.metadata.name: replica for replica in _replicas(request)}
    held = held_devices(replicas.values())
    known = {pool.name: pool for pool in cluster.status.gpu_pools}
    seen = capacity.pools_of(request, replicas.keys())
    pools = tuple(
        capacity.refined(shown, pool, seen, known.get(pool.name), request.now)
        for pool in cluster.spec.node_pools
        if (shown := declared_pool(cluster, pool, classes.get(pool.class_name), known.get(pool.name), held))
    )
    pools = tuple(without_nodes(pool) if pool.name in provisioned.missing_pools else pool for pool in pools)
    pools = with_free_parts(cluster, pools, replicas.values())
    digests = _digests(replicas.values()) if seen is not None else {}
    gateway, hop = request.observed.get(_GATEWAY), cluster_hop(request)
    address = first_address(gateway.manifest) if gateway else None
    answers = gateway is not None and gateway.ready
    # An address is all that makes the Gateway ready, so one that has it and is not cannot be read.
    agent = agent_condition(cluster, request.now)
    away = unreached(agent, answers=answers, lost=address is not None and not answers)
    conditions = (
        _cluster_condition(request, found, provisioned.conditions, away),
        _gateway_condition(hop, address, None if answers else away),
    )
    telemetry = plan_telemetry(request, reachable=provisioned.reachable)
    # None is part of Ready: pools without nodes, upgrades and collectors displace nothing that runs.
    more = (
        *provisioned.conditions,
        *(each for each in (stack.condition, telemetry.condition) if each is not None),
        *agent,
    )
    # A fault in the labels of pods keeps new replicas from being rendered; those that run go on.
    accepted = _accepted(cluster, fault)
    drain = _drain(request, cluster, replicas)
    return ComposeResult(
        desired={
            **provisioned.desired,
            **stack.desired,
            **_remote(request, hop, provisioned, stack),
            **telemetry.desired,
        },
        status=msgspec.structs.replace(
            _status(
                pools,
                request,
                {name: _devices(found) for name, found in replicas.items()},
                answers=away is None or address is None,
            ),
            gateway=_gateway_status(address, hop),
            no_execute_taints=cluster.status.no_execute_taints,
            kubernetes_version=capacity.kubernetes_version(request),
            storage_class_name=class_name(cluster, made=bool(_storage(request, cluster, provisioned.storage))),
            # As last observed, while nothing can be.
            bound_pods=capacity.bound_pods(pools, seen, digests) if seen is not None else cluster.status.bound_pods,
            faulty_replicas=capacity.faulty_replicas(seen, digests)
            if seen is not None
            else cluster.status.faulty_replicas,
            drain=drain.status,
            in_cluster_scheduler=scheduler,
            software=stack.status,
        ),
        conditions=(accepted, *more, *conditions, *drain.conditions),
        ready=summarise(conditions),
        events=(*transitions(cluster.status.conditions, (*more, *conditions)), *drain.events),
        requirements={
            **requirements,
            **capacity.requirements(cluster),
            **hop_requirements(request),
            **telemetry_requirements(request),
        },
        uses=_uses(cluster),
        requeue_after_s=_requeue_after_s(
            hop,
            capacity.requeue_after_s(pools, cluster.spec.node_pools, request.now),
            stack.requeue_after_s,
            stale_after_s(cluster, request.now),
        ),
    )


def _requeue_after_s(hop: ClusterHop, *others: float | None) -> float | None:
    """A gateway's certificate comes without an event here."""
    waits = [wait for wait in (*others, _HOP_REQUEUE_S if hop.waits else None) if wait]
    return min(waits) if waits else None


def _scheduled(
    request: ComposeRequest[InferenceCluster], cluster: InferenceCluster
) -> tuple[InferenceCluster, InClusterScheduler | None]:
    """The cluster with the scheduler that Auto stands for."""
    chosen = chosen_scheduler(request)
    status = msgspec.structs.replace(cluster.status, in_cluster_scheduler=chosen)
    return with_chosen_scheduler(msgspec.structs.replace(cluster, status=status)), chosen


def _plans(
    request: ComposeRequest[InferenceCluster], classes: Mapping[str, InferenceClass | None]
) -> tuple[ProvisioningPlan, StackPlan]:
    cloud = cloud_of(request.resource)
    provisioned = ProvisioningPlan() if cloud is None else plan_cloud(cloud, request, classes)
    return provisioned, plan_stack(request, StackInputs(classes, provisioned.facts, provisioned.reachable))


def _remote(
    request: ComposeRequest[InferenceCluster],
    hop: ClusterHop,
    provisioned: ProvisioningPlan,
    stack: StackPlan,
) -> dict[str, Desired]:
    """Objects on the cluster, once it exists. What was made there stays whatever is not ready by then."""
    cluster, seen = request.resource, request.observed.get(_GATEWAY)
    made = {
        "namespace": Desired(_namespace(cluster), ready=True),
        **_storage(request, cluster, provisioned.storage),
        **hop.desired,
        **cluster_proxy(request),
        _GATEWAY: Desired(_gateway(cluster, hop), seen is not None and seen.ready)
        if hop.listeners or seen is None
        else keep(seen),
    }
    late = {_GATEWAY} if not hop.listeners else set()
    late |= {_GATEWAY, *hop.desired} if stack.holds_gateway else set()
    startable = made.keys() - late if provisioned.reachable else set()
    return {key: item for key, item in made.items() if key in startable or key in request.observed}


def _digests(replicas: Iterable[ModelReplica]) -> dict[str, str]:
    """Names of replicas that do not tell whose they are."""
    digests: dict[str, str] = {}
    for replica in replicas:
        with suppress(InputError):
            digests[replica.metadata.name] = placed_replica(replica).digest
    return digests


def _drain(
    request: ComposeRequest[InferenceCluster], cluster: InferenceCluster, replicas: Mapping[str, ModelReplica]
) -> DrainReport:
    fetched = request.fetched(_REPLICAS)
    if fetched is None:
        return report_drain(cluster, None, request.now)
    return report_drain(cluster, replicas.values(), request.now, unread=len(fetched) - len(replicas))


def _accepted(cluster: InferenceCluster, refused: str | None) -> Condition:
    if refused is not None:
        return fails(ConditionType.ACCEPTED, Reason.NOT_SUPPORTED, refused)
    fault = scheduling_fault(cluster.spec.scheduling) or stack_fault(cluster)
    if fault is not None:
        return fails(ConditionType.ACCEPTED, Reason.INVALID, fault)
    return holds(ConditionType.ACCEPTED, Reason.ACCEPTED)


def _uses(cluster: InferenceCluster) -> tuple[Use, ...]:
    names = sorted({pool.class_name for pool in cluster.spec.node_pools})
    return tuple(Use(API_VERSION, "InferenceClass", name, reason="a pool has nodes of this class") for name in names)


def _requirements(cluster: InferenceCluster) -> dict[str, Requirement]:
    names = {pool.class_name for pool in cluster.spec.node_pools}
    wanted = {_class_key(name): Requirement(API_VERSION, "InferenceClass", name=name) for name in sorted(names)}
    labels = {CLUSTER: cluster.metadata.name}
    replicas = Requirement(API_VERSION, "ModelReplica", labels=labels)
    clouds = cloud_requirements(cloud_of(cluster), cluster)
    return {**wanted, _REPLICAS: replicas, **clouds}


def _class_key(name: str) -> str:
    return f"class-{name}"


def _class(request: ComposeRequest[InferenceCluster], name: str) -> InferenceClass | str | None:
    """The class; why it cannot be read; or None where there is none."""
    found = request.fetched(_class_key(name))
    if not found:
        return None
    try:
        resource = decode(InferenceClass, found[0])
        kinds = class_kinds(resource)
    except InputError as error:
        return str(error)
    faults = [f"device {kind.name}: {kind.device.fault}" for kind in kinds if kind.device.fault]
    if not kinds:
        return "spec.devices: at least 1 device is needed"
    return resource if not faults else faults[0]


def _replicas(request: ComposeRequest[InferenceCluster]) -> Iterator[ModelReplica]:
    """Those that can be decoded. Devices of the others count as held by others."""
    for item in request.fetched(_REPLICAS) or ():
        with suppress(InputError):
            yield decode(ModelReplica, item)


def _devices(replica: ModelReplica) -> capacity.ReplicaDevices:
    return capacity.ReplicaDevices(replica.metadata.namespace, held_devices([replica]).total())


def _namespace(cluster: InferenceCluster) -> Remote:
    return Remote(ClusterName(cluster.metadata.name), manifest("v1", "Namespace", SYSTEM_NAMESPACE), shared=True)


def _storage(
    request: ComposeRequest[InferenceCluster], cluster: InferenceCluster, of_cloud: Json | None
) -> dict[str, Desired]:
    """The class for shared volumes. One that exists stays as it is: its parameters cannot be changed."""
    made, seen = shared_class(cluster), request.observed.get(_STORAGE)
    if made is None and of_cloud is not None:
        made = Remote(ClusterName(cluster.metadata.name), of_cloud)
    if seen is not None and (made is not None or cluster.spec.cluster.source != "Existing"):
        return {_STORAGE: keep(seen)}
    return {} if made is None else {_STORAGE: Desired(made, ready=False)}


def _gateway(cluster: InferenceCluster, hop: ClusterHop) -> Remote:
    gateway = manifest(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        CLUSTER_GATEWAY,
        namespace=SYSTEM_NAMESPACE,
        spec={"gatewayClassName": GATEWAY_CLASS, "listeners": list(hop.listeners), **cluster_infrastructure(cluster)},
    )
    return Remote(ClusterName(cluster.metadata.name), gateway, ReadyWhen.ADDRESSED)


def _cluster_condition(
    request: ComposeRequest[InferenceCluster],
    classes: Mapping[str, InferenceClass | str | None],
    provisioned: tuple[Condition, ...],
    away: Condition | None,
) -> Condition:
    waiting = [name for name in classes if request.fetched(_class_key(name)) is None]
    if waiting:
        message = f"InferenceClasses not read yet: {', '.join(sorted(waiting))}"
        return unknown(ConditionType.CLUSTER_READY, Reason.UNRESOLVED, message)
    missing = sorted(name for name, found in classes.items() if found is None)
    if missing:
        message = f"InferenceClass {', '.join(missing)} does not exist; its pools keep their last status"
        return fails(ConditionType.CLUSTER_READY, Reason.CLASS_MISSING, message)
    invalid = sorted(f"{name}: {found}" for name, found in classes.items() if isinstance(found, str))
    if invalid:
        message = f"InferenceClass {'; '.join(invalid)}; its pools keep their last status"
        return fails(ConditionType.CLUSTER_READY, Reason.CLASS_INVALID, message[:_MAX_MESSAGE])
    # A host need not show the namespace, which others use too.
    reached = _GATEWAY in request.observed or "namespace" in request.observed
    for made in provisioned:
        if made.status is not ConditionStatus.TRUE and not reached:
            return msgspec.structs.replace(made, type=ConditionType.CLUSTER_READY)
    if away is not None:
        return away
    if _GATEWAY not in request.observed:
        return unknown(
            ConditionType.CLUSTER_READY, Reason.WAITING_FOR_CLUSTER, "no object on the cluster is observed yet"
        )
    return holds(ConditionType.CLUSTER_READY, Reason.CLUSTER_RUNNING)


def _gateway_condition(hop: ClusterHop, address: str | None, away: Condition | None) -> Condition:
    note = f"; spec.gateway.mutualTLS waits: {hop.waits}" if hop.waits else ""
    if address is None:
        message = f"the cluster's gateway has no address{note}"
        return fails(ConditionType.GATEWAY_READY, Reason.WAITING_FOR_GATEWAY, message)
    if away is not None:
        return msgspec.structs.replace(away, type=ConditionType.GATEWAY_READY)
    return holds(ConditionType.GATEWAY_READY, Reason.GATEWAY_RUNNING, address + note)


def _gateway_status(address: str | None, hop: ClusterHop) -> StatusGateway | None:
    if address is None:
        return None
    return StatusGateway(address=address, hostname=hop.hostname, ca_certificate=hop.authority)


def _status(
    pools: tuple[GpuPool, ...],
    request: ComposeRequest[InferenceCluster],
    held: Mapping[str, capacity.ReplicaDevices],
    *,
    answers: bool,
) -> InferenceClusterStatus:
    """Devices of a cluster that does not answer are not free: nothing can be placed on them."""
    replicas = request.fetched(_REPLICAS)
    free = sum(device.free or 0 for pool in pools for device in counted_once(pool.devices))
    return InferenceClusterStatus(
        namespace=SYSTEM_NAMESPACE,
        nodes=sum(pool.nodes for pool in pools),
        free_devices=free if answers else 0,
        lost_devices=None if answers else free,
        replicas=len(replicas) if replicas is not None else None,
        gpu_pools=pools if answers else tuple(without_free(pool) for pool in pools),
        queues=capacity.queues_of(request, held),
    )
