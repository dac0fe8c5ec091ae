"""A scenario: manifests and steps in virtual time, run by the real core, messages as a story and a table.

    seconds: 300
    steps:
    - 60 lose cluster east
    - 120 scale default/chat 4

What a step may be:

    lose cluster NAME                    the cluster does not answer any more
    recover cluster NAME                 it answers again
    delete cluster NAME                  the InferenceCluster and what runs on it are gone
    drain cluster NAME                   spec.drain is set; `undrain` takes it away
    cordon cluster NAME                  nothing new goes there; `uncordon` takes it back
    add pool CLUSTER/POOL CLASS NODES    a further node pool
    resize pool CLUSTER/POOL NODES       more or fewer nodes
    scale NAMESPACE/NAME REPLICAS        another number of replicas; `double` takes none
    restart plane                        the control plane starts anew

The checkers that hold for any manifests watch it: devices, tenants and conditions. Those of drawn worlds know their own
selectors and priorities only.
"""

import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER
from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    items_at,
    labels_of,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
)
from modelplane.testing.world.checkers import Checkers, WorldViolation
from modelplane.testing.world.control_plane import WorldPass
from modelplane.testing.world.judge import is_held, replicas_of
from modelplane.testing.world.store import ObjectId, WorldChange
from modelplane.testing.world.world import USER, World

QUIET_S = 30.0
_ORDER = ("InferenceClass", "InferenceGateway", "InferenceCluster")
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    at_s: float
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    deployment: str
    wanted: int
    placed: int
    serving: int
    clusters: Mapping[str, int]
    ready: str
    """The reason of the condition Ready, or of what stands in its way."""


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    seed: int
    story: tuple[tuple[float, str], ...]
    rows: tuple[ScenarioRow, ...]
    quiet: bool
    """Whether nothing was written in the last seconds."""
    violation: str = ""


class _SafetyCheckers(Checkers):
    """Those that hold for any manifests: whether a replica had a reason to move is not judged."""

    def _check_not_lost(self, done: WorldPass, replica: Manifest) -> None: ...
    def _check_not_doubled(self, done: WorldPass, replica: Manifest) -> None: ...


def read_step(text: object) -> ScenarioStep:
    """`60 lose cluster east`. A step that is not known is refused with those that are."""
    words = str(text).split()
    try:
        at_s = float(words[0].removesuffix("s"))
    except (IndexError, ValueError):
        raise InputError(f"step {text!r}: it begins with its second, as `60 lose cluster east` does") from None
    step = ScenarioStep(at_s, tuple(words[1:]))
    _action(step)
    return step


def run_scenario(
    manifests: Sequence[Manifest], steps: Sequence[ScenarioStep], *, seconds: float, seed: int = 0
) -> ScenarioOutcome:
    gc.disable()
    try:
        world = World(seed, _ordered(manifests), checkers=_SafetyCheckers)
        recorder = _StoryRecorder(world)
        return _run(world, recorder, steps, seconds)
    finally:
        gc.enable()


def _run(world: World, recorder: "_StoryRecorder", steps: Sequence[ScenarioStep], seconds: float) -> ScenarioOutcome:
    violation = ""
    before = 0
    try:
        for step in sorted(steps, key=lambda each: each.at_s):
            world.run(max(step.at_s - world.clock.elapsed, 0.0))
            world.log(str(step))
            _action(step)(world, step)
        world.run(max(seconds - QUIET_S - world.clock.elapsed, 0.0))
        before = world.writes_of_planes()
        world.run(QUIET_S)
    except WorldViolation as found:
        violation = str(found)
    recorder.close()
    rows = tuple(_row(world, item) for item in world.store.all_of("ModelDeployment"))
    return ScenarioOutcome(world.seed, tuple(world.story), rows, world.writes_of_planes() == before, violation)


