"""Which devices of a node serve which request: DRA's rule, decided exactly.

Each request takes `count` distinct devices that meet all its selectors. A claim names one DeviceClass for each request,
so a request is served from kinds of one class; synthetic kinds are a class of their own that is never claimed. Classes
are chosen by search and devices by a flow, so overlapping selectors are never falsely refused. A request prefers
devices that can be claimed: if any allocation of the pod claims something, the first one found does.

A selector that fails on a device of the class it would claim from rules that class out, since Kubernetes aborts such an
allocation.

Nothing here is about how many nodes are free; see `pool_usage`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from modelplane.k8s.cel import SelectorOutcome
from modelplane.placement.flow import Demand, feasible
from modelplane.placement.hardware import Hardware, count_in
from modelplane.placement.request import EngineRequest, NodeDeviceRequest
from modelplane.placement.selectors import meets

PodShape = tuple[Demand, ...]
"""The devices that one pod claims of its node: counts by mask, sorted. Empty for a pod that claims nothing."""

_MAX_ALLOCATIONS = 8
_MAX_STEPS = 512
_CACHED = 16_384


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A request and the DeviceClass that it claims from; None where synthetic devices serve it."""

    name: str
    device_class: str | None
    count: int
    selectors: tuple[str, ...]


class PodAllocation(msgspec.Struct, frozen=True, gc=False):
    """Device classes that serve the requests of a pod."""

    claims: tuple[Claim, ...]
    shape: PodShape


