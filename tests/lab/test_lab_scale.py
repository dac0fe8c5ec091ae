"""The measuring of a fleet: which calls a change caused, what they cost, and what of it is over a limit."""

import json

import pytest

from lab.scale import fleet
from lab.scale.calls import Account, Cost, Entry, costs, percentile, starts
from lab.scale.provider import there
from lab.scale.report import page, rows, sizes
from lab.scale.stages import Measured, Outcome, Size
from modelplane.compose.contract import ReadyWhen
from modelplane.compose.readiness import is_ready
from modelplane.compose.workload_status import rolled_out


def line(at_s, name, **more):
    said = {"msg": "answered", "ts": at_s, "object": f"ModelReplica/team-0/{name}", "reason": "Answered"}
    figures = {"work_ms": 1.5, "request_bytes": 100, "response_bytes": 200, "outcome": "composed"}
    return json.dumps({**said, **figures, **more}) + "\n"


def test_a_call_that_comes_long_before_its_time_was_caused_by_a_change(tmp_path):
    log = tmp_path / "function.log"
    log.write_text(
        '{"msg":"serving","reason":"Serving"}\n' + line(0, "a") + line(10, "a") + line(20, "b") + line(305, "a")
    )
    found = Account(log).read()
    assert starts(log) == 1
    assert [(entry.subject, entry.caused) for entry in found] == [
        ("ModelReplica/team-0/a", True),
        ("ModelReplica/team-0/a", True),
        ("ModelReplica/team-0/b", True),
        ("ModelReplica/team-0/a", False),
    ]


def test_a_line_that_is_still_being_written_is_read_once_it_is_whole(tmp_path):
    log = tmp_path / "function.log"
    whole = line(0, "a")
    log.write_text(whole[:20])
    account = Account(log)
    assert account.read() == []
    log.write_text(whole)
    assert [entry.at_s for entry in account.read()] == [0]
    assert account.read() == []


@pytest.mark.parametrize(("percent", "value"), [(50, 6), (99, 10), (0, 1)])
def test_percentiles_are_of_the_values_that_were_seen(percent, value):
    assert percentile(list(range(1, 11)), percent) == value


def test_costs_are_by_kind_and_name_the_largest_messages():
    entries = [
        Entry(0, kind, "x", work_ms, size, 2 * size, "composed", caused=True)
        for kind, work_ms, size in (("A", 1.0, 10), ("A", 3.0, 5), ("B", 2.0, 7))
    ]
    assert costs(entries) == {
        "A": Cost(2, 3.0, 3.0, 10, 10 * 2),
        "B": Cost(1, 2.0, 2.0, 7, 14),
        "all": Cost(3, 2.0, 3.0, 10, 20),
    }
    assert costs([]) == {}


def test_the_smaller_sizes_come_first():
    assert [str(size) for size in sizes(200, 2000)] == [
        "20 clusters, 200 replicas",
        "50 clusters, 500 replicas",
        "200 clusters, 2000 replicas",
    ]
    assert sizes(4, 40) == [Size(4, 40)]


@pytest.mark.parametrize(
    ("manifest", "when"),
    [
        ({"kind": "Deployment", "spec": {"replicas": 1}, "metadata": {"name": "d"}}, ReadyWhen.AVAILABLE),
        ({"kind": "HTTPRoute", "metadata": {"name": "r"}}, ReadyWhen.ROUTED),
        ({"kind": "Gateway", "metadata": {"name": "g"}}, ReadyWhen.ADDRESSED),
        ({"kind": "Namespace", "metadata": {"name": "n"}}, ReadyWhen.CREATED),
    ],
)
def test_what_the_provider_is_played_to_say_counts_as_ready(manifest, when):
    shown = there(manifest)
    assert is_ready(shown, when)
    assert rolled_out(shown)


def measured(size, *, work=1.0, response=1000, quiet=0, change=5):
    return Measured(
        size=size,
        added_replicas=size.replicas,
        ready_after_s=10.0,
        settled_after_s=12.0,
        calls=100,
        growing={"ModelReplica": Cost(100, 0.5, 9.0, 900, response)},
        at_rest={"ModelReplica": Cost(90, 0.5, 8.0, 900, 1000), "all": Cost(100, 0.5, work, 900, 1000)},
        quiet_s=60.0,
        quiet_due=3,
        quiet_caused=quiet,
        per_change={"a replica more": {"ModelReplica": change}},
        memory_mib={"crossplane": 100},
        processor_s={"crossplane": 5.0},
        load=1.0,
    )


@pytest.mark.parametrize(
    ("large", "over"),
    [
        ({}, set()),
        ({"work": 6.0}, {"crossplane/work-p99"}),
        ({"response": 2000}, {"crossplane/response-bytes-growth-ModelReplica"}),
        ({"quiet": 1}, {"crossplane/unexplained-calls-at-rest"}),
        ({"change": 10}, {"crossplane/calls-growth-a-replica-more"}),
    ],
)
def test_each_limit_is_kept_or_not(large, over):
    found = list(rows([measured(Size(20, 200)), measured(Size(200, 2000), **large)]))
    assert {row["id"] for row in found if not row["ok"]} == over


def test_a_single_size_has_no_growth():
    found = {row["id"] for row in rows([measured(Size(20, 200))])}
    assert found == {"crossplane/work-p99", "crossplane/unexplained-calls-at-rest"}


def test_the_page_says_when_the_run_ended_early():
    outcome = Outcome([measured(Size(20, 200))], ended="50 clusters, 500 replicas: not within 10 s")
    text = page(outcome, list(rows(outcome.measured)))
    assert "The run ended early: 50 clusters, 500 replicas: not within 10 s" in text
    assert "| 20 clusters, 200 replicas | 10 s | 20.00 |" in text


def test_every_team_has_its_namespace():
    names = {item["metadata"]["name"] for item in fleet.platform() if item["kind"] == "Namespace"}
    assert {fleet.deployment(number)["metadata"]["namespace"] for number in range(200)} <= names
