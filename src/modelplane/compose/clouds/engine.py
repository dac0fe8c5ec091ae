"""Makes a cluster on a cloud out of the managed resources that the cloud's module lists.

Every resource counts: the cluster is provisioned when each of them is ready. One that exists stays in the desired state
when an input is late (a class that is not read, credentials that are gone), as it was last desired. A resource is
deleted after all that need it, and whatever the cluster is reached by is deleted after the last object on it.

A pool that its cloud has no nodes for has no capacity, so that placement looks elsewhere, and the condition names zones
and accelerator. One that had nodes keeps what was counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelplane.api.conditions import Condition, ConditionType, fails, holds
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.models import InferenceClass, InferenceCluster, NodePool
from modelplane.api.objects import Json, Manifest, items_at, manifest, mapping_at, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.clouds.resources import (
    POOLS,
    PREFIX,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    is_declared,
    node_key,
    pool_key,
)
from modelplane.compose.contract import (
    ComposeRequest,
    Desired,
    Local,
    Observed,
    ReadyWhen,
    Requirement,
    keep,
    keep_order,
)

_CONFIG = "provider-config"
_ACTIVATION, _ACTIVATION_API = f"{PREFIX}activation", "apiextensions.crossplane.io/v1alpha1"
_MAX_MESSAGE = 1024
_MAX_CAUSE = 300
_SHOWN = 5
_REACHED_THROUGH = ("access-kubernetes", "access-helm")
"""The host's keys of the provider configurations. They outlive every object on the cluster."""
_ALL_BUT_LATE = ["Observe", "Create", "Update", "Delete"]
_SAYS = ("LastAsyncOperation", "Synced")


@dataclass(frozen=True, slots=True)
class ProvisioningPlan:
    desired: Mapping[str, Desired] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    """Provisioned, where the cluster is made on a cloud."""
    reachable: bool = True
    """Whether the cluster exists and can be reached."""
    facts: Mapping[str, str] = field(default_factory=dict)
    storage: Json | None = None
    missing_pools: frozenset[str] = frozenset()
    """Pools that have no nodes on the cloud."""


def cloud_requirements(cloud: Cloud | None, cluster: InferenceCluster) -> dict[str, Requirement]:
    wanted = cloud.config_requirement(cluster) if cloud is not None else None
    return {} if wanted is None else {_CONFIG: wanted}


def class_fault(cloud: Cloud, pool: NodePool, found: InferenceClass) -> str | None:
    """Why no nodes of a class can be made on the cloud."""
    provisioning = found.spec.provisioning
    where = f"pool {pool.name}: InferenceClass {pool.class_name}"
    if provisioning is None and cloud.makes_machines:
        return f"{where} has no spec.provisioning, and the cluster is made by {cloud.source}"
    if provisioning is not None and provisioning.provider != cloud.source and cloud.makes_machines:
        return f"{where} is provisioned by {provisioning.provider}, and the cluster is made by {cloud.source}"
    planned = _pool_plan(cloud, pool, found)
    if planned is None:
        return f"{where} has no spec.provisioning.{cloud.source.lower()}, which names its machines"
    if others := sorted(_drivers(found) - cloud.drivers):
        return f"{where} has devices of {others[0]}; {cloud.source} has nodes with {', '.join(sorted(cloud.drivers))}"
    fault = cloud.machine_fault(planned)
    return f"{where}: {fault}" if fault else None


def _drivers(found: InferenceClass) -> set[str]:
    return {device.driver for device in found.spec.devices if device.claim == "DRA"}


def _pool_plan(cloud: Cloud, pool: NodePool, found: InferenceClass) -> PoolPlan | None:
    drivers = sorted(_drivers(found) & cloud.drivers)
    planned = cloud.plan_pool(pool, found.spec.provisioning)
    return replace(planned, driver=drivers[0]) if planned is not None and drivers else planned


