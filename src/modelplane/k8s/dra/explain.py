"""From what the books remember to what a person reads: per request, how many devices failed on what."""

from collections import Counter
from collections.abc import Iterable, Mapping

from modelplane.k8s.dra.books import Books, Cause
from modelplane.k8s.dra.constraints import attribute_name
from modelplane.k8s.dra.inventory import NodeView
from modelplane.k8s.dra.outcome import GaveUp, NoFit, Rejection, RejectionCount, RequestExplanation
from modelplane.k8s.dra.plan import AllocationPlan, AskPlan

_ORDER = tuple(Rejection)


class Failures:
    """What searches without a solution found out, over any number of nodes. Summing up waits until it is asked for."""

    __slots__ = ("_books", "_plan", "_steps", "_views")

    def __init__(self, plan: AllocationPlan) -> None:
        self._plan = plan
        self._books: list[tuple[Mapping[int, Cause], ...]] = []
        self._views: list[NodeView] = []
        self._steps = 0

    def add(self, view: NodeView, books: Books, out_of_steps: int) -> None:
        """Keep what one search found out; `out_of_steps` is not zero where it did not finish."""
        self._books.append(books.causes)
        self._views.append(view)
        self._steps += out_of_steps

    def outcome(self) -> NoFit | GaveUp:
        """The sum of it: how many devices failed on what."""
        requests = tuple(self._explain(ask) for ask in self._plan.asks)
        if self._steps:
            return GaveUp(self._steps, requests)
        invalid = dict.fromkeys(note for view in self._views for note in view.invalid_pools)
        incomplete = dict.fromkeys(note for view in self._views for note in view.incomplete_pools)
        return NoFit(requests, tuple(invalid), tuple(incomplete))

    def _explain(self, ask: AskPlan) -> RequestExplanation:
        counts: Counter[Cause] = Counter()
        for causes in self._books:
            counts.update(causes[ask.index].values())
        return RequestExplanation(
            ask.claim,
            ask.full_name,
            ask.device_class,
            "all" if ask.wants_all else str(ask.count),
            sum(counts.values()),
            _rejected(self._plan, ask, counts.items()),
        )


def _rejected(plan: AllocationPlan, ask: AskPlan, counts: Iterable[tuple[Cause, int]]) -> tuple[RejectionCount, ...]:
    named = [RejectionCount(*_describe(plan, ask, cause), devices) for cause, devices in counts]
    return tuple(sorted(named, key=lambda count: (_ORDER.index(count.reason), count.detail)))


def _describe(plan: AllocationPlan, ask: AskPlan, cause: Cause) -> tuple[Rejection, str]:
    if isinstance(cause, Rejection):
        return cause, ""
    if isinstance(cause, tuple):
        constraint = plan.claims[ask.claim_index].constraints[cause[1]]
        kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
        return cause[0], f"#{cause[1]} {kind} {attribute_name(constraint)}"
    check = ask.checks[cause]
    reason = Rejection.CLASS_SELECTOR if check.from_class else Rejection.REQUEST_SELECTOR
    return reason, f"#{check.position} {check.judge.text}"
