"""A ModelReplica as placement reads it: where it is, what it holds, and whether it serves."""

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.errors import InvalidObject
from modelplane.api.meta import ClusterName, Key, PoolName, Uid
from modelplane.api.models import (
    ModelReplica,
    ReplicaEngine,
)
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.lowering import capacity_requests
from modelplane.placement.matching import Claim
from modelplane.placement.values import (
    MemberAssignment,
    PlacedReplica,
    PoolAssignment,
    shared_assignments,
)

_SERVING = frozenset({ConditionType.WORKLOAD_READY.value, ConditionType.ROUTE_READY.value})


def placed_replica(resource: ModelReplica) -> PlacedReplica:
    """A replica with its devices, whether or not it runs."""
    spec, metadata = resource.spec, resource.metadata
    owner = spec.deployment
    serving = _serves(resource)
    return PlacedReplica(
        deployment=Key(metadata.namespace, owner.name if owner else "", Uid((owner and owner.uid) or "")),
        cluster=ClusterName(spec.cluster_name),
        index=spec.index,
        assignments=shared_assignments(tuple(_assignment(engine) for engine in spec.engines)),
        serving=serving,
        idle_since=None if serving else _idle_since(resource),
        created=metadata.creation_timestamp or "",
        priority=spec.priority,
        protected=spec.protected,
        leaving=metadata.deletion_timestamp is not None,
        preempts=spec.preempts,
        cluster_missing=_found_no_cluster(resource),
    )


def _found_no_cluster(resource: ModelReplica) -> bool:
    return any(
        condition.type == ConditionType.SCHEDULED
        and condition.status is ConditionStatus.FALSE
        and condition.reason == Reason.CLUSTER_MISSING
        for condition in resource.status.conditions
    )


def _serves(resource: ModelReplica) -> bool:
    """Whether it serves, whatever its other conditions are."""
    held = {condition.type for condition in resource.status.conditions if condition.status is ConditionStatus.TRUE}
    return ConditionType.READY.value in held or held >= _SERVING


def _idle_since(resource: ModelReplica) -> float | None:
    """Since when one that does not serve has not served: its latest transition, or else its creation."""
    failing = {found.type: found for found in resource.status.conditions if found.status is not ConditionStatus.TRUE}
    parts = [epoch_s(failing[name].last_transition_time) for name in sorted(_SERVING & failing.keys())]
    ready = failing.get(ConditionType.READY.value)
    stopped = [
        min((since_s for since_s in parts if since_s is not None), default=None),
        epoch_s(ready.last_transition_time) if ready is not None else None,
        epoch_s(resource.metadata.creation_timestamp),
    ]
    return max((since_s for since_s in stopped if since_s is not None), default=None)


def _assignment(engine: ReplicaEngine) -> PoolAssignment:
    if not engine.members:
        raise InvalidObject(f"spec.engines: engine {engine.name} has no members")
    members = tuple(
        MemberAssignment(
            engine.copies * member.nodes,
            tuple(
                Claim(
                    wanted.name,
                    wanted.device_class_name,
                    wanted.count,
                    tuple(selector.cel for selector in wanted.selectors),
                    capacity_requests(wanted.capacity),
                )
                for wanted in member.device_requests
            ),
        )
        for member in engine.members
    )
    return PoolAssignment(engine.name, PoolName(engine.members[0].node_pool_name), members)
