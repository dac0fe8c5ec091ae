"""The workloads of `compare.py` in virtual time: which profile routes best, over many seeds, the same on every machine.

Four simulated engines share one H200 as the real ones do: a step takes what the host needs, or the GPU's time, longer
by what the other engines compute meanwhile. Prompts and arrivals are those of `compare.py` by the same seeds; a letter
is a token. The headers of a stream come at once, as vLLM sends them. `go` is our picker with the ecosystem's scorers as
they were last scraped, which is what the Go picker knows; its own program is not in it. `bound` is what no policy can
beat (`load/bound.py`). Engines that share a GPU do more than one alone: a step is made longer by the steps in which the
others are when it begins, and by none that begin later. Of four, in the order in which their steps began, the first has
at most the whole, the next a half, a third and a quarter.

`foresight` knows what really comes next. For every request it plays each choice until a horizon, in a copy of this
process with the same engines and the same later requests, which follow the default there, and takes the choice with the
least sum of squares of the times to the first token. It is no bound, since its own later choices are not played; what
it does not reach, a policy that learns of requests when they come will hardly. A minute a seed, so only by name.

    python -m gpu.virtual [--workload NAME]… [--share 0.9]… [--seeds 10] [--policy NAME]… [--config FILE]…  # in bench/
"""

import argparse
import itertools
import json
import os
import statistics
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from load.bound import BestCase, PoolLimits, best_cases, best_firsts_s
from load.pickers import CONFIG
from load.shapes import Shape
from load.virtual import VirtualTime
from picker_routing import Ours, Pool, Question, Sample, Trial, hit_rate

from gpu.engines import BLOCKS
from gpu.workloads import WORKLOADS, Workload, bodies
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.sim.engine import LLAMA_8B_H200, Timing
from modelplane.sim.engine.sequence import Sequence as Prompt

T = TypeVar("T")
_HOST_MS: Final = 18.0
"""Of a step without CUDA graphs, beside which the GPU computes."""
_ADDED_MS: Final = 5.0
_WAY_S: Final = 0.012
_SECONDS: Final = 16.0
_SKIPPED: Final = 0.3
_SEEDS: Final = (7, 8, 1, 2, 3, 4, 5, 6, 9, 10)
_GO_SCRAPES_S: Final = 0.05
_COST: Final = struct.Struct("d")
_BLOCK: Final = 16
_HEAD: Final = """\
| policy | TTFT p50, ms | TTFT p90, ms | of the first | of single seeds | prefix hits |
|---|---|---|---|---|---|"""
_HOT: Final = Workload(
    name="hot",
    says="60 % of the prompts have the same prefix of 4,000 tokens; questions of 300, answers of 16 to 120",
    prefixes=1,
    prefix_tokens=4_000,
    cold=0.4,
    question_tokens=300,
    answer_tokens=(16, 120),
)
_WORKLOADS: Final = {**WORKLOADS, "hot": _HOT}
_CAPACITY: Final = {"groups": 34.3, "long": 25.0, "mix": 38.7, "short": 56.6, "hot": 44.0}
"""Requests a second: measured on the GPU, but for the last, which is the simulated engines' own."""


class Policy(msgspec.Struct, frozen=True):
    config: str
    blind: bool = False
    scrape_s: float = Trial.__struct_defaults__[1]
    horizon_s: float = 0.0
    """Where it knows what comes next."""


_DEFAULT: Final = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
POLICIES: Final = {
    "go": Policy(CONFIG, blind=True, scrape_s=_GO_SCRAPES_S),
    "ecosystem": Policy(CONFIG),
    "default": Policy(_DEFAULT),
    "foresight": Policy(_DEFAULT, horizon_s=1.0),
}
USUAL: Final = ("go", "ecosystem", "default")


@dataclass
class SharedGpu:
    clock: VirtualTime
    steps: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Of each engine: when its step ends, and the share of it in which it uses the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTiming(Timing):
    gpu: SharedGpu
    at: int

    def step_ms(self, *, tokens: int, pairs: int = 0, kv_tokens: int = 0) -> float:
        now_s, steps = self.gpu.clock.now(), self.gpu.steps
        others = sum(share for at, (end_s, share) in steps.items() if at != self.at and end_s > now_s)
        computing = Timing.step_ms(self, tokens=tokens, pairs=pairs, kv_tokens=kv_tokens) * (1.0 + others)
        took = max(_HOST_MS, computing) + _ADDED_MS
        steps[self.at] = (now_s + took / 1e3, computing / took)
        return took


