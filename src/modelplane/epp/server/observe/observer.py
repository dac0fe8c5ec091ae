"""Passes what happens to each request on to metrics, log and traces.

    steps = observer.record_steps(request, chance)                # None for nearly every request
    decision = scheduler.schedule(…, reporter=steps)
    observer.decided(request, decision, spent_s, steps)
    …
    observer.ended(request, decision, served)

Without log and traces, `record_steps` is one comparison and the rest is arithmetic.
"""

import time
from collections.abc import Callable
from typing import Final

from modelplane.epp.config.config import Config
from modelplane.epp.flowcontrol import QueueOutcome
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe.decision_log import DecisionLog
from modelplane.epp.server.observe.decision_steps import DecisionSteps, RecordedSteps
from modelplane.epp.server.observe.metrics import PickerMetrics
from modelplane.epp.server.observe.tracing import RequestTrace, Tracing
from modelplane.framework import Reporter

DISPATCHED: Final = "Dispatched"
_TRACES_MOST: Final = 10_000
"""Traced requests under way; more are not traced."""


class PickObserver:
    """One for a picker. One event loop."""

    def __init__(
        self,
        numbers: PickerMetrics | None = None,
        *,
        log: DecisionLog | None = None,
        tracing: Tracing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.numbers = numbers or PickerMetrics()
        self._log = log
        self._tracing = tracing
        self._curious = log is not None or tracing is not None
        self.divides = False
        """Whether requests have stages, so that their split is counted."""
        self._clock = clock
        self._traces: dict[int, RequestTrace] = {}
        """By the identity of the decision, which the server holds until the request ends."""

    def record_steps(self, request: Request, chance: float) -> DecisionSteps | None:
        """A listener for the scheduler where the decision is to be logged or traced. `chance` is in [0, 1)."""
        if not self._curious:
            return None
        traced = self._tracing is not None and self._tracing.wants(request, chance)
        if self._log is not None and self._log.wants(chance, self._clock()):
            return RecordedSteps(traced=traced)
        return DecisionSteps(traced=traced) if traced else None

    def configured(self, config: Config) -> None:
        """Decisions are made by this configuration from here on."""
        if self._log is not None:
            self._log.configured(config)

    def decided(
        self,
        request: Request,
        decision: Decision,
        spent_s: float,
        steps: Reporter[Endpoint] | None = None,
        *,
        model: str = "",
    ) -> None:
        """Called once for each request. `model` is the requested model if it was rewritten."""
        self.numbers.decided(request, decision, spent_s, model)
        if self.divides and decision.outcome is Outcome.PICKED:
            self.numbers.split(request, decision)
        if self._curious:
            self._notify(request, decision, spent_s, steps if isinstance(steps, DecisionSteps) else None)

    def ended(self, request: Request, decision: Decision, served: EndpointResponse, *, model: str = "") -> None:
        """Once for each request that was sent on."""
        self.numbers.ended(request, served, model)
        if self._traces:
            trace = self._traces.pop(id(decision), None)
            if trace is not None and self._tracing is not None:
                self._tracing.ended(request, decision, trace, served)

    def evicted(self, request: Request) -> None:
        """A request that was sent on is ended to make room for another; `ended` follows."""
        if self._log is not None:
            self._log.evicted(request, self._clock())

    def waited(self, request: Request, ending: QueueOutcome, *, model: str = "") -> None:
        """Once for each request that was offered to flow control."""
        outcome = DISPATCHED if ending.outcome is None else ending.outcome.title
        self.numbers.waited(request, outcome, ending.waited_s, model)

    def rewrote(self, name: str, model: str, target: str, *, exact: bool = False) -> None:
        self.numbers.rewrote(name, model, target, exact=exact)

    def opened(self) -> None:
        self.numbers.stream_opened()

    def closed(self, code: str, lasted_s: float, request_s: float, response_s: float) -> None:
        numbers = self.numbers
        numbers.stream_closed(code, lasted_s)
        numbers.request_side.add(request_s)
        if response_s:
            numbers.response_side.add(response_s)

    def _notify(self, request: Request, decision: Decision, spent_s: float, steps: DecisionSteps | None) -> None:
        now_s = self._clock()
        if self._log is not None:
            drawn = steps if steps is not None and steps.logged else None
            self._log.decided(request, decision, spent_s, drawn, now_s)
        if self._tracing is None or steps is None or not steps.traced:
            return
        trace = RequestTrace(steps, now_s, spent_s)
        if decision.outcome is not Outcome.PICKED:
            self._tracing.ended(request, decision, trace)
        elif len(self._traces) < _TRACES_MOST:
            self._traces[id(decision)] = trace
