"""Claims prepared for the search: classes resolved, selectors compiled, amounts parsed. Independent of any node.

What is wrong with the claims themselves (a class that does not exist, a gate that is off, a selector that is not
CEL) is kept as the plan's `fault` and ends every attempt. A selector that does not compile is kept until a device is
judged by it, as upstream does: a claim whose selector is never reached is not affected.

Verdicts. Class selectors run before request selectors, each list in order, and the first false one ends it. A
selector sees only the device's shape, so the answer for one shape is remembered for the life of the plan, over all
pools and nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from modelplane.api.errors import InputError
from modelplane.dra.allocate.capacity import Amounts
from modelplane.dra.allocate.constraints import attribute_name
from modelplane.dra.allocate.features import Features
from modelplane.dra.allocate.offers import Shape
from modelplane.dra.allocate.resources import (
    ALL,
    EXACT_COUNT,
    Ask,
    Constraint,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
    Toleration,
)
from modelplane.dra.cel import CompileError, Evaluation, Gates, Outcome, compile_selector
from modelplane.dra.device import Device
from modelplane.dra.quantity import quantity_from_json

MATCHES = -1


class SelectorLike(Protocol):
    """A compiled selector."""

    def evaluate(self, device: Device) -> Evaluation:
        """True, false or an error for one device."""


class Aborted(Exception):  # noqa: N818  carries the reason out of the search; becomes the Fatal outcome
    """The attempt cannot go on: an input is wrong."""


@dataclass(slots=True, eq=False)
class _Judge:
    """One selector text and its answers so far."""

    text: str
    compiled: SelectorLike | CompileError
    answers: dict[Shape, Evaluation] = field(default_factory=dict)

    def judge(self, shape: Shape, place: str) -> bool:
        answer = self.answers.get(shape)
        if answer is None:
            if isinstance(self.compiled, CompileError):
                raise Aborted(f"{place}: CEL compile error: {self.compiled}")
            answer = self.answers[shape] = self.compiled.evaluate(shape.device)
        if answer.outcome is Outcome.ERROR:
            raise Aborted(f"{place}: CEL runtime error: {answer.message}")
        return answer.outcome is Outcome.TRUE


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One selector in its place."""

    place: str
    from_class: bool
    position: int
    judge: _Judge


@dataclass(frozen=True, slots=True, eq=False)
class AskPlan:
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
    tolerations: tuple[Toleration, ...]
    capacity: Amounts
    verdicts: dict[Shape, int] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name results carry."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    def verdict(self, shape: Shape) -> int:
        """MATCHES, or the position in `checks` of the selector that is false; Aborted where one fails."""
        verdict = self.verdicts.get(shape)
        if verdict is None:
            failed = (at for at, check in enumerate(self.checks) if not check.judge.judge(shape, check.place))
            verdict = self.verdicts[shape] = next(failed, MATCHES)
        return verdict


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A request: its one ask, or its alternatives in order of preference."""

    asks: tuple[AskPlan, ...]
    has_alternatives: bool


@dataclass(frozen=True, slots=True, eq=False)
class ClaimPlan:
    """A claim with its requests and constraints in order."""

    name: str
    requests: tuple[RequestPlan, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All claims of a pod. With a `fault` the rest is not to be used."""

    claims: tuple[ClaimPlan, ...]
    asks: tuple[AskPlan, ...]
    features: Features
    fault: str | None = None

    @property
    def constrained(self) -> tuple[str, ...]:
        """The attributes that constraints are about."""
        names = (attribute_name(constraint) for claim in self.claims for constraint in claim.constraints)
        return tuple(name for name in names if name is not None)

    @property
    def is_forgetful(self) -> bool:
        """Whether a constraint's memory depends on what was tried before, so that no failure may be remembered."""
        constraints = [constraint for claim in self.claims for constraint in claim.constraints]
        lists = self.features.list_type_attributes
        return any(lists or constraint.match_attribute is None for constraint in constraints)

    @property
    def has_admin_access(self) -> bool:
        """Whether any ask may take devices that are in use."""
        return any(ask.admin_access for ask in self.asks)


