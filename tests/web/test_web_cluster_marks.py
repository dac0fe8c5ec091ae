"""What a cluster says beside its health."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.web.cluster_marks import condition_rows, faulty_rows, marks
from modelplane.web.fleet_map import fleet_page
from modelplane.web.paging import ViewQuery
from modelplane.web.shapes import ConditionRow, FaultyShown
from modelplane.web.snapshot import DashboardSnapshot
from tests.support.dashboard_fleet import NOW, SINCE, by_kind, cluster, more, pool


def decoded(**given):
    return decode(InferenceCluster, cluster("east", pool(), **given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"more": [more("AgentConnected", "AgentConnected", "")]}, []),
        ({"more": [more("AgentConnected", "AgentDisconnected", "", "False")]}, ["agent not connected"]),
        ({"more": [more("AgentConnected", "Unresolved", "", "Unknown")]}, []),
        (
            {
                "more": [
                    more("RequirementsMet", "RequirementsMissing", "lws", "False"),
                    more("TelemetryReady", "CollectorStarting", "", "False"),
                ]
            },
            ["telemetry not ready", "software missing"],
        ),
        ({"software": {"phase": "UpToDate"}}, []),
        ({"software": {"phase": "Waiting"}}, ["software Waiting"]),
        ({"software": {"phase": "Failed"}}, ["software Failed"]),
        ({"software": {}}, []),
        ({"faultyReplicas": [{"replica": "d1", "message": "XID"}]}, ["1 replica on faulty devices"]),
        ({"faultyReplicas": [{"replica": each, "message": "XID"} for each in "ab"]}, ["2 replicas on faulty devices"]),
    ],
)  # fmt: skip
def test_what_a_card_is_marked_with(given, expected):
    assert list(marks(cluster("east", pool(), **given))) == expected


def test_a_filter_finds_marks():
    lost = cluster("west", pool(), more=[more("AgentConnected", "AgentDisconnected", "", "False")])
    snapshot = DashboardSnapshot.of(by_kind([cluster("east", pool()), lost]), now=NOW)
    found = fleet_page(snapshot, ViewQuery(q="agent not"))
    assert [(row.name, row.marks) for row in found.rows] == [("west", ("agent not connected",))]


def test_conditions_that_are_not_true_come_first():
    found = condition_rows(decoded(more=[more("AgentConnected", "AgentDisconnected", "since 10:38", "False")]))
    assert [row.type for row in found] == ["AgentConnected", "Ready"]
    assert found[0] == ConditionRow(
        type="AgentConnected", status="False", reason="AgentDisconnected", since=SINCE, message="since 10:38"
    )


def test_a_replica_that_is_gone_has_no_name():
    faulty = [{"replica": "d1", "message": "XID 79"}, {"replica": "d2", "message": "XID 48"}]
    assert faulty_rows(decoded(faultyReplicas=faulty), {"d1": ("team", "chat-a")}) == (
        FaultyShown(namespace="team", replica="chat-a", message="XID 79"),
        FaultyShown(namespace="", replica="", message="XID 48"),
    )
