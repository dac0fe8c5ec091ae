"""One call of external processing: an exchange, whoever decides it, and the call's end."""

from collections.abc import Callable

from modelplane.extproc.calls import Call, Status
from modelplane.extproc.director import Director, Verdict
from modelplane.extproc.exchange import Budget, Exchange, Step
from modelplane.extproc.messages import read
from modelplane.extproc.wire import WireError
from modelplane.picker.decisions import Outcome
from modelplane.picker.plugins import Served


class Processor:
    """Serves one call (`Handler`), and waits for its answer (`Asker`)."""

    __slots__ = ("_call", "_clock", "_director", "_exchange", "_sent_s", "_verdict", "_waits")

    def __init__(
        self,
        call: Call,
        director: Director,
        clock: Callable[[], float],
        body_limit: int,
        budget: Budget | None = None,
    ) -> None:
        self._call = call
        self._director = director
        self._clock = clock
        self._exchange = Exchange(body_limit, reads_bodies=director.reads_bodies, budget=budget)
        self._waits = False
        self._verdict: Verdict | None = None
        self._sent_s = 0.0

    def message(self, message: bytes) -> None:
        try:
            incoming = read(message)
        except WireError as error:
            self._call.finish(Status.INVALID_ARGUMENT, f"not a message of external processing: {error}")
            self._settle()
            return
        self._act(self._exchange.feed(incoming, self._clock()))

    def answer(self, verdict: Verdict) -> None:
        self._waits = False
        if verdict.decision.outcome is Outcome.PICKED:
            self._verdict = verdict
            self._sent_s = self._clock()
        self._act(self._exchange.decided(verdict.decision, verdict.request.api, verdict.rename))

    def closed(self) -> None:
        self._settle()
        self._call.finish()

    def cancelled(self) -> None:
        self._settle()

    def _act(self, step: Step) -> None:
        if step.replies:
            self._call.send(*step.replies)
        if step.ask is not None:
            verdict = self._director.decide(step.ask, self)
            if verdict is None:
                self._waits = True
            else:
                self.answer(verdict)
        if step.broken:
            self._call.finish(Status.INVALID_ARGUMENT, step.broken)
            self._settle()
        elif step.over:
            self._call.finish()
            self._settle()

    def _settle(self) -> None:
        """The exchange is over for us: tell what became of it, once."""
        self._exchange.release()
        if self._waits:
            self._waits = False
            self._director.abandon(self)
        verdict, self._verdict = self._verdict, None
        if verdict is None:
            return
        exchange = self._exchange
        served = Served(
            verdict.decision.picked,
            exchange.status,
            self._sent_s,
            exchange.first_byte_s,
            self._clock(),
            exchange.usage,
        )
        self._director.ended(verdict, served, told=exchange.served)
