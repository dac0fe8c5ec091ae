"""A greedy router that sees the caches and queues of engines as they are in the moment in which a request leaves.

It sends the request where its first token would come soonest by the engines' own timing, counting what it sent before
and the engine has not received yet. It does not know what will be requested next, and where the engine that holds a
prefix is busy it may have another compute it again. So others can be better; `bound.py` has what none can beat.
"""

from collections.abc import Sequence

from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Sequence as Prompt
from modelplane.sim.engine.timing import Timing


class GreedyRouter:
    def __init__(self, engines: Sequence[BatchScheduler], timing: Timing) -> None:
        self._engines = engines
        self._timing = timing
        self._coming: list[list[Prompt]] = [[] for _ in engines]
        for at, engine in enumerate(engines):
            self._hear(at, engine)

    def choose(self, prompt: Prompt) -> int:
        """The engine to send it to, which from here on is expected to receive it."""
        costs = [self._first_token_ms(at, prompt) for at in range(len(self._engines))]
        best = costs.index(min(costs))
        self._coming[best].append(prompt)
        return best

    def _hear(self, at: int, engine: BatchScheduler) -> None:
        """What an engine is given is on its way no more."""
        add, coming = engine.add, self._coming[at]

        def heard(sequence: Prompt, now: float) -> None:
            coming[:] = [each for each in coming if each.prompt != sequence.prompt]
            add(sequence, now)

        engine.add = heard  # type: ignore[method-assign]  # engines tell nobody what they are given, and need not

    def _first_token_ms(self, at: int, prompt: Prompt) -> float:
        """What the prompts before it need, then its own; a queue for places waits for those that end first."""
        engine = self._engines[at]
        queued = (*engine.waiting, *self._coming[at])
        ahead = sum(self._cost_ms(each, each.computed) for each in engine.running if each.pending > 1)
        ahead += sum(self._cost_ms(each, _cached(engine, each)) for each in queued)
        return ahead + self._cost_ms(prompt, _cached(engine, prompt)) + self._place_ms(engine, queued)

    def _cost_ms(self, prompt: Prompt, known: int) -> float:
        new = max(1, len(prompt.prompt) - known)
        return self._timing.step_ms(tokens=new, pairs=new * (2 * known + new))

    def _place_ms(self, engine: BatchScheduler, queued: Sequence[Prompt]) -> float:
        """A step of its batch, and as many as the place takes to become free."""
        decoding = self._timing.decode_ms(
            sequences=max(1, len(engine.running)), kv_tokens=sum(each.length for each in engine.running)
        )
        short = len(engine.running) + len(queued) + 1 - engine.limits.max_num_seqs
        if short <= 0:
            return decoding
        lefts = sorted(each.left for each in (*engine.running, *queued))
        return decoding * (1 + lefts[min(short, len(lefts)) - 1])


def _cached(engine: BatchScheduler, prompt: Prompt) -> int:
    size = engine.limits.block_size
    return size * len(engine.pool.find(prompt.hashes((len(prompt.prompt) - 1) // size, size)))
