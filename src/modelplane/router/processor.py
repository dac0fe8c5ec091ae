"""One ext_proc call at the front door: its exchange, its decision, and its end."""

from collections.abc import Callable
from typing import Final

from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.messages import read
from modelplane.epp.transport.calls import GrpcStatus, ServerCall
from modelplane.epp.transport.wire import WireError
from modelplane.router.director import FrontResponse, RoutedTo, RouterDirector
from modelplane.router.exchange import FrontExchange, FrontRequest, FrontStep
from modelplane.router.refusals import answer, refuse

_CANCELLED: Final = GrpcStatus.CANCELLED


class FrontProcessor:
    """Serves one call (`Handler`)."""

    __slots__ = ("_call", "_clock", "_director", "_exchange", "_routed")

    def __init__(
        self,
        call: ServerCall,
        director: RouterDirector,
        clock: Callable[[], float],
        body_limit: int,
        budget: Budget,
    ) -> None:
        self._call = call
        self._director = director
        self._clock = clock
        self._exchange = FrontExchange(body_limit, budget)
        self._routed: RoutedTo | None = None

    def message(self, message: bytes) -> None:
        try:
            incoming = read(message)
        except WireError as error:
            self._finish(GrpcStatus.INVALID_ARGUMENT, f"not a message of external processing: {error}")
            return
        self._act(self._exchange.feed(incoming, self._clock()))

    def closed(self) -> None:
        self._settle(GrpcStatus.OK)
        self._call.finish()

    def cancelled(self) -> None:
        self._settle(_CANCELLED)

    def _act(self, step: FrontStep) -> None:
        if step.replies:
            self._call.send(*step.replies)
        if step.request is not None:
            self._decide(step.request)
        if step.broken:
            self._finish(GrpcStatus.INVALID_ARGUMENT, step.broken)

    def _decide(self, request: FrontRequest) -> None:
        decided = self._director.decide(request)
        if isinstance(decided, RoutedTo):
            self._routed = decided
            self._call.send(*self._exchange.routed(decided.rewritten))
            return
        self._exchange.answered()
        reply = answer(decided.body) if decided.refusal is None else refuse(decided.refusal, decided.api)
        self._call.send(reply)
        self._finish(GrpcStatus.OK)

    def _finish(self, status: GrpcStatus, why: str = "") -> None:
        self._settle(status)
        self._call.finish(status, why)

    def _settle(self, status: GrpcStatus) -> None:
        """The exchange is over: report its result, once."""
        self._exchange.release()
        routed, self._routed = self._routed, None
        if routed is None:
            return
        exchange = self._exchange
        cancelled = status is _CANCELLED and not exchange.status
        response = FrontResponse(exchange.status, exchange.first_byte_s, exchange.unserved, exchange.usage, cancelled)
        self._director.ended(routed, response)