class SharedPool(Pool):
    def __init__(self, shape: Shape, clock: VirtualTime) -> None:
        self._gpu = SharedGpu(clock)
        super().__init__(shape, clock)

    def timing(self, shape: Shape, at: int) -> Timing:
        timing = shape.timing
        parts = {name: getattr(timing, name) for name in Timing.__dataclass_fields__}
        return SharedTiming(**parts, gpu=self._gpu, at=at)


def shape_of(workload: Workload, rate: float) -> Shape:
    return Shape(
        name=workload.name,
        says=workload.says,
        engines=4,
        timing=LLAMA_8B_H200,
        cache_tokens=BLOCKS * _BLOCK,
        batch=64,
        prefixes=workload.prefixes,
        prefix_tokens=workload.prefix_tokens,
        question_tokens=workload.question_tokens,
        answer_tokens=workload.answer_tokens,
        rate=rate,
        seconds=_SECONDS,
        skipped_s=0.0,
    )


def questions(workload: Workload, trial: Trial) -> Iterator[Question]:
    arrivals, at_s = trial.chance(), 0.0
    for body in bodies(workload, trial.seed):
        if at_s >= trial.shape.seconds:
            return
        asked = json.loads(body)
        text = "".join(f"{message['role'][0]}{message['content']}" for message in asked["messages"]).encode()
        yield Question(at_s, text, text, asked["max_tokens"])
        at_s += arrivals.expovariate(trial.shape.rate)


class Play:
    """One policy, one seed."""

    def __init__(self, trial: Trial, policy: Policy) -> None:
        self._clock = VirtualTime()
        self._pool = SharedPool(trial.shape, self._clock)
        self._picker = Ours(trial, self._pool, self._clock, policy.config, blind=policy.blind)
        self._sent: list[tuple[Prompt, Sample]] = []
        self._left = 0

    def run(self, asked: Iterable[Question]) -> list[Sample]:
        for question in asked:
            self._left += 1
            self._clock.call_at(question.at_s, lambda question=question: self._send(question))  # type: ignore[misc]
        self._clock.run(lambda: not self._left)
        return [sample for _, sample in self._sent]

    def _send(self, question: Question) -> None:
        sample = Sample(self._clock.now())
        prompt = question.prompt(lambda: self._end(prompt, sample))
        self._sent.append((prompt, sample))
        self._leave(self._choose(question, prompt), prompt)

    def _choose(self, question: Question, prompt: Prompt) -> int:
        return self._picker.choose(question, prompt)

    def _leave(self, at: int, prompt: Prompt) -> None:
        self._clock.call_at(self._clock.now() + _WAY_S, lambda: self._arrive(at, prompt))

    def _arrive(self, at: int, prompt: Prompt) -> None:
        self._pool.batches[at].submit(prompt)
        self._picker.began(prompt)

    def _end(self, prompt: Prompt, sample: Sample) -> None:
        self._left -= 1
        self._picker.ended(prompt)
        sample.first_s, sample.ended_s = prompt.first_token or 0.0, self._clock.now()
        sample.prompt, sample.cached = len(prompt.prompt), prompt.cached


