"""One ext_proc call at the front door: its exchange, its decision, and its end."""

from collections.abc import Callable
from typing import Final

from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.messages import read
from modelplane.epp.transport.calls import GrpcStatus, ServerCall
from modelplane.epp.transport.wire import WireError
from modelplane.router.director import RETRY_AFTER_S, RouterDirector
from modelplane.router.exchange import FrontExchange
from modelplane.router.front_values import FrontRequest, FrontResponse, FrontStep, RoutedTo
from modelplane.router.refusals import FrontOutcome, FrontRefusal, answer, refuse
from modelplane.router.spans import RouterSpans
from modelplane.router.stalls import Stalls

_CANCELLED: Final = GrpcStatus.CANCELLED
_OK: Final = GrpcStatus.OK


class FrontProcessor:
    """Serves one call (`Handler`)."""

    __slots__ = ("_call", "_clock", "_director", "_exchange", "_routed", "_spans", "_stalls")

    def __init__(  # noqa: PLR0913, PLR0917  one call, from one place
        self,
        call: ServerCall,
        director: RouterDirector,
        clock: Callable[[], float],
        body_limit: int,
        budget: Budget,
        stalls: Stalls,
        spans: RouterSpans | None = None,
    ) -> None:
        self._call = call
        self._director = director
        self._clock = clock
        self._exchange = FrontExchange(body_limit, budget)
        self._stalls = stalls
        self._routed: RoutedTo | None = None
        self._spans = spans

    def message(self, message: bytes) -> None:
        try:
            incoming = read(message)
        except WireError as error:
            self._finish(GrpcStatus.INVALID_ARGUMENT, f"not a message of external processing: {error}")
            return
        self._act(self._exchange.feed(incoming, self._clock()))

    def closed(self) -> None:
        self._settle(_OK)
        self._call.finish()

    def cancelled(self) -> None:
        self._settle(_CANCELLED)

    def _act(self, step: FrontStep) -> None:
        if step.replies:
            self._call.send(*step.replies)
        if step.request is not None:
            self._decide(step.request)
        if step.refused:
            self._refused()
        if step.broken:
            self._finish(GrpcStatus.INVALID_ARGUMENT, step.broken)

    def _decide(self, request: FrontRequest) -> None:
        began_s = self._clock()
        decided = self._director.decide(request)
        if isinstance(decided, RoutedTo):
            self._routed = decided
            self._stalls.sent(self, decided, self._clock())
            self._call.send(*self._exchange.routed(decided.rewritten))
            return
        if self._spans is not None:
            self._spans.answered(request, decided, began_s)
        self._exchange.answered()
        reply = answer(decided.body) if decided.refusal is None else refuse(decided.refusal, decided.api)
        self._call.send(reply)
        self._finish(_OK)

    def _refused(self) -> None:
        """The gateway reached nobody: its own response is none of the client's API."""
        routed = self._routed
        if routed is None:
            return
        refusal = FrontRefusal(FrontOutcome.NOT_READY, f"{routed.member.plan.key} cannot be reached", RETRY_AFTER_S)
        self._exchange.answered()
        self._call.send(refuse(refusal, routed.request.api))
        self._finish(_OK)

    def stalled(self) -> None:
        """The endpoint was silent for too long: the client gets 504, or the gateway tries another one."""
        routed = self._routed
        if routed is None or not self._exchange.waits:
            return
        idle_s = routed.request.service.plan.timeouts.idle_s
        why = f"{routed.member.plan.key} did not respond within {idle_s:g} s"
        refusal = FrontRefusal(FrontOutcome.STALLED, why, try_another=routed.rewritten.tries_again())
        self._call.send(refuse(refusal, routed.request.api))
        self._finish(_CANCELLED)

    def _finish(self, status: GrpcStatus, why: str = "") -> None:
        self._settle(status)
        self._call.finish(_OK if status is _CANCELLED else status, why)

    def _settle(self, status: GrpcStatus) -> None:
        """The exchange is over: report its result, once."""
        self._exchange.release()
        routed, self._routed = self._routed, None
        if routed is None:
            return
        self._stalls.ended(self)
        exchange = self._exchange
        cancelled = status is _CANCELLED and not exchange.status
        response = FrontResponse(
            exchange.status,
            exchange.first_byte_s,
            exchange.unserved,
            exchange.usage,
            cancelled,
            exchange.retried,
            exchange.reached,
        )
        self._director.ended(routed, response)
        if self._spans is not None:
            self._spans.routed(routed, exchange.status)
