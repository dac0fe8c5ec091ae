"""From accepted requests to bytes on the wire: whole answers and streams, and what faults do to them.

A handler sleeps until its sequences have something new. Whatever was computed in the meantime goes out in one write, an
event for each token: at real speed that is one, and when the engine runs ahead of the reader it is many.
"""

import asyncio
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Texts
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from modelplane.sim.engine import errors
from modelplane.sim.engine.batch import pause
from modelplane.sim.engine.core import Core
from modelplane.sim.engine.faults import RequestFault
from modelplane.sim.engine.replies import TokenUsage
from modelplane.sim.engine.requests import EmbeddingRequest, GenerationRequest
from modelplane.sim.engine.sequence import Sequence, SequencePhase
from modelplane.sim.engine.text import FinishReason


class Wakeup:
    """Lets one task wait for the next call of `wake`, including one that came before it waited."""

    __slots__ = ("_news", "_waiter")

    def __init__(self) -> None:
        self._news = False
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        if not self._news:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._news = False


class Bodies(Protocol):
    """What an answer looks like on the wire: whole, or from its opening to its ending as a stream."""

    def whole(
        self,
        answers: Iterable[tuple[str, FinishReason]],
        usage: TokenUsage,
        transfer: dict[str, object] | None = None,
        /,
    ) -> bytes: ...

    def opening(self, index: int = 0, /) -> Iterator[bytes]: ...

    def tokens(self, texts: Texts[str], index: int = 0, /) -> bytes: ...

    def closing(self, reason: FinishReason, index: int = 0, /) -> bytes: ...

    def ending(self, usage: TokenUsage, /) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One request while it is answered."""

    ask: GenerationRequest
    reply: Bodies
    number: str
    sequences: list[Sequence]
    watch: Wakeup
    fault: RequestFault

    def usage(self) -> TokenUsage:
        firsts = self.sequences[:: self.ask.per_prompt]
        return TokenUsage(
            self.ask.prompt_tokens,
            sum(sequence.emitted for sequence in self.sequences),
            sum(sequence.cached for sequence in firsts),
        )

    def check(self) -> None:
        if any(sequence.phase is SequencePhase.FAILED for sequence in self.sequences):
            raise errors.cache_lost()


async def finish_all(sequences: list[Sequence], watch: Wakeup) -> None:
    while not all(sequence.ended for sequence in sequences):
        await watch.wait()


async def answer_whole(core: Core, job: Job) -> bytes:
    await finish_all(job.sequences, job.watch)
    job.check()
    if job.fault.drip_s:
        await pause(core.clock, job.fault.drip_s * sum(sequence.emitted for sequence in job.sequences))
    texts = (("".join(choice.answer.tokens), choice.answer.finish_reason) for choice in job.ask.choices)
    return job.reply.whole(texts, job.usage(), core.kv_transfer_params(job.sequences))


async def embed(core: Core, ask: EmbeddingRequest, key: str) -> None:
    """Take the time that the inputs take."""
    watch = Wakeup()
    sequences = core.embed(ask, key, watch.wake)
    try:
        await finish_all(sequences, watch)
    finally:
        core.abort(sequences)


async def answer_stream(core: Core, job: Job, request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Send the events as they come. The status goes out with the first token, so until then it can be an error."""
    events = _Events(job)
    while not events.over:
        await job.watch.wait()
        job.check()
        for piece in events.ready():
            if not response.prepared:
                await response.prepare(request)
            await response.write(piece)
            if events.is_cut:
                _drop(request)
                return
            if job.fault.drip_s:
                await pause(core.clock, job.fault.drip_s)
    await response.write(b"".join(job.reply.ending(job.usage())))
    await response.write_eof()


def _drop(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


class _Events:
    """How much of each choice has been sent."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._sent = [-1] * len(job.sequences)
        self._open = len(job.sequences)
        self._tokens = 0

    @property
    def over(self) -> bool:
        return not self._open

    @property
    def is_cut(self) -> bool:
        cut = self._job.fault.cut_after
        return cut is not None and self._tokens >= cut

    def ready(self) -> Iterator[bytes]:
        """What is new: in one piece, or token by token where a fault is counting them."""
        fault = self._job.fault
        parts = self._parts(one_by_one=bool(fault.drip_s) or fault.cut_after is not None)
        if fault.drip_s or fault.cut_after is not None:
            yield from parts
        elif whole := b"".join(parts):
            yield whole

    def _parts(self, *, one_by_one: bool) -> Iterator[bytes]:
        for index, sequence in enumerate(self._job.sequences):
            sent, texts = self._sent[index], self._job.ask.choices[index].answer.tokens
            if not sequence.emitted or sent > len(texts):
                continue
            if sent < 0:
                yield from self._job.reply.opening(index)
                sent = 0
            until = min(sequence.emitted, len(texts))
            size = 1 if one_by_one else max(1, until - sent)
            for start in range(sent, until, size):
                self._tokens += size
                yield self._job.reply.tokens(texts[start : start + size], index)
            self._sent[index] = until
            if sequence.phase is SequencePhase.FINISHED:
                self._sent[index] = len(texts) + 1
                self._open -= 1
                yield self._job.reply.closing(self._job.ask.choices[index].answer.finish_reason, index)
