"""The report of a scenario, from what was recorded while it ran."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from modelplane.api.objects import Manifest, int_at, items_at, name_of, namespace_of, text_at
from modelplane.testing.world.judge import is_held, replicas_of
from modelplane.testing.world.scenario_record import FleetRecorder, ReplicaRecord
from modelplane.testing.world.scenario_steps import ScenarioStep
from modelplane.testing.world.step_summaries import StepWindow, summary_of
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.traffic import DrawnRequest, FleetTraffic, ServiceTraffic, TrafficSlice
from modelplane.testing.world.world import World
from modelplane.views.simulation_report import (
    DeploymentRun,
    FleetBill,
    LatencyShown,
    ReplicaRun,
    RequestCounts,
    ServiceRun,
    SimulationReport,
    StepOutcome,
    TrafficPoint,
)

_BINS = 96
_MILLION = 1e6


@dataclass(slots=True)
class ScenarioRun:
    name: str
    duration_s: float
    world: World
    recorder: FleetRecorder
    traffic: FleetTraffic
    steps: list[tuple[ScenarioStep, list[str]]] = field(default_factory=list)
    """Each with the clusters that it is about."""
    quiet: bool = False
    violation: str = ""


def report_of(run: ScenarioRun) -> SimulationReport:
    end = run.world.clock.elapsed
    services = tuple(_service(key, each, end) for key, each in sorted(run.traffic.services.items()))
    return SimulationReport(
        name=run.name,
        seed=run.world.seed,
        duration_s=round(end, 1),
        quiet=run.quiet,
        violation=run.violation,
        steps=tuple(_steps(run, end)),
        deployments=tuple(_deployment(run, item) for item in run.world.store.all_of("ModelDeployment")),
        services=services,
        replicas=tuple(_replica(each) for each in run.recorder.all_replicas()),
        bill=_bill(run, services),
        story=tuple((round(at, 1), text) for at, text in run.world.story),
    )


def _deployment(run: ScenarioRun, item: Manifest) -> DeploymentRun:
    world = run.world
    key = ObjectId("ModelDeployment", namespace_of(item), name_of(item))
    found = replicas_of(world.store, item)
    wrong = [each for each in items_at(item, "status", "conditions") if text_at(each, "status") != "True"]
    messages = [f"{text_at(each, 'type')}: {text_at(each, 'message')}" for each in wrong if text_at(each, "message")]
    bill = run.recorder.bills.deployments.get(key)
    return DeploymentRun(
        deployment=f"{key.namespace}/{key.name}",
        wanted=int_at(item, "spec", "replicas", default=1),
        placed=len(found),
        serving=sum(world.truly_serves(each) for each in found),
        clusters=dict(sorted(Counter(text_at(each, "spec", "clusterName") for each in found).items())),
        state="Ready" if is_held(item, "Ready") else next(iter(messages), "not Ready"),
        gpu_hours=round(bill.gpu_hours, 3) if bill is not None else 0.0,
        cost=None if bill is None or bill.cost is None else round(bill.cost, 2),
        currency=run.recorder.bills.currency,
        points=tuple(run.recorder.points.get(key, ())),
    )


def _replica(record: ReplicaRecord) -> ReplicaRun:
    return ReplicaRun(
        replica=record.name,
        deployment=record.deployment,
        cluster=record.cluster,
        placed_s=round(record.placed_s, 1),
        ready_s=None if record.ready_s is None else round(record.ready_s, 1),
        left_s=None if record.left_s is None else round(record.left_s, 1),
        why_here=record.why_here,
        why_left=record.why_left,
    )


def _service(key: ObjectId, traffic: ServiceTraffic, end: float) -> ServiceRun:
    counts = counted(traffic.slices, waiting=traffic.waiting)
    return ServiceRun(
        service=f"{key.namespace}/{key.name}",
        counts=counts,
        ttft_ms=percentiles((each.ttft_ms, each.weight) for each in traffic.drawn),
        answer_ms=percentiles((each.answer_ms, each.weight) for each in traffic.drawn),
        input_tokens=counts.served * traffic.plan.shape.prompt,
        output_tokens=counts.served * traffic.plan.shape.output,
        points=tuple(_points(traffic, end)),
    )


def _points(traffic: ServiceTraffic, end: float) -> Iterable[TrafficPoint]:
    width = end / _BINS
    slices: list[list[TrafficSlice]] = [[] for _ in range(_BINS)]
    drawn: list[list[DrawnRequest]] = [[] for _ in range(_BINS)]
    for each in traffic.slices:
        slices[min(int(each.at_s / width), _BINS - 1)].append(each)
    for request in traffic.drawn:
        drawn[min(int(request.at_s / width), _BINS - 1)].append(request)
    for at in range(_BINS):
        found = percentiles((each.ttft_ms, each.weight) for each in drawn[at])
        yield TrafficPoint(
            at_s=round(at * width, 1), counts=counted(slices[at]), ttft_p95_ms=found.p95 if found is not None else None
        )


def counted(slices: Iterable[TrafficSlice], waiting: int = 0) -> RequestCounts:
    requests = shed = failed = 0
    for each in slices:
        requests, shed, failed = requests + each.requests, shed + each.shed, failed + each.failed
    # A part of the time may see more fail than came in it: those of before.
    served = max(0, requests - shed - failed - waiting)
    return RequestCounts(requests=requests, served=served, shed=shed, failed=failed, waiting=waiting)


def percentiles(values: Iterable[tuple[float, float]]) -> LatencyShown | None:
    """Of values with weights."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    if not total:
        return None
    found: list[int] = []
    for share in (0.50, 0.95, 0.99):
        passed, last = 0.0, 0.0
        for value, weight in ordered:
            passed, last = passed + weight, value
            if passed >= share * total:
                break
        found.append(round(last))
    return LatencyShown(p50=found[0], p95=found[1], p99=found[2])


