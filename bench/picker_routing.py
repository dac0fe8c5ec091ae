"""Where requests go, in virtual time: the published shapes whole, the same on every machine, in seconds.

Engines are those of the product, driven by a clock that jumps. Our picker is its scheduler with the configuration that
the ecosystem installs, its endpoints scraped when the product would scrape them (five times a second under load); a
request takes a millisecond to reach its engine. What is in flight is counted as the product counts it where the proxy
shows it the headers of responses. What a network and a proxy do to these figures is for `picker_quality.py`, which has
both.

A run has few requests that wait long, and where the first prompts of it happen to go decides how many: one seed says
little. So every row is of several, with the percentiles of all their requests together and the p90 of each alone. The
last row is what no policy can beat (`load/bound.py`).

    python bench/picker_routing.py [--shape NAME] [--policy NAME] [--scrape SECONDS]… [--seeds COUNT]
"""

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.bound import BestCase, PoolLimits, best_cases, best_firsts_s
from load.greedy import GreedyRouter
from load.pickers import CONFIG, COUNTING
from load.prompts import words
from load.shapes import CROWDED, LONG, PUBLISHED, SHORT, Shape
from load.virtual import VirtualTime

from modelplane.compose.picker import picker_config
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.scrape.intervals import MetricsInUse, ScrapeIntervals, ScrapeOutcome, next_interval_s
from modelplane.epp.datalayer.shared_state import SYNC_S, Load, SharedLoads
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.producers.in_flight import InFlightProducer
from modelplane.epp.scheduling.producers.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KvEvent,
    KvEventBatch,
)
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.precise import BatchOutcome
from modelplane.epp.scheduling.producers.precise_producer import PrecisePrefixProducer
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.sim.engine.engine_loop import EngineLoop
from modelplane.sim.engine.kv_events import (
    AllBlocksClearedEvent,
    BlockRemovedEvent,
    BlockStoredEvent,
    KvEventLog,
    PublishedBatch,
)
from modelplane.sim.engine.scheduler import BatchScheduler as EngineScheduler
from modelplane.sim.engine.sequence import Notify, SequenceParams
from modelplane.sim.engine.sequence import Sequence as Prompt
from modelplane.sim.engine.stats import EngineStats
from modelplane.sim.engine.steps import BatchLimits
from modelplane.sim.engine.text import token_id
from modelplane.sim.engine.timing import Timing

