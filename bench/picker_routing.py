"""Where requests go, in virtual time: the published shapes whole, the same on every machine, in seconds.

Engines are those of the product, driven by a clock that jumps. Our picker is its scheduler with the configuration that
the ecosystem installs, its endpoints looked at every tenth of a second as its scraper does; a request takes a
millisecond to reach its engine, as does a look. What a network and a proxy do to these figures is for
`picker_quality.py`, which has both.

    python bench/picker_routing.py [--shape NAME] [--policy NAME]…       prints a table for each shape
"""

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Final, Protocol

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.oracle import Oracle
from load.pickers import CONFIG, COUNTING
from load.prompts import words
from load.shapes import LONG, PUBLISHED, SHORT, Shape

from modelplane.engine.batch import Batch
from modelplane.engine.figures import Figures
from modelplane.engine.kv_events import KvEventLog
from modelplane.engine.schedule import Scheduler as EngineScheduler
from modelplane.engine.sequence import Draft
from modelplane.engine.sequence import Sequence as Prompt
from modelplane.engine.steps import Limits
from modelplane.engine.text import token_id
from modelplane.picker.config import load
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.loads import Load
from modelplane.picker.requests import Request
from modelplane.picker.scheduler import Scheduler

_SEED: Final = 23
_BLOCK: Final = 16
_LOOK_S: Final = 0.1
_WAY_S: Final = 0.001
_BUDGET: Final = 8_192


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualTime:
    """A clock that runs whatever is due next, at once; in the order of asking where two are due together."""

    tick = 0.0

    def __init__(self) -> None:
        self._now_s = 0.0
        self._due: list[tuple[float, int, _Timer]] = []
        self._asked = 0

    def now(self) -> float:
        return self._now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        self._asked += 1
        heappush(self._due, (when, self._asked, timer))
        return timer

    def run(self, until: Callable[[], bool]) -> None:
        while self._due and not until():
            when, _, timer = heappop(self._due)
            self._now_s = max(self._now_s, when)
            if timer.callback is not None:
                timer.callback()


class Question(msgspec.Struct, frozen=True, eq=False):
    at_s: float
    text: bytes
    ids: Sequence[int]
    answer: int


class Sample(msgspec.Struct):
    at_s: float
    first_s: float = 0.0
    ended_s: float = 0.0
    prompt: int = 0
    cached: int = 0
    answered: int = 0


class Pool:
    """Engines, and how they look from outside."""

    def __init__(self, shape: Shape, clock: VirtualTime) -> None:
        limits = Limits(
            max_num_seqs=shape.batch,
            max_num_batched_tokens=_BUDGET,
            block_size=_BLOCK,
            blocks=shape.cache_tokens // _BLOCK,
        )
        log = KvEventLog(enabled=False, wall_clock=clock.now)
        most = shape.prefix_tokens + shape.question_tokens + shape.answer_tokens[1]
        self.engines = [EngineScheduler(shape.timing, limits, log, Figures(most)) for _ in range(shape.engines)]
        self.batches = [Batch(engine, clock, log.publish) for engine in self.engines]
        self.in_flight = [0] * shape.engines


class Policy(Protocol):
    def choose(self, question: Question, prompt: Prompt) -> int: ...

    def ended(self, at: int, prompt: Prompt) -> None: ...


class RoundRobin:
    def __init__(self, pool: Pool) -> None:
        self._count, self._next = len(pool.engines), -1

    def choose(self, _question: Question, _prompt: Prompt) -> int:
        self._next = (self._next + 1) % self._count
        return self._next

    def ended(self, at: int, prompt: Prompt) -> None:
        """Nothing to it."""


class LeastRequest:
    """As Envoy does it: the less busy of two that chance names."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._chance = random.Random(_SEED)  # noqa: S311  not a secret

    def choose(self, _question: Question, _prompt: Prompt) -> int:
        first, second = (self._chance.randrange(len(self._pool.engines)) for _ in range(2))
        return first if self._pool.in_flight[first] <= self._pool.in_flight[second] else second

    def ended(self, at: int, prompt: Prompt) -> None:
        """The pool counts."""


class Greedy:
    """The oracle."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        self._oracle = Oracle(pool.engines, shape.timing)

    def choose(self, _question: Question, prompt: Prompt) -> int:
        return self._oracle.choose(prompt)

    def ended(self, at: int, prompt: Prompt) -> None:
        """It sees that by itself."""


