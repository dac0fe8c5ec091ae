"""How much work the device selectors of one deployment may take in one pass.

Each selector has a limit of its own, and a deployment may have hundreds, each evaluated on every kind of device in the
fleet. Together they may have MAX_SELECTORS_LENGTH characters, which bounds the time to compile them, and take
MAX_SELECTOR_WORK units of about 50 ns: less than one second in all. The work of a selector on a device is a property of
the two, whether the answer is computed or kept from before, so every pass over the same objects ends alike. A
deployment that would take more is refused as a whole, by a message that names the selector at which the limit is met.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from modelplane.api.errors import InputError
from modelplane.k8s.cel import MAX_SELECTORS_LENGTH, CompileError, compile_selector
from modelplane.k8s.device import Device
from modelplane.placement.hardware import Hardware
from modelplane.placement.request import EngineRequest
from modelplane.placement.selectors import evaluate_with_work
from modelplane.placement.snapshot import Fleet

MAX_SELECTOR_WORK = 6_000_000
_CACHED = 16


@dataclass(frozen=True, slots=True)
class _Written:
    """A selector and where it is written. One that is written twice is evaluated once, so the first place counts."""

    text: str
    place: str


def compile_fault(engines: Sequence[EngineRequest]) -> str | None:
    """Why the selectors cannot be compiled, or None."""
    size = 0
    for selector in _written(engines):
        size += len(selector.text)
        if size > MAX_SELECTORS_LENGTH:
            limit = f"different selectors have more than {MAX_SELECTORS_LENGTH} characters in all"
            return f"{selector.place} is too expensive: {limit}"
        try:
            compile_selector(selector.text, stored=True)
        except (CompileError, InputError) as error:
            return f"{selector.place}: {error}"
    return None


def evaluation_fault(engines: Sequence[EngineRequest], fleet: Fleet) -> str | None:
    """Why the selectors, which compile, cannot be evaluated on all devices of the fleet, or None."""
    selectors = tuple(_written(engines))
    hardware = {id(shape.hardware): shape.hardware for _, shape, _ in fleet.equivalence_classes}.values()
    most = sum(compile_selector(selector.text, stored=True).most_work for selector in selectors)
    if most * sum(len(found.kinds) for found in hardware) <= MAX_SELECTOR_WORK:
        return None
    work = 0
    devices = _devices(frozenset(hardware))
    for selector in selectors:
        for device in devices:
            work += evaluate_with_work(selector.text, device)[1]
            if work > MAX_SELECTOR_WORK:
                limit = f"{len(devices)} kinds of devices take more than {MAX_SELECTOR_WORK} units of work"
                return f"{selector.place} is too expensive: {limit}"
    return None


def _written(engines: Iterable[EngineRequest]) -> Iterator[_Written]:
    seen: set[str] = set()
    for engine in engines:
        for member in engine.members:
            for request in member.requests:
                for number, text in enumerate(request.selectors, 1):
                    if text not in seen:
                        seen.add(text)
                        yield _Written(text, _place(engine.name, request.name, number, len(request.selectors)))


def _place(engine: str, request: str, number: int, count: int) -> str:
    which = f", selector {number} of {count}" if count > 1 else ""
    return f"engine {engine}, device request {request}{which}"


@lru_cache(maxsize=_CACHED)
def _devices(hardware: frozenset[Hardware]) -> tuple[Device, ...]:
    """Each kind of device once, in an order that depends on nothing but the devices."""
    devices = {kind.device for found in hardware for kind in found.kinds}
    return tuple(sorted(devices, key=_canonical))


def _canonical(device: Device) -> str:
    entries = [_entries(device.attributes), _entries(device.capacity)]
    return str((device.driver, device.allow_multiple_allocations, device.fault, entries))


def _entries(section: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str, str, str]]:
    return sorted(
        (domain, name, type(value).__name__, str(value))
        for domain, inner in section.items()
        for name, value in inner.items()
    )