def _ordered(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Classes before clusters and clusters before deployments; namespaces as kubectl would fill them in."""
    namespaced = [_placed(item) for item in manifests]
    return sorted(
        namespaced, key=lambda item: _ORDER.index(str(item["kind"])) if item["kind"] in _ORDER else len(_ORDER)
    )


def _placed(item: Manifest) -> Manifest:
    if str(item["kind"]).startswith("Inference") or namespace_of(item):
        return item
    return {**item, "metadata": {**mapping_at(item, "metadata"), "namespace": _NAMESPACE}}


class _StoryRecorder:
    """Records where replicas come and go, and when the number that serves changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._serving: dict[ObjectId, int] = {}
        world.store.listeners.append(self._hear)

    def close(self) -> None:
        self._world.store.listeners.remove(self._hear)

    def _hear(self, change: WorldChange) -> None:
        shown = change.manifest if change.manifest is not None else change.before
        if shown is None:
            return
        if change.id.kind == "ModelReplica" and (change.before is None or change.manifest is None):
            verb = "goes to" if change.before is None else "leaves"
            self._world.log(f"{namespace_of(shown)}/{name_of(shown)} {verb} {labels_of(shown).get(CLUSTER, '')}")
        if change.id.kind == "ModelDeployment" and change.manifest is not None:
            self._count(change.id, change.manifest)

    def _count(self, key: ObjectId, item: Manifest) -> None:
        serving, wanted = int_at(item, "status", "readyReplicas"), int_at(item, "spec", "replicas", default=1)
        if self._serving.get(key, 0) != serving:
            self._serving[key] = serving
            self._world.log(f"{key.namespace}/{key.name}: {serving} of {wanted} replicas serve")


def _row(world: World, item: Manifest) -> ScenarioRow:
    found = replicas_of(world.store, item)
    clusters = Counter(text_at(each, "spec", "clusterName") for each in found)
    wrong = [each for each in items_at(item, "status", "conditions") if text_at(each, "status") != "True"]
    messages = [f"{text_at(each, 'type')}: {text_at(each, 'message')}" for each in wrong if text_at(each, "message")]
    return ScenarioRow(
        f"{namespace_of(item)}/{name_of(item)}",
        int_at(item, "spec", "replicas", default=1),
        len(found),
        sum(world.truly_serves(each) for each in found),
        dict(sorted(clusters.items())),
        "Ready" if is_held(item, "Ready") else next(iter(messages), "not Ready"),
    )


def _cluster(world: World, name: str) -> ObjectId:
    return _there(world, ObjectId("InferenceCluster", "", name))


def _deployment(world: World, text: str) -> ObjectId:
    namespace, slash, name = text.rpartition("/")
    return _there(world, ObjectId("ModelDeployment", namespace if slash else _NAMESPACE, name))


def _there(world: World, key: ObjectId) -> ObjectId:
    if world.store.get(key) is None:
        known = ", ".join(sorted(each.name for each in world.store.by_kind.get(key.kind, ())))
        raise InputError(f"there is no {key.kind} {key.name}; there are {known or 'none'}")
    return key


def _edit(world: World, key: ObjectId, **changes: object) -> None:
    """Fields of the spec; None takes one away."""
    known = world.store.objects[key]
    spec = {**mapping_at(known, "spec"), **changes}
    world.store.apply({**known, "spec": {name: value for name, value in spec.items() if value is not None}}, USER)


def _answer(world: World, step: ScenarioStep) -> None:
    cluster = world.clusters[_cluster(world, step.words[2]).name]
    cluster.reachable = step.words[0] == "recover"
    cluster.touch_all()


def _delete(world: World, step: ScenarioStep) -> None:
    world.store.purge(_cluster(world, step.words[2]), USER)


def _set(field: str, value: object) -> "_Act":
    return lambda world, step: _edit(world, _cluster(world, step.words[2]), **{field: value})


def _add_pool(world: World, step: ScenarioStep) -> None:
    key, pool = _pool(world, step.words[2])
    known = list(items_at(world.store.objects[key], "spec", "nodePools"))
    added: Json = {"name": pool, "className": step.words[3], "nodeCount": _whole(step, 4)}
    _edit(world, key, nodePools=[*known, added])


def _resize_pool(world: World, step: ScenarioStep) -> None:
    key, pool = _pool(world, step.words[2])
    known = [dict(each) for each in items_at(world.store.objects[key], "spec", "nodePools")]
    if pool not in {each["name"] for each in known}:
        raise InputError(f"cluster {key.name} has no pool {pool}")
    _edit(
        world,
        key,
        nodePools=[{**each, "nodeCount": _whole(step, 3)} if each["name"] == pool else each for each in known],
    )


def _pool(world: World, text: str) -> tuple[ObjectId, str]:
    cluster, slash, pool = text.partition("/")
    if not slash:
        raise InputError(f"{text!r}: a pool is named as CLUSTER/POOL")
    return _cluster(world, cluster), pool


def _scale(world: World, step: ScenarioStep) -> None:
    key = _deployment(world, step.words[1])
    _edit(world, key, replicas=_whole(step, 2))


def _double(world: World, step: ScenarioStep) -> None:
    key = _deployment(world, step.words[1])
    _edit(world, key, replicas=2 * int_at(world.store.objects[key], "spec", "replicas", default=1))


def _restart(world: World, step: ScenarioStep) -> None:
    del step
    for plane in world.planes:
        plane.restart()


def _whole(step: ScenarioStep, at: int) -> int:
    if not step.words[at].isascii() or not step.words[at].isdigit():
        raise InputError(f"step `{step}`: {step.words[at]!r} is not a whole number")
    return int(step.words[at])


_Act = Callable[[World, ScenarioStep], None]
_STEPS: dict[tuple[str, int], tuple[str, _Act]] = {
    ("lose cluster", 3): ("lose cluster NAME", _answer),
    ("recover cluster", 3): ("recover cluster NAME", _answer),
    ("delete cluster", 3): ("delete cluster NAME", _delete),
    ("drain cluster", 3): ("drain cluster NAME", _set("drain", {})),
    ("undrain cluster", 3): ("undrain cluster NAME", _set("drain", None)),
    ("cordon cluster", 3): ("cordon cluster NAME", _set("cordoned", True)),
    ("uncordon cluster", 3): ("uncordon cluster NAME", _set("cordoned", None)),
    ("add pool", 5): ("add pool CLUSTER/POOL CLASS NODES", _add_pool),
    ("resize pool", 4): ("resize pool CLUSTER/POOL NODES", _resize_pool),
    ("scale", 3): ("scale NAMESPACE/NAME REPLICAS", _scale),
    ("double", 2): ("double NAMESPACE/NAME", _double),
    ("restart plane", 2): ("restart plane", _restart),
}


def _action(step: ScenarioStep) -> _Act:
    for (verb, length), (_, act) in _STEPS.items():
        if len(step.words) == length and f"{step} ".startswith(f"{verb} "):
            return act
    raise InputError(f"step `{step}` is none of: {', '.join(shape for shape, _ in _STEPS.values())}")
