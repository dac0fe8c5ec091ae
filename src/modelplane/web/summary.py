"""The whole fleet in a few figures, what is wrong, and what to do next."""

from collections.abc import Iterator

from modelplane.api.timestamps import timestamp
from modelplane.views.fleet_load import sum_of_loads, sum_of_prices
from modelplane.views.health import ObjectHealth
from modelplane.views.states import READY
from modelplane.web.activities import activities
from modelplane.web.paging import STATES, ViewQuery, count_states
from modelplane.web.shapes import FleetSummary, NextStep, OverviewPage, ProblemRow
from modelplane.web.snapshot import DashboardSnapshot, once_per_snapshot
from modelplane.web.telemetry_views import telemetry_rows
from modelplane.web.timeline import newest_events, warnings_of

_SHOWN = 12
_EXAMPLES = "examples/quickstart"


def fleet_summary(snapshot: DashboardSnapshot, _query: ViewQuery | None = None) -> FleetSummary:
    """Every stream sends it, so it is made once for a snapshot."""
    return _summary(snapshot)


@once_per_snapshot
def _summary(snapshot: DashboardSnapshot) -> FleetSummary:
    rows = snapshot.overview
    return FleetSummary(
        now=timestamp(snapshot.now),
        gateway=snapshot.gateway,
        clusters=count_states(row.health.state for row in rows.clusters),
        deployments=count_states(row.health.state for row in rows.deployments),
        replicas=count_states(row.health.state for row in rows.replicas),
        services=count_states(row.health.state for row in rows.services),
        caches=count_states(row.health.state for row in rows.caches),
        load=sum_of_loads([each.load for each in snapshot.load.classes]),
        price=sum_of_prices([each.price for each in snapshot.load.classes]),
        activities=len(activities(snapshot)),
        warnings=warnings_of(snapshot),
    )


def overview_page(snapshot: DashboardSnapshot, _query: ViewQuery | None = None) -> OverviewPage:
    return _overview(snapshot)


@once_per_snapshot
def _overview(snapshot: DashboardSnapshot) -> OverviewPage:
    problems = sorted(_problems(snapshot), key=lambda row: STATES.index(row.state))
    return OverviewPage(
        classes=snapshot.load.classes,
        problems=tuple(problems[:_SHOWN]),
        problems_total=len(problems),
        activities=activities(snapshot)[:_SHOWN],
        events=newest_events(snapshot, _SHOWN),
        telemetry=telemetry_rows(snapshot)[:_SHOWN],
        next=next_steps(snapshot),
    )


def next_steps(snapshot: DashboardSnapshot) -> tuple[NextStep, ...]:
    """The commands that bring an empty fleet to its first answer; none once it has what they make."""
    rows = snapshot.overview
    if not rows.clusters:
        return _step(
            "No cluster is in the fleet. Add some, or start again with some:",
            f"modelplane apply -f {_EXAMPLES}",
            "modelplane up --clusters 2",
            "modelplane up --this-machine",
        )
    if not rows.deployments:
        return _step(
            "No model is deployed. Deploy one:",
            f"modelplane apply -f {_EXAMPLES}/3-model.yaml",
            "modelplane new Qwen/Qwen3-8B > model.yaml && modelplane apply -f model.yaml",
        )
    if not rows.services:
        return _step(
            "No service leads to a model. Apply a ModelService:", f"modelplane apply -f {_EXAMPLES}/3-model.yaml"
        )
    return ()


def _step(title: str, *commands: str) -> tuple[NextStep, ...]:
    return (NextStep(title=title, commands=commands),)


def _problems(snapshot: DashboardSnapshot) -> Iterator[ProblemRow]:
    """Objects that are not ready. A deployment says what its replicas lack, so those are not repeated."""
    rows = snapshot.overview
    for cluster in rows.clusters:
        yield from _problem("InferenceCluster", "", cluster.name, cluster.health)
    for deployment in rows.deployments:
        yield from _problem("ModelDeployment", deployment.namespace, deployment.name, deployment.health)
    for service in rows.services:
        yield from _problem("ModelService", service.namespace, service.name, service.health)
    for cache in rows.caches:
        yield from _problem("ModelCache", cache.namespace, cache.name, cache.health)
    for telemetry in telemetry_rows(snapshot):
        yield from _problem("TelemetryDestination", "", telemetry.name, telemetry.health)


def _problem(kind: str, namespace: str, name: str, health: ObjectHealth) -> Iterator[ProblemRow]:
    if health.state != READY:
        yield ProblemRow(object_kind=kind, namespace=namespace, name=name, state=health.state, why=health.why)
