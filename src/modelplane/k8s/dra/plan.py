"""Claims prepared for the search: classes resolved, selectors compiled, amounts parsed. Independent of any node.

What is wrong with the claims themselves (a class that does not exist, a gate that is off, a selector that is not
CEL) is kept as the plan's `fault` and ends every attempt. A selector that does not compile is kept until it is
evaluated on a device, as upstream does: a claim whose selector is never reached is not affected.

Class selectors run before request selectors, each list in order, and the first false one ends it. A
selector sees only the device's shape, so the answer for one shape is remembered for the life of the plan, over all
pools and nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from modelplane.api.errors import InputError
from modelplane.k8s.cel import CompileError, Evaluation, SelectorOutcome, compile_selector
from modelplane.k8s.device import Device
from modelplane.k8s.dra.capacity import Amounts, ConsumedCapacity, consumed_capacity_of
from modelplane.k8s.dra.constraints import attribute_name
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.offers import DeviceOffer, DeviceShape
from modelplane.k8s.dra.resources import (
    ALL,
    EXACT_COUNT,
    BaseDeviceRequest,
    ClaimDeviceRequest,
    ClaimSelector,
    Constraint,
    DeviceClass,
    DeviceToleration,
    ExactRequest,
    ResourceClaim,
)
from modelplane.k8s.quantity import quantity_from_json

MATCHES = -1
MAX_RESULTS = 32

# For every subrequest: its number of devices, or, for all devices, the positions of those.
Wanted: TypeAlias = tuple[int | tuple[int, ...], ...]


class SelectorLike(Protocol):
    """A compiled selector."""

    def evaluate(self, device: Device) -> Evaluation:
        """True, false or an error for one device."""


class Aborted(Exception):  # noqa: N818  carries the reason out of the search; becomes the Fatal outcome
    """The attempt is aborted: an input is invalid."""


@dataclass(slots=True, eq=False)
class _CachedSelector:
    """One selector and its cached results."""

    text: str
    compiled: SelectorLike | CompileError
    answers: dict[DeviceShape, Evaluation] = field(default_factory=dict)

    def matches(self, shape: DeviceShape, place: str) -> bool:
        answer = self.answers.get(shape)
        if answer is None:
            if isinstance(self.compiled, CompileError):
                raise Aborted(f"{place}: CEL compile error: {self.compiled}")
            answer = self.answers[shape] = self.compiled.evaluate(shape.device)
        if answer.outcome is SelectorOutcome.ERROR:
            raise Aborted(f"{place}: CEL runtime error: {answer.message}")
        return answer.outcome is SelectorOutcome.TRUE


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One selector in its place."""

    place: str
    from_class: bool
    position: int
    selector: _CachedSelector


