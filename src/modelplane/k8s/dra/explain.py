"""Explains a failed allocation: per request, how many devices were rejected and why."""

from collections import Counter
from collections.abc import Iterable, Mapping

from modelplane.k8s.dra.allocation_state import AllocationState, Cause
from modelplane.k8s.dra.constraints import attribute_name
from modelplane.k8s.dra.inventory import NodeView
from modelplane.k8s.dra.outcome import GaveUp, NoFit, Rejection, RejectionCount, RequestExplanation
from modelplane.k8s.dra.plan import AllocationPlan, SubRequestPlan

_ORDER = tuple(Rejection)


class Failures:
    """The rejections of searches without a solution, over any number of nodes; summed up in `outcome`."""

    __slots__ = ("_causes", "_plan", "_steps", "_views")

    def __init__(self, plan: AllocationPlan) -> None:
        self._plan = plan
        self._causes: list[tuple[Mapping[int, Cause], ...]] = []
        self._views: list[NodeView] = []
        self._steps = 0

    def add(self, view: NodeView, state: AllocationState, out_of_steps: int) -> None:
        """Keep what one search found out; `out_of_steps` is not zero where it did not finish."""
        self._causes.append(state.causes)
        self._views.append(view)
        self._steps += out_of_steps

    def outcome(self) -> NoFit | GaveUp:
        """The sum of it: how many devices failed on what."""
        requests = tuple(self._explain(subrequest) for subrequest in self._plan.subrequests)
        if self._steps:
            return GaveUp(self._steps, requests)
        invalid = dict.fromkeys(note for view in self._views for note in view.invalid_pools)
        incomplete = dict.fromkeys(note for view in self._views for note in view.incomplete_pools)
        return NoFit(requests, tuple(invalid), tuple(incomplete))

    def _explain(self, subrequest: SubRequestPlan) -> RequestExplanation:
        counts: Counter[Cause] = Counter()
        for causes in self._causes:
            counts.update(causes[subrequest.index].values())
        return RequestExplanation(
            subrequest.claim,
            subrequest.full_name,
            subrequest.device_class,
            "all" if subrequest.wants_all else str(subrequest.count),
            sum(counts.values()),
            _rejected(self._plan, subrequest, counts.items()),
        )


def _rejected(
    plan: AllocationPlan, subrequest: SubRequestPlan, counts: Iterable[tuple[Cause, int]]
) -> tuple[RejectionCount, ...]:
    named = [RejectionCount(*_describe(plan, subrequest, cause), devices) for cause, devices in counts]
    return tuple(sorted(named, key=lambda count: (_ORDER.index(count.reason), count.detail)))


def _describe(plan: AllocationPlan, subrequest: SubRequestPlan, cause: Cause) -> tuple[Rejection, str]:
    if isinstance(cause, Rejection):
        return cause, ""
    if isinstance(cause, tuple):
        constraint = plan.claims[subrequest.claim_index].constraints[cause[1]]
        kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
        return cause[0], f"#{cause[1]} {kind} {attribute_name(constraint)}"
    check = subrequest.checks[cause]
    reason = Rejection.CLASS_SELECTOR if check.from_class else Rejection.REQUEST_SELECTOR
    return reason, f"#{check.position} {check.selector.text}"