class Foresight(Play):
    """Plays each choice against what really comes next."""

    def __init__(self, trial: Trial, policy: Policy) -> None:
        super().__init__(trial, policy)
        self._horizon_s = policy.horizon_s
        self._is_copy = False

    def _choose(self, question: Question, prompt: Prompt) -> int:
        if self._is_copy:
            return super()._choose(question, prompt)
        costs = [self._cost(question, prompt, endpoint) for endpoint in self._picker.endpoints]
        return self._send_to(question, prompt, self._picker.endpoints[costs.index(min(costs))])

    def _send_to(self, question: Question, prompt: Prompt, endpoint: Endpoint) -> int:
        return self._picker.send(question, prompt, (endpoint,))

    def _cost(self, question: Question, prompt: Prompt, endpoint: Endpoint) -> float:
        """What a copy of this process says."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writer, _COST.pack(self._played(question, prompt, endpoint)))
            finally:
                os._exit(0)
        os.close(writer)
        (cost,) = _COST.unpack(os.read(reader, _COST.size))
        os.close(reader)
        os.waitpid(child, 0)
        return float(cost)

    def _played(self, question: Question, prompt: Prompt, endpoint: Endpoint) -> float:
        """Of all that wait, and of all that come until the horizon: each has its first token, or another horizon."""
        self._is_copy = True
        now_s, clock = self._clock.now(), self._clock
        end_s = now_s + self._horizon_s
        self._leave(self._send_to(question, prompt, endpoint), prompt)
        clock.run(lambda: clock.now() >= end_s)
        counted = [
            (sample.at_s, prompt)
            for prompt, sample in self._sent
            if sample.at_s <= end_s and (prompt.first_token is None or prompt.first_token >= now_s)
        ]
        waiting = [prompt for _, prompt in counted]
        last_s = end_s + self._horizon_s
        clock.run(lambda: clock.now() >= last_s or all(prompt.first_token is not None for prompt in waiting))
        return sum(((prompt.first_token or clock.now()) - at_s) ** 2 for at_s, prompt in counted)


def play(trial: Trial, policy: Policy, asked: Iterable[Question]) -> list[Sample]:
    return (Foresight if policy.horizon_s else Play)(trial, policy).run(asked)


def firsts_ms(samples: Sequence[Sample]) -> list[float]:
    return [(sample.first_s - sample.at_s) * 1e3 for sample in _counted(samples)]


def pool_limits(shape: Shape) -> PoolLimits:
    return PoolLimits(
        timing=shape.timing,
        block=_BLOCK,
        budget=shape.budget,
        way_s=_WAY_S,
        capacity=sum(1 / place for place in range(1, shape.engines + 1)),
        batch=shape.batch,
        places=shape.engines * shape.batch,
        host_ms=_HOST_MS,
        added_ms=_ADDED_MS,
    )


def bound(shape: Shape, asked: Iterable[Question]) -> list[BestCase]:
    return list(best_cases(((question.at_s, question.prompt()) for question in asked), pool_limits(shape)))


def best_firsts_ms(shape: Shape, best: Sequence[BestCase]) -> list[float]:
    return [first_s * 1e3 for first_s in best_firsts_s(_counted(best), pool_limits(shape))]


def _counted(requests: Sequence[T]) -> Sequence[T]:
    return requests[int(len(requests) * _SKIPPED) :]


def _table(workload: Workload, share: float, policies: dict[str, Policy], seeds: Sequence[int]) -> None:
    rate = _CAPACITY[workload.name] * share
    print(f"\n{workload.says}; {share:g} of capacity, {rate:.1f} requests a second, {len(seeds)} seeds\n")
    print(_HEAD)
    shape = shape_of(workload, rate)
    asked = {seed: list(questions(workload, Trial(shape, seed))) for seed in seeds}
    first: list[list[float]] = []
    for name, policy in policies.items():
        runs = [play(Trial(shape, seed, policy.scrape_s), policy, asked[seed]) for seed in seeds]
        times = [firsts_ms(run) for run in runs]
        first = first or times
        print(f"| {name} | {_line(times, first)} | {hit_rate([*itertools.chain(*runs)]):.0%} |", flush=True)
    bounds = [bound(shape, asked[seed]) for seed in seeds]
    times = [best_firsts_ms(shape, best) for best in bounds]
    print(f"| bound | {_line(times, first or times)} | {hit_rate([*itertools.chain(*bounds)]):.0%} |", flush=True)


def _line(times: list[list[float]], first: list[list[float]]) -> str:
    whole, others = (statistics.quantiles(itertools.chain(*each), n=10) for each in (times, first))
    alone = [_p90(own) / _p90(other) for own, other in zip(times, first, strict=True)]
    single = f"{min(alone):.2f} to {max(alone):.2f}"
    return f"{whole[4]:,.0f} | {whole[8]:,.0f} | {whole[8] / others[8]:.2f} | {single}"


def _p90(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[8]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=list(_WORKLOADS))
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument("--config", action="append", type=Path, help="a file: our picker with this configuration")
    parser.add_argument("--share", action="append", type=float)
    parser.add_argument("--seeds", type=int, default=len(_SEEDS), choices=range(1, len(_SEEDS) + 1))
    chosen = parser.parse_args()
    policies = {name: POLICIES[name] for name in chosen.policy or USUAL}
    policies |= {file.stem: Policy(file.read_text()) for file in chosen.config or ()}
    for name, share in itertools.product(chosen.workload or _WORKLOADS, chosen.share or (0.5, 0.9, 1.2)):
        _table(_WORKLOADS[name], share, policies, _SEEDS[: chosen.seeds])


if __name__ == "__main__":
    main()
