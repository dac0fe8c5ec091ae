"""AgentConnected of an InferenceCluster: what the hub wrote of the cluster's agent, and how old that is.

It is no part of Ready, and nothing is decided by it: a tunnel that breaks displaces nothing.
"""

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.labels import AGENT_STATE
from modelplane.api.models import InferenceCluster
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp

_STALE_S = 180.0
"""Three heartbeats of the hub."""


class WrittenState(msgspec.Struct, frozen=True):
    connected: bool
    since: float
    heartbeat: float


def agent_condition(cluster: InferenceCluster, now: float) -> tuple[Condition, ...]:
    """Nothing for a cluster that is reached without an agent."""
    existing = cluster.spec.cluster.existing
    if existing is None or existing.connection != "Agent":
        return ()
    kind, state = ConditionType.AGENT_CONNECTED, _state(cluster)
    if state is None:
        return (unknown(kind, Reason.AGENT_DISCONNECTED, "no agent has connected yet"),)
    since, heartbeat = timestamp(state.since), timestamp(state.heartbeat)
    if not state.connected:
        return (fails(kind, Reason.AGENT_DISCONNECTED, f"the agent is not connected since {since}"),)
    if now and now - state.heartbeat > _STALE_S:
        message = f"the hub has not spoken of the agent since {heartbeat}; it was connected then"
        return (unknown(kind, Reason.AGENT_DISCONNECTED, message),)
    message = f"connected since {since}, last heartbeat {heartbeat}"
    return (holds(kind, Reason.AGENT_CONNECTED, message),)


def _state(cluster: InferenceCluster) -> WrittenState | None:
    written = cluster.metadata.annotations.get(AGENT_STATE)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=WrittenState)
    except msgspec.MsgspecError:
        return None
