"""Sends the output of sequences: full responses and streams, and the faults injected into them.

A handler waits until its sequences have new tokens. All of them are sent in one write, an event for each token: at real
speed one, and many when the engine is faster than the reader.
"""

import asyncio
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Texts
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from modelplane.sim.engine import errors
from modelplane.sim.engine.completions import TokenUsage
from modelplane.sim.engine.core import EngineCore
from modelplane.sim.engine.engine_loop import pause
from modelplane.sim.engine.faults import RequestFault
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


class ResponseEncoder(Protocol):
    """Encodes a response: in full, or as a stream of events."""

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
class ActiveRequest:
    """One request while its response is generated."""

    generation: GenerationRequest
    encoder: ResponseEncoder
    number: str
    sequences: list[Sequence]
    watch: Wakeup
    fault: RequestFault

    def usage(self) -> TokenUsage:
        firsts = self.sequences[:: self.generation.per_prompt]
        return TokenUsage(
            self.generation.prompt_tokens,
            sum(sequence.emitted for sequence in self.sequences),
            sum(sequence.cached for sequence in firsts),
        )

    def check(self) -> None:
        if any(sequence.phase is SequencePhase.FAILED for sequence in self.sequences):
            raise errors.cache_lost()


async def finish_all(sequences: list[Sequence], watch: Wakeup) -> None:
    while not all(sequence.ended for sequence in sequences):
        await watch.wait()


async def full_response(core: EngineCore, active: ActiveRequest) -> bytes:
    await finish_all(active.sequences, active.watch)
    active.check()
    if active.fault.drip_s:
        await pause(core.clock, active.fault.drip_s * sum(sequence.emitted for sequence in active.sequences))
    texts = (("".join(choice.answer.tokens), choice.answer.finish_reason) for choice in active.generation.choices)
    return active.encoder.whole(texts, active.usage(), core.kv_transfer_params(active.sequences))


async def embed(core: EngineCore, embedding: EmbeddingRequest, key: str) -> None:
    """Wait as long as the inputs take."""
    watch = Wakeup()
    sequences = core.embed(embedding, key, watch.wake)
    try:
        await finish_all(sequences, watch)
    finally:
        core.abort(sequences)


async def stream_response(
    core: EngineCore, active: ActiveRequest, request: web.BaseRequest, response: web.StreamResponse
) -> None:
    """Stream the events. The status is sent with the first token, so until then it can be an error."""
    events = _Events(active)
    while not events.over:
        await active.watch.wait()
        active.check()
        for piece in events.ready():
            if not response.prepared:
                await response.prepare(request)
            await response.write(piece)
            if events.is_cut:
                _drop(request)
                return
            if active.fault.drip_s:
                await pause(core.clock, active.fault.drip_s)
    await response.write(b"".join(active.encoder.ending(active.usage())))
    await response.write_eof()


def _drop(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


class _Events:
    """How much of each choice has been sent."""

    def __init__(self, active: ActiveRequest) -> None:
        self._active = active
        self._sent = [-1] * len(active.sequences)
        self._open = len(active.sequences)
        self._tokens = 0

    @property
    def over(self) -> bool:
        return not self._open

    @property
    def is_cut(self) -> bool:
        cut = self._active.fault.cut_after
        return cut is not None and self._tokens >= cut

    def ready(self) -> Iterator[bytes]:
        """New events: in one chunk, or token by token if a fault counts them."""
        fault = self._active.fault
        parts = self._parts(one_by_one=bool(fault.drip_s) or fault.cut_after is not None)
        if fault.drip_s or fault.cut_after is not None:
            yield from parts
        elif whole := b"".join(parts):
            yield whole

    def _parts(self, *, one_by_one: bool) -> Iterator[bytes]:
        for index, sequence in enumerate(self._active.sequences):
            sent, texts = self._sent[index], self._active.generation.choices[index].answer.tokens
            if not sequence.emitted or sent > len(texts):
                continue
            if sent < 0:
                yield from self._active.encoder.opening(index)
                sent = 0
            until = min(sequence.emitted, len(texts))
            size = 1 if one_by_one else max(1, until - sent)
            for start in range(sent, until, size):
                self._tokens += size
                yield self._active.encoder.tokens(texts[start : start + size], index)
            self._sent[index] = until
            if sequence.phase is SequencePhase.FINISHED:
                self._sent[index] = len(texts) + 1
                self._open -= 1
                yield self._active.encoder.closing(self._active.generation.choices[index].answer.finish_reason, index)
