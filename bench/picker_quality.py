"""Where requests go, and what that is worth: our picker, Envoy's own policies, the Go picker, and a greedy router.

Simulated engines run in real time in this process, with fresh caches for every policy; a real Envoy stands before them,
with the same prompts and arrivals for each. The greedy router (`load/greedy.py`) reads the engines' own objects in the
moment in which a request leaves. `load/bound.py` is of virtual time: engines here catch up with a clock that was late,
so that a step can begin before a request of it arrived, and Envoy does not keep the order of requests. Two cores cannot
play the published shapes in real time, so answers, documents and caches are shorter here; `picker_routing.py` has them
whole, in virtual time and without Envoy and the Go picker.

    python bench/picker_quality.py [--shape NAME] [--policy NAME]…       prints a table for each shape
"""

import argparse
import asyncio
import contextlib
import random
import re
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.client import Sample, open_loop, post
from load.front import Way, addresses, front
from load.greedy import GreedyRouter
from load.pickers import CONFIG, COUNTING, Which, find_go_picker, picker
from load.prompts import chat, words
from load.shapes import GROUPS, LONG, SHORT, Shape

from modelplane.sim.engine import EngineConfig, SimulatedEngine
from modelplane.sim.engine.requests import read_chat
from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Sequence as Prompt
from modelplane.sim.engine.sequence import SequenceParams

_MODEL: Final = "demo"
_SEED: Final = 23
_COUNTS: Final = re.compile(rb'"(prompt_tokens|completion_tokens|cached_tokens)":\s?(\d+)')
SHAPES: Final = (
    msgspec.structs.replace(
        GROUPS,
        says="150 groups with a prefix of 6,000 tokens each, questions of 1,200, answers of 100 (published: 1,000); "
        "8 engines, Qwen3 32B on two H100 each",
        answer_tokens=(100, 100),
        rate=20,
        seconds=35,
        skipped_s=12,
    ),
    msgspec.structs.replace(SHORT, seconds=20, skipped_s=6),
    msgspec.structs.replace(
        LONG,
        says="24 documents of 25,000 tokens, answers of 250: a quarter of 100k/1k, with a quarter of the cache; "
        "4 engines, 8B on one H200 each",
        cache_tokens=200_000,
        prefix_tokens=25_000,
        answer_tokens=(250, 250),
        rate=5,
        seconds=28,
        skipped_s=10,
    ),
)


class Policy(Enum):
    ROUND_ROBIN = "round robin"
    LEAST_REQUEST = "least request"
    OURS = "ours"
    OURS_COUNTING = "ours, counting"
    GO = "Go picker"
    GREEDY = "greedy"


class Question(msgspec.Struct, frozen=True):
    body: bytes
    prompt: Prompt
    """As the engines see it, for who looks into their caches."""


class Outcome(msgspec.Struct, frozen=True):
    requests: int
    ttft_p50_s: float
    ttft_p90_s: float
    tokens_per_s: float
    hit_rate: float


def _scheduler(engine: SimulatedEngine) -> BatchScheduler:
    return engine._service.core._scheduler  # noqa: SLF001  the greedy router sees inside


def questions(shape: Shape) -> list[Question]:
    """Every request of a run, by the seed."""
    chance = random.Random(_SEED)  # noqa: S311  not a secret
    prefixes = [words(chance, shape.prefix_tokens) for _ in range(shape.prefixes)]
    config = _config(shape, 0)
    made = []
    for number in range(int(shape.rate * shape.seconds * 1.5)):
        prefix = chance.choice(prefixes) if prefixes else f"{number} is the number."
        question = f"{number} {words(chance, shape.question_tokens)}"
        body = chat(_MODEL, prefix, question, chance.randint(*shape.answer_tokens), stream=True)
        ids = read_chat(body, config).choices[0].prompt
        made.append(Question(body, Prompt(SequenceParams(key="", prompt=ids, answer=(), reason=""), lambda: None)))
    return made


def _config(shape: Shape, number: int) -> EngineConfig:
    return EngineConfig(
        cluster="bench",
        namespace="bench",
        pod=f"engine-{number}",
        models=(_MODEL,),
        timing=shape.timing,
        kv_capacity_tokens=shape.cache_tokens,
        max_num_seqs=shape.batch,
        max_loras=4,
    )


