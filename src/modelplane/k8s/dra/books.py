"""The state of one search on one node: which devices are chosen, what they consume, and why others were refused.

A device is *refused* when it cannot serve an ask as things stand, *taken* when everything agrees, and *given back*
when the search abandons it. Every check that upstream makes is here, in its order where the order can be seen: use
before selectors (a device in use is never judged), selectors before capacity, constraints last.
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
from modelplane.k8s.dra.plan import MATCHES, Aborted, AllocationPlan, AskPlan
from modelplane.k8s.dra.resources import EQUAL, EXISTS, DeviceTaint, DeviceToleration, Node
from modelplane.k8s.dra.usage import DeviceUsage

# A selector's position in the ask's checks, a constraint's position in the claim, or something else that was wrong.
Cause: TypeAlias = tuple[Rejection, int] | Rejection | int

_NOTHING: Nanos = {}


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """A device chosen for an ask, with what must be undone to give it back."""

    ask: AskPlan
    index: int
    candidate: CandidateDevice
    drew_counters: bool
    consumed: Amounts | None


class Books:
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
        "candidates",
        "causes",
        "holds",
    )

    def __init__(
        self,
        plan: AllocationPlan,
        view: NodeView,
        usage: DeviceUsage,
        node: Node,
        remainders: dict[PoolKey, Remainders],
    ) -> None:
        """`remainders` remembers what is left of counters, over searches with one inventory and one usage."""
        self.candidates = view.candidates
        self.causes: tuple[dict[int, Cause], ...] = tuple({} for _ in plan.asks)
        self.holds: tuple[list[Hold], ...] = tuple([] for _ in plan.claims)
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

    def refuses(self, ask: AskPlan, index: int) -> bool:
        """Whether the device is out of the question for the ask, before anything is reserved."""
        offer = self.candidates[index].offer
        identity = offer.id
        cause: Cause | None
        if (not ask.admin_access and (identity in self._usage.whole or identity in self._marked)) or (
            ask.admin_access and self._is_taken(ask, identity)
        ):
            cause = Rejection.TAKEN
        else:
            cause = self.unfit(ask, offer)
        if cause is None:
            return False
        self.causes[ask.index][index] = cause
        return True

    def _is_taken(self, ask: AskPlan, device: DeviceId) -> bool:
        if ask.admin_access:
            return ask.claim_index in self._marked.get(device, ())
        return device in self._marked or device in self._usage.whole

    def unfit(self, ask: AskPlan, offer: DeviceOffer) -> Cause | None:
        """Why the device does not suit the ask, whoever holds it; Aborted where a selector fails."""
        mismatch = self._mismatch(ask, offer)
        return self._capacity_cause(ask, offer) if mismatch is None else mismatch

    def _mismatch(self, ask: AskPlan, offer: DeviceOffer) -> Cause | None:
        if offer.binding_conditions and not self._features.device_binding_and_status:
            return Rejection.BINDING_CONDITIONS
        verdict = ask.verdict(offer.shape)
        if verdict != MATCHES:
            return verdict
        if offer.scope is not None and not reaches(offer.scope, self._node):
            return Rejection.NODE
        return None

    def _capacity_cause(self, ask: AskPlan, offer: DeviceOffer) -> Rejection | None:
        if offer.fits_by_itself and not ask.capacity and offer.id not in self._usage.consumed:
            return None
        if not self._features.consumable_capacity:
            return None
        taking = ask.taking(offer)
        if not taking.is_known:
            return Rejection.CAPACITY_UNKNOWN
        in_use = self._usage.consumed.get(offer.id, _NOTHING)
        if not taking.is_allowed or not taking.fits_beside(in_use, *self._shares.get(offer.id, ())):
            return Rejection.CAPACITY
        return None

    def suits(self, ask: AskPlan, index: int) -> bool:
        """Whether the device belongs to what an ask for all devices means."""
        cause = self.unfit(ask, self.candidates[index].offer)
        if cause is None:
            return True
        self.causes[ask.index][index] = cause
        return False

    def could_serve(self, ask: AskPlan, index: int) -> bool:
        """Whether the device suits the ask and nobody outside this search holds it; Aborted where a selector fails."""
        offer = self.candidates[index].offer
        if not ask.admin_access and offer.id in self._usage.whole:
            return False
        return self._mismatch(ask, offer) is None

    def take(self, ask: AskPlan, index: int, *, must: bool = False) -> bool:
        """Choose a device; False, with nothing changed, where something forbids it.

        `must` is for asks that want all devices: the device may have been chosen meanwhile, and a constraint that
        refuses it is an error of the claim.
        """
        candidate = self.candidates[index]
        offer = candidate.offer
        cause: Cause | None = (
            Rejection.TAKEN if must and self._is_taken(ask, offer.id) else self._taint_cause(ask, offer)
        )
        if cause is None:
            cause = self._reserve(ask, index, candidate, must=must)
        if cause is None:
            return True
        self.causes[ask.index][index] = cause
        return False

    def _taint_cause(self, ask: AskPlan, offer: DeviceOffer) -> Rejection | None:
        if not offer.blocking_taints or not self._features.device_taints:
            return None
        if all(any(_tolerates(known, taint) for known in ask.tolerations) for taint in offer.blocking_taints):
            return None
        return Rejection.TAINT

    def _reserve(self, ask: AskPlan, index: int, candidate: CandidateDevice, *, must: bool) -> Cause | None:
        offer = candidate.offer
        drew = self._draws_counters(offer)
        if drew and not (self._features.partitionable_devices and self._counters.draw(candidate.pool, offer)):
            return Rejection.COUNTERS
        cause = self._constrain(ask, offer, must=must)
        if cause is None and must:
            cause = self._capacity_cause(ask, offer)
            if cause is not None:
                self._unconstrain(ask, len(self._constraints[ask.claim_index]))
        if cause is not None:
            if drew:
                self._counters.give_back(candidate.pool, offer)
            return cause
        self._record(ask, index, candidate, drew_counters=drew)
        return None

    def _draws_counters(self, offer: DeviceOffer) -> bool:
        """A device that is shared already has drawn its counters with its first share."""
        if not offer.counters:
            return False
        shared_before = offer.id in self._usage.consumed or offer.id in self._shares
        return not (self._is_shareable(offer) and shared_before)

    def _is_shareable(self, offer: DeviceOffer) -> bool:
        return offer.shareable and self._features.consumable_capacity

    def _constrain(self, ask: AskPlan, offer: DeviceOffer, *, must: bool) -> Cause | None:
        for position, constraint in enumerate(self._constraints[ask.claim_index]):
            if not constraint.add(ask.request, ask.alternative, offer):
                self._unconstrain(ask, position)
                if must:
                    raise Aborted(
                        f"claim {ask.claim}, request {ask.full_name}: asks for all devices, but constraint "
                        f"#{position} does not allow device {offer.id}"
                    )
                return Rejection.CONSTRAINT, position
        return None

    def _unconstrain(self, ask: AskPlan, count: int) -> None:
        for constraint in reversed(self._constraints[ask.claim_index][:count]):
            constraint.remove(ask.request, ask.alternative)

    def _record(self, ask: AskPlan, index: int, candidate: CandidateDevice, *, drew_counters: bool) -> None:
        offer = candidate.offer
        consumed = None
        if self._is_shareable(offer):
            taking = ask.taking(offer)
            consumed = taking.amounts
            self._shares.setdefault(offer.id, []).append({name: need for name, need, _ in taking.needs})
        else:
            self._marked.setdefault(offer.id, set()).add(ask.claim_index)
        self.holds[ask.claim_index].append(Hold(ask, index, candidate, drew_counters, consumed))

    def give_back(self, claim_index: int) -> None:
        """Undo the latest `take` of a claim."""
        hold = self.holds[claim_index].pop()
        ask, offer = hold.ask, hold.candidate.offer
        if hold.consumed is None:
            _drop(self._marked, offer.id, claim_index)
        else:
            self._shares[offer.id].pop()
            if not self._shares[offer.id]:
                del self._shares[offer.id]
        self._unconstrain(ask, len(self._constraints[claim_index]))
        if hold.drew_counters:
            self._counters.give_back(hold.candidate.pool, offer)
        self.causes[ask.index][hold.index] = Rejection.GIVEN_BACK

    def abandon(self) -> None:
        """Give everything back: the search stops without a solution."""
        for claim_index in reversed(range(len(self.holds))):
            while self.holds[claim_index]:
                self.give_back(claim_index)

    def situation(self, claim_index: int) -> Hashable:
        """All that the rest of the search depends on from here, beside its position."""
        whole = frozenset(
            (hold.index, hold.ask.claim_index if self._plan.has_admin_access else 0)
            for holds in self.holds[: claim_index + 1]
            for hold in holds
            if hold.consumed is None
        )
        shares = frozenset((device, _totals(amounts)) for device, amounts in self._shares.items())
        memories = tuple(constraint.memory for constraint in self._constraints[claim_index])
        return len(self.holds[claim_index]), whole, shares, memories

    def kind_of(self, index: int) -> Hashable | None:
        """A key that interchangeable free devices share, or None where the device stands for itself alone."""
        candidate = self.candidates[index]
        offer = candidate.offer
        if offer.shareable or offer.id in self._usage.consumed:
            return None
        return (
            tuple(self._verdict_or_error(ask, offer) for ask in self._plan.asks),
            offer.scope is None or reaches(offer.scope, self._node),
            bool(offer.binding_conditions),
            offer.blocking_taints,
            tuple((entry.name, entry.value, entry.policy) for entry in offer.capacity),
            (candidate.pool.key, offer.counters) if offer.counters else None,
            tuple(find_attribute(offer.attributes, offer.id.driver, name) for name in self._plan.constrained),
        )

    def _verdict_or_error(self, ask: AskPlan, offer: DeviceOffer) -> int | None:
        try:
            return ask.verdict(offer.shape)
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
