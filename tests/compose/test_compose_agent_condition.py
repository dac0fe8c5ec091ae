"""AgentConnected: what is shown of what the hub wrote, and what it means for the cluster."""

import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.agent_condition import agent_condition, stale_after_s, unreached

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
    "three heartbeats ago": (
        state(connected=True, heartbeat=NOW - 180),
        ("True", "AgentConnected", "connected since 2027-01-15T07:50:00Z, last heartbeat 2027-01-15T07:57:00Z"),
    ),
    "gone": (
        state(connected=False),
        ("False", "AgentDisconnected", "the agent is not connected since 2027-01-15T07:50:00Z"),
    ),
    "the hub is silent": (
        state(connected=True, heartbeat=NOW - 181),
        (
            "Unknown",
            "AgentUnknown",
            "the hub has not spoken of the agent since 2027-01-15T07:56:59Z; it was connected then",
        ),
    ),
    "never": (None, ("Unknown", "AgentUnknown", "no agent has connected yet")),
    "nonsense": ("{", ("Unknown", "AgentUnknown", "no agent has connected yet")),
}


@pytest.mark.parametrize(("written", "expected"), CASES.values(), ids=CASES)
def test_what_is_shown(written, expected):
    (condition,) = agent_condition(cluster(written), NOW)
    assert (condition.type, condition.status, condition.reason, condition.message) == ("AgentConnected", *expected)


@pytest.mark.parametrize("connection", ["Direct", None])
def test_a_cluster_without_an_agent_has_no_such_condition(connection):
    assert agent_condition(cluster(state(connected=True), connection), NOW) == ()


HERE, GONE, SILENT = state(connected=True), state(connected=False), state(connected=True, heartbeat=NOW - 181)
READ, UNREAD, NEVER_READ = (
    {"answers": True, "lost": False},
    {"answers": False, "lost": True},
    {"answers": False, "lost": False},
)
LOST = ("False", "ClusterLost")
REACHED = [
    ("Direct", None, READ, None),
    ("Direct", None, NEVER_READ, None),
    ("Direct", None, UNREAD, LOST),
    ("Agent", HERE, READ, None),
    ("Agent", HERE, NEVER_READ, None),
    ("Agent", HERE, UNREAD, LOST),  # its API server does not answer the agent
    ("Agent", GONE, READ, ("False", "AgentDisconnected")),  # what was read is older
    ("Agent", GONE, UNREAD, ("False", "AgentDisconnected")),
    ("Agent", SILENT, READ, None),  # the hub cannot write, and carries requests
    ("Agent", SILENT, UNREAD, ("Unknown", "AgentUnknown")),
    ("Agent", None, NEVER_READ, ("Unknown", "AgentUnknown")),
]


@pytest.mark.parametrize(("connection", "written", "seen", "expected"), REACHED)
def test_whether_the_cluster_is_reached(connection, written, seen, expected):
    found = unreached(agent_condition(cluster(written, connection), NOW), **seen)
    assert (found and (found.type, found.status, found.reason)) == (expected and ("ClusterReady", *expected))


@pytest.mark.parametrize(
    ("connection", "written", "now", "expected"),
    [
        ("Agent", HERE, NOW, 151.0),
        ("Agent", state(connected=True, heartbeat=NOW - 180), NOW, 1.0),
        ("Agent", HERE, 0.0, None),
        ("Agent", GONE, NOW, None),
        ("Agent", SILENT, NOW, None),
        ("Agent", None, NOW, None),
        ("Direct", HERE, NOW, None),
    ],
)
def test_a_hub_that_falls_silent_is_noticed_without_an_event(connection, written, now, expected):
    found = cluster(written, connection)
    assert stale_after_s(found, now) == expected
    if expected is not None:
        (then,) = agent_condition(found, now + expected)
        assert then.reason == "AgentUnknown"