@contextlib.asynccontextmanager
async def _engines(shape: Shape) -> AsyncIterator[tuple[list[SimulatedEngine], tuple[str, ...]]]:
    at = addresses(shape.engines)
    made = [SimulatedEngine(_config(shape, number)) for number in range(shape.engines)]
    for engine, address in zip(made, at, strict=True):
        host, port = address.split(":")
        await engine.start(host, int(port))
    try:
        yield made, at
    finally:
        for engine in made:
            await engine.stop(grace_s=0.1)


_WAYS: Final = {
    Policy.ROUND_ROBIN: Way.ROUND_ROBIN,
    Policy.LEAST_REQUEST: Way.LEAST_REQUEST,
    Policy.OURS: Way.REQUESTS,
    Policy.OURS_COUNTING: Way.REQUESTS,
    Policy.GO: Way.BOTH_WAYS,
    Policy.GREEDY: Way.CLIENT,
}
_PICKERS: Final = {Policy.OURS: Which.OWN, Policy.OURS_COUNTING: Which.OWN, Policy.GO: Which.GO}


async def measure(shape: Shape, policy: Policy, asked: Sequence[Question]) -> Outcome:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines, at = await stack.enter_async_context(_engines(shape))
        port, config = 0, COUNTING if policy is Policy.OURS_COUNTING else CONFIG
        if policy in _PICKERS:
            port, _ = await stack.enter_async_context(picker(_PICKERS[policy], folder, at, config))
            await asyncio.sleep(2)
        proxy = await stack.enter_async_context(front(folder, _WAYS[policy], at, port))
        seen = [_scheduler(engine) for engine in engines]
        router = GreedyRouter(seen, shape.timing) if policy is Policy.GREEDY else None
        samples = await open_loop(
            proxy.port, _sent(asked, at, router), rate=shape.rate, seconds=shape.seconds, seed=_SEED, patience_s=300
        )
    return _outcome(shape, samples)


def _sent(asked: Sequence[Question], at: Sequence[str], router: GreedyRouter | None) -> Iterator[bytes]:
    for question in asked:
        yield post(question.body, destination=at[router.choose(question.prompt)] if router else "")


def _outcome(shape: Shape, samples: Sequence[Sample]) -> Outcome:
    # Numbers are in the order of leaving, and the arrivals are the same for all.
    counted = [sample for sample in samples if sample.number >= shape.rate * shape.skipped_s]
    usage = [{name.decode(): int(count) for name, count in _COUNTS.findall(each.answer)} for each in counted]
    firsts = statistics.quantiles([sample.first_s for sample in counted], n=10)
    # As long as it took to answer those that left in the rest of the time: what cannot be kept up with takes longer.
    seconds = shape.seconds - shape.skipped_s + max(each.total_s for each in counted)
    return Outcome(
        requests=len(counted),
        ttft_p50_s=firsts[4],
        ttft_p90_s=firsts[8],
        tokens_per_s=sum(each["completion_tokens"] for each in usage) / seconds,
        hit_rate=sum(each["cached_tokens"] for each in usage) / sum(each["prompt_tokens"] for each in usage),
    )


async def _table(shape: Shape, policies: Sequence[Policy]) -> None:
    print(f"\n{shape.says}; {shape.rate:g} requests a second.\n", flush=True)
    print("| policy | TTFT p50 | TTFT p90 | output tokens/s | prefix hit rate |\n|---|---|---|---|---|", flush=True)
    asked = questions(shape)
    for policy in policies:
        found = await measure(shape, policy, asked)
        print(
            f"| {policy.value} | {found.ttft_p50_s * 1e3:,.0f} ms | {found.ttft_p90_s * 1e3:,.0f} ms "
            f"| {found.tokens_per_s:,.0f} | {found.hit_rate:.0%} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in SHAPES])
    parser.add_argument("--policy", action="append", type=Policy)
    chosen = parser.parse_args()
    usual = [policy for policy in Policy if policy is not Policy.GO or find_go_picker()]
    for shape in SHAPES:
        if not chosen.shape or shape.name in chosen.shape:
            asyncio.run(_table(shape, chosen.policy or usual))


if __name__ == "__main__":
    main()
