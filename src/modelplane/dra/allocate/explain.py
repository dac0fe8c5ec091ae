"""From what the books remember to what a person reads: per request, how many devices failed on what."""

from collections import Counter
from collections.abc import Iterable

from modelplane.dra.allocate.books import Books, Cause
from modelplane.dra.allocate.constraints import attribute_name
from modelplane.dra.allocate.outcome import Rejection, RejectionCount, RequestExplanation
from modelplane.dra.allocate.plan import AskPlan, Plan

_ORDER = tuple(Rejection)


class Tally:
    """Causes summed up over any number of nodes."""

    __slots__ = ("_counts", "_plan")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts: tuple[Counter[Cause], ...] = tuple(Counter() for _ in plan.asks)

    def add(self, books: Books) -> None:
        """Count what one search found out."""
        for counts, causes in zip(self._counts, books.causes, strict=True):
            counts.update(causes.values())

    def explain(self) -> tuple[RequestExplanation, ...]:
        """One explanation for every ask."""
        return tuple(
            RequestExplanation(
                ask.claim,
                ask.full_name,
                ask.device_class,
                "all" if ask.wants_all else str(ask.count),
                sum(counts.values()),
                _rejected(self._plan, ask, counts.items()),
            )
            for ask, counts in zip(self._plan.asks, self._counts, strict=True)
        )


def _rejected(plan: Plan, ask: AskPlan, counts: Iterable[tuple[Cause, int]]) -> tuple[RejectionCount, ...]:
    named = [RejectionCount(*_describe(plan, ask, cause), devices) for cause, devices in counts]
    return tuple(sorted(named, key=lambda count: (_ORDER.index(count.reason), count.detail)))


def _describe(plan: Plan, ask: AskPlan, cause: Cause) -> tuple[Rejection, str]:
    if isinstance(cause, Rejection):
        return cause, ""
    if isinstance(cause, tuple):
        constraint = plan.claims[ask.claim_index].constraints[cause[1]]
        kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
        return cause[0], f"#{cause[1]} {kind} {attribute_name(constraint)}"
    check = ask.checks[cause]
    reason = Rejection.CLASS_SELECTOR if check.from_class else Rejection.REQUEST_SELECTOR
    return reason, f"#{check.position} {check.judge.text}"