def prepare_claims(
    claims: Iterable[ResourceClaim],
    classes: Iterable[DeviceClass],
    features: Features,
    compile_text: Callable[[str], SelectorLike] | None = None,
) -> Plan:
    """Prepare claims once; then search with the plan on as many nodes as needed."""
    by_name = {device_class.metadata.name: device_class for device_class in classes}
    planner = _Planner(by_name, features, compile_text or _stored_compiler(features))
    try:
        plans = tuple(planner.claim(index, claim) for index, claim in enumerate(claims))
    except Aborted as fault:
        return Plan((), (), features, str(fault))
    return Plan(plans, tuple(planner.asks), features)


def _stored_compiler(features: Features) -> Callable[[str], SelectorLike]:
    """The scheduler's compiler: what is stored was admitted once and is only checked for making sense."""
    gates = Gates(consumable_capacity=features.consumable_capacity, list_attributes=features.list_type_attributes)
    return lambda text: compile_selector(text, stored=True, gates=gates)


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
        self._judges: dict[str, _Judge] = {}
        self.asks: list[AskPlan] = []

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

    def _request(self, place: _Place, request: DeviceRequest) -> RequestPlan:
        if request.first_available:
            if not self._features.prioritized_list:
                raise Aborted(f"{place}: has alternatives, but DRAPrioritizedList is off")
            asks = tuple(self._ask(place, ask.name, ask) for ask in request.first_available)
            return RequestPlan(asks, has_alternatives=True)
        if request.exactly is None:
            raise Aborted(f"{place}: neither exactly nor firstAvailable is set")
        return RequestPlan((self._ask(place, "", request.exactly),), has_alternatives=False)

    def _ask(self, place: _Place, alternative: str, ask: Ask) -> AskPlan:
        text = f"{place}/{alternative}" if alternative else str(place)
        device_class = self._check_ask(ask, text)
        prepared = AskPlan(
            index=len(self.asks),
            claim_index=place.claim_index,
            request_index=place.request_index,
            claim=place.claim,
            request=place.request,
            alternative=alternative,
            device_class=ask.device_class_name,
            wants_all=ask.effective_mode == ALL,
            count=ask.effective_count,
            admin_access=isinstance(ask, ExactRequest) and ask.admin_access is True,
            checks=self._checks(f"class {ask.device_class_name}", device_class.spec.selectors or (), from_class=True)
            + self._checks(text, ask.selectors or (), from_class=False),
            tolerations=ask.tolerations or (),
            capacity=self._amounts(ask, text),
        )
        self.asks.append(prepared)
        return prepared

    def _check_ask(self, ask: Ask, place: str) -> DeviceClass:
        if isinstance(ask, ExactRequest) and ask.admin_access is not None and not self._features.admin_access:
            raise Aborted(f"{place}: admin access is requested, but DRAAdminAccess is off")
        if not ask.device_class_name:
            raise Aborted(f"{place}: deviceClassName is missing")
        device_class = self._classes.get(ask.device_class_name)
        if device_class is None:
            raise Aborted(f"{place}: device class {ask.device_class_name} does not exist")
        if ask.effective_mode not in {ALL, EXACT_COUNT}:
            raise Aborted(f"{place}: unsupported allocationMode {ask.allocation_mode}")
        return device_class

    def _amounts(self, ask: Ask, place: str) -> Amounts:
        if ask.capacity is None or self._features.is_stable_allocator:
            return {}
        if not self._features.consumable_capacity:
            raise Aborted(f"{place}: has capacity requests, but DRAConsumableCapacity is off")
        try:
            return {name: quantity_from_json(value) for name, value in (ask.capacity.requests or {}).items()}
        except InputError as error:
            raise Aborted(f"{place}: capacity: {error}") from error

    def _checks(self, place: str, selectors: tuple[DeviceSelector, ...], *, from_class: bool) -> tuple[Check, ...]:
        return tuple(
            Check(f"{place}: selector #{position}", from_class, position, self._judge(selector, place, position))
            for position, selector in enumerate(selectors)
        )

    def _judge(self, selector: DeviceSelector, place: str, position: int) -> _Judge:
        if selector.cel is None:
            raise Aborted(f"{place}, selector #{position}: CEL expression empty (unsupported selector type?)")
        text = selector.cel.expression
        judge = self._judges.get(text)
        if judge is None:
            judge = self._judges[text] = _Judge(text, self._compiled(text))
        return judge

    def _compiled(self, text: str) -> SelectorLike | CompileError:
        try:
            return self._compile(text)
        except CompileError as error:
            return error
