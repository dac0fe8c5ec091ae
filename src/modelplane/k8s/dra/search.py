"""The exhaustive search: claims, then requests, then devices, the first complete solution wins.

Order. Claims and requests as listed, alternatives in order of preference, devices in the order of the node's view.
Within one request only combinations in device order are tried; across requests every order. Nothing is scored.

Backtracking is explicit: a stack of frames, each with one choice. A frame makes its next choice, or gives up; when what
follows a choice fails, the choice is undone and the next one is made. A failure is either plain, or the limit of
results per claim was exceeded, which no other device can change: the search returns to the nearest choice that requests
fewer devices.

Pruning. A search that takes long caches its failures. A state without a solution (the same devices allocated, in any
order) is not explored again. Two free devices that are equal to every request, with equal taints, capacity, counters
and constrained attributes, are equivalent: where one of them has no solution, the other is not tried. Neither changes
what is found. Both are off where they would: with constraints whose state depends on the order, and, for equivalent
devices, with admin access or shared devices. Once every device was tried twice, a matching may prove that nothing
fits. The rest is bounded by a step budget; running out of it is an outcome of its own.

Errors. Selectors are evaluated in the order devices are reached, and the first that fails ends the attempt, so an error
behind the first solution is never seen. This is upstream's behaviour and part of the contract.
"""

from collections.abc import Hashable
from typing import Literal, NamedTuple, Protocol, TypeAlias

from modelplane.k8s.dra.allocation_state import AllocationState
from modelplane.k8s.dra.feasibility import is_hopeless
from modelplane.k8s.dra.plan import MAX_RESULTS, AllocationPlan, SubRequestPlan, Wanted, count_of

_CACHE_AFTER_STEPS = 256

_Failure: TypeAlias = Literal["failed", "exceeded"]
_Signal: TypeAlias = Literal["solved", "failed", "exceeded"]


class _Hopeless(Exception):  # noqa: N818  ends the search; there is no solution
    """No solution exists."""


class OutOfSteps(Exception):  # noqa: N818  ends the search; becomes the GaveUp outcome
    """The step budget is spent."""


class _Position(NamedTuple):
    """The next position: the n-th device of a subrequest, or (without a subrequest) the beginning of a request."""

    claim: int
    request: int
    subrequest: SubRequestPlan | None = None
    device: int = 0
    cursor: int = 0


class _Frame(Protocol):
    """One choice on the stack."""

    def advance(self) -> _Position | _Failure:
        """Make the next choice and return the next position, or give up."""

    def resume(self, failure: _Failure) -> _Failure | None:
        """The latest choice failed: undo it; then another choice (None), or give up."""


class Search:
    """One search. `wanted` has the number of devices of every subrequest, or the devices, if it is for all."""

    __slots__ = (
        "_may_cache",
        "_may_skip_equivalent",
        "_stack",
        "check_at",
        "failures",
        "max_steps",
        "plan",
        "state",
        "steps",
        "wanted",
    )

    def __init__(self, plan: AllocationPlan, state: AllocationState, wanted: Wanted, max_steps: int) -> None:
        self.plan = plan
        self.state = state
        self.wanted = wanted
        self.max_steps = max_steps
        self.steps = 0
        # A search that succeeds at once tries each device about once; one that tries again may be in trouble.
        self.check_at = min(len(state.candidates) + 8, max_steps)
        self.failures: dict[Hashable, _Failure] = {}
        self._may_cache = not plan.is_order_dependent
        self._may_skip_equivalent = self._may_cache and not plan.has_admin_access
        self._stack: list[_Frame] = []

    def run(self) -> bool:
        """Whether a solution was found; it is in the state. Aborted or OutOfSteps end the search early."""
        try:
            return self._run()
        except _Hopeless:
            self.state.deallocate_all()
            return False

    def _run(self) -> bool:
        signal = self._enter(_Position(0, 0))
        while signal != "solved":
            if signal is None:
                choice = self._stack[-1].advance()
                if isinstance(choice, _Position):
                    signal = self._enter(choice)
                else:
                    self._stack.pop()
                    signal = choice
            elif not self._stack:
                return False
            else:
                signal = self._stack[-1].resume(signal)
                if signal is not None:
                    self._stack.pop()
        return True

    def check(self) -> None:
        """Called at `check_at` steps: once to prove that nothing fits, if so, and then when the budget is spent."""
        if self.steps >= self.max_steps:
            raise OutOfSteps
        self.check_at = self.max_steps
        if is_hopeless(self.plan, self.state, self.wanted):
            raise _Hopeless

    @property
    def caches_failures(self) -> bool:
        """Whether the search has taken long enough to cache failures."""
        return self._may_cache and self.steps > _CACHE_AFTER_STEPS

    @property
    def skips_equivalent(self) -> bool:
        """Whether to recognise equivalent devices."""
        return self._may_skip_equivalent and self.steps > _CACHE_AFTER_STEPS

    def _enter(self, position: _Position) -> _Signal | None:
        """Push the frame of the next choice (None), or return the result of the search from here."""
        step: _Position | _Signal | None = position
        while isinstance(step, _Position):
            step = self._next(step)
        return step

    def _next(self, position: _Position) -> _Position | _Signal | None:
        if position.claim >= len(self.plan.claims):
            return "solved"
        claim = self.plan.claims[position.claim]
        if position.request >= len(claim.requests):
            self._stack.append(_ClaimDone(position.claim))
            return None
        request = claim.requests[position.request]
        if position.subrequest is None and request.has_alternatives:
            self._stack.append(_Alternatives(position, request.subrequests))
            return None
        return self._next_device(position, position.subrequest or request.subrequests[0])

    def _next_device(self, position: _Position, subrequest: SubRequestPlan) -> _Position | _Failure | None:
        wanted = self.wanted[subrequest.index]
        count = count_of(wanted)
        if subrequest.wants_all and not count:
            return "failed"
        if position.device >= count:
            return _Position(position.claim, position.request + 1)
        if len(self.state.allocating[position.claim]) + count - position.device > MAX_RESULTS:
            return "exceeded"
        if not isinstance(wanted, int):
            self._stack.append(_All(self, position, subrequest, wanted[position.device]))
            return None
        key = None
        if self.caches_failures:
            key = (subrequest.index, position.device, position.cursor, self.state.key(position.claim))
            if key in self.failures:
                return self.failures[key]
        self._stack.append(_Pick(self, position, subrequest, key))
        return None


