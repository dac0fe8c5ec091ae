"""Two runs beside each other: what got better and what got worse."""

from collections.abc import Iterator

import msgspec

from modelplane.views.simulation_report import (
    ComparedFigure,
    DeploymentRun,
    LatencyShown,
    ServiceRun,
    SimulationReport,
)

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "same", "unknown"
_SAME = 0.01
"""A difference of less than this part is none: lengths of requests are drawn."""
_Figure = tuple[str, str, float | None]


def compared(report: SimulationReport, before: SimulationReport) -> SimulationReport:
    """The report with every figure of it beside that of the other run. What only one of them has is not compared."""
    known = {what: value for what, _, value in _figures(before)}
    rows = [
        ComparedFigure(what=what, unit=unit, before=known[what], after=value, verdict=_verdict(known[what], value))
        for what, unit, value in _figures(report)
        if what in known
    ]
    return msgspec.structs.replace(report, comparison=tuple(rows))


def _figures(report: SimulationReport) -> Iterator[_Figure]:
    """Less is better in all of them."""
    for service in report.services:
        yield from _of_service(service)
    for each in report.deployments:
        yield f"{each.deployment}: replicas not ready", "replica seconds", _not_ready_s(each, report.duration_s)
        yield f"{each.deployment}: GPU hours", "h", each.gpu_hours
    recovered = [step.recovered_s for step in report.steps if step.recovered_s is not None]
    yield "slowest recovery", "s", max(recovered, default=0.0)
    yield "replicas moved", "", float(sum(step.moved for step in report.steps))
    currency = report.bill.currency
    yield "cost of deployments", currency, report.bill.deployments_cost
    yield "cost of nodes", currency, report.bill.nodes_cost
    yield "price per 1M tokens", currency, report.bill.per_million_tokens


def _of_service(service: ServiceRun) -> Iterator[_Figure]:
    name, counts = service.service, service.counts
    yield f"{name}: failed", "requests", float(counts.failed)
    yield f"{name}: shed", "requests", float(counts.shed)
    yield f"{name}: TTFT p95", "ms", _p95(service.ttft_ms)
    yield f"{name}: answer p95", "ms", _p95(service.answer_ms)


def _p95(found: LatencyShown | None) -> float | None:
    return None if found is None else float(found.p95)


def _not_ready_s(run: DeploymentRun, end_s: float) -> float:
    """How many replicas were missing, for how long."""
    total = 0.0
    for point, until in zip(run.points, [*(each.at_s for each in run.points[1:]), end_s], strict=True):
        total += max(0, point.wanted - point.ready) * (until - point.at_s)
    return round(total, 1)


def _verdict(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return UNKNOWN
    if abs(after - before) <= _SAME * max(abs(before), abs(after)):
        return SAME
    return BETTER if after < before else WORSE
