"""AgentConnected of an InferenceCluster: what the hub wrote of the cluster's agent, and how old that is.

A cluster whose agent is away takes no new replicas. Requests of users do not pass through the tunnel, so those that it
has serve on: nothing is known of them, and unknown is not absent. Whether they are replaced is the deployment's
failover; a hub that is silent says nothing of clusters, and replaces nothing.
"""

from collections.abc import Iterable

import msgspec

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, unknown
from modelplane.api.labels import AGENT_STATE
from modelplane.api.models import InferenceCluster
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp

_STALE_S = 180.0
"""Three heartbeats of the hub."""
_LOST = "the cluster does not answer"


class WrittenState(msgspec.Struct, frozen=True):
    connected: bool
    since: float
    heartbeat: float


def agent_condition(cluster: InferenceCluster, now: float) -> tuple[Condition, ...]:
    """Nothing for a cluster that is reached without an agent."""
    if not has_agent(cluster):
        return ()
    kind, state = ConditionType.AGENT_CONNECTED, _state(cluster)
    if state is None:
        return (unknown(kind, Reason.AGENT_UNKNOWN, "no agent has connected yet"),)
    since, heartbeat = timestamp(state.since), timestamp(state.heartbeat)
    if not state.connected:
        return (fails(kind, Reason.AGENT_DISCONNECTED, f"the agent is not connected since {since}"),)
    if now and now - state.heartbeat > _STALE_S:
        message = f"the hub has not spoken of the agent since {heartbeat}; it was connected then"
        return (unknown(kind, Reason.AGENT_UNKNOWN, message),)
    message = f"connected since {since}, last heartbeat {heartbeat}"
    return (holds(kind, Reason.AGENT_CONNECTED, message),)


def has_agent(cluster: InferenceCluster) -> bool:
    existing = cluster.spec.cluster.existing
    return existing is not None and existing.connection == "Agent"


def unreached(agent: Iterable[Condition], *, answers: bool, lost: bool) -> Condition | None:
    """Why the cluster cannot be reached, as its ClusterReady; None where it can.

    `answers`: its gateway was read just now. `lost`: it was read once, and cannot be.
    """
    for connected in agent:
        away = connected.status is ConditionStatus.FALSE
        if away or (connected.status is ConditionStatus.UNKNOWN and not answers):
            return msgspec.structs.replace(connected, type=ConditionType.CLUSTER_READY)
    return fails(ConditionType.CLUSTER_READY, Reason.CLUSTER_LOST, _LOST) if lost else None


def stale_after_s(cluster: InferenceCluster, now: float) -> float | None:
    """When a hub that falls silent is shown as silent: no event comes then."""
    state = _state(cluster) if has_agent(cluster) else None
    if state is None or not now or not state.connected or now - state.heartbeat > _STALE_S:
        return None
    return state.heartbeat + _STALE_S + 1.0 - now


def _state(cluster: InferenceCluster) -> WrittenState | None:
    written = cluster.metadata.annotations.get(AGENT_STATE)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=WrittenState)
    except msgspec.MsgspecError:
        return None