@dataclass(frozen=True, slots=True, eq=False)
class SubRequestPlan:
    """One thing to satisfy: a request, or one alternative of a request (then `alternative` names it)."""

    index: int
    claim_index: int
    request_index: int
    claim: str
    request: str
    alternative: str
    device_class: str
    wants_all: bool
    count: int
    admin_access: bool
    checks: tuple[Check, ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity: Amounts
    failed_checks: dict[DeviceShape, int] = field(default_factory=dict)
    consumption: dict[DeviceOffer, ConsumedCapacity] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name results carry."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    def failed_check(self, shape: DeviceShape) -> int:
        """MATCHES, or the position in `checks` of the selector that is false; Aborted where one fails."""
        found = self.failed_checks.get(shape)
        if found is None:
            failed = (at for at, check in enumerate(self.checks) if not check.selector.matches(shape, check.place))
            found = self.failed_checks[shape] = next(failed, MATCHES)
        return found

    def consumed(self, offer: DeviceOffer) -> ConsumedCapacity:
        """The consumption of the device's capacity by the subrequest."""
        consumed = self.consumption.get(offer)
        if consumed is None:
            consumed = self.consumption[offer] = consumed_capacity_of(offer.capacity, self.capacity)
        return consumed


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A request: its one subrequest, or its alternatives in order of preference."""

    subrequests: tuple[SubRequestPlan, ...]
    has_alternatives: bool


@dataclass(frozen=True, slots=True, eq=False)
class ClaimPlan:
    """A claim with its requests and constraints in order."""

    name: str
    requests: tuple[RequestPlan, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AllocationPlan:
    """All claims of a pod. With a `fault` the rest is not to be used.

    `constrained` are the attributes of constraints. `is_order_dependent`: a constraint's state depends on earlier
    tries, so that no failure may be cached. `has_admin_access`: some subrequest may use devices that are in use.
    `counts` is the number of devices of each subrequest, None if it depends on the node.
    """

    claims: tuple[ClaimPlan, ...]
    subrequests: tuple[SubRequestPlan, ...]
    features: Features
    constrained: tuple[str, ...] = ()
    is_order_dependent: bool = False
    has_admin_access: bool = False
    counts: tuple[int, ...] | None = None
    fault: str | None = None


def check_size(claim: ClaimPlan, wanted: Wanted) -> None:
    """Raise Aborted if the claim requests more devices than allowed, with any alternatives."""
    smallest = sum(
        min(count_of(wanted[subrequest.index]) for subrequest in request.subrequests) for request in claim.requests
    )
    if smallest > MAX_RESULTS:
        raise Aborted(f"claim {claim.name}: requests {smallest} devices, more than the {MAX_RESULTS} a claim may have")


def count_of(wanted: int | tuple[int, ...]) -> int:
    """The number of devices."""
    return wanted if isinstance(wanted, int) else len(wanted)


def prepare_claims(
    claims: Iterable[ResourceClaim],
    classes: Iterable[DeviceClass],
    features: Features,
    compile_text: Callable[[str], SelectorLike] | None = None,
) -> AllocationPlan:
    """Prepare claims once; then search with the plan on as many nodes as needed."""
    by_name = {device_class.metadata.name: device_class for device_class in classes}
    planner = _Planner(by_name, features, compile_text or _stored_compiler(features))
    try:
        plans = tuple(planner.claim(index, claim) for index, claim in enumerate(claims))
        counts = (
            None
            if any(subrequest.wants_all for subrequest in planner.subrequests)
            else tuple(subrequest.count for subrequest in planner.subrequests)
        )
        for claim in plans if counts is not None else ():
            check_size(claim, counts or ())
    except Aborted as fault:
        return AllocationPlan((), (), features, fault=str(fault))
    constraints = [constraint for claim in plans for constraint in claim.constraints]
    names = (attribute_name(constraint) for constraint in constraints)
    return AllocationPlan(
        plans,
        tuple(planner.subrequests),
        features,
        constrained=tuple(name for name in names if name is not None),
        is_order_dependent=any(features.list_type_attributes or c.match_attribute is None for c in constraints),
        has_admin_access=any(subrequest.admin_access for subrequest in planner.subrequests),
        counts=counts,
    )


def _stored_compiler(features: Features) -> Callable[[str], SelectorLike]:
    """The scheduler's compiler: what is stored was admitted once and is only checked for making sense."""
    return lambda text: compile_selector(text, stored=True, gates=features.gates)


@dataclass(frozen=True, slots=True)
class _Place:
    claim_index: int
    request_index: int
    claim: str
    request: str

    def __str__(self) -> str:
        return f"claim {self.claim}, request {self.request}"


class _Planner:
    def __init__(
        self, classes: Mapping[str, DeviceClass], features: Features, compile_text: Callable[[str], SelectorLike]
    ) -> None:
        self._classes = classes
        self._features = features
        self._compile = compile_text
        self._selectors: dict[str, _CachedSelector] = {}
        self.subrequests: list[SubRequestPlan] = []

    def claim(self, index: int, claim: ResourceClaim) -> ClaimPlan:
        devices = claim.spec.devices
        name = claim.metadata.name
        requests = tuple(
            self._request(_Place(index, position, name, request.name), request)
            for position, request in enumerate(devices.requests or ())
        )
        for position, constraint in enumerate(devices.constraints or ()):
            self._check_constraint(constraint, f"claim {name}, constraint #{position}")
        return ClaimPlan(name, requests, devices.constraints or ())

    def _check_constraint(self, constraint: Constraint, place: str) -> None:
        known = constraint.match_attribute is not None or (
            constraint.distinct_attribute is not None and not self._features.is_stable_allocator
        )
        if not known:
            raise Aborted(f"{place}: empty constraint (unsupported constraint type?)")

    def _request(self, place: _Place, request: ClaimDeviceRequest) -> RequestPlan:
        if request.first_available:
            if not self._features.prioritized_list:
                raise Aborted(f"{place}: has alternatives, but DRAPrioritizedList is off")
            subrequests = tuple(
                self._subrequest(place, subrequest.name, subrequest) for subrequest in request.first_available
            )
            return RequestPlan(subrequests, has_alternatives=True)
        if request.exactly is None:
            raise Aborted(f"{place}: neither exactly nor firstAvailable is set")
        return RequestPlan((self._subrequest(place, "", request.exactly),), has_alternatives=False)

    def _subrequest(self, place: _Place, alternative: str, subrequest: BaseDeviceRequest) -> SubRequestPlan:
        text = f"{place}/{alternative}" if alternative else str(place)
        device_class = self._check_subrequest(subrequest, text)
        prepared = SubRequestPlan(
            index=len(self.subrequests),
            claim_index=place.claim_index,
            request_index=place.request_index,
            claim=place.claim,
            request=place.request,
            alternative=alternative,
            device_class=subrequest.device_class_name,
            wants_all=subrequest.effective_mode == ALL,
            count=subrequest.effective_count,
            admin_access=isinstance(subrequest, ExactRequest) and subrequest.admin_access is True,
            checks=self._checks(
                f"class {subrequest.device_class_name}", device_class.spec.selectors or (), from_class=True
            )
            + self._checks(text, subrequest.selectors or (), from_class=False),
            tolerations=subrequest.tolerations or (),
            capacity=self._amounts(subrequest, text),
        )
        self.subrequests.append(prepared)
        return prepared

    def _check_subrequest(self, subrequest: BaseDeviceRequest, place: str) -> DeviceClass:
        if (
            isinstance(subrequest, ExactRequest)
            and subrequest.admin_access is not None
            and not self._features.admin_access
        ):
            raise Aborted(f"{place}: admin access is requested, but DRAAdminAccess is off")
        if not subrequest.device_class_name:
            raise Aborted(f"{place}: deviceClassName is missing")
        device_class = self._classes.get(subrequest.device_class_name)
        if device_class is None:
            raise Aborted(f"{place}: device class {subrequest.device_class_name} does not exist")
        if subrequest.effective_mode not in {ALL, EXACT_COUNT}:
            raise Aborted(f"{place}: unsupported allocationMode {subrequest.allocation_mode}")
        return device_class

    def _amounts(self, subrequest: BaseDeviceRequest, place: str) -> Amounts:
        if subrequest.capacity is None or self._features.is_stable_allocator:
            return {}
        if not self._features.consumable_capacity:
            raise Aborted(f"{place}: has capacity requests, but DRAConsumableCapacity is off")
        try:
            return {name: quantity_from_json(value) for name, value in (subrequest.capacity.requests or {}).items()}
        except InputError as error:
            raise Aborted(f"{place}: capacity: {error}") from error

    def _checks(self, place: str, selectors: tuple[ClaimSelector, ...], *, from_class: bool) -> tuple[Check, ...]:
        return tuple(
            Check(f"{place}: selector #{position}", from_class, position, self._selector(selector, place, position))
            for position, selector in enumerate(selectors)
        )

    def _selector(self, selector: ClaimSelector, place: str, position: int) -> _CachedSelector:
        if selector.cel is None:
            raise Aborted(f"{place}, selector #{position}: CEL expression empty (unsupported selector type?)")
        text = selector.cel.expression
        cached = self._selectors.get(text)
        if cached is None:
            cached = self._selectors[text] = _CachedSelector(text, self._compiled(text))
        return cached

    def _compiled(self, text: str) -> SelectorLike | CompileError:
        try:
            return self._compile(text)
        except CompileError as error:
            return error
