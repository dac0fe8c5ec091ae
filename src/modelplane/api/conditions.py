"""Conditions: what holds of an object, why, and for which generation.

A condition is `False` on any shortfall and `Unknown` while something is unresolved; "not fetched yet" is never
"absent". The moment of the last transition is the host's to fill in: it alone has a clock and the previous status.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from modelplane.api.meta import Timestamp
from modelplane.api.reasons import Reason


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionType(StrEnum):
    """Every condition Modelplane writes. READY is derived by the host from the readiness of the result."""

    READY = "Ready"
    ACCEPTED = "Accepted"
    CLUSTER_READY = "ClusterReady"
    GATEWAY_READY = "GatewayReady"
    PROVISIONED = "Provisioned"
    """Of an InferenceCluster that is made on a cloud."""
    REQUIREMENTS_MET = "RequirementsMet"
    """Of an InferenceCluster whose software is installed or checked."""
    TELEMETRY_READY = "TelemetryReady"
    """Of an InferenceCluster with a collector, or that should have one."""
    AGENT_CONNECTED = "AgentConnected"
    """Of an InferenceCluster that is reached through its agent."""
    REPLICAS_SCHEDULED = "ReplicasScheduled"
    REPLICAS_READY = "ReplicasReady"
    PROGRESSING = "Progressing"
    SCHEDULED = "Scheduled"
    CACHES_READY = "CachesReady"
    CLUSTERS_MATCHED = "ClustersMatched"
    ARTIFACT_READY = "ArtifactReady"
    SECRETS_READY = "SecretsReady"
    WORKLOAD_READY = "WorkloadReady"
    ROUTE_READY = "RouteReady"
    ENDPOINTS_RESOLVED = "EndpointsResolved"
    DRAINED = "Drained"
    """Of an InferenceCluster that is or was drained."""
    DELETABLE = "Deletable"
    """Written only while a deletion waits for whoever still needs the object."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: Timestamp | None = None


def holds(kind: ConditionType, reason: Reason, message: str = "") -> Condition:
    return Condition(type=kind, status=ConditionStatus.TRUE, reason=reason, message=message)


def fails(kind: ConditionType, reason: Reason, message: str) -> Condition:
    return Condition(type=kind, status=ConditionStatus.FALSE, reason=reason, message=message)


def unknown(kind: ConditionType, reason: Reason, message: str) -> Condition:
    return Condition(type=kind, status=ConditionStatus.UNKNOWN, reason=reason, message=message)


def summarise(conditions: Iterable[Condition], message: str = "") -> Condition:
    """The READY condition of an object that is ready when all of these hold, in the words of the first that fails."""
    for condition in conditions:
        if condition.status is not ConditionStatus.TRUE:
            return msgspec.structs.replace(condition, type=ConditionType.READY)
    return holds(ConditionType.READY, Reason.AVAILABLE, message)
