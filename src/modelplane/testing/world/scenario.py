"""A scenario: manifests and steps in virtual time, run by the real core; see `scenario_steps` for what may happen.

The checkers that hold for any manifests watch it: devices, tenants and conditions. Those of drawn worlds know their own
selectors and priorities only. Clients come to a service when it first answers, or with the first step.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest, mapping_at, namespace_of
from modelplane.testing.world.checkers import Checkers, WorldViolation
from modelplane.testing.world.clusters import EngineTrouble
from modelplane.testing.world.control_plane import WorldPass
from modelplane.testing.world.scenario_record import FleetRecorder
from modelplane.testing.world.scenario_report import ScenarioRun, report_of
from modelplane.testing.world.scenario_steps import NAMESPACE, ScenarioStep, Stage, lost_clusters, take
from modelplane.testing.world.store import WorldChange
from modelplane.testing.world.traffic import FleetTraffic, TrafficPlan
from modelplane.testing.world.world import World
from modelplane.views.simulation_report import SimulationReport

QUIET_S = 30.0
_ORDER = ("InferenceClass", "InferenceGateway", "InferenceCluster")
_SLOTS = 8640
_ENGINE_START_S = 4.0


@dataclass(frozen=True, slots=True)
class ScenarioPlan:
    manifests: Sequence[Manifest]
    steps: Sequence[ScenarioStep] = ()
    traffic: Sequence[TrafficPlan] = ()
    duration_s: float = 600.0
    seed: int = 0
    engine_start_s: float = _ENGINE_START_S
    name: str = ""


class _SafetyCheckers(Checkers):
    """Those that hold for any manifests: whether a replica had a reason to move is not judged."""

    def _check_not_lost(self, done: WorldPass, replica: Manifest) -> None: ...
    def _check_not_doubled(self, done: WorldPass, replica: Manifest) -> None: ...


def run_scenario(plan: ScenarioPlan) -> SimulationReport:
    gc.disable()
    try:
        return report_of(_run(plan))
    finally:
        gc.enable()


def _run(plan: ScenarioPlan) -> ScenarioRun:
    world = World(plan.seed, (), checkers=_SafetyCheckers)
    world.store.listeners.append(lambda change: _start_slowly(world, change, plan.engine_start_s))
    recorder = FleetRecorder(world)
    stage = Stage(world, FleetTraffic(world, plan.traffic, slot_s=_slot_s(plan.duration_s)))
    for item in _ordered(plan.manifests):
        world.store.apply(item, "operator")
    _check_services(world, plan.traffic)
    _check_steps(plan)
    run = ScenarioRun(plan.name, plan.duration_s, world, recorder, stage.traffic)
    before = 0
    try:
        for step in sorted(plan.steps, key=lambda each: each.at_s):
            world.run(max(step.at_s - world.clock.elapsed, 0.0))
            stage.traffic.begin()
            stage.traffic.advance()
            run.steps.append((step, lost_clusters(world, step)))
            world.log(str(step))
            take(stage, step)
        world.run(max(plan.duration_s - QUIET_S - world.clock.elapsed, 0.0))
        before = world.writes_of_planes()
        world.run(min(QUIET_S, plan.duration_s))
    except WorldViolation as found:
        run.violation = str(found)
    stage.traffic.advance()
    recorder.close()
    run.quiet = world.writes_of_planes() == before
    return run


def _slot_s(duration_s: float) -> float:
    """A second, and for days more: as many slots as a day has of ten seconds."""
    return max(1.0, duration_s / _SLOTS)


def _start_slowly(world: World, change: WorldChange, seconds: float) -> None:
    """A cluster that has come starts its engines as the scenario says."""
    if change.id.kind == "InferenceCluster" and change.id.name in world.clusters:
        world.clusters[change.id.name].engines = EngineTrouble(start_s=seconds)


def _check_services(world: World, plans: Sequence[TrafficPlan]) -> None:
    for at, plan in enumerate(plans):
        if world.store.get(plan.service) is None:
            known = ", ".join(
                sorted(f"{each.namespace}/{each.name}" for each in world.store.by_kind.get("ModelService", ()))
            )
            name = f"{plan.service.namespace}/{plan.service.name}"
            raise InputError(f"traffic[{at}].service: there is no ModelService {name}; there are {known or 'none'}")


def _check_steps(plan: ScenarioPlan) -> None:
    for at, step in enumerate(plan.steps):
        if step.at_s > plan.duration_s:
            raise InputError(
                f"steps[{at}]: `{step}` happens at {step.at_s:g} s, after the end at {plan.duration_s:g} s"
            )


def _ordered(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Classes before clusters and clusters before deployments; namespaces as kubectl would fill them in."""
    namespaced = [_placed(item) for item in manifests]
    return sorted(
        namespaced, key=lambda item: _ORDER.index(str(item["kind"])) if item["kind"] in _ORDER else len(_ORDER)
    )


def _placed(item: Manifest) -> Manifest:
    if str(item["kind"]).startswith("Inference") or namespace_of(item):
        return item
    return {**item, "metadata": {**mapping_at(item, "metadata"), "namespace": NAMESPACE}}
