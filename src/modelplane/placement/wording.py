"""Sentences for people about what did not match or did not fit, made only when somebody reads them."""

import re
from functools import lru_cache

import msgspec

from modelplane.api.models import Toleration
from modelplane.k8s.cel import SelectorOutcome
from modelplane.k8s.device import Device
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.counter_words import amount, drawn_words
from modelplane.placement.hardware import Domain, Hardware
from modelplane.placement.matching import (
    ALLOCATION_BUDGET,
    EngineAllocation,
    PodShape,
    Unmatched,
    engine_allocations,
    is_exhaustive,
)
from modelplane.placement.offers import engine_fits
from modelplane.placement.packing import PACKING_BUDGET, PATTERN_BUDGET, Packable, pack, packs_beside
from modelplane.placement.partitions import SHARES, Demand, divided
from modelplane.placement.pool_usage import PoolUsage, add, devices_held, free_slots
from modelplane.placement.request import EngineRequest
from modelplane.placement.selectors import evaluate
from modelplane.placement.taints import tolerates
from modelplane.placement.values import PlacementTaint

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
        if self.found.nodes:
            return self._domain()
        if self.found.attribute:
            return f"no devices of a node that serve the requests share a value of {self.found.attribute}"
        if self.found.steps:
            return f"not proven: search budget of {self.found.steps} steps reached for request {request.name}"
        if self.found.suitable >= request.count:
            return f"{self.found.suitable} devices match request {request.name}, and the other requests need them too"
        wanted = f"needs {request.count} x {request.name}"
        failing = self._failing()
        parts = [*([readable(failing)] if failing else ()), *(f"{name} {value}" for name, value in request.capacity)]
        if parts:
            wanted += f" with {', '.join(parts)}"
        return f"{wanted}; a node has {self._has(failing)}"

    def _domain(self) -> str:
        domain, nodes = self.hardware.domain, self.found.nodes
        if domain is None or domain.fault:
            return domain.fault if domain is not None else ""
        if nodes == 1:
            return f"its domains of {domain.nodes} nodes ({domain.key}) are for engines that span nodes"
        return f"needs {nodes} nodes in one domain; a domain ({domain.key}) has {domain.nodes}"

    def _failing(self) -> str:
        """The first selector that the nearest device does not meet: the one that meets most of them.

        Devices that can be claimed are nearer than synthetic ones, which only steer.
        """
        selectors = self.found.request.selectors
        nearest: tuple[tuple[bool, int], str] | None = None
        for kind in self.hardware.kinds:
            met = [evaluate(text, kind.device).outcome is SelectorOutcome.TRUE for text in selectors]
            failing = next((text for text, held in zip(selectors, met, strict=True) if not held), "")
            closeness = kind.device_class is not None, sum(met)
            if nearest is None or closeness > nearest[0]:
                nearest = closeness, failing
        return nearest[1] if nearest is not None else ""

    def _has(self, selector: str) -> str:
        requested = (name.rpartition("/")[2] for name, _ in self.found.request.capacity)
        names = list(dict.fromkeys([*_NAMED.findall(selector), *requested]))
        parts = [f"{kind.count} x {kind.name}{_values(kind.device, names)}" for kind in self.hardware.kinds]
        return ", ".join(parts) or "no devices"


class Untolerated(msgspec.Struct, frozen=True):
    """Why a taint keeps a new replica away, in words."""

    taint: PlacementTaint
    tolerations: tuple[Toleration, ...]

    def __str__(self) -> str:
        taint = f"taint {self.taint.key} ({self.taint.effect.value})"
        times = [
            found.toleration_seconds
            for found in self.tolerations
            if found.toleration_seconds is not None and tolerates(found, self.taint)
        ]
        return f"{taint} is tolerated for {min(times)} s only" if times else f"{taint} is not tolerated"


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
    """Of the pods that find no place: those of one shape where that is too many alone, else all shapes together."""
    largest_first = sorted(allocation.pods, key=lambda item: -_size(item[0]))
    for shape, pods in largest_first:
        fitting = free_slots(
            kind.counts, kind.nodes, usage, shape, packed=kind.packed, foreign=kind.foreign, bound=kind.bound
        )
        if fitting < pods:
            return _too_many(shape, pods, fitting, kind, usage)
    wanted = " and ".join(f"{_counted(pods, 'pod')} with {_devices_of(shape, kind)}" for shape, pods in largest_first)
    return f"needs {wanted}; each fits alone, not together; {_taken(kind, usage)}"