class Ours:
    """The picker. One that is `blind` takes servers to be as they were at the last look, whatever it sent since."""

    def __init__(self, pool: Pool, clock: VirtualTime, config: str, *, blind: bool = False) -> None:
        self._pool, self._clock, self._blind = pool, clock, blind
        self._scheduler = Scheduler(load(config))
        self.endpoints = tuple(Endpoint(f"pool/{at}", f"10.0.0.{at}:8000") for at in range(len(pool.engines)))
        self._places = {endpoint: at for at, endpoint in enumerate(self.endpoints)}
        self._scheduler.changed(self.endpoints)
        self._chance = random.Random(_SEED).random  # noqa: S311  not a secret
        for at in range(len(self.endpoints)):
            # Looks at different servers fall at different moments.
            clock.call_at(_LOOK_S * at / len(self.endpoints), lambda at=at: self._look(at))  # type: ignore[misc]  # a default argument binds the loop's variable

    def choose(self, question: Question, _prompt: Prompt) -> int:
        request = Request("r", "m", prompts=(question.text,), most_output_tokens=question.answer)
        decision = self._scheduler.schedule(request, self.endpoints, self._clock.now(), self._chance)
        picked = decision.picked
        picked.requests_in_flight += not self._blind
        return self._places[picked]

    def ended(self, at: int, _prompt: Prompt) -> None:
        self.endpoints[at].requests_in_flight -= not self._blind

    def _look(self, at: int) -> None:
        engine, now_s = self._pool.engines[at], self._clock.now()
        self.endpoints[at].load = Load(
            waiting=float(len(engine.waiting)),
            running=float(len(engine.running)),
            kv_use=engine.cache_usage,
            block_size=_BLOCK,
            blocks=engine.limits.blocks,
            seen_s=now_s,
            requests_then=self.endpoints[at].requests_in_flight,
            tokens_then=self.endpoints[at].tokens_in_flight,
        )
        self._clock.call_at(now_s + _LOOK_S, lambda: self._look(at))


def questions(shape: Shape) -> Iterator[Question]:
    """Every request of a run, by the seed."""
    chance = random.Random(_SEED)  # noqa: S311  not a secret
    prefixes = [_spoken(chance, shape.prefix_tokens) for _ in range(shape.prefixes)]
    at_s, number = 0.0, 0
    while at_s < shape.seconds:
        text, ids = _spoken(chance, shape.question_tokens)
        before, known = chance.choice(prefixes) if prefixes else ("", [])
        mark = f" {number} "
        yield Question(
            at_s, (before + mark + text).encode(), [*known, token_id(mark), *ids], chance.randint(*shape.answer_tokens)
        )
        at_s += chance.expovariate(shape.rate)
        number += 1


def _spoken(chance: random.Random, tokens: int) -> tuple[str, list[int]]:
    text = words(chance, tokens)
    return text, [token_id(word) for word in text.split(" ")]


def measure(shape: Shape, make: Callable[[Shape, Pool, VirtualTime], Policy]) -> list[Sample]:
    clock = VirtualTime()
    pool = Pool(shape, clock)
    policy = make(shape, pool, clock)
    samples: list[Sample] = []
    arrivals = questions(shape)
    left = 1

    def arrive(question: Question) -> None:
        nonlocal left
        sample = Sample(question.at_s)
        samples.append(sample)

        def ended() -> None:
            nonlocal left
            left -= 1
            pool.in_flight[at] -= 1
            policy.ended(at, prompt)
            sample.first_s, sample.ended_s = prompt.first_token or 0.0, clock.now()
            sample.prompt, sample.cached, sample.answered = len(prompt.prompt), prompt.cached, prompt.emitted

        draft = Draft(key="", prompt=question.ids, answer=range(question.answer), reason="length")
        prompt = Prompt(draft, ended)
        at = policy.choose(question, prompt)
        pool.in_flight[at] += 1
        left += 1
        clock.call_at(clock.now() + _WAY_S, lambda: pool.batches[at].submit(prompt))
        call_next()

    def call_next() -> None:
        nonlocal left
        following = next(arrivals, None)
        if following is None:
            left -= 1
        else:
            clock.call_at(following.at_s, lambda: arrive(following))

    call_next()
    clock.run(lambda: left == 0)
    return samples


