"""One ext_proc call: its exchange, its decision, and its end."""

from collections.abc import Callable, Sequence
from typing import Final

from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import picked_of
from modelplane.epp.server.director import Director
from modelplane.epp.server.exchange import Budget, Exchange
from modelplane.epp.server.messages import read
from modelplane.epp.server.routing_result import RoutingResult
from modelplane.epp.server.steps import ExchangeStep, PickRequest
from modelplane.epp.transport.calls import BatchHandler, GrpcStatus, MakeHandler, ServerCall
from modelplane.epp.transport.wire import WireError

_PICKED: Final = Outcome.PICKED
_CANCELLED: Final = GrpcStatus.CANCELLED
_OK: Final = GrpcStatus.OK
_NAMES: Final = {status: status.name for status in GrpcStatus}


class Processor(BatchHandler):
    """Serves one call (`Handler`), and waits for its result (`Waiter`)."""

    # Attributes that most calls never need are set on demand.
    _waits = False
    _result: RoutingResult | None = None
    _sent_s = 0.0
    _is_answered = False
    """Whether the response has begun."""
    _request_s = 0.0
    _response_s = 0.0
    """Time spent here on the request, and on its response."""
    _since_s = -1.0
    """When the message came that is being worked on."""

    def __init__(
        self,
        call: ServerCall,
        director: Director,
        clock: Callable[[], float],
        body_limit: int,
        budget: Budget | None = None,
    ) -> None:
        self._call = call
        self._director = director
        self._clock = clock
        self._exchange = Exchange(body_limit, budget=budget)
        self._opened_s = clock()
        if director.observer is not None:
            director.observer.opened()

    def message(self, message: bytes) -> None:
        self._since_s = self._clock()
        try:
            incoming = read(message)
        except WireError as error:
            self._finish(GrpcStatus.INVALID_ARGUMENT, f"not a message of external processing: {error}")
            return
        self._act(self._exchange.feed(incoming, self._since_s))
        if not self._is_answered and self._exchange.first_byte_s >= 0.0:
            self._is_answered = True
            if self._result is not None:
                self._director.response_received(self._result)
        self._spend()

    def messages(self, messages: Sequence[bytes]) -> None:
        try:
            pick_request = self._exchange.take_whole(messages)
        except WireError:
            pick_request = None
        if pick_request is not None:
            self._since_s = self._opened_s
            self._pick(pick_request)
            if self._since_s >= 0.0:
                self._request_s, self._since_s = self._clock() - self._since_s, -1.0
            return
        for message in messages:
            if self._opened_s >= 0.0:
                self.message(message)

    def answer(self, result: RoutingResult) -> None:
        self._waits = False
        exchange, decision = self._exchange, result.decision
        if decision.outcome is _PICKED:
            self._result = result
            self._sent_s = self._clock()
        step = exchange.decided(decision, result.request.api, result.rename)
        if step.over:
            self._act(step)
            return
        self._call.send(*step.replies)
        if exchange.is_idle:
            self._call.mark_idle()

    def evict(self) -> None:
        self._act(self._exchange.evict())

    def closed(self) -> None:
        self._settle(_OK)
        self._call.finish()

    def cancelled(self) -> None:
        self._settle(_CANCELLED)

    def _act(self, step: ExchangeStep) -> None:
        if step.replies:
            self._call.send(*step.replies)
        if step.pick_request is not None:
            self._pick(step.pick_request)
        if step.broken:
            self._finish(GrpcStatus.INVALID_ARGUMENT, step.broken)
        elif step.over:
            self._finish(GrpcStatus.OK)

    def _pick(self, pick_request: PickRequest) -> None:
        result = self._director.decide(pick_request, self)
        if result is None:
            self._waits = True
        else:
            self.answer(result)

    def _spend(self) -> None:
        if self._since_s >= 0.0:
            spent_s, self._since_s = self._clock() - self._since_s, -1.0
            if self._is_answered:
                self._response_s += spent_s
            else:
                self._request_s += spent_s

    def _finish(self, status: GrpcStatus, why: str = "") -> None:
        self._settle(status, why)
        self._call.finish(status, why)

    def _settle(self, status: GrpcStatus, why: str = "") -> None:
        """The exchange is over: report its result, once."""
        result, self._result = self._result, None
        if result is None:
            self._leave_early(why)
        now_s = self._clock()
        if result is not None:
            exchange = self._exchange
            served = EndpointResponse(
                picked_of(result.decision),
                exchange.status,
                self._sent_s,
                exchange.first_byte_s,
                now_s,
                exchange.usage,
                status is _CANCELLED and not exchange.status,
            )
            self._director.ended(result, served, served_by=exchange.served)
        opened_s, self._opened_s = self._opened_s, -1.0
        observer = self._director.observer
        if observer is not None and opened_s >= 0.0:
            if self._since_s >= 0.0:
                self._spend()
            observer.closed(_NAMES[status], now_s - opened_s, self._request_s, self._response_s)

    def _leave_early(self, why: str) -> None:
        """Nothing was sent on."""
        self._exchange.release()
        undecided = self._exchange.abort(why)
        if undecided is not None:
            self._director.decide(undecided, self)
        if self._waits:
            self._waits = False
            self._director.abandon(self)


def processors(director: Director, clock: Callable[[], float], body_limit: int, budget: Budget) -> MakeHandler:
    """The handlers of a server's calls. Compiled code creates them here without names of arguments."""

    def make(call: ServerCall) -> Processor:
        return Processor(call, director, clock, body_limit, budget)

    return make
