"""Runs worlds: settle, a storm of faults, calm; and tells the story of one that failed.

python -m modelplane.testing.world --seed 7            the story of one world
python -m modelplane.testing.world --worlds 20000      many, on all processors, with the report of probes
"""

import gc
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from modelplane.api.objects import Manifest, int_at, items_at, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.placement.drain import TURN_S
from modelplane.testing.world.checkers import MAX_ROUNDS, WorldViolation
from modelplane.testing.world.clients import RequestEnd
from modelplane.testing.world.faults import FAULTS, Fault
from modelplane.testing.world.judge import is_held
from modelplane.testing.world.store import id_of
from modelplane.testing.world.world import SETTLE_S, World

STORM_S = 120.0
ROUND_S = 20.0
_LOADER_ROUNDS = 60
IDLE_S = 60.0
IDLE_PASSES = 5
"""Of one composite by one plane while nothing changes: more is a hot loop."""


@dataclass(frozen=True, slots=True)
class WorldOutcome:
    seed: int
    violation: str = ""
    checker: str = ""
    story: tuple[str, ...] = ()
    rounds: int = 0
    passes: int = 0
    probes: Counter[str] = field(default_factory=Counter)


def run_world(seed: int, *, only: tuple[str, ...] = ()) -> WorldOutcome:
    """One world from beginning to end. `only` names the faults that may happen; all where empty."""
    # A world is full of cycles and short: looking for garbage while it runs is a seventh of its time.
    gc.disable()
    try:
        return _run(World(seed), only)
    finally:
        gc.enable()


def _run(world: World, only: tuple[str, ...]) -> WorldOutcome:
    rounds = 0
    try:
        world.run(SETTLE_S)
        storm(world, [fault for fault in FAULTS if not only or fault.name in only])
        rounds = settle(world)
    except WorldViolation as violation:
        return _outcome(world, rounds, violation)
    except Exception as error:  # noqa: BLE001  whatever the product raises is what the story is about
        return _outcome(world, rounds, WorldViolation("raised", f"{type(error).__name__}: {error}"))
    return _outcome(world, rounds, None)


def storm(world: World, faults: list[Fault]) -> None:
    random = world.random
    for at in sorted(random.uniform(0, STORM_S) for _ in range(random.randint(3, 7))):
        fault = random.choice(faults)
        world.clock.after(at, partial(inject, world, fault))
    world.run(STORM_S)


def inject(world: World, fault: Fault) -> None:
    what = fault.inject(world)
    if what:
        world.happened(fault.name, what)


def settle(world: World) -> int:
    """The faults end. Returns after how many rounds nothing is written any more."""
    world.log("the faults end")
    world.calm()
    _wait_for_loaders(world)
    rounds = _rounds_until_quiet(world)
    _check_quiet(world)
    world.checkers.check_end()
    _check_clients(world)
    _check_idle(world)
    return rounds


def _wait_for_loaders(world: World) -> None:
    """A loader that failed tries again minutes later. Until then nothing happens, and then it does: that is no rest."""
    for _ in range(_LOADER_ROUNDS):
        if not any(_tries_again(cache) for cache in world.store.all_of("ModelCache")):
            return
        world.run(ROUND_S)


def _tries_again(cache: Manifest) -> bool:
    return any(text_at(each, "reason") == Reason.STAGING_FAILED.value for each in items_at(cache, "status", "clusters"))


def _rounds_until_quiet(world: World) -> int:
    for rounds in range(1, MAX_ROUNDS + 1):
        before = world.writes_of_planes()
        world.run(ROUND_S)
        if world.writes_of_planes() == before:
            return rounds
    last = world.store.log[-1]
    raise WorldViolation("converges", f"still writing after {MAX_ROUNDS} rounds, {last.by} last at {last.id}")


def _check_quiet(world: World) -> None:
    """Every composite is called once more, by every plane, and nothing is written."""
    before = world.store.version
    for plane in world.planes:
        for kind in ("InferenceCluster", "ModelCache", "ModelDeployment", "ModelReplica", "ModelEndpoint"):
            for key in list(plane.view.by_kind.get(kind, ())):
                plane.reconcile(key)
    if world.store.version != before:
        change = world.store.log[-1]
        raise WorldViolation("converges", f"a pass of {change.by} writes {change.id} though nothing changed")


def _check_idle(world: World) -> None:
    """While nothing changes, hardly anything is called."""
    most = _idle_passes(world)
    before = {plane.name: Counter(plane.passes) for plane in world.planes}
    world.run(IDLE_S)
    for plane in world.planes:
        for key, number in plane.passes.items():
            if number - before[plane.name][key] > most:
                times = number - before[plane.name][key]
                raise WorldViolation("queues", f"{plane.name} calls {key} {times} times in {IDLE_S:g} idle seconds")


def _idle_passes(world: World) -> int:
    """A replica that waits its turn to leave a drained cluster is considered every TURN_S."""
    clusters = world.store.all_of("InferenceCluster")
    if any(value_at(item, "spec", "drain") is not None for item in clusters):
        return int(IDLE_S / TURN_S) + 1
    return IDLE_PASSES


def _check_clients(world: World) -> None:
    for deployment in world.store.all_of("ModelDeployment"):
        wanted = int_at(deployment, "spec", "replicas", default=1)
        if wanted and is_held(deployment, "Ready") and world.clients.send(deployment) is not RequestEnd.SERVED:
            raise WorldViolation("clients", f"a request to {id_of(deployment)} is not answered")


def _outcome(world: World, rounds: int, violation: WorldViolation | None) -> WorldOutcome:
    passes = sum(sum(plane.passes.values()) for plane in world.planes)
    text, checker = (str(violation), violation.checker) if violation is not None else ("", "")
    return WorldOutcome(world.seed, text, checker, story_of(world), rounds, passes, world.all_probes())


def story_of(world: World) -> tuple[str, ...]:
    return tuple(f"{at:7.1f} s  {text}" for at, text in world.story)