def _too_many(shape: PodShape, pods: int, fitting: int, kind: PoolShape, usage: PoolUsage) -> str:
    size, nodes, noun = _size(shape), f"{kind.nodes} nodes", _device_noun(kind.hardware)
    if kind.hardware.domain is not None:
        return _too_few_domains(kind.hardware.domain, pods, fitting, kind)
    if kind.hardware.is_divided:
        return f"needs {_counted(pods, 'pod')} with {_devices_of(shape, kind)}; {_how_many(fitting, kind, usage)}"
    if size == kind.hardware.claimable:
        free = f"{fitting} of {nodes} {_is(fitting)} free{_anywhere(shape, fitting, kind, usage)}"
        return f"needs {_counted(pods, 'free node')}; {free}{_missing(kind)}"
    if kind.devices - devices_held(usage) < size:
        return f"0 of {nodes} have {_counted(size, f'free {noun}')}; {_taken(kind, usage)}"
    return f"needs {_counted(pods, 'pod')} with {_counted(size, noun)} each; {_how_many(fitting, kind, usage)}"


def _too_few_domains(domain: Domain, copies: int, fitting: int, kind: PoolShape) -> str:
    missing = f"; {_counted(kind.missing_nodes, 'domain')} {_is(kind.missing_nodes)} incomplete"
    free = f"{fitting} of {kind.nodes} domains {_is(fitting)} free"
    wanted = f"needs {_counted(copies, 'free domain')} of {domain.nodes} nodes ({domain.key})"
    return f"{wanted}; {free}{missing if kind.missing_nodes else ''}"


def _how_many(fitting: int, kind: PoolShape, usage: PoolUsage) -> str:
    how = "can be packed" if kind.packed else "fit wherever the cluster puts its pods"
    return f"{fitting} {how}; {_taken(kind, usage)}"


def _size(shape: PodShape) -> int:
    return sum(count for count, *_ in shape)


def _devices_of(shape: PodShape, kind: PoolShape) -> str:
    """Kinds by name where some are parts of others: they cannot be counted together."""
    if not kind.hardware.is_divided:
        return _counted(_size(shape), _device_noun(kind.hardware))
    return " and ".join(f"{demand[0]} x {_kinds_of(demand, kind.hardware)}" for demand in shape)


def _kinds_of(demand: Demand, hardware: Hardware) -> str:
    names = [kind.name for bit, kind in enumerate(hardware.kinds) if demand[1] >> bit & 1]
    shared = [
        f"{amount(draw.drawn)} {draw.counter}"
        for found in divided((demand,))
        for partition in found[2].partitions
        if partition.name.startswith(SHARES)
        for draw in partition.draws
    ]
    return " or ".join(names) + (f" with {', '.join(shared)}" if shared else "")


def _taken(kind: PoolShape, usage: PoolUsage) -> str:
    if kind.hardware.is_divided:
        return f"{drawn_words(kind.hardware, kind.nodes, usage)}{_missing(kind)}"
    return f"{devices_held(usage)} of {kind.devices} {_device_noun(kind.hardware)}s are held{_missing(kind)}"


def _missing(kind: PoolShape) -> str:
    gone = kind.missing_nodes
    return f"; {_counted(gone, 'node')} {_is(gone)} missing" if gone else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _device_noun(hardware: Hardware) -> str:
    names = {kind.name for kind in hardware.kinds if kind.device_class is not None}
    return "GPU" if names == {"gpu"} else "device"


def _anywhere(shape: PodShape, fitting: int, kind: PoolShape, usage: PoolUsage) -> str:
    """That a count is the worst case: pods that could share nodes may lie on one each."""
    best = free_slots(kind.counts, kind.nodes, usage, shape, packed=True, foreign=kind.foreign, bound=kind.bound)
    return " wherever the cluster puts its pods" if fitting < best else ""


def _packable(allocations: tuple[EngineAllocation, ...], kind: PoolShape, usage: PoolUsage) -> str:
    """What to add where only the worst case of packing stands in the way."""
    fitting = not kind.packed and any(_can_pack(kind, add(usage, found.pods)) for found in allocations)
    return "; it fits if the cluster packs its pods (spec.scheduling.packing: BinPack)" if fitting else ""


def _can_pack(kind: PoolShape, usage: PoolUsage) -> bool:
    """Whether the pods can be packed, beside those that are on nodes already."""
    if kind.bound:
        return packs_beside(kind.counts, kind.nodes, usage, kind.bound)
    return pack(kind.counts, kind.nodes, usage) is Packable.YES


def _unproven(engine: EngineRequest, kind: PoolShape) -> str:
    """What to add where a way may exist and was not found."""
    if not is_exhaustive(engine, kind.hardware):
        return f"; not proven: search budget of {ALLOCATION_BUDGET} allocations reached"
    return f"; not proven: search budget of {PACKING_BUDGET} steps and {PATTERN_BUDGET} patterns of packing reached"
