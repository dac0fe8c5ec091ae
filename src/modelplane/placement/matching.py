"""Which devices of a node serve which request: DRA's rule, decided exactly.

Each request takes `count` distinct devices that meet all its selectors. A claim names one DeviceClass for each request,
so a request is served from kinds of one class; synthetic kinds are a class of their own that is never claimed. Classes
are chosen by search and devices by a flow, so overlapping selectors are never falsely refused. A request prefers
devices that can be claimed: if any allocation of the pod claims something, the first one found does.

A selector that fails on a device of the class it would claim from rules that class out, since Kubernetes aborts such an
allocation.

Every combination of classes over the members of an engine is an allocation of its own, up to ALLOCATION_BUDGET of
them. Where there are more, `is_exhaustive` says so, and a refusal is not a proof.

Devices that must have one value of an attribute (DRA's matchAttribute) are matched on an unused node, by how many
devices of a kind share a value. Which values are free on a node in use is not known here: the cluster decides it, and a
pod may wait there.

Nothing here is about how many nodes are free; see `pool_usage`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, islice, product
from math import prod

import msgspec

from modelplane.k8s.cel import SelectorOutcome
from modelplane.placement.flow import feasible
from modelplane.placement.hardware import (
    CapacityRequests,
    DeviceKind,
    Domain,
    Hardware,
    count_in,
    drawn_by,
    has_capacity,
)
from modelplane.placement.partitions import BudgetReached, Demand, Draw, suitable
from modelplane.placement.request import EngineRequest, MemberRequest, NodeDeviceRequest
from modelplane.placement.selectors import meets

PodShape = tuple[Demand, ...]
"""The devices that one pod claims of its node: counts by mask, sorted. Empty for a pod that claims nothing."""

DOMAIN: PodShape = ((1, 1),)
"""A copy of an engine on a pool that is counted in domains."""
ALLOCATION_BUDGET = 256
"""As many allocations of a pod, and of an engine as a whole, are tried."""
_MAX_STEPS = 4_096
_CACHED = 16_384


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A request and the DeviceClass that it claims from; None where synthetic devices serve it."""

    name: str
    device_class: str | None
    count: int
    selectors: tuple[str, ...]
    capacity: CapacityRequests = ()


class PodAllocation(msgspec.Struct, frozen=True, gc=False):
    """Device classes that serve the requests of a pod."""

    claims: tuple[Claim, ...]
    shape: PodShape


