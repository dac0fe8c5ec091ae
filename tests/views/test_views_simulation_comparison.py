"""Two runs beside each other."""

import msgspec
import pytest

from modelplane.views.simulation_comparison import compared
from modelplane.views.simulation_report import (
    ComparedFigure,
    DeploymentRun,
    FleetBill,
    LatencyShown,
    ReplicaPoint,
    RequestCounts,
    ServiceRun,
    SimulationReport,
    clock_text,
    read_report,
    report_bytes,
)


def run(*, failed=0, ttft=100, cost=10.0, ready=2, service="team/chat"):
    counts = RequestCounts(requests=100, served=100 - failed, failed=failed)
    times = None if ttft is None else LatencyShown(p50=ttft, p95=ttft, p99=ttft)
    points = (
        ReplicaPoint(at_s=0.0, wanted=2, placed=2, ready=0),
        ReplicaPoint(at_s=10.0, wanted=2, placed=2, ready=ready),
    )
    return SimulationReport(
        name="a", seed=0, duration_s=100.0, quiet=True, violation="", steps=(), replicas=(), story=((1.0, "x"),),
        deployments=(
            DeploymentRun(
                deployment="team/chat", wanted=2, placed=2, serving=2, clusters={"east": 2}, state="Ready",
                gpu_hours=1.0, cost=cost, currency="USD", points=points,
            ),
        ),
        services=(
            ServiceRun(
                service=service, counts=counts, ttft_ms=times, answer_ms=times, input_tokens=1, output_tokens=1,
                points=(),
            ),
        ),
        bill=FleetBill(
            gpu_hours=1.0, deployments_cost=cost, nodes_cost=20.0, currency="USD", per_million_tokens=None
        ),
    )  # fmt: skip


def verdicts(after, before):
    return {row.what: row.verdict for row in compared(after, before).comparison if row.verdict != "same"}


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (run(), run(), {"price per 1M tokens": "unknown"}),
        (run(failed=5), run(), {"team/chat: failed": "worse", "price per 1M tokens": "unknown"}),
        (
            run(ttft=80, cost=9.0),
            run(),
            {
                "team/chat: TTFT p95": "better",
                "team/chat: answer p95": "better",
                "cost of deployments": "better",
                "price per 1M tokens": "unknown",
            },
        ),
        (run(cost=10.05), run(), {"price per 1M tokens": "unknown"}),
        (
            run(ttft=None, ready=1),
            run(),
            {
                "team/chat: TTFT p95": "unknown",
                "team/chat: answer p95": "unknown",
                "team/chat: replicas not ready": "worse",
                "price per 1M tokens": "unknown",
            },
        ),
    ],
    ids=["equal", "failed", "faster and cheaper", "less than a hundredth", "not known"],
)
def test_verdicts(after, before, expected):
    assert verdicts(after, before) == expected


def test_a_row_has_both_figures():
    rows = compared(run(ready=1), run()).comparison
    assert rows[4] == ComparedFigure(
        what="team/chat: replicas not ready", unit="replica seconds", before=20.0, after=110.0, verdict="worse"
    )


def test_what_only_one_run_has_is_not_compared():
    rows = compared(run(service="team/other"), run()).comparison
    assert not [row for row in rows if row.what.startswith("team/other")]


def test_a_report_is_read_as_it_was_written():
    whole = compared(run(), run(failed=1))
    assert read_report(report_bytes(whole)) == whole
    with pytest.raises(msgspec.DecodeError) as refused:
        read_report(b'{"name": 5}')
    assert "$.name" in str(refused.value)


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00:00"), (7325.9, "02:02:05"), (90000, "25:00:00")])
def test_clock(seconds, text):
    assert clock_text(seconds) == text
