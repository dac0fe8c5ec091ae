"""Sentences for people about what did not match or did not fit, made only when somebody reads them."""

import re
from functools import lru_cache

import msgspec

from modelplane.k8s.cel import SelectorOutcome
from modelplane.k8s.device import Device
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import (
    ALLOCATION_BUDGET,
    EngineAllocation,
    Unmatched,
    engine_allocations,
    is_exhaustive,
)
from modelplane.placement.offers import engine_fits
from modelplane.placement.packing import PACKING_BUDGET, PATTERN_BUDGET, Packable, pack
from modelplane.placement.pool_usage import PoolUsage, add, devices_held, free_slots
from modelplane.placement.request import EngineRequest
from modelplane.placement.selectors import evaluate

_MAX_TEXT = 160
_CACHED = 4_096
_COMPARED = re.compile(
    r"""device\.(?:capacity|attributes)\[["'][^"']+["']\]\.(\w+)"""
    r"""(?:\.compareTo\((?:quantity|semver)\(["']([^"']+)["']\)\)\s*(>=|<=|>|<|==)\s*0|\s*(==|!=|>=|<=|>|<)\s*(\S+))"""
)
_NAMED = re.compile(r"""device\.(?:capacity|attributes)\[["'][^"']+["']\]\.(\w+)""")


class Mismatch(msgspec.Struct, frozen=True, cache_hash=True):
    """Why hardware cannot serve a request, in words."""

    found: Unmatched
    hardware: Hardware

    def __str__(self) -> str:
        return _in_words(self)

    def words(self) -> str:
        request = self.found.request
        if self.found.nothing_claimed:
            return f"only synthetic devices match request {request.name}, so no device would be claimed"
        if self.hardware.fault:
            return self.hardware.fault
        if self.found.fault:
            return f"a selector of request {request.name} fails {self.found.fault}"
        if self.found.steps:
            return f"not proven: search budget of {self.found.steps} steps reached for request {request.name}"
        if self.found.suitable >= request.count:
            return f"{self.found.suitable} devices match request {request.name}, and the other requests need them too"
        wanted = f"needs {request.count} x {request.name}"
        failing = self._failing()
        if failing:
            wanted += f" with {readable(failing)}"
        return f"{wanted}; a node has {self._has(failing)}"

    def _failing(self) -> str:
        """The first selector that some device does not meet."""
        for text in self.found.request.selectors:
            if any(evaluate(text, kind.device).outcome is not SelectorOutcome.TRUE for kind in self.hardware.kinds):
                return text
        return ""

    def _has(self, selector: str) -> str:
        names = list(dict.fromkeys(_NAMED.findall(selector)))
        parts = [f"{kind.count} x {kind.name}{_values(kind.device, names)}" for kind in self.hardware.kinds]
        return ", ".join(parts) or "no devices"


def readable(selector: str) -> str:
    """A selector as people would say it: memory >= 141Gi."""
    short = _COMPARED.sub(_compared, selector)
    return short if len(short) <= _MAX_TEXT else short[: _MAX_TEXT - 1] + "…"


def _compared(found: "re.Match[str]") -> str:
    name, bound, sign, other_sign, other = found.groups()
    return f"{name} {sign} {bound}" if bound is not None else f"{name} {other_sign} {other}"


def _values(device: Device, names: list[str]) -> str:
    known = {
        name: value
        for section in (device.attributes, device.capacity)
        for values in section.values()
        for name, value in values.items()
    }
    shown = [f"{name} {known[name]}" for name in names if name in known]
    return f" with {', '.join(shown)}" if shown else ""


class Shortfall(msgspec.Struct, frozen=True, cache_hash=True):
    """Why a pool with matching devices is too full, in words."""

    engine: EngineRequest
    kind: PoolShape
    usage: PoolUsage

    def __str__(self) -> str:
        return _in_words(self)

    def words(self) -> str:
        allocations = engine_allocations(self.engine, self.kind.hardware)
        if isinstance(allocations, Unmatched):
            return "the devices do not match"
        proven = engine_fits(self.engine, self.kind, self.usage).proven
        unproven = "" if proven else _unproven(self.engine, self.kind)
        packable = _packable(allocations, self.kind, self.usage)
        return f"{_shortfall(allocations[0], self.kind, self.usage)}{packable}{unproven}"


@lru_cache(maxsize=_CACHED)
def _in_words(problem: Mismatch | Shortfall) -> str:
    return problem.words()


def _shortfall(allocation: EngineAllocation, kind: PoolShape, usage: PoolUsage) -> str:
    shape, pods = max(allocation.pods, key=lambda item: sum(count for count, _ in item[0]))
    size = sum(count for count, _ in shape)
    fitting = free_slots(kind.counts, kind.nodes, usage, shape, packed=kind.packed, foreign=kind.foreign)
    gone, nodes = kind.missing_nodes, f"{kind.nodes} nodes"
    missing = f"; {_counted(gone, 'node')} {_is(gone)} missing" if gone else ""
    if size == kind.hardware.claimable:
        return f"needs {_counted(pods, 'free node')}; {fitting} of {nodes} {_is(fitting)} free{missing}"
    noun, held = _device_noun(kind.hardware), devices_held(usage)
    taken = f"{held} of {kind.devices} {noun}s are held{missing}"
    if kind.devices - held < size:
        return f"0 of {nodes} have {_counted(size, f'free {noun}')}; {taken}"
    how = "can be packed" if kind.packed else "fit wherever the cluster puts its pods"
    return f"needs {_counted(pods, 'pod')} with {_counted(size, noun)} each; {fitting} {how}; {taken}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _device_noun(hardware: Hardware) -> str:
    names = {kind.name for kind in hardware.kinds if kind.device_class is not None}
    return "GPU" if names == {"gpu"} else "device"


def _packable(allocations: tuple[EngineAllocation, ...], kind: PoolShape, usage: PoolUsage) -> str:
    """What to add where only the worst case of packing stands in the way."""
    fitting = not kind.packed and any(
        pack(kind.counts, kind.nodes, add(usage, found.pods)) is Packable.YES for found in allocations
    )
    return "; packed tightly it fits, which scheduling.packing BinPack relies on" if fitting else ""


def _unproven(engine: EngineRequest, kind: PoolShape) -> str:
    """What to add where a way may exist and was not found."""
    if not is_exhaustive(engine, kind.hardware):
        return f"; not proven: search budget of {ALLOCATION_BUDGET} allocations reached"
    return f"; not proven: search budget of {PACKING_BUDGET} steps and {PATTERN_BUDGET} patterns of packing reached"