def plan_cloud(
    cloud: Cloud, request: ComposeRequest[InferenceCluster], classes: Mapping[str, InferenceClass | None]
) -> ProvisioningPlan:
    """A spec that the cloud's module refuses changes nothing that exists."""
    cluster = request.resource
    seen = {key: item for key, item in request.observed.items() if key.startswith(PREFIX)}
    if cloud.fault(cluster) is not None:
        kept = {key: keep(item) for key, item in seen.items()}
        facts = cloud.facts(ClusterPlan(cluster, (), seen))
        return ProvisioningPlan(kept, (), _is_reachable(cloud, seen), facts)
    pools = tuple(_pool_plans(cloud, cluster, classes))
    config = request.fetched(_CONFIG)
    plan = ClusterPlan(cluster, pools, seen, config[0] if config else None)
    made = list(cloud.resources(plan))
    remote = tuple(key for key in request.observed if not key.startswith(PREFIX))
    wanted = {item.key: _desired(cloud, plan, item, made, remote) for item in made}
    wanted = {_ACTIVATION: _activation(plan, made), **wanted}
    wanted = keep_order(wanted, _not_decided(plan, wanted), seen)
    faults = [
        class_fault(cloud, pool, found) for pool in cluster.spec.node_pools if (found := classes[pool.class_name])
    ]
    conditions = (_condition(cloud, plan, wanted, [fault for fault in faults if fault]),)
    early = {item.key for item in made if _served_as(item) not in _activated(seen)} - seen.keys()
    return ProvisioningPlan(
        # A kind that is not served yet keeps Crossplane from applying any object, so it is activated a pass earlier.
        {key: item for key, item in wanted.items() if key not in early},
        conditions,
        _is_reachable(cloud, seen),
        cloud.facts(plan),
        cloud.storage(plan),
        frozenset(_missing(cluster, seen)),
    )


def _activation(plan: ClusterPlan, made: Iterable[ManagedResource]) -> Desired:
    """Crossplane serves the kinds of a provider that somebody activates: unused clouds cost nothing."""
    kinds = sorted({*map(_served_as, made), *_activated(plan.observed)})
    name = plan.name(_ACTIVATION)
    policy = manifest(_ACTIVATION_API, "ManagedResourceActivationPolicy", name, spec={"activate": kinds})
    return Desired(Local(policy), _ACTIVATION in plan.observed)


def _activated(seen: Mapping[str, Observed]) -> frozenset[str]:
    found = seen.get(_ACTIVATION)
    kinds = mapping_at(found.manifest, "spec").get("activate") if found is not None else None
    return frozenset(map(str, kinds)) if isinstance(kinds, list) else frozenset()


def _served_as(item: ManagedResource) -> str:
    return f"{_plural(item.kind)}.{item.api_version.partition('/')[0]}"


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("cy"):
        return f"{lower[:-1]}ies"
    return lower if lower.endswith("s") else f"{lower}s"


def _is_reachable(cloud: Cloud, seen: Mapping[str, Observed]) -> bool:
    return all(key in seen and seen[key].ready for key in cloud.access_keys)


def _pool_plans(
    cloud: Cloud, cluster: InferenceCluster, classes: Mapping[str, InferenceClass | None]
) -> Iterator[PoolPlan]:
    """The pools whose classes are read and name machines of the cloud."""
    read = ((pool, classes.get(pool.class_name)) for pool in cluster.spec.node_pools)
    usable = ((pool, found) for pool, found in read if found is not None and class_fault(cloud, pool, found) is None)
    return (plan for pool, found in usable if (plan := _pool_plan(cloud, pool, found)) is not None)


def _not_decided(plan: ClusterPlan, desired: Mapping[str, Desired]) -> dict[str, Desired]:
    """What exists, is not listed now, and was not taken out of the spec: a fact that it needs is late.

    A pool leaves when it leaves spec.nodePools, and a node of its own when it is no longer among those of its pool. All
    else leaves with the cluster.
    """
    listed = tuple(node_key(pool.pool, "") for pool in plan.pools)
    return {
        key: keep(item)
        for key, item in plan.observed.items()
        if key not in desired
        and (not key.startswith(POOLS) or (is_declared(plan.cluster, key) and not key.startswith(listed)))
    }


def _desired(
    cloud: Cloud, plan: ClusterPlan, item: ManagedResource, made: Iterable[ManagedResource], remote: tuple[str, ...]
) -> Desired:
    users = tuple(user.key for user in made if item.key in user.needs)
    reached = (*remote, *_REACHED_THROUGH) if item.key in cloud.access_keys else ()
    seen = plan.observed.get(item.key)
    target = Local(_manifest(cloud, plan, item), ReadyWhen.READY)
    return Desired(target, seen is not None and seen.ready, (*users, *reached))