def _steps(run: ScenarioRun, end: float) -> Iterable[StepOutcome]:
    edges = [step.at_s for step, _ in run.steps]
    for at, (step, clusters) in enumerate(run.steps):
        begins, ends = edges[at], max(edges[at + 1] if at + 1 < len(edges) else end, edges[at])
        before = edges[at - 1] if at else 0.0
        window = StepWindow(
            step=step,
            until_s=ends,
            clusters=tuple(clusters),
            replicas=run.recorder.all_replicas(),
            points=run.recorder.points,
            counts=counted(_within(_slices(run.traffic), begins, ends)),
            ttft_before_ms=_p95(run.traffic, before, begins),
            ttft_after_ms=_p95(run.traffic, begins, ends),
            has_traffic=bool(run.traffic.services),
        )
        yield StepOutcome(
            at_s=round(begins, 1),
            step=str(step),
            summary=summary_of(window),
            until_s=round(ends, 1),
            moved=window.moved,
            recovered_s=window.recovered_s,
            counts=window.counts,
            ttft_p95_ms=window.ttft_after_ms,
        )


def _slices(traffic: FleetTraffic) -> Iterable[TrafficSlice]:
    return (each for service in traffic.services.values() for each in service.slices)


def _within(slices: Iterable[TrafficSlice], begins: float, ends: float) -> list[TrafficSlice]:
    return [each for each in slices if begins < each.at_s <= ends]


def _p95(traffic: FleetTraffic, begins: float, ends: float) -> int | None:
    drawn: Sequence[DrawnRequest] = [
        each for service in traffic.services.values() for each in service.drawn if begins < each.at_s <= ends
    ]
    found = percentiles((each.ttft_ms, each.weight) for each in drawn)
    return found.p95 if found is not None else None


def _bill(run: ScenarioRun, services: Sequence[ServiceRun]) -> FleetBill:
    bills = run.recorder.bills
    costs = [each.cost for each in bills.deployments.values()]
    known = [cost for cost in costs if cost is not None]
    cost = round(sum(known), 2) if len(known) == len(costs) else None
    tokens = sum(each.input_tokens + each.output_tokens for each in services)
    return FleetBill(
        gpu_hours=round(sum(each.gpu_hours for each in bills.deployments.values()), 3),
        deployments_cost=cost,
        nodes_cost=None if bills.nodes.cost is None else round(bills.nodes.cost, 2),
        currency=bills.currency,
        per_million_tokens=round(cost / (tokens / _MILLION), 2) if cost is not None and tokens else None,
    )
