"""Which devices of a node serve which request: DRA's rule, decided exactly.

Each request takes `count` distinct devices that meet all its selectors. Devices of one kind are interchangeable, so
this is a flow from requests to kinds; a request is tried on every kind that suits it and earlier choices are undone
when a later request finds nothing left, so overlapping selectors are never falsely refused. A claim names one
DeviceClass for each request, so a request is served from kinds of one class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelplane.dra.cel import Outcome, compile_selector
from modelplane.fleet.ask import DeviceRequest
from modelplane.fleet.snapshot import DeviceKind


@dataclass(frozen=True, slots=True)
class Matched:
    """The DeviceClass that each request claims from, by the request's name; None for one that claims nothing."""

    classes: tuple[tuple[str, str | None], ...]

    @property
    def claims(self) -> bool:
        return any(device_class is not None for _, device_class in self.classes)


@dataclass(frozen=True, slots=True)
class Unmatched:
    request: str
    suitable: int
    """Devices of a node that meet the request's selectors, whoever else wants them."""
    wanted: int


def match(requests: Sequence[DeviceRequest], kinds: Sequence[DeviceKind]) -> Matched | Unmatched:
    suits = [[_suits(request, kind) for kind in kinds] for request in requests]
    for request, row in zip(requests, suits, strict=True):
        suitable = sum(kind.count for kind, fits in zip(kinds, row, strict=True) if fits)
        if suitable < request.count:
            return Unmatched(request.name, suitable, request.count)
    taken = _assign([request.count for request in requests], suits, kinds, [kind.count for kind in kinds])
    if taken is None:
        last = requests[-1]
        return Unmatched(last.name, 0, last.count)
    return Matched(tuple(zip((request.name for request in requests), taken, strict=True)))


def _suits(request: DeviceRequest, kind: DeviceKind) -> bool:
    return all(
        compile_selector(text, stored=True).evaluate(kind.device).outcome is Outcome.TRUE for text in request.selectors
    )


def _assign(
    wanted: list[int], suits: list[list[bool]], kinds: Sequence[DeviceKind], free: list[int]
) -> list[str | None] | None:
    """The DeviceClass of each request, or None when the requests cannot all be served."""
    if not wanted:
        return []
    for device_class in dict.fromkeys(kind.device_class for kind in kinds):
        usable = [fits and kind.device_class == device_class for fits, kind in zip(suits[0], kinds, strict=True)]
        for taken in _splits(wanted[0], usable, free):
            left = [have - use for have, use in zip(free, taken, strict=True)]
            rest = _assign(wanted[1:], suits[1:], kinds, left)
            if rest is not None:
                return [device_class, *rest]
    return None


def _splits(wanted: int, suits: list[bool], free: list[int]) -> Iterator[list[int]]:
    """Every way to take `wanted` devices from the kinds that suit, as many of the first ones as possible first."""
    if not free:
        if wanted == 0:
            yield []
        return
    most = min(wanted, free[0]) if suits[0] else 0
    for use in range(most, -1, -1):
        for rest in _splits(wanted - use, suits[1:], free[1:]):
            yield [use, *rest]
