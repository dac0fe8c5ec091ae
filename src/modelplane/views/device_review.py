"""What a deployment says of devices that can never be: too few for its topology, units and names that do not exist."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from modelplane.api.codec import decode
from modelplane.api.models import (
    ClassDevice,
    InferenceClass,
    ModelDeployment,
    ModelDeploymentSpec,
    NodeSelector,
    PodTemplate,
    Topology,
    Workers,
)
from modelplane.compose.engines import ENGINES
from modelplane.compose.engines.launch import flag_value
from modelplane.compose.lowering import EngineSpec, lower
from modelplane.compose.shapes import has_own_command, shape_fault, spans_tensor
from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.problems import Problem, describe
from modelplane.k8s.admission.references import Severity
from modelplane.k8s.admission.structure import nearest
from modelplane.k8s.cel.mentions import ATTRIBUTES, CAPACITY, DeviceName, device_names, wrong_constants

_SPLITS = (("--tensor-parallel-size", "-tp", "--tp-size", "--tp"), ("--pipeline-parallel-size", "-pp", "--pp-size"))
"""The flags of engines that multiply to the GPUs of one copy, each by all of its names."""


@dataclass(frozen=True, slots=True)
class KnownDevices:
    """The attributes and capacities that the classes of a set have."""

    names: frozenset[DeviceName] = frozenset()
    capacities: frozenset[str] = frozenset()
    """As they are written: a request for a capacity is compared literally."""

    @classmethod
    def of(cls, classes: Iterable[InferenceClass]) -> "KnownDevices":
        devices = [device for found in classes for device in found.spec.devices]
        capacities = frozenset(name for device in devices for name in device.capacity)
        return cls(frozenset(name for device in devices for name in _names(device)), capacities)

    def like(self, wanted: DeviceName) -> list[str] | None:
        """The names beside one that no class has; None where it exists or its domain is not known."""
        beside = [each.name for each in self.names if (each.section, each.domain) == (wanted.section, wanted.domain)]
        return sorted(beside) if beside and wanted not in self.names else None


def _names(device: ClassDevice) -> Iterator[DeviceName]:
    for section, entries in ((ATTRIBUTES, device.attributes), (CAPACITY, device.capacity)):
        for key in entries:
            domain, slash, name = key.partition("/")
            yield DeviceName(section, domain, name) if slash else DeviceName(section, device.driver, key)


def review_devices(value: Mapping[str, object], known: KnownDevices) -> Iterator[tuple[Problem, Severity]]:
    """What is wrong with the devices of a valid ModelDeployment."""
    spec = decode(ModelDeployment, value).spec
    engines = zip(_places(spec), lower(spec).engines, strict=True)
    for (path, workers, selector), engine in engines:
        if not workers or not (problem := _too_few(path, workers, selector)):
            problem = _too_many_flags(path, engine)
        if problem:
            yield problem, Severity.ERROR
    for path, name in _capacities(value, ()):
        yield from _unknown_capacity(path, name, known)
    for path, text in _selectors(value, ()):
        yield from _wrong_units(path, text)
        yield from _unknown_names(path, text, known)


def _places(spec: ModelDeploymentSpec) -> Iterator[tuple[Path, Workers | None, NodeSelector | None]]:
    """Where each engine is written, in the order of `lower`; with its workers where it has such."""
    if spec.workers is not None:
        yield ("spec",), spec.workers, spec.node_selector
    for name, phase in (("decode", spec.decode), ("prefill", spec.prefill)):
        if phase is not None:
            yield ("spec", name), phase.workers, phase.node_selector
    within: Path = ("spec", "template", "spec") if spec.template else ("spec",)
    for index in range(len(spec.template.spec.engines if spec.template else spec.engines)):
        yield (*within, "engines", index), None, None


def _too_few(path: Path, workers: Workers, selector: NodeSelector | None) -> Problem | None:
    """A pod with fewer devices than its engine is told to use does not start. Custom engines are told nothing."""
    if not ENGINES[workers.engine].sized or has_own_command(workers.template):
        return None
    topology = workers.topology or Topology()
    wrong = shape_fault(topology, sum(device.count for device in selector.devices) if selector else 0)
    whole = topology.data == 1 and not spans_tensor(topology)
    hint = "make both agree, or split layers over nodes by tensorLocal" if whole else "make both agree"
    return Problem((*path, "workers", "topology", "tensor"), wrong, hint) if wrong else None


def _too_many_flags(path: Path, engine: EngineSpec) -> Problem | None:
    """The sizes that the user's own arguments state, against the devices of all nodes of one copy."""
    devices = sum(member.nodes * sum(each.count for each in member.requests) for member in engine.members)
    command, args = _engine(engine.members[0].template)
    wanted = prod(_flag(args, names) for names in _SPLITS)
    if command or wanted <= devices:
        return None
    wrong = f"the engine's arguments ask for {wanted} devices; its nodeSelector requests {devices}"
    return Problem(path, wrong, "make both agree")


def _engine(template: PodTemplate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Command and arguments of the engine's container."""
    containers = template.spec.containers
    return next(((each.command, each.args) for each in containers if each.name == "engine"), ((), ()))


def _flag(args: tuple[str, ...], names: tuple[str, ...]) -> int:
    texts = (flag_value(args, name) for name in names)
    return next((int(text) for text in texts if text and text.isascii() and text.isdigit()), 1)


def _selectors(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Every device selector below, with its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _selectors(item, (*path, index))
    for key, item in value.items() if isinstance(value, dict) else ():
        if key == "cel" and isinstance(item, str):
            yield (*path, key), item
        else:
            yield from _selectors(item, (*path, key))


def _capacities(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Every capacity that a device request asks for, with its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _capacities(item, (*path, index))
    for key, item in value.items() if isinstance(value, dict) else ():
        if key == "capacity" and path[-2:-1] == ("devices",) and isinstance(item, dict):
            yield from (((*path, key, "requests", name), name) for name in item.get("requests") or ())
        else:
            yield from _capacities(item, (*path, key))


def _unknown_capacity(path: Path, name: str, known: KnownDevices) -> Iterator[tuple[Problem, Severity]]:
    if name in known.capacities or not known.capacities:
        return
    guess = nearest(name, sorted(known.capacities))
    right = f"did you mean {guess}?" if guess else f"they have {', '.join(sorted(known.capacities)[:5])}"
    wrong = f"no InferenceClass of this set has capacity {describe(name)}"
    yield Problem(path, wrong, right), Severity.ERROR if guess else Severity.WARNING


def _wrong_units(path: Path, text: str) -> Iterator[tuple[Problem, Severity]]:
    for found in wrong_constants(text):
        right = f"did you mean {describe(found.guess)}?" if found.guess else "no device can match"
        wrong = f"{found.function}({describe(found.text)}) fails on every device"
        yield Problem(path, wrong, right), Severity.ERROR


def _unknown_names(path: Path, text: str, known: KnownDevices) -> Iterator[tuple[Problem, Severity]]:
    for wanted in sorted(device_names(text)):
        beside = known.like(wanted)
        if beside is None:
            continue
        guess = nearest(wanted.name, beside)
        wrong = f"no InferenceClass of this set has {wanted.section} {describe(wanted.name)} of {wanted.domain}"
        right = f"did you mean {guess}?" if guess else f"they have {', '.join(beside[:5])}"
        yield Problem(path, wrong, right), Severity.ERROR if guess else Severity.WARNING