class _ClaimDone:
    """The boundary after a claim: another choice before it may leave room for fewer devices after it."""

    __slots__ = ("_claim",)

    def __init__(self, claim: int) -> None:
        self._claim = claim

    def advance(self) -> _Position | _Failure:
        return _Position(self._claim + 1, 0)

    def resume(self, failure: _Failure) -> _Failure | None:  # noqa: ARG002  every failure is a plain one to those before
        return "failed"


class _Alternatives:
    """The alternatives of one request, in order of preference."""

    __slots__ = ("_all_exceeded", "_at", "_position", "_subrequests")

    def __init__(self, position: _Position, subrequests: tuple[SubRequestPlan, ...]) -> None:
        self._position = position
        self._subrequests = subrequests
        self._at = 0
        self._all_exceeded = True

    def advance(self) -> _Position | _Failure:
        if self._at == len(self._subrequests):
            return "exceeded" if self._all_exceeded else "failed"
        self._at += 1
        return _Position(self._position.claim, self._position.request, self._subrequests[self._at - 1])

    def resume(self, failure: _Failure) -> _Failure | None:
        self._all_exceeded = self._all_exceeded and failure == "exceeded"
        return None


class _Pick:
    """The next device of a subrequest for a number of devices. `key` is the state to cache if it has no solution."""

    __slots__ = ("_cursor", "_exhausted", "_key", "_position", "_search", "_subrequest")

    def __init__(self, search: Search, position: _Position, subrequest: SubRequestPlan, key: Hashable | None) -> None:
        self._search = search
        self._position = position
        self._subrequest = subrequest
        self._key = key
        self._cursor = position.cursor
        self._exhausted: set[Hashable] = set()

    def advance(self) -> _Position | _Failure:
        search, state, subrequest = self._search, self._search.state, self._subrequest
        for index in range(self._cursor, len(state.candidates)):
            search.steps += 1
            if search.steps >= search.check_at:
                search.check()
            if state.rejects(subrequest, index) or self._is_exhausted(index):
                continue
            if state.allocate(subrequest, index):
                self._cursor = index + 1
                claim, request, _, device, _ = self._position
                return _Position(claim, request, subrequest, device + 1, index + 1)
        return self._give_up("failed")

    def _give_up(self, failure: _Failure) -> _Failure:
        if self._key is not None:
            self._search.failures[self._key] = failure
        return failure

    def _is_exhausted(self, index: int) -> bool:
        return bool(self._exhausted) and self._search.state.equivalence_key(index) in self._exhausted

    def resume(self, failure: _Failure) -> _Failure | None:
        search = self._search
        search.state.deallocate(self._position.claim)
        if failure == "exceeded":
            return self._give_up(failure)
        if search.skips_equivalent:
            kind = search.state.equivalence_key(self._cursor - 1)
            if kind is not None:
                self._exhausted.add(kind)
        return None


class _All:
    """One device of a subrequest for all devices: there is no alternative."""

    __slots__ = ("_index", "_position", "_search", "_subrequest")

    def __init__(self, search: Search, position: _Position, subrequest: SubRequestPlan, index: int) -> None:
        self._search = search
        self._position = position
        self._subrequest = subrequest
        self._index = index

    def advance(self) -> _Position | _Failure:
        self._search.steps += 1
        if not self._search.state.allocate(self._subrequest, self._index, must=True):
            return "failed"
        claim, request, _, device, _ = self._position
        return _Position(claim, request, self._subrequest, device + 1)

    def resume(self, failure: _Failure) -> _Failure | None:
        self._search.state.deallocate(self._position.claim)
        return failure
