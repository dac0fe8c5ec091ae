"""The steps of a scenario: what happens to a fleet, each after the time it happens at.

lose cluster NAME                    nobody reaches the cluster any more: neither its API nor its engines
lose region NAME                     the same for all clusters with the label `region`
recover cluster NAME                 it answers again; `recover region` the same
delete cluster NAME                  the InferenceCluster and what runs on it are gone
drain cluster NAME                   spec.drain is set; `undrain` takes it away
cordon cluster NAME                  nothing new goes there; `uncordon` takes it back
add pool CLUSTER/POOL CLASS NODES    a further node pool
resize pool CLUSTER/POOL NODES       more or fewer nodes
scale NAMESPACE/NAME REPLICAS        another number of replicas; `double` takes none
roll NAMESPACE/NAME IMAGE            another image for the engines of a deployment
traffic NAMESPACE/NAME FACTOR        clients send so many times the service's curve
restart plane                        the control plane starts anew
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.api.objects import Json, Manifest, int_at, items_at, labels_of, mapping_at
from modelplane.k8s.admission.structure import nearest
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.traffic import FleetTraffic
from modelplane.testing.world.world import USER, World

NAMESPACE = "default"
_SHOWN = 20
_REGIONS = ("region", "topology.kubernetes.io/region")
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_UNITS_S = (86400.0, 3600.0, 60.0, 1.0)


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    at_s: float
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def verb(self) -> str:
        return self.words[0]


@dataclass(frozen=True, slots=True)
class Stage:
    """What steps happen to."""

    world: World
    traffic: FleetTraffic


def read_time(text: object) -> float | None:
    """`90`, `90s`, `5m`, `1h30m` or `1d` in seconds; None for anything else."""
    found = _TIME.fullmatch(str(text).strip())
    if found is None or not any(found.groups()) or isinstance(text, bool):
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _UNITS_S, strict=True) if part)


def read_step(text: object) -> ScenarioStep:
    """`60 lose cluster east`. A step that is not known is refused with those that are."""
    words = str(text).split()
    at_s = read_time(words[0]) if words else None
    if at_s is None:
        raise InputError(f"step {text!r}: it begins with its time, as `60 lose cluster east` or `2h scale chat 4` do")
    step = ScenarioStep(at_s, tuple(words[1:]))
    _action(step)
    return step


def take(stage: Stage, step: ScenarioStep) -> None:
    """The step happens, now."""
    _action(step)(stage, step)
    stage.traffic.refresh()


def lost_clusters(world: World, step: ScenarioStep) -> list[str]:
    """The clusters that a step is about: one, or those of a region."""
    if step.words[1:2] == ("region",):
        return list(_of_region(world, step.words[2]))
    return [step.words[2]] if step.words[1:2] == ("cluster",) else []


def _cluster(world: World, name: str) -> ObjectId:
    return _there(world, ObjectId("InferenceCluster", "", name))


def _of_region(world: World, region: str) -> Iterator[str]:
    for key, item in world.store.by_kind.get("InferenceCluster", {}).items():
        if region in {labels_of(item).get(label) for label in _REGIONS}:
            yield key.name


def _right(wrong: str, known: Sequence[str]) -> str:
    """The nearest of what there is, else some of it."""
    if guess := nearest(wrong, known):
        return f"did you mean {guess}?"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"there are {', '.join(known[:_SHOWN]) or 'none'}{more}"


def _named(world: World, kind: str, text: str) -> ObjectId:
    namespace, slash, name = text.rpartition("/")
    return _there(world, ObjectId(kind, namespace if slash else NAMESPACE, name))


def _there(world: World, key: ObjectId) -> ObjectId:
    if world.store.get(key) is None:
        known = sorted(each.name for each in world.store.by_kind.get(key.kind, ()))
        raise InputError(f"there is no {key.kind} {key.name}; {_right(key.name, known)}")
    return key


def _edit(world: World, key: ObjectId, **changes: object) -> None:
    """Fields of the spec; None takes one away."""
    known = world.store.objects[key]
    spec = {**mapping_at(known, "spec"), **changes}
    world.store.apply({**known, "spec": {name: value for name, value in spec.items() if value is not None}}, USER)


def _answer(stage: Stage, step: ScenarioStep) -> None:
    _cluster(stage.world, step.words[2])
    _reach(stage.world, step.words[2], answers=step.verb == "recover")


def _answer_region(stage: Stage, step: ScenarioStep) -> None:
    found = list(_of_region(stage.world, step.words[2]))
    if not found:
        raise InputError(f"step `{step}`: no InferenceCluster has the label region={step.words[2]}")
    for name in found:
        _reach(stage.world, name, answers=step.verb == "recover")


def _reach(world: World, name: str, *, answers: bool) -> None:
    cluster = world.clusters[name]
    cluster.reachable, cluster.dark = answers, not answers
    cluster.touch_all()


def _delete(stage: Stage, step: ScenarioStep) -> None:
    stage.world.store.purge(_cluster(stage.world, step.words[2]), USER)


def _set(field: str, value: object) -> "_Act":
    return lambda stage, step: _edit(stage.world, _cluster(stage.world, step.words[2]), **{field: value})


def _add_pool(stage: Stage, step: ScenarioStep) -> None:
    key, pool = _pool(stage.world, step.words[2])
    _there(stage.world, ObjectId("InferenceClass", "", step.words[3]))
    known = list(items_at(stage.world.store.objects[key], "spec", "nodePools"))
    added: Json = {"name": pool, "className": step.words[3], "nodeCount": _whole(step, 4)}
    _edit(stage.world, key, nodePools=[*known, added])


def _resize_pool(stage: Stage, step: ScenarioStep) -> None:
    key, pool = _pool(stage.world, step.words[2])
    known = [dict(each) for each in items_at(stage.world.store.objects[key], "spec", "nodePools")]
    if pool not in {each["name"] for each in known}:
        raise InputError(f"cluster {key.name} has no pool {pool}")
    nodes = _whole(step, 3)
    edited = [{**each, "nodeCount": nodes} if each["name"] == pool else each for each in known]
    _edit(stage.world, key, nodePools=edited)


def _pool(world: World, text: str) -> tuple[ObjectId, str]:
    cluster, slash, pool = text.partition("/")
    if not slash:
        raise InputError(f"{text!r}: a pool is named as CLUSTER/POOL")
    return _cluster(world, cluster), pool


def _scale(stage: Stage, step: ScenarioStep) -> None:
    key = _named(stage.world, "ModelDeployment", step.words[1])
    _edit(stage.world, key, replicas=_whole(step, 2))


def _double(stage: Stage, step: ScenarioStep) -> None:
    key = _named(stage.world, "ModelDeployment", step.words[1])
    _edit(stage.world, key, replicas=2 * int_at(stage.world.store.objects[key], "spec", "replicas", default=1))


def _roll(stage: Stage, step: ScenarioStep) -> None:
    key = _named(stage.world, "ModelDeployment", step.words[1])
    known: Manifest = stage.world.store.objects[key]
    spec = _with_image(known["spec"], step.words[2])
    stage.world.store.apply({**known, "spec": spec}, USER)


def _with_image(value: object, image: str) -> object:
    """The same with another image in the first container of every pod template."""
    if isinstance(value, Mapping):
        changed = {name: _with_image(inner, image) for name, inner in value.items()}
        containers = changed.get("containers")
        if isinstance(containers, list) and containers and isinstance(containers[0], Mapping):
            changed["containers"] = [{**containers[0], "image": image}, *containers[1:]]
        return changed
    return [_with_image(inner, image) for inner in value] if isinstance(value, list | tuple) else value


def _traffic(stage: Stage, step: ScenarioStep) -> None:
    key = _named(stage.world, "ModelService", step.words[1])
    if key not in stage.traffic.services:
        raise InputError(f"step `{step}`: the scenario has no traffic for {key.namespace}/{key.name}")
    stage.traffic.times(key, float(step.words[2].removesuffix("x")))


def _restart(stage: Stage, step: ScenarioStep) -> None:
    del step
    for plane in stage.world.planes:
        plane.restart()


def _whole(step: ScenarioStep, at: int) -> int:
    if not step.words[at].isascii() or not step.words[at].isdigit():
        raise InputError(f"step `{step}`: {step.words[at]!r} is not a whole number")
    return int(step.words[at])


_Act = Callable[[Stage, ScenarioStep], None]
_STEPS: dict[tuple[str, int], tuple[str, _Act]] = {
    ("lose cluster", 3): ("lose cluster NAME", _answer),
    ("recover cluster", 3): ("recover cluster NAME", _answer),
    ("lose region", 3): ("lose region NAME", _answer_region),
    ("recover region", 3): ("recover region NAME", _answer_region),
    ("delete cluster", 3): ("delete cluster NAME", _delete),
    ("drain cluster", 3): ("drain cluster NAME", _set("drain", {})),
    ("undrain cluster", 3): ("undrain cluster NAME", _set("drain", None)),
    ("cordon cluster", 3): ("cordon cluster NAME", _set("cordoned", True)),
    ("uncordon cluster", 3): ("uncordon cluster NAME", _set("cordoned", None)),
    ("add pool", 5): ("add pool CLUSTER/POOL CLASS NODES", _add_pool),
    ("resize pool", 4): ("resize pool CLUSTER/POOL NODES", _resize_pool),
    ("scale", 3): ("scale NAMESPACE/NAME REPLICAS", _scale),
    ("double", 2): ("double NAMESPACE/NAME", _double),
    ("roll", 3): ("roll NAMESPACE/NAME IMAGE", _roll),
    ("traffic", 3): ("traffic NAMESPACE/NAME FACTOR", _traffic),
    ("restart plane", 2): ("restart plane", _restart),
}
_FACTOR = re.compile(r"\d{1,6}(\.\d{1,6})?x?")


def _action(step: ScenarioStep) -> _Act:
    if step.words[:1] == ("traffic",) and len(step.words) == 3 and not _FACTOR.fullmatch(step.words[2]):  # noqa: PLR2004  verb, service, factor
        raise InputError(f"step `{step}`: {step.words[2]!r} is not a factor such as 2 or 0.5")
    for (verb, length), (_, act) in _STEPS.items():
        if len(step.words) == length and f"{step} ".startswith(f"{verb} "):
            return act
    shapes = [shape for shape, _ in _STEPS.values()]
    guess = _guessed(step.words, shapes)
    right = f": did you mean `{guess}`? Steps are" if guess else " is none of"
    raise InputError(f"step `{step}`{right}: {', '.join(shapes)}")


def _guessed(words: Sequence[str], shapes: Sequence[str]) -> str:
    """The step whose verb is near, of several the one with the same noun."""
    verb = nearest(words[0] if words else "", {shape.split()[0] for shape in shapes})
    alike = [shape for shape in shapes if verb and shape.split()[0] == verb]
    return min(alike, key=lambda shape: shape.split()[1] not in words, default="")
