"""The report of a simulation as text."""

from collections.abc import Iterator, Sequence

from modelplane.cli._formats import table_text
from modelplane.views.simulation_report import (
    ComparedFigure,
    DeploymentRun,
    LatencyShown,
    ServiceRun,
    SimulationReport,
)

_NOT_KNOWN = "-"
_SECOND_MS = 1000


def report_text(report: SimulationReport) -> str:
    parts = ["".join(f"{at:7.1f} s  {text}\n" for at, text in report.story)]
    if report.steps:
        parts.append("".join(f"{step.summary}\n" for step in report.steps))
    parts.append(
        table_text(
            ("DEPLOYMENT", "REPLICAS", "PLACED", "SERVING", "CLUSTERS", "GPU HOURS", "COST", "STATE"),
            map(_deployment, report.deployments),
        )
    )
    if report.services:
        times = tuple(f"{what} {share}" for what in ("TTFT", "ANSWER") for share in ("P50", "P95", "P99"))
        header = ("SERVICE", "REQUESTS", "SERVED", "SHED", "FAILED", "WAITING", *times)
        parts.append(table_text(header, map(_service, report.services)))
    if report.comparison:
        parts.append(table_text(("FIGURE", "BEFORE", "AFTER", "VERDICT"), map(_compared, report.comparison)))
    return "\n".join([*parts, "".join(_closing(report))])


def _deployment(run: DeploymentRun) -> Sequence[object]:
    clusters = ", ".join(f"{name} {number}" for name, number in run.clusters.items()) or "none"
    cost = money(run.cost, run.currency)
    return run.deployment, run.wanted, run.placed, run.serving, clusters, f"{run.gpu_hours:.1f}", cost, run.state


def _service(run: ServiceRun) -> Sequence[object]:
    counts = run.counts
    return (
        *(run.service, counts.requests, counts.served, counts.shed, counts.failed, counts.waiting),
        *latencies(run.ttft_ms),
        *latencies(run.answer_ms),
    )


def latencies(found: LatencyShown | None) -> tuple[str, ...]:
    return (_NOT_KNOWN,) * 3 if found is None else tuple(time_text(each) for each in (found.p50, found.p95, found.p99))


def time_text(milliseconds: int) -> str:
    return f"{milliseconds}ms" if milliseconds < _SECOND_MS else f"{milliseconds / _SECOND_MS:.1f}s"


def money(amount: float | None, currency: str) -> str:
    return _NOT_KNOWN if amount is None or not currency else f"{amount:.2f} {currency}"


def _compared(row: ComparedFigure) -> Sequence[object]:
    before, after = (_NOT_KNOWN if each is None else f"{each:g} {row.unit}".strip() for each in (row.before, row.after))
    return row.what, before, after, row.verdict


def _closing(report: SimulationReport) -> Iterator[str]:
    bill = report.bill
    yield f"{bill.gpu_hours:.1f} GPU hours, {money(bill.deployments_cost, bill.currency)} for deployments, "
    yield f"{money(bill.nodes_cost, bill.currency)} for all nodes"
    if bill.per_million_tokens is not None:
        yield f", {money(bill.per_million_tokens, bill.currency)} for a million tokens (an estimate)"
    yield "\n"
    if report.violation:
        yield f"violated {report.violation}\n"
    elif not report.quiet:
        yield "the fleet had not come to rest at the end; --seconds gives it longer\n"