T = TypeVar("T")
_SEEDS: Final = (23, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
_USUAL_SEEDS: Final = 5
_SHAPES: Final = (*PUBLISHED, CROWDED)
_BLOCK: Final = 16
_SCRAPE_S: Final = ScrapeIntervals().busy_s
_USES: Final = MetricsInUse()
_WAY_S: Final = 0.001
_RELAYED_S: Final = 0.006
_OK: Final = 200
_RENDERED: Final = json.dumps(picker_config(disaggregated=False))
"""As deployments get it."""
_HEAD: Final = """\
| policy | TTFT p50 | TTFT p90 | p90 of single seeds | TTFT mean | output tokens/s | prefix hit rate |
|---|---|---|---|---|---|---|"""


class Trial(msgspec.Struct, frozen=True):
    shape: Shape
    seed: int = _SEEDS[0]
    scrape_s: float = _SCRAPE_S
    """How often our picker scrapes a server under load; others less often, as the product does."""

    def chance(self) -> random.Random:
        return random.Random(self.seed)  # noqa: S311  not a secret


class Question(msgspec.Struct, frozen=True, eq=False):
    at_s: float
    text: bytes
    ids: Sequence[int]
    answer: int
    names: list[int] = msgspec.field(default_factory=list)
    """Of its blocks, as far as an engine found them: the same for every policy, and most of the work of a run."""

    def prompt(self, notify: Notify = lambda: None, *, each: bool = False) -> Prompt:
        """As engines take it."""
        params = SequenceParams(key="", prompt=self.ids, answer=range(self.answer), reason="length", each=each)
        prompt = Prompt(params, notify)
        prompt._hashes = self.names  # noqa: SLF001  no engine needs to be given them
        return prompt


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
        limits = BatchLimits(
            max_num_seqs=shape.batch,
            max_num_batched_tokens=shape.budget,
            block_size=_BLOCK,
            blocks=shape.cache_tokens // _BLOCK,
        )
        self.logs = [KvEventLog(enabled=False, wall_clock=clock.now) for _ in range(shape.engines)]
        most = shape.prefix_tokens + shape.question_tokens + shape.answer_tokens[1]
        timings = [self.timing(shape, at) for at in range(shape.engines)]
        parts = zip(timings, self.logs, strict=True)
        self.engines = [EngineScheduler(timing, limits, log, EngineStats(most)) for timing, log in parts]
        both = zip(self.engines, self.logs, strict=True)
        self.batches = [EngineLoop(engine, clock, log.publish) for engine, log in both]
        self.in_flight = [0] * shape.engines

    def timing(self, shape: Shape, _at: int) -> Timing:
        """Of one engine."""
        return shape.timing


class Policy(Protocol):
    def choose(self, question: Question, prompt: Prompt) -> int: ...

    def began(self, _prompt: Prompt) -> None:
        """Its first token is there."""
        return

    def ended(self, _prompt: Prompt) -> None:
        return


Make = Callable[[Trial, Pool, VirtualTime], Policy]


class RoundRobin(Policy):
    def __init__(self, pool: Pool) -> None:
        self._count, self._next = len(pool.engines), -1

    def choose(self, _question: Question, _prompt: Prompt) -> int:
        self._next = (self._next + 1) % self._count
        return self._next


class LeastRequest(Policy):
    """As Envoy does it: the less busy of two that chance names."""

    def __init__(self, pool: Pool, chance: random.Random) -> None:
        self._pool = pool
        self._chance = chance

    def choose(self, _question: Question, _prompt: Prompt) -> int:
        first, second = (self._chance.randrange(len(self._pool.engines)) for _ in range(2))
        return first if self._pool.in_flight[first] <= self._pool.in_flight[second] else second


class Greedy(Policy):
    """Sees caches and queues."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        self._router = GreedyRouter(pool.engines, shape.timing)

    def choose(self, _question: Question, prompt: Prompt) -> int:
        return self._router.choose(prompt)


class _Sent(msgspec.Struct, eq=False):
    request: Request
    decision: Decision
    tokens: int
    """Of a prompt, those that are still to be computed."""


class Ours(Policy):
    """The picker. One that is `blind` takes servers to be as they were at the last scrape, whatever it sent since."""

    def __init__(self, trial: Trial, pool: Pool, clock: VirtualTime, config: str, *, blind: bool = False) -> None:
        self._pool, self._clock = pool, clock
        self._scheduler = Scheduler(load(config).build())
        self._counts = not blind and self.plugin(InFlightProducer) is None
        self._sent: dict[Prompt, _Sent] = {}
        self.endpoints = tuple(Endpoint(f"pool/{at}", f"10.0.0.{at}:8000") for at in range(len(pool.engines)))
        self._places = {endpoint: at for at, endpoint in enumerate(self.endpoints)}
        self._scheduler.endpoints_changed(self.endpoints)
        self._chance = trial.chance().random
        self._scrapes = [_Scrapes(trial) for _ in self.endpoints]
        for at in range(len(self.endpoints)):
            # Scrapes of different servers fall at different times.
            self._scrape_at(at, trial.scrape_s * at / len(self.endpoints))

    def plugin(self, kind: type[T]) -> T | None:
        plugins = self._scheduler.assembly.plugins.values()
        return next((plugin for plugin in plugins if isinstance(plugin, kind)), None)

    def choose(self, question: Question, prompt: Prompt) -> int:
        return self.send(question, prompt, self.endpoints)

    def send(self, question: Question, prompt: Prompt, among: Sequence[Endpoint]) -> int:
        """To the best of these."""
        request = Request(
            "r", "m", prompts=(question.text,), max_output_tokens=question.answer, token_ids=self._tokens(question)
        )
        decision = self._scheduler.schedule(request, among, self._clock.now(), self._chance)
        sent = self._sent[prompt] = _Sent(request, decision, max(0, request.tokens - decision.cached_tokens))
        if self._counts:
            decision.picked.count(1, sent.tokens)
        at = self._places[decision.picked]
        if (due_s := self._scrapes[at].sent()) is not None:
            self._scrape_at(at, max(due_s, self._clock.now()))
        return at

    def _tokens(self, _question: Question) -> tuple[tuple[int, ...], ...]:
        """In the engines' own tokens, where a tokenizer is called."""
        return ()

    def began(self, prompt: Prompt) -> None:
        sent = self._sent[prompt]
        if self._counts:
            sent.decision.picked.count(0, -sent.tokens)
            sent.tokens = 0
        self._scheduler.response_received(sent.request, sent.decision)

    def ended(self, prompt: Prompt) -> None:
        sent = self._sent.pop(prompt)
        if self._counts:
            sent.decision.picked.count(-1, -sent.tokens)
        self._scrapes[self._places[sent.decision.picked]].in_flight -= 1
        served = EndpointResponse(sent.decision.picked, _OK, started_s=0.0)
        self._scheduler.response_complete(sent.request, sent.decision, served)

    def _scrape_at(self, at: int, due_s: float) -> None:
        self._scrapes[at].due_s = due_s
        self._clock.call_at(due_s, lambda: self._scrape(at, due_s))

    def _scrape(self, at: int, due_s: float) -> None:
        scrapes = self._scrapes[at]
        if scrapes.due_s != due_s:
            return  # it was brought forward
        engine, now_s = self._pool.engines[at], self._clock.now()
        before = self.endpoints[at].metrics
        self.endpoints[at].metrics = EndpointMetrics(
            waiting=float(len(engine.waiting)),
            running=float(len(engine.running)),
            kv_cache_usage=engine.cache_usage,
            block_size=_BLOCK,
            blocks=engine.limits.blocks,
            scraped_s=now_s,
            requests_at_scrape=self.endpoints[at].requests_in_flight,
            tokens_at_scrape=self.endpoints[at].tokens_shown,
        )
        self._scrape_at(at, scrapes.next_s(now_s, before, self.endpoints[at].metrics))


class Precise(Ours):
    """The picker with an index of the engines' KV events: what a step computes is reported when it begins."""

    def __init__(self, trial: Trial, pool: Pool, clock: VirtualTime, *, guesses: bool) -> None:
        super().__init__(trial, pool, clock, _precise(guesses=guesses))
        for endpoint, log in zip(self.endpoints, pool.logs, strict=True):
            log.enabled = True
            log.listen(partial(self._receive, endpoint))

    def _tokens(self, question: Question) -> tuple[tuple[int, ...], ...]:
        return (tuple(question.ids),)

    def _receive(self, endpoint: Endpoint, published: PublishedBatch) -> None:
        batch = KvEventBatch(published.seq, tuple(map(_event, published.events)))
        self._clock.call_at(self._clock.now() + _WAY_S, lambda: self._apply(endpoint, batch))

    def _apply(self, endpoint: Endpoint, batch: KvEventBatch) -> None:
        producer = self.plugin(PrecisePrefixProducer)
        if producer is None or producer.index.apply(endpoint, batch) is not BatchOutcome.APPLIED:
            raise ValueError(f"batch {batch.sequence} of {endpoint.name} is not the next one of a precise index")


def _event(published: BlockStoredEvent | BlockRemovedEvent | AllBlocksClearedEvent) -> KvEvent:
    if isinstance(published, BlockStoredEvent):
        names, tokens = published.block_hashes, published.token_ids
        return BlockStored(names, published.parent_block_hash, tokens, published.block_size)
    return BlockRemoved(published.block_hashes) if isinstance(published, BlockRemovedEvent) else AllBlocksCleared()


def _precise(*, guesses: bool) -> str:
    """As deployments get it, but for the index."""
    config = picker_config(disaggregated=False)
    producer = {"type": "precise-prefix-cache-producer", "parameters": {"speculativeIndexing": guesses}}
    plugins = msgspec.convert(config["plugins"], list[dict[str, object]])
    config["plugins"] = [producer, *(each for each in plugins if each["type"] != "approx-prefix-cache-producer")]
    return json.dumps(config)


class _Scrapes:
    """When a server is scraped: as the product's scraper decides it."""

    def __init__(self, trial: Trial) -> None:
        self._intervals = ScrapeIntervals(busy_s=trial.scrape_s)
        self._chance = trial.chance().random
        self._wait_s = 0.0
        self._scraped_s = 0.0
        self.due_s = 0.0
        self.in_flight = 0

    def sent(self) -> float | None:
        """A request was sent. Where the next scrape has to be brought forward: when it is due."""
        self.in_flight += 1
        soon_s = self._scraped_s + self._intervals.busy_s
        return soon_s if soon_s < self.due_s else None

    def next_s(self, now_s: float, before: EndpointMetrics, found: EndpointMetrics) -> float:
        shown = [(each.waiting, each.running, each.kv_cache_usage) for each in (before, found)]
        outcome = ScrapeOutcome(
            self._wait_s,
            in_flight=self.in_flight > 0,
            changed=shown[0] != shown[1],
            working=found.waiting + found.running > 0,
        )
        self._wait_s = next_interval_s(self._intervals, _USES, outcome, often=1, chance=self._chance())
        self._scraped_s = now_s
        return now_s + self._wait_s


class Several(Policy):
    """So many pickers before one pool, in turn, each with its own endpoints, counts and index.

    Those that share do it as the product does (`datalayer.peers`): news every 10 ms, a millisecond on the way. Between
    workers of one picker it is more: the main process passes news on every 5 ms.
    """

    def __init__(
        self, trial: Trial, pool: Pool, clock: VirtualTime, count: int, *, share: bool, way_s: float = _WAY_S
    ) -> None:
        self._clock, self._next, self._way_s = clock, -1, way_s
        self._pickers = [Ours(trial, pool, clock, _RENDERED) for _ in range(count)]
        self._chosen: dict[Prompt, Ours] = {}
        self._prefixes = [_prefixes(picker) for picker in self._pickers]
        self._shared = [SharedLoads() for _ in self._pickers] if share else []
        self._prompts: list[list[tuple[Endpoint, PrefixMatch]]] = [[] for _ in self._pickers]
        for at, shared in enumerate(self._shared):
            shared.follow(self._pickers[at].endpoints)
            self._prefixes[at].on_record = partial(self._recorded, at)
            clock.call_at(SYNC_S * (at + 1) / count, partial(self._publish, at))

    def choose(self, question: Question, prompt: Prompt) -> int:
        self._next = (self._next + 1) % len(self._pickers)
        picker = self._chosen[prompt] = self._pickers[self._next]
        return picker.choose(question, prompt)

    def began(self, prompt: Prompt) -> None:
        self._chosen[prompt].began(prompt)

    def ended(self, prompt: Prompt) -> None:
        self._chosen.pop(prompt).ended(prompt)

    def _recorded(self, at: int, endpoints: Sequence[Endpoint], match: PrefixMatch) -> None:
        self._prompts[at] += [(endpoint, match) for endpoint in endpoints]

    def _publish(self, at: int) -> None:
        loads, prompts = self._shared[at].own(self._pickers[at].endpoints), self._prompts[at]
        self._prompts[at] = []
        names = {endpoint.name: loads.get(endpoint.name, (0, 0)) for endpoint in self._pickers[at].endpoints}
        now_s = self._clock.now()
        self._clock.call_at(now_s + self._way_s, lambda: self._receive(at, names, prompts))
        self._clock.call_at(now_s + SYNC_S, lambda: self._publish(at))

    def _receive(self, by: int, loads: dict[str, Load], prompts: list[tuple[Endpoint, PrefixMatch]]) -> None:
        for at, picker in enumerate(self._pickers):
            if at == by:
                continue
            self._shared[at].receive(by, loads)
            for endpoint, match in prompts:
                there = picker.endpoints[self._pickers[by].endpoints.index(endpoint)]
                self._prefixes[at].index.record_chains(there, match.block_size, match.chains)


def _prefixes(picker: Ours) -> ApproxPrefixProducer:
    found = picker.plugin(ApproxPrefixProducer)
    if found is None:
        raise LookupError("the configuration of deployments has no approximate index")
    return found


def questions(trial: Trial) -> Iterator[Question]:
    """Every request of a run, by the seed."""
    shape, chance = trial.shape, trial.chance()
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


def measure(trial: Trial, make: Make, asked: Iterable[Question]) -> list[Sample]:
    clock = VirtualTime()
    pool = Pool(trial.shape, clock)
    policy = make(trial, pool, clock)
    samples: list[Sample] = []
    arrivals = iter(asked)
    left = 1

    def arrive(question: Question) -> None:
        nonlocal left
        sample = Sample(question.at_s)
        samples.append(sample)

        def told() -> None:
            if prompt.ended:
                ended()
            elif prompt.first_token == prompt.last_token:
                policy.began(prompt)

        def ended() -> None:
            nonlocal left
            left -= 1
            pool.in_flight[at] -= 1
            policy.ended(prompt)
            sample.first_s, sample.ended_s = prompt.first_token or 0.0, clock.now()
            sample.prompt, sample.cached, sample.answered = len(prompt.prompt), prompt.cached, prompt.emitted

        prompt = question.prompt(told, each=True)
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


POLICIES: Final[dict[str, Make]] = {
    "round robin": lambda _trial, pool, _clock: RoundRobin(pool),
    "least request": lambda trial, pool, _clock: LeastRequest(pool, trial.chance()),
    "ours": lambda trial, pool, clock: Ours(trial, pool, clock, CONFIG),
    "ours, as last seen": lambda trial, pool, clock: Ours(trial, pool, clock, CONFIG, blind=True),
    "ours, counting": lambda trial, pool, clock: Ours(trial, pool, clock, COUNTING),
    "precise": lambda trial, pool, clock: Precise(trial, pool, clock, guesses=True),
    "precise, by events alone": lambda trial, pool, clock: Precise(trial, pool, clock, guesses=False),
    "1 picker": lambda trial, pool, clock: Several(trial, pool, clock, 1, share=False),
    "2 pickers": lambda trial, pool, clock: Several(trial, pool, clock, 2, share=False),
    "2 pickers that share": lambda trial, pool, clock: Several(trial, pool, clock, 2, share=True),
    "4 pickers": lambda trial, pool, clock: Several(trial, pool, clock, 4, share=False),
    "4 pickers that share": lambda trial, pool, clock: Several(trial, pool, clock, 4, share=True),
    "2 workers": lambda trial, pool, clock: Several(trial, pool, clock, 2, share=True, way_s=_RELAYED_S),
    "4 workers": lambda trial, pool, clock: Several(trial, pool, clock, 4, share=True, way_s=_RELAYED_S),
    "8 workers": lambda trial, pool, clock: Several(trial, pool, clock, 8, share=True, way_s=_RELAYED_S),
    "greedy": lambda trial, pool, _clock: Greedy(trial.shape, pool),
}


class Outcome(msgspec.Struct, frozen=True):
    """Of one run, or of several together."""

    firsts_s: Sequence[float]
    """From leaving to the first token, of every request."""
    tokens_per_s: float
    hit_rate: float

    def first_s(self, tenths: int) -> float:
        return statistics.quantiles(self.firsts_s, n=10)[tenths - 1]


def outcome(shape: Shape, samples: Sequence[Sample]) -> Outcome:
    counted = [sample for sample in samples if sample.at_s >= shape.skipped_s]
    seconds = max(sample.ended_s for sample in counted) - counted[0].at_s
    return Outcome(
        [sample.first_s - sample.at_s for sample in counted],
        sum(sample.answered for sample in counted) / seconds,
        hit_rate(counted),
    )


def bound(trial: Trial, asked: Iterable[Question]) -> Outcome:
    """What no policy can beat; it says nothing of output."""
    limits = pool_limits(trial.shape)
    best = best_cases(((question.at_s, question.prompt()) for question in asked), limits)
    counted = [each for each in best if each.at_s >= trial.shape.skipped_s]
    return Outcome(best_firsts_s(counted, limits), math.inf, hit_rate(counted))


def pool_limits(shape: Shape) -> PoolLimits:
    return PoolLimits(
        timing=shape.timing,
        block=_BLOCK,
        budget=shape.budget,
        way_s=_WAY_S,
        capacity=shape.engines,
        batch=shape.batch,
        places=shape.engines * shape.batch,
    )


def hit_rate(requests: Sequence[Sample] | Sequence[BestCase]) -> float:
    return sum(each.cached for each in requests) / sum(each.prompt for each in requests)


def together(runs: Sequence[Outcome]) -> Outcome:
    return Outcome(
        [first_s for run in runs for first_s in run.firsts_s],
        statistics.fmean(run.tokens_per_s for run in runs),
        statistics.fmean(run.hit_rate for run in runs),
    )


def play(shape: Shape, contests: Sequence[tuple[str, float]], seeds: Sequence[int]) -> Iterator[list[Outcome]]:
    """For every seed, what each policy comes to with scrapes that often; the last is the bound."""
    for seed in seeds:
        asked = list(questions(Trial(shape, seed)))
        played = [
            outcome(shape, measure(Trial(shape, seed, scrape_s), POLICIES[policy], asked))
            for policy, scrape_s in contests
        ]
        yield [*played, bound(Trial(shape, seed), asked)]


def rows() -> list[dict[str, object]]:
    """Short prompts against round robin, long documents against the bound: figures of virtual time, no machine's."""
    short = msgspec.structs.replace(SHORT, seconds=60)
    long = msgspec.structs.replace(
        LONG, prefix_tokens=25_000, cache_tokens=200_000, answer_tokens=(250, 250), rate=5.0, seconds=60, skipped_s=20
    )
    ours, turns, _ = _outcomes(short, "ours", "round robin")
    held, best = _outcomes(long, "ours")
    first, hits = ours.first_s(9) / turns.first_s(9), held.hit_rate / best.hit_rate
    return [
        _row("routing.short.ttft_p90", first, 1.15, first <= 1.15, "round robin", turns.first_s(9) * 1e3, "ms"),  # noqa: PLR2004  the limit
        {
            **_row("routing.long.hit_rate", hits, 0.95, hits >= 0.95, "the bound", best.hit_rate, "of tokens"),  # noqa: PLR2004  the limit
            "better": "higher",
        },
    ]


def _outcomes(shape: Shape, *policies: str) -> list[Outcome]:
    (played,) = play(shape, _contests(policies, [_SCRAPE_S]), _SEEDS[:1])
    return played


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


def _line(policy: str, runs: Sequence[Outcome]) -> str:
    whole, alone = together(runs), sorted(run.first_s(9) * 1e3 for run in runs)
    output = "" if math.isinf(whole.tokens_per_s) else f"{whole.tokens_per_s:,.0f}"
    return (
        f"| {policy} | {whole.first_s(5) * 1e3:,.0f} ms | {whole.first_s(9) * 1e3:,.0f} ms "
        f"| {alone[0]:,.0f} to {alone[-1]:,.0f} ms | {statistics.fmean(whole.firsts_s) * 1e3:,.0f} ms "
        f"| {output} | {whole.hit_rate:.1%} |"
    )


def _contests(policies: Sequence[str], scrapes: Sequence[float]) -> list[tuple[str, float]]:
    """Only our picker scrapes servers."""
    return [
        (policy, scrape_s)
        for policy in policies
        for scrape_s in (scrapes if policy.startswith("ours") else scrapes[:1])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in _SHAPES])
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument(
        "--scrape", action="append", type=float, help="how often servers under load are scraped, in seconds"
    )
    parser.add_argument("--seeds", type=int, default=_USUAL_SEEDS, choices=range(1, len(_SEEDS) + 1))
    chosen = parser.parse_args()
    contests = _contests(chosen.policy or list(POLICIES), chosen.scrape or [_SCRAPE_S])
    for shape in _SHAPES:
        if chosen.shape and shape.name not in chosen.shape:
            continue
        print(f"\n{shape.says}; {shape.rate:g} requests a second; {chosen.seeds} seeds.\n", flush=True)
        print(_HEAD, flush=True)
        played = list(play(shape, contests, _SEEDS[: chosen.seeds]))
        for at, (policy, scrape_s) in enumerate(contests):
            scrapes = f", scrapes each {scrape_s:g} s" if chosen.scrape and policy.startswith("ours") else ""
            print(_line(f"{policy}{scrapes}", [outcomes[at] for outcomes in played]), flush=True)
        print(_line("bound", [outcomes[-1] for outcomes in played]), flush=True)


if __name__ == "__main__":
    main()
