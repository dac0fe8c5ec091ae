"""What a deployment says of devices that can never be: too few for its topology, units and names that do not exist."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from modelplane.api.codec import decode
from modelplane.api.models import ClassDevice, InferenceClass, ModelDeployment, NodeSelector, Topology, Workers
from modelplane.compose.engines.launch import flag_value
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

    @classmethod
    def of(cls, classes: Iterable[InferenceClass]) -> "KnownDevices":
        devices = (device for found in classes for device in found.spec.devices)
        return cls(frozenset(name for device in devices for name in _names(device)))

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
    deployment = decode(ModelDeployment, value)
    for path, workers, selector in _workers(deployment):
        yield from ((problem, Severity.ERROR) for problem in _too_few(path, workers, selector))
    for path, text in _selectors(value, ()):
        yield from _wrong_units(path, text)
        yield from _unknown_names(path, text, known)


def _workers(deployment: ModelDeployment) -> Iterator[tuple[Path, Workers, NodeSelector | None]]:
    spec = deployment.spec
    if spec.workers is not None:
        yield ("spec",), spec.workers, spec.node_selector
    for name, phase in (("decode", spec.decode), ("prefill", spec.prefill)):
        if phase is not None:
            yield ("spec", name), phase.workers, phase.node_selector


def _too_few(path: Path, workers: Workers, selector: NodeSelector | None) -> Iterator[Problem]:
    """A pod with fewer devices than its engine is told to use does not start. Custom engines are told nothing."""
    topology = workers.topology or Topology()
    local = topology.data_local or topology.data
    devices = sum(device.count for device in selector.devices) if selector else 0
    if workers.engine == "Custom" or _engine(workers)[0]:
        return
    wanted = topology.tensor * local
    if wanted > devices:
        ranks = f" for each of {local} ranks" if local > 1 else ""
        wrong = f"tensor {topology.tensor}{ranks} needs {wanted} devices in a pod; nodeSelector requests {devices}"
        yield Problem((*path, "workers", "topology", "tensor"), wrong, "make both agree")
        return
    nodes = topology.pipeline * (topology.data // local)
    flags = [_flag(_engine(workers)[1], names) for names in _SPLITS]
    if prod(flags) > devices * nodes:
        wrong = f"the engine's flags ask for {prod(flags)} devices; a worker has {devices * nodes}"
        yield Problem((*path, "workers", "template"), wrong, "make both agree")


def _engine(workers: Workers) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Command and arguments of the engine's container."""
    containers = workers.template.spec.containers
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