class EngineAllocation(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How a pool serves an engine: its members in order, and its pods by shape."""

    members: tuple[PodAllocation, ...]
    pods: tuple[tuple[PodShape, int], ...]
    """Pods that claim something, by shape and sorted; the same form as the ledger's."""
    devices: int
    """Devices that the engine claims in all."""


class Unmatched(msgspec.Struct, frozen=True):
    """Why no node of this hardware can serve a pod."""

    request: NodeDeviceRequest
    suitable: int
    """Devices of a node that meet the request's selectors, whoever else wants them."""
    fault: str = ""
    """What went wrong where a selector could not be evaluated."""
    nothing_claimed: bool = False


_Option = tuple[str | None, int]
_NO_REQUEST = NodeDeviceRequest("none", 0, ())


@lru_cache(maxsize=_CACHED)
def engine_allocations(engine: EngineRequest, hardware: Hardware) -> tuple[EngineAllocation, ...] | Unmatched:
    """Every allocation worth trying, the preferred first."""
    if hardware.fault:
        return Unmatched(_first_request(engine), 0, hardware.fault)
    found: list[tuple[PodAllocation, ...]] = []
    for member in engine.members:
        allocations = pod_allocations(member.requests, hardware)
        if isinstance(allocations, Unmatched):
            return allocations
        found.append(allocations)
    whole = [_engine_allocation(engine, members) for members in _products(found)]
    claiming = tuple(allocation for allocation in whole if allocation.pods)
    if not claiming:
        first = _first_request(engine)
        return Unmatched(first, first.count, nothing_claimed=True)
    return claiming


def _first_request(engine: EngineRequest) -> NodeDeviceRequest:
    """What to name when no request in particular is at fault. An engine without any claims nothing, either."""
    return next((request for member in engine.members for request in member.requests), _NO_REQUEST)


def _products(found: Sequence[tuple[PodAllocation, ...]]) -> Iterator[tuple[PodAllocation, ...]]:
    """The first allocations of all members together, then each further one of a member beside the others' first."""
    first = tuple(allocations[0] for allocations in found)
    yield first
    for position, allocations in enumerate(found):
        for allocation in allocations[1:]:
            yield (*first[:position], allocation, *first[position + 1 :])


def _engine_allocation(engine: EngineRequest, members: tuple[PodAllocation, ...]) -> EngineAllocation:
    pods: dict[PodShape, int] = {}
    for member, allocation in zip(engine.members, members, strict=True):
        if allocation.shape:
            pods[allocation.shape] = pods.get(allocation.shape, 0) + member.nodes * engine.copies
    devices = sum(count * amount for shape, count in pods.items() for amount, _ in shape)
    return EngineAllocation(members, tuple(sorted(pods.items())), devices)


@lru_cache(maxsize=_CACHED)
def pod_allocations(
    requests: tuple[NodeDeviceRequest, ...], hardware: Hardware
) -> tuple[PodAllocation, ...] | Unmatched:
    options: list[tuple[_Option, ...]] = []
    for request in requests:
        found = _options(request, hardware)
        if isinstance(found, Unmatched):
            return found
        options.append(found)
    allocations = tuple(_allocation(requests, chosen) for chosen in _search(requests, options, hardware.counts))
    if not allocations:
        request, suitable = _tightest(requests, hardware)
        return Unmatched(request, suitable)
    return allocations


def _options(request: NodeDeviceRequest, hardware: Hardware) -> tuple[_Option, ...] | Unmatched:
    """The classes that can serve a request alone, claimable ones first, each with the kinds that suit."""
    masks: dict[str | None, int] = {}
    faults: dict[str | None, str] = {}
    for bit, kind in enumerate(hardware.kinds):
        answer = meets(request.selectors, kind.device)
        if answer.outcome is SelectorOutcome.ERROR:
            faults.setdefault(kind.device_class, f"on device {kind.name}: {answer.message}")
        elif answer.outcome is SelectorOutcome.TRUE:
            masks[kind.device_class] = masks.get(kind.device_class, 0) | 1 << bit
    usable = {name: mask for name, mask in masks.items() if name is None or name not in faults}
    enough = [(name, mask) for name, mask in usable.items() if count_in(hardware.counts, mask) >= request.count]
    if enough:
        return tuple(sorted(enough, key=lambda option: (option[0] is None, option[0] or "")))
    suitable = max((count_in(hardware.counts, mask) for mask in usable.values()), default=0)
    fault = next((text for name, text in sorted(faults.items(), key=str) if name is not None), "")
    return Unmatched(request, suitable, fault)


def _search(
    requests: Sequence[NodeDeviceRequest], options: Sequence[tuple[_Option, ...]], counts: tuple[int, ...]
) -> list[tuple[_Option, ...]]:
    """Choices of a class for each request that can be served together, in order of preference, a few of them."""
    found: list[tuple[_Option, ...]] = []
    stack: list[tuple[_Option, ...]] = [()]
    for _ in range(_MAX_STEPS):
        if not stack or len(found) == _MAX_ALLOCATIONS:
            break
        chosen = stack.pop()
        demands = [(request.count, mask) for request, (_, mask) in zip(requests, chosen, strict=False)]
        if not feasible(demands, counts):
            continue
        if len(chosen) == len(requests):
            found.append(chosen)
            continue
        stack.extend((*chosen, option) for option in reversed(_worth_trying(requests, options, chosen)))
    return found


def _worth_trying(
    requests: Sequence[NodeDeviceRequest], options: Sequence[tuple[_Option, ...]], chosen: tuple[_Option, ...]
) -> tuple[_Option, ...]:
    """The options of the next request. Of requests that are alike a later one takes no earlier option: it was tried."""
    at = len(chosen)
    for before in reversed(range(at)):
        if options[before] == options[at] and requests[before].count == requests[at].count:
            return options[at][options[at].index(chosen[before]) :]
    return options[at]


def _allocation(requests: Sequence[NodeDeviceRequest], chosen: tuple[_Option, ...]) -> PodAllocation:
    claims = tuple(
        Claim(request.name, name, request.count, request.selectors)
        for request, (name, _) in zip(requests, chosen, strict=True)
    )
    claimed = [
        (request.count, mask) for request, (name, mask) in zip(requests, chosen, strict=True) if name is not None
    ]
    return PodAllocation(claims, pod_shape(claimed))


def pod_shape(demands: Sequence[Demand]) -> PodShape:
    merged: dict[int, int] = {}
    for count, mask in demands:
        merged[mask] = merged.get(mask, 0) + count
    return tuple(sorted((count, mask) for mask, count in merged.items()))


def _tightest(requests: Sequence[NodeDeviceRequest], hardware: Hardware) -> tuple[NodeDeviceRequest, int]:
    """The request whose suitable devices are shared by most others: the one to show when only the sum is too much."""
    suitable = {
        request: sum(
            k.count for k in hardware.kinds if meets(request.selectors, k.device).outcome is SelectorOutcome.TRUE
        )
        for request in requests
    }
    worst = min(requests, key=lambda request: (suitable[request] - request.count, request.name))
    return worst, suitable[worst]


@lru_cache(maxsize=_CACHED)
def held_shape(claims: tuple[Claim, ...], hardware: Hardware) -> PodShape:
    """What a pod that exists may hold of its node, seen from the safe side.

    A pod whose selectors no longer fit the pool still holds something: any kind of its class, or any at all.
    """
    demands: list[Demand] = []
    for claim in claims:
        if claim.device_class is None:
            continue
        of_class = hardware.mask(claim.device_class)
        suits = sum(
            1 << bit
            for bit, kind in enumerate(hardware.kinds)
            if of_class >> bit & 1 and meets(claim.selectors, kind.device).outcome is SelectorOutcome.TRUE
        )
        mask = suits or of_class or hardware.claimable_mask
        if mask:
            demands.append((claim.count, mask))
    return pod_shape(demands)
