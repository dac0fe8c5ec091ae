"""When a sequence may run and when its next token is ready.

This is the seam for everything that makes engines slow each other's requests down. What holds here: sequences are
admitted in order of arrival while there is a slot and the cache has room for the prompt; each step costs what the
batch costs at that moment; a sequence holds its cache until it ends, also when its client leaves. What is left coarse:
a prefill does not stretch the decode of its neighbours, and a cache that decode fills up preempts nobody.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from modelplane.engine.timing import Timing


class Clock(Protocol):
    """Seconds that only grow; a test brings one that does not wait."""

    def now(self) -> float: ...

    async def sleep_until(self, when: float) -> None: ...


class LoopClock:
    """The running event loop's time."""

    # Below what timers can keep. Deadlines are absolute, so what is not slept here is slept by a later token.
    _RESOLUTION = 0.0005

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep_until(self, when: float) -> None:
        delay = when - self.now()
        if delay >= self._RESOLUTION:
            await asyncio.sleep(delay)


@dataclass(frozen=True, slots=True)
class Limits:
    max_num_seqs: int
    kv_capacity_tokens: int


class Sequence:
    """One admitted request. Its first token comes with the prefill, each later one with a decode step."""

    __slots__ = ("_batch", "_ready_at", "kv_tokens")

    def __init__(self, batch: "Batch", prompt_tokens: int) -> None:
        self._batch = batch
        self._ready_at = batch.clock.now()
        self.kv_tokens = prompt_tokens

    async def prefill(self) -> None:
        await self._elapse(self._batch.timing.prefill_ms(self.kv_tokens))

    async def decode(self) -> None:
        self.kv_tokens += 1
        self._batch.kv_tokens += 1
        cost = self._batch.timing.decode_ms(sequences=self._batch.running, kv_tokens=self._batch.kv_tokens)
        await self._elapse(cost)

    async def _elapse(self, cost_ms: float) -> None:
        self._ready_at += cost_ms / 1000
        await self._batch.clock.sleep_until(self._ready_at)


class Batch:
    """The sequences that run on one engine, and those that wait for it."""

    def __init__(self, timing: Timing, limits: Limits, clock: Clock) -> None:
        self.timing = timing
        self.clock = clock
        self.running = 0
        self.kv_tokens = 0
        self._limits = limits
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        return sum(not turn.cancelled() for _, turn in self._queue)

    @property
    def kv_usage(self) -> float:
        """The share of the cache in use, from 0 to 1."""
        return min(1.0, self.kv_tokens / self._limits.kv_capacity_tokens)

    @asynccontextmanager
    async def sequence(self, prompt_tokens: int) -> AsyncIterator[Sequence]:
        await self._admit(prompt_tokens)
        sequence = Sequence(self, prompt_tokens)
        try:
            yield sequence
        finally:
            self._release(sequence.kv_tokens)

    async def _admit(self, tokens: int) -> None:
        if not self._queue and self._fits(tokens):
            self._take(tokens)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((tokens, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(tokens, turn)
            raise

    def _leave(self, tokens: int, turn: "asyncio.Future[None]") -> None:
        """A waiter was cancelled: give back what its turn took, or let the next one step up."""
        if turn.cancelled():
            self._call_next()
        else:
            self._release(tokens)

    def _fits(self, tokens: int) -> bool:
        has_slot = self.running < self._limits.max_num_seqs
        return has_slot and self.kv_tokens + tokens <= self._limits.kv_capacity_tokens

    def _take(self, tokens: int) -> None:
        self.running += 1
        self.kv_tokens += tokens

    def _release(self, tokens: int) -> None:
        self.running -= 1
        self.kv_tokens -= tokens
        self._call_next()

    def _call_next(self) -> None:
        while self._queue:
            tokens, turn = self._queue[0]
            # A cancelled waiter stays in the queue until somebody looks; its place is worth nothing.
            if not turn.cancelled():
                if not self._fits(tokens):
                    return
                self._take(tokens)
                turn.set_result(None)
            self._queue.popleft()