def _manifest(cloud: Cloud, plan: ClusterPlan, item: ManagedResource) -> Json:
    credentials = cloud.credentials(plan.cluster)
    config = {"kind": credentials.type_, "name": credentials.name} if credentials else _DEFAULT_CONFIG
    spec: Json = {"providerConfigRef": config, "forProvider": dict(item.body)}
    if item.initial:
        spec["initProvider"] = dict(item.initial)
    if not item.late_initialize:
        # The provider would write what it finds into the spec, and hold an autoscaler to it.
        spec["managementPolicies"] = _ALL_BUT_LATE
    if item.secret:
        spec["writeConnectionSecretToRef"] = {"name": item.secret}
    named = {"crossplane.io/external-name": item.external_name} if item.external_name else {}
    made = manifest(item.api_version, item.kind, plan.name(item.key), namespace=SYSTEM_NAMESPACE, spec=spec)
    if named:
        made["metadata"] = {"name": plan.name(item.key), "namespace": SYSTEM_NAMESPACE, "annotations": named}
    return made


_DEFAULT_CONFIG = {"kind": "ClusterProviderConfig", "name": "default"}


def _missing(cluster: InferenceCluster, seen: Mapping[str, Observed]) -> Iterator[str]:
    """Pools that were never ready."""
    counted = {pool.name for pool in cluster.status.gpu_pools if pool.nodes}
    for pool in cluster.spec.node_pools:
        nodes = (item for key, item in seen.items() if key == pool_key(pool) or key.startswith(node_key(pool, "")))
        if not any(item.ready for item in nodes) and pool.name not in counted:
            yield pool.name


def _condition(cloud: Cloud, plan: ClusterPlan, desired: Mapping[str, Desired], faults: list[str]) -> Condition:
    """The worst first: what waiting does not mend, then what it may, then what takes its time."""
    waiting = [key for key, item in desired.items() if not item.ready]
    troubles = {key: trouble for key in waiting if (trouble := _trouble(plan.observed.get(key)))}
    empty = [pool for pool in plan.pools if _says_no_capacity(cloud, troubles.get(pool.key, ""))]
    if faults:
        return _failed(Reason.PROVISIONING_FAILED, "; ".join(faults))
    if empty:
        return _failed(Reason.INSUFFICIENT_CAPACITY, "; ".join(_no_nodes(pool, troubles[pool.key]) for pool in empty))
    if troubles:
        shown = [f"{key.removeprefix(PREFIX)}: {text[:_MAX_CAUSE]}" for key, text in troubles.items()]
        return _failed(Reason.PROVISIONING_FAILED, "; ".join(shown[:_SHOWN]))
    if waiting:
        names = ", ".join(key.removeprefix(PREFIX) for key in waiting[:_SHOWN])
        more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        return _failed(Reason.PROVISIONING, f"{len(waiting)} of {len(desired)} are not ready: {names}{more}")
    return holds(ConditionType.PROVISIONED, Reason.PROVISIONED)


def _says_no_capacity(cloud: Cloud, message: str) -> bool:
    own = bool(cloud.no_capacity) and re.search(cloud.no_capacity, message)
    return bool(own) or "no capacity" in message.lower()


def _failed(reason: Reason, message: str) -> Condition:
    return fails(ConditionType.PROVISIONED, reason, message[:_MAX_MESSAGE])


def _no_nodes(pool: PoolPlan, cause: str) -> str:
    where = ", ".join(pool.pool.zones) or "the region"
    return f"pool {pool.pool.name}: no {pool.accelerator.type_} in {where}: {cause[:_MAX_CAUSE]}"


def _trouble(seen: Observed | None) -> str:
    """What the provider says of a resource that it could not make or change."""
    return trouble_of(seen.manifest) if seen is not None else ""


def trouble_of(item: Manifest) -> str:
    said = {str(found.get("type")): found for found in items_at(item, "status", "conditions")}
    for kind in _SAYS:
        if kind in said and said[kind].get("status") == "False" and (message := text_at(said[kind], "message")):
            return message
    return ""
