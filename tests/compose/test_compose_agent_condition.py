"""AgentConnected: what is shown of what the hub wrote, and that nothing depends on it."""

import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.agent_condition import agent_condition

NOW = 1_800_000_000.0


def cluster(written=None, connection="Agent"):
    existing = {"secretRef": {"name": "east-kubeconfig"}, **({"connection": connection} if connection else {})}
    annotations = {} if written is None else {"modelplane.ai/agent": written}
    return decode(
        InferenceCluster,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east", "annotations": annotations},
            "spec": {"cluster": {"source": "Existing", "existing": existing}, "nodePools": []},
        },
    )


def state(*, connected, since=NOW - 600, heartbeat=NOW - 30):
    return json.dumps({"connected": connected, "since": since, "heartbeat": heartbeat})


CASES = {
    "connected": (
        state(connected=True),
        ("True", "AgentConnected", "connected since 2027-01-15T07:50:00Z, last heartbeat 2027-01-15T07:59:30Z"),
    ),
    "gone": (
        state(connected=False),
        ("False", "AgentDisconnected", "the agent is not connected since 2027-01-15T07:50:00Z"),
    ),
    "the hub is silent": (
        state(connected=True, heartbeat=NOW - 181),
        (
            "Unknown",
            "AgentDisconnected",
            "the hub has not spoken of the agent since 2027-01-15T07:56:59Z; it was connected then",
        ),
    ),
    "never": (None, ("Unknown", "AgentDisconnected", "no agent has connected yet")),
    "nonsense": ("{", ("Unknown", "AgentDisconnected", "no agent has connected yet")),
}


@pytest.mark.parametrize(("written", "expected"), CASES.values(), ids=CASES)
def test_what_is_shown(written, expected):
    (condition,) = agent_condition(cluster(written), NOW)
    assert (condition.type, condition.status, condition.reason, condition.message) == ("AgentConnected", *expected)


@pytest.mark.parametrize("connection", ["Direct", None])
def test_a_cluster_without_an_agent_has_no_such_condition(connection):
    assert agent_condition(cluster(state(connected=True), connection), NOW) == ()