POLICIES: Final[dict[str, Callable[[Shape, Pool, VirtualTime], Policy]]] = {
    "round robin": lambda _shape, pool, _clock: RoundRobin(pool),
    "least request": lambda _shape, pool, _clock: LeastRequest(pool),
    "ours": lambda _shape, pool, clock: Ours(pool, clock, CONFIG),
    "ours, as last seen": lambda _shape, pool, clock: Ours(pool, clock, CONFIG, blind=True),
    "ours, counting": lambda _shape, pool, clock: Ours(pool, clock, COUNTING),
    "oracle": lambda shape, pool, _clock: Greedy(shape, pool),
}


class Outcome(msgspec.Struct, frozen=True):
    ttft_p50_s: float
    ttft_p90_s: float
    tokens_per_s: float
    hit_rate: float


def outcome(shape: Shape, samples: Sequence[Sample]) -> Outcome:
    counted = [sample for sample in samples if sample.at_s >= shape.skipped_s]
    firsts = statistics.quantiles([sample.first_s - sample.at_s for sample in counted], n=10)
    seconds = max(sample.ended_s for sample in counted) - counted[0].at_s
    return Outcome(
        firsts[4],
        firsts[8],
        sum(sample.answered for sample in counted) / seconds,
        sum(sample.cached for sample in counted) / sum(sample.prompt for sample in counted),
    )


def rows() -> list[dict[str, object]]:
    """Short prompts against round robin, long documents against the oracle: figures of virtual time, no machine's."""
    short = msgspec.structs.replace(SHORT, seconds=60)
    long = msgspec.structs.replace(
        LONG, prefix_tokens=25_000, cache_tokens=200_000, answer_tokens=(250, 250), rate=5.0, seconds=60, skipped_s=20
    )
    ours, turns = _outcomes(short, "round robin")
    held, known = _outcomes(long, "oracle")
    first, hits = ours.ttft_p90_s / turns.ttft_p90_s, held.hit_rate / known.hit_rate
    return [
        _row("routing.short.ttft_p90", first, 1.15, first <= 1.15, "round robin", turns.ttft_p90_s * 1e3, "ms"),  # noqa: PLR2004  the limit
        {
            **_row("routing.long.hit_rate", hits, 0.95, hits >= 0.95, "the oracle", known.hit_rate, "of tokens"),  # noqa: PLR2004  the limit
            "better": "higher",
        },
    ]


def _outcomes(shape: Shape, other: str) -> tuple[Outcome, Outcome]:
    ours, theirs = (outcome(shape, measure(shape, POLICIES[policy])) for policy in ("ours", other))
    return ours, theirs


def _row(name: str, value: float, limit: float, ok: bool, what: str, than: float, unit: str) -> dict[str, object]:  # noqa: FBT001, PLR0913, PLR0917  the columns of a table
    baseline = {"what": what, "value": round(than, 3), "unit": unit}
    return {
        "id": name,
        "value": round(value, 3),
        "unit": f"of that of {what}",
        "limit": limit,
        "ok": ok,
        "baseline": baseline,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in PUBLISHED])
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    chosen = parser.parse_args()
    for shape in PUBLISHED:
        if chosen.shape and shape.name not in chosen.shape:
            continue
        print(f"\n{shape.says}; {shape.rate:g} requests a second.\n", flush=True)
        print("| policy | TTFT p50 | TTFT p90 | output tokens/s | prefix hit rate |\n|---|---|---|---|---|", flush=True)
        for name in chosen.policy or POLICIES:
            found = outcome(shape, measure(shape, POLICIES[name]))
            print(
                f"| {name} | {found.ttft_p50_s * 1e3:,.0f} ms | {found.ttft_p90_s * 1e3:,.0f} ms "
                f"| {found.tokens_per_s:,.0f} | {found.hit_rate:.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