class EngineAllocation(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How a pool serves an engine: its members in order, and its pods by shape."""

    members: tuple[PodAllocation, ...]
    pods: tuple[tuple[PodShape, int], ...]
    """Pods that claim something, by shape and sorted; the same form as a PoolUsage."""
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
    steps: int = 0
    """How many steps were searched where the search was cut short, so that nothing is proven."""
    nodes: int = 0
    """How many nodes a copy of the engine spans, where a domain cannot be used for that many."""
    attribute: str = ""
    """What no devices of a node that serve the pod have one value of."""


_Option = tuple[str | None, int]
_NO_REQUEST = NodeDeviceRequest("none", 0, ())


@lru_cache(maxsize=_CACHED)
def engine_allocations(engine: EngineRequest, hardware: Hardware) -> tuple[EngineAllocation, ...] | Unmatched:
    """Every allocation, the preferred first, within ALLOCATION_BUDGET."""
    if hardware.fault:
        return Unmatched(_first_request(engine), 0, hardware.fault)
    spanned = sum(member.nodes for member in engine.members)
    if hardware.domain is not None and (hardware.domain.fault or not 1 < spanned <= hardware.domain.nodes):
        return Unmatched(_first_request(engine), 0, nodes=spanned)
    found: list[tuple[PodAllocation, ...]] = []
    for member in engine.members:
        allocations = pod_allocations(member.requests, hardware)
        if isinstance(allocations, Unmatched):
            return allocations
        matching = tuple(each for each in allocations if _unmatched_attribute(each, member, hardware) is None)
        if not matching:
            attribute = _unmatched_attribute(allocations[0], member, hardware) or ""
            return Unmatched(member.requests[0], 0, attribute=attribute)
        found.append(matching)
    products = islice(_products(found), ALLOCATION_BUDGET)
    whole = [_engine_allocation(engine, members, hardware.domain) for members in products]
    claiming = tuple(allocation for allocation in whole if allocation.pods)
    if not claiming:
        first = _first_request(engine)
        return Unmatched(first, first.count, nothing_claimed=True)
    return claiming


@lru_cache(maxsize=_CACHED)
def is_exhaustive(engine: EngineRequest, hardware: Hardware) -> bool:
    """Whether no allocation was left out for the budget's sake."""
    found = [_found_allocations(member.requests, hardware) for member in engine.members]
    whole = prod(len(allocations) for allocations, _ in found)
    return whole <= ALLOCATION_BUDGET and all(complete for _, complete in found)


def _unmatched_attribute(found: PodAllocation, member: MemberRequest, hardware: Hardware) -> str | None:
    """The first attribute that the devices of an unused node cannot have one value of, as the pod requests."""
    for match in member.matches:
        claims = [each for each in found.claims if not match.requests or each.name in match.requests]
        shared = [dict(kind.per_value).get(match.attribute, 0) for kind in hardware.kinds]
        demands = [(claim.count, suitable_kinds(claim, hardware)) for claim in claims if claim.device_class is not None]
        if len(demands) < len(claims) or not feasible(demands, shared):
            return match.attribute
    return None


def _first_request(engine: EngineRequest) -> NodeDeviceRequest:
    """What to name when no request in particular is at fault. An engine without any claims nothing, either."""
    return next((request for member in engine.members for request in member.requests), _NO_REQUEST)


def _products(found: Sequence[tuple[PodAllocation, ...]]) -> Iterator[tuple[PodAllocation, ...]]:
    """The first allocations of all members together, then those where one member has another, then two, and so on."""
    first = [allocations[0] for allocations in found]
    for differing in range(len(found) + 1):
        for positions in combinations(range(len(found)), differing):
            for others in product(*(found[position][1:] for position in positions)):
                chosen = list(first)
                for position, allocation in zip(positions, others, strict=True):
                    chosen[position] = allocation
                yield tuple(chosen)


def _engine_allocation(
    engine: EngineRequest, members: tuple[PodAllocation, ...], domain: Domain | None
) -> EngineAllocation:
    pods: dict[PodShape, int] = {}
    for member, allocation in zip(engine.members, members, strict=True):
        if allocation.shape:
            pods[allocation.shape] = pods.get(allocation.shape, 0) + member.nodes * engine.copies
    devices = sum(count * amount for shape, count in pods.items() for amount, *_ in shape)
    if domain is not None and pods:
        return EngineAllocation(members, ((DOMAIN, engine.copies),), devices)
    return EngineAllocation(members, tuple(sorted(pods.items())), devices)


def pod_allocations(
    requests: tuple[NodeDeviceRequest, ...], hardware: Hardware
) -> tuple[PodAllocation, ...] | Unmatched:
    found, complete = _found_allocations(requests, hardware)
    if found:
        return found
    unmatched = next((each for each in _all_options(requests, hardware) if isinstance(each, Unmatched)), None)
    if unmatched is not None:
        return unmatched
    request, suitable = _tightest(requests, hardware)
    return Unmatched(request, suitable, steps=0 if complete else _MAX_STEPS)


@lru_cache(maxsize=_CACHED)
def _found_allocations(
    requests: tuple[NodeDeviceRequest, ...], hardware: Hardware
) -> tuple[tuple[PodAllocation, ...], bool]:
    """The allocations of a pod, and whether these are all."""
    options = [each for each in _all_options(requests, hardware) if not isinstance(each, Unmatched)]
    if len(options) < len(requests):
        return (), True
    chosen, complete = _search(requests, options, hardware)
    return tuple(_allocation(requests, each, hardware) for each in chosen), complete


def _all_options(requests: tuple[NodeDeviceRequest, ...], hardware: Hardware) -> list[tuple[_Option, ...] | Unmatched]:
    return [_options(request, hardware) for request in requests]


def _options(request: NodeDeviceRequest, hardware: Hardware) -> tuple[_Option, ...] | Unmatched:
    """The classes that can serve a request alone, claimable ones first, each with the kinds that suit."""
    masks: dict[str | None, int] = {}
    faults: dict[str | None, str] = {}
    for bit, kind in enumerate(hardware.kinds):
        answer = meets(request.selectors, kind.device)
        if answer.outcome is SelectorOutcome.ERROR:
            faults.setdefault(kind.device_class, f"on device {kind.name}: {answer.message}")
        elif answer.outcome is SelectorOutcome.TRUE and _has_capacity(kind, request):
            masks[kind.device_class] = masks.get(kind.device_class, 0) | 1 << bit
    usable = {name: mask for name, mask in masks.items() if name is None or name not in faults}
    most = {name: _most(hardware, mask, request) for name, mask in usable.items()}
    enough = [(name, mask) for name, mask in usable.items() if most[name] >= request.count]
    if enough:
        return tuple(sorted(enough, key=lambda option: (option[0] is None, option[0] or "")))
    suitable = max(most.values(), default=0)
    fault = next((text for name, text in sorted(faults.items(), key=str) if name is not None), "")
    return Unmatched(request, suitable, fault)


def _has_capacity(kind: DeviceKind, request: NodeDeviceRequest) -> bool:
    return not request.capacity or has_capacity(kind, request.capacity)


def _most(hardware: Hardware, mask: int, request: NodeDeviceRequest) -> int:
    """At most so many devices of some kinds can serve a request on one node."""
    parts = (drawn_by(kind, request.capacity) for bit, kind in enumerate(hardware.kinds) if mask >> bit & 1)
    plain = mask & ~sum(1 << bit for bit, kind in enumerate(hardware.kinds) if kind.is_divided)
    return count_in(hardware.counts, plain) + sum(suitable(partition) for partition in parts if partition is not None)


def _search(
    requests: Sequence[NodeDeviceRequest], options: Sequence[tuple[_Option, ...]], hardware: Hardware
) -> tuple[list[tuple[_Option, ...]], bool]:
    """Choices of a class for each request that can be served together, by preference; and whether these are all."""
    found: list[tuple[_Option, ...]] = []
    stack: list[tuple[_Option, ...]] = [()]
    complete = True
    for _ in range(_MAX_STEPS):
        if not stack or len(found) == ALLOCATION_BUDGET:
            break
        chosen = stack.pop()
        can_serve = _can_serve(requests, chosen, hardware)
        complete = complete and can_serve is not None
        if not can_serve:
            continue
        if len(chosen) == len(requests):
            found.append(chosen)
            continue
        stack.extend((*chosen, option) for option in reversed(_worth_trying(requests, options, chosen)))
    return found, complete and not stack


def _can_serve(requests: Sequence[NodeDeviceRequest], chosen: tuple[_Option, ...], hardware: Hardware) -> bool | None:
    """Whether one node can serve the first requests so; None where that was not found out."""
    demands = [
        hardware.demand(request.count, mask, request.capacity)
        for request, (_, mask) in zip(requests, chosen, strict=False)
    ]
    try:
        return feasible(demands, hardware.counts)
    except BudgetReached:
        return None


def _worth_trying(
    requests: Sequence[NodeDeviceRequest], options: Sequence[tuple[_Option, ...]], chosen: tuple[_Option, ...]
) -> tuple[_Option, ...]:
    """The options of the next request. Of requests that are alike a later one takes no earlier option: it was tried."""
    at = len(chosen)
    for before in reversed(range(at)):
        if options[before] == options[at] and _wants_alike(requests[before], requests[at]):
            return options[at][options[at].index(chosen[before]) :]
    return options[at]


def _wants_alike(one: NodeDeviceRequest, other: NodeDeviceRequest) -> bool:
    return one.count == other.count and one.capacity == other.capacity


def _allocation(
    requests: Sequence[NodeDeviceRequest], chosen: tuple[_Option, ...], hardware: Hardware
) -> PodAllocation:
    claims = tuple(
        Claim(request.name, name, request.count, request.selectors, request.capacity)
        for request, (name, _) in zip(requests, chosen, strict=True)
    )
    claimed = [
        hardware.demand(request.count, mask, request.capacity)
        for request, (name, mask) in zip(requests, chosen, strict=True)
        if name is not None
    ]
    return PodAllocation(claims, pod_shape(claimed))


def pod_shape(demands: Sequence[Demand]) -> PodShape:
    merged: dict[tuple[int, Draw | None], int] = {}
    for demand in demands:
        kinds = demand[1], demand[2] if len(demand) == 3 else None  # noqa: PLR2004  a DividedDemand
        merged[kinds] = merged.get(kinds, 0) + demand[0]
    return tuple(
        sorted((count, mask) if draw is None else (count, mask, draw) for (mask, draw), count in merged.items())
    )


def _tightest(requests: Sequence[NodeDeviceRequest], hardware: Hardware) -> tuple[NodeDeviceRequest, int]:
    """The request whose suitable devices are shared by most others: the one to show when only the sum is too much."""
    suitable = {
        request: sum(
            _most(hardware, 1 << bit, request)
            for bit, kind in enumerate(hardware.kinds)
            if meets(request.selectors, kind.device).outcome is SelectorOutcome.TRUE and _has_capacity(kind, request)
        )
        for request in requests
    }
    worst = min(requests, key=lambda request: (suitable[request] - request.count, request.name))
    return worst, suitable[worst]


def suitable_kinds(claim: Claim, hardware: Hardware) -> int:
    """The kinds of its class that meet a claim's selectors and have its capacity, as bits."""
    of_class = hardware.mask(claim.device_class)
    return sum(
        1 << bit
        for bit, kind in enumerate(hardware.kinds)
        if of_class >> bit & 1
        and meets(claim.selectors, kind.device).outcome is SelectorOutcome.TRUE
        and (not claim.capacity or has_capacity(kind, claim.capacity))
    )


@lru_cache(maxsize=_CACHED)
def held_shape(claims: tuple[Claim, ...], hardware: Hardware) -> PodShape:
    """What a pod that exists may hold of its node, seen from the safe side.

    A pod whose selectors no longer fit the pool still holds something: any kind of its class, or any at all.
    """
    demands: list[Demand] = []
    for claim in claims:
        if claim.device_class is None:
            continue
        suits = suitable_kinds(claim, hardware)
        mask = suits or hardware.mask(claim.device_class) or hardware.claimable_mask
        if mask:
            demands.append(hardware.demand(claim.count, mask, claim.capacity if suits else None))
    return pod_shape(demands)
