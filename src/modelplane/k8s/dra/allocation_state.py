"""The state of one search on one node: which devices are allocated, what they consume, and why others were rejected.

Every check that upstream makes is here, in its order where the order can be seen: use before selectors (selectors are
not evaluated on a device in use), selectors before capacity, constraints last. A subrequest is an exact request or one
alternative of a request.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from modelplane.k8s.dra import constraints as constraint_states
from modelplane.k8s.dra.attributes import find_attribute
from modelplane.k8s.dra.capacity import Amounts, Nanos
from modelplane.k8s.dra.counters import CounterLedger, Remainders
from modelplane.k8s.dra.inventory import CandidateDevice, NodeView
from modelplane.k8s.dra.nodes import reaches
from modelplane.k8s.dra.offers import DeviceOffer, PoolKey
from modelplane.k8s.dra.outcome import DeviceId, Rejection
from modelplane.k8s.dra.plan import MATCHES, Aborted, AllocationPlan, SubRequestPlan
from modelplane.k8s.dra.resources import EQUAL, EXISTS, DeviceTaint, DeviceToleration, Node
from modelplane.k8s.dra.usage import DeviceUsage

# The position of a selector in the subrequest's checks, of a constraint in the claim, or another rejection.
Cause: TypeAlias = tuple[Rejection, int] | Rejection | int

_NOTHING: Nanos = {}


@dataclass(frozen=True, slots=True, eq=False)
class AllocatingDevice:
    """A device allocated to a subrequest, with what has to be undone to deallocate it."""

    subrequest: SubRequestPlan
    index: int
    candidate: CandidateDevice
    drew_counters: bool
    consumed: Amounts | None


class AllocationState:
    """Everything that changes while the search runs."""

    __slots__ = (
        "_constraints",
        "_counters",
        "_features",
        "_marked",
        "_node",
        "_plan",
        "_shares",
        "_usage",
        "allocating",
        "candidates",
        "causes",
    )

    def __init__(
        self,
        plan: AllocationPlan,
        view: NodeView,
        usage: DeviceUsage,
        node: Node,
        remainders: dict[PoolKey, Remainders],
    ) -> None:
        """`remainders` caches what is left of counters, over searches with one inventory and one usage."""
        self.candidates = view.candidates
        self.causes: tuple[dict[int, Cause], ...] = tuple({} for _ in plan.subrequests)
        self.allocating: tuple[list[AllocatingDevice], ...] = tuple([] for _ in plan.claims)
        self._plan = plan
        self._features = plan.features
        self._usage = usage
        self._node = node
        self._counters = CounterLedger(usage, remainders)
        self._marked: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[Nanos]] = {}
        lists = plan.features.list_type_attributes
        self._constraints = tuple(
            [constraint_states.start(constraint, list_attributes=lists) for constraint in claim.constraints]
            for claim in plan.claims
        )

    def rejects(self, subrequest: SubRequestPlan, index: int) -> bool:
        """Whether the device cannot serve the subrequest, before anything is reserved."""
        offer = self.candidates[index].offer
        identity = offer.id
        cause: Cause | None
        if (not subrequest.admin_access and (identity in self._usage.whole or identity in self._marked)) or (
            subrequest.admin_access and self._is_taken(subrequest, identity)
        ):
            cause = Rejection.TAKEN
        else:
            cause = self.rejection_cause(subrequest, offer)
        if cause is None:
            return False
        self.causes[subrequest.index][index] = cause
        return True

    def _is_taken(self, subrequest: SubRequestPlan, device: DeviceId) -> bool:
        if subrequest.admin_access:
            return subrequest.claim_index in self._marked.get(device, ())
        return device in self._marked or device in self._usage.whole

    def rejection_cause(self, subrequest: SubRequestPlan, offer: DeviceOffer) -> Cause | None:
        """Why the device does not suit the subrequest, in use or not; Aborted where a selector fails."""
        mismatch = self._mismatch(subrequest, offer)
        return self._capacity_cause(subrequest, offer) if mismatch is None else mismatch

    def _mismatch(self, subrequest: SubRequestPlan, offer: DeviceOffer) -> Cause | None:
        if offer.binding_conditions and not self._features.device_binding_and_status:
            return Rejection.BINDING_CONDITIONS
        failed = subrequest.failed_check(offer.shape)
        if failed != MATCHES:
            return failed
        if offer.scope is not None and not reaches(offer.scope, self._node):
            return Rejection.NODE
        return None

    def _capacity_cause(self, subrequest: SubRequestPlan, offer: DeviceOffer) -> Rejection | None:
        if offer.fits_by_itself and not subrequest.capacity and offer.id not in self._usage.consumed:
            return None
        if not self._features.consumable_capacity:
            return None
        capacity = subrequest.consumed(offer)
        if not capacity.is_known:
            return Rejection.CAPACITY_UNKNOWN
        in_use = self._usage.consumed.get(offer.id, _NOTHING)
        if not capacity.is_allowed or not capacity.fits_beside(in_use, *self._shares.get(offer.id, ())):
            return Rejection.CAPACITY
        return None

    def is_suitable(self, subrequest: SubRequestPlan, index: int) -> bool:
        """Whether a subrequest for all devices includes the device."""
        cause = self.rejection_cause(subrequest, self.candidates[index].offer)
        if cause is None:
            return True
        self.causes[subrequest.index][index] = cause
        return False

    def could_serve(self, subrequest: SubRequestPlan, index: int) -> bool:
        """Whether the device suits the subrequest and is not in use by others; Aborted where a selector fails."""
        offer = self.candidates[index].offer
        if not subrequest.admin_access and offer.id in self._usage.whole:
            return False
        return self._mismatch(subrequest, offer) is None

    def allocate(self, subrequest: SubRequestPlan, index: int, *, must: bool = False) -> bool:
        """Allocate a device; False, with nothing changed, where it is rejected.

        `must` is for subrequests for all devices: the device may have been allocated meanwhile, and a constraint that
        rejects it is an error of the claim.
        """
        candidate = self.candidates[index]
        offer = candidate.offer
        cause: Cause | None = (
            Rejection.TAKEN if must and self._is_taken(subrequest, offer.id) else self._taint_cause(subrequest, offer)
        )
        if cause is None:
            cause = self._reserve(subrequest, index, candidate, must=must)
        if cause is None:
            return True
        self.causes[subrequest.index][index] = cause
        return False

    def _taint_cause(self, subrequest: SubRequestPlan, offer: DeviceOffer) -> Rejection | None:
        if not offer.blocking_taints or not self._features.device_taints:
            return None
        if all(any(_tolerates(known, taint) for known in subrequest.tolerations) for taint in offer.blocking_taints):
            return None
        return Rejection.TAINT

    def _reserve(
        self, subrequest: SubRequestPlan, index: int, candidate: CandidateDevice, *, must: bool
    ) -> Cause | None:
        offer = candidate.offer
        drew = self._draws_counters(offer)
        if drew and not (self._features.partitionable_devices and self._counters.draw(candidate.pool, offer)):
            return Rejection.COUNTERS
        cause = self._constrain(subrequest, offer, must=must)
        if cause is None and must:
            cause = self._capacity_cause(subrequest, offer)
            if cause is not None:
                self._unconstrain(subrequest, len(self._constraints[subrequest.claim_index]))
        if cause is not None:
            if drew:
                self._counters.release(candidate.pool, offer)
            return cause
        self._record(subrequest, index, candidate, drew_counters=drew)
        return None

    def _draws_counters(self, offer: DeviceOffer) -> bool:
        """A device that is shared already has drawn its counters with its first share."""
        if not offer.counters:
            return False
        shared_before = offer.id in self._usage.consumed or offer.id in self._shares
        return not (self._is_shareable(offer) and shared_before)

    def _is_shareable(self, offer: DeviceOffer) -> bool:
        return offer.shareable and self._features.consumable_capacity

    def _constrain(self, subrequest: SubRequestPlan, offer: DeviceOffer, *, must: bool) -> Cause | None:
        for position, constraint in enumerate(self._constraints[subrequest.claim_index]):
            if not constraint.add(subrequest.request, subrequest.alternative, offer):
                self._unconstrain(subrequest, position)
                if must:
                    place = f"claim {subrequest.claim}, request {subrequest.full_name}"
                    raise Aborted(
                        f"{place}: requests all devices, but constraint #{position} does not allow device {offer.id}"
                    )
                return Rejection.CONSTRAINT, position
        return None

    def _unconstrain(self, subrequest: SubRequestPlan, count: int) -> None:
        for constraint in reversed(self._constraints[subrequest.claim_index][:count]):
            constraint.remove(subrequest.request, subrequest.alternative)

    def _record(
        self, subrequest: SubRequestPlan, index: int, candidate: CandidateDevice, *, drew_counters: bool
    ) -> None:
        offer = candidate.offer
        consumed = None
        if self._is_shareable(offer):
            capacity = subrequest.consumed(offer)
            consumed = capacity.amounts
            self._shares.setdefault(offer.id, []).append({name: need for name, need, _ in capacity.needs})
        else:
            self._marked.setdefault(offer.id, set()).add(subrequest.claim_index)
        self.allocating[subrequest.claim_index].append(
            AllocatingDevice(subrequest, index, candidate, drew_counters, consumed)
        )

    def deallocate(self, claim_index: int) -> None:
        """Undo the latest `allocate` of a claim."""
        entry = self.allocating[claim_index].pop()
        subrequest, offer = entry.subrequest, entry.candidate.offer
        if entry.consumed is None:
            _drop(self._marked, offer.id, claim_index)
        else:
            self._shares[offer.id].pop()
            if not self._shares[offer.id]:
                del self._shares[offer.id]
        self._unconstrain(subrequest, len(self._constraints[claim_index]))
        if entry.drew_counters:
            self._counters.release(entry.candidate.pool, offer)
        self.causes[subrequest.index][entry.index] = Rejection.GIVEN_BACK

    def deallocate_all(self) -> None:
        """Deallocate everything: the search stops without a solution."""
        for claim_index in reversed(range(len(self.allocating))):
            while self.allocating[claim_index]:
                self.deallocate(claim_index)

    def key(self, claim_index: int) -> Hashable:
        """All state that the rest of the search depends on, except its position."""
        whole = frozenset(
            (entry.index, entry.subrequest.claim_index if self._plan.has_admin_access else 0)
            for devices in self.allocating[: claim_index + 1]
            for entry in devices
            if entry.consumed is None
        )
        shares = frozenset((device, _totals(amounts)) for device, amounts in self._shares.items())
        memories = tuple(constraint.memory for constraint in self._constraints[claim_index])
        return len(self.allocating[claim_index]), whole, shares, memories

    def equivalence_key(self, index: int) -> Hashable | None:
        """A key that interchangeable free devices share, or None if the device is unique."""
        candidate = self.candidates[index]
        offer = candidate.offer
        if offer.shareable or offer.id in self._usage.consumed:
            return None
        return (
            tuple(self._failed_check_or_error(subrequest, offer) for subrequest in self._plan.subrequests),
            offer.scope is None or reaches(offer.scope, self._node),
            bool(offer.binding_conditions),
            offer.blocking_taints,
            tuple((entry.name, entry.value, entry.policy) for entry in offer.capacity),
            (candidate.pool.key, offer.counters) if offer.counters else None,
            tuple(find_attribute(offer.attributes, offer.id.driver, name) for name in self._plan.constrained),
        )

    def _failed_check_or_error(self, subrequest: SubRequestPlan, offer: DeviceOffer) -> int | None:
        try:
            return subrequest.failed_check(offer.shape)
        except Aborted:
            return None


def _totals(amounts: list[Nanos]) -> frozenset[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for share in amounts:
        totals.update(share)
    return frozenset(totals.items())


def _drop(marked: dict[DeviceId, set[int]], device: DeviceId, claim_index: int) -> None:
    claims = marked[device]
    claims.discard(claim_index)
    if not claims:
        del marked[device]


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    operator = toleration.effective_operator
    return operator == EXISTS or (operator == EQUAL and toleration.value == taint.value)
