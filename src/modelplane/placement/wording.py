"""Sentences for people about what did not match or did not fit, made only when somebody reads them."""

import re
from functools import lru_cache

import msgspec

from modelplane.k8s.cel import SelectorOutcome
from modelplane.k8s.device import Device
from modelplane.placement.cluster_info import PoolShape
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import EngineWay, Unmatched, engine_ways
from modelplane.placement.packing import Packable, pack
from modelplane.placement.request import EngineRequest
from modelplane.placement.room import Use, add, devices_in, spare
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
            return f"request {request.name} is met by synthetic devices only, so nothing would be claimed"
        if self.hardware.fault:
            return self.hardware.fault
        if self.found.fault:
            return f"a selector of request {request.name} fails {self.found.fault}"
        if self.found.suitable >= request.count:
            return f"request {request.name} suits {self.found.suitable} devices, which the other requests need as well"
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
    """Why a pool that suits has no room, in words."""

    engine: EngineRequest
    kind: PoolShape
    use: Use

    def __str__(self) -> str:
        return _in_words(self)

    def words(self) -> str:
        ways = engine_ways(self.engine, self.kind.hardware)
        if isinstance(ways, Unmatched):
            return "the devices do not match"
        return _shortfall(ways[0], self.kind, self.use)


@lru_cache(maxsize=_CACHED)
def _in_words(problem: Mismatch | Shortfall) -> str:
    return problem.words()


def _shortfall(way: EngineWay, kind: PoolShape, use: Use) -> str:
    shape, pods = max(way.pods, key=lambda item: sum(count for count, _ in item[0]))
    size = sum(count for count, _ in shape)
    room = spare(kind.counts, kind.nodes, use, shape, packed=kind.packed)
    away = f", {kind.away} more are away" if kind.away else ""
    if size == kind.hardware.claimable:
        return f"needs {pods} free node{'' if pods == 1 else 's'}, {room} of {kind.nodes} are free{away}"
    held = devices_in(use)
    sure = "can be packed" if kind.packed else "is sure to fit"
    return (
        f"needs room for {pods} pod{'' if pods == 1 else 's'} of {size} devices, room for {room} {sure}: "
        f"{held} of {kind.devices} devices on {kind.nodes} nodes are held{away}{_searched(way, kind, use)}"
    )


def _searched(way: EngineWay, kind: PoolShape, use: Use) -> str:
    """What to add where a packing may exist that was not found."""
    after = add(use, way.pods)
    if not kind.packed or pack(kind.counts, kind.nodes, after) is not Packable.UNKNOWN:
        return ""
    return f"; the search for a packing of {len(after)} shapes of pod was cut short"
