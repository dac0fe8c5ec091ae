"""What the picker's memory and its flow control cost a request: CPU time, the best of several rounds.

The cost of the prefix index is given when it is nearly empty and when it is full, because it must not grow with age.
"""

import itertools
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from modelplane.epp.flowcontrol import BandSettings, FlowControl, FlowSettings
from modelplane.epp.flowcontrol.fairness import FairnessPolicy, RoundRobin, Strict, TokenFair
from modelplane.epp.flowcontrol.least_served import LeastServed
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.approximate import ApproximateIndex
from modelplane.epp.scheduling.producers.in_flight import InFlightProducer
from modelplane.epp.scheduling.producers.kv_events import BlockStored, KvEventBatch
from modelplane.epp.scheduling.producers.latency import LatencyProducer
from modelplane.epp.scheduling.producers.limits import PrefixLimits
from modelplane.epp.scheduling.producers.precise import PreciseIndex
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse

_ENDPOINTS = 100
_FLOWS = 5_000
_ROUNDS = 7
_LARGE_BYTES = 220_000
_SHORT_BYTES = 800
_US = 1e6
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    value: float
    unit: str
    limit: float
    ok: bool
    baseline: float | None = None


def rows() -> list[dict[str, object]]:
    found = (*_prefix(), *_precise(), _predictor(), _in_flight(), *_flow(), _abandoning())
    return [asdict(row) for row in found]


def _row(name: str, value: float, unit: str, limit: float, baseline: float | None = None) -> Row:
    return Row(name, round(value, 3), unit, limit, value <= limit, None if baseline is None else round(baseline, 3))


def _prefix() -> Iterator[Row]:
    pool = _pool()
    young, old, megabytes = _filled(pool, 1_000), *_full(pool)
    short = Request("r", "m", prompts=(b"s" * _SHORT_BYTES,))
    everywhere = Request("r", "m", prompts=(b"e" * _SHORT_BYTES,))
    old.record(everywhere, pool)
    yield _row("picker-prefix-short-cold", _best(lambda: old.match(short, pool), 500), "µs", 10.0)
    yield _row("picker-prefix-short-held-by-all", _best(lambda: old.match(everywhere, pool), 500), "µs", 20.0)
    # Both indexes are asked in turn, so that a busy moment of the machine falls on both.
    ages = [(_large(young, pool), _large(old, pool)) for _ in range(_ROUNDS)]
    fresh, aged = min(each[0] for each in ages), min(each[1] for each in ages)
    yield _row("picker-prefix-220KB-match-and-record", aged, "µs", 1_000.0, fresh)
    yield _row("picker-prefix-age-ratio", aged / fresh, "x of a nearly empty index", 2.5, 1.0)
    yield _row("picker-prefix-memory-full", megabytes, "MB", 80.0)


def _pool() -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000", metrics=EndpointMetrics(waiting=i % 5)) for i in range(_ENDPOINTS)
    )


def _filled(pool: tuple[Endpoint, ...], blocks: int) -> ApproximateIndex:
    """An index that prompts of 32 blocks were recorded in, until so many blocks were."""
    index = ApproximateIndex(PrefixLimits())
    chance = random.Random(7)  # noqa: S311  load for a measurement
    for number in range(blocks // 32):
        prompt = Request("r", "m", prompts=(chance.randbytes(32 * 256),))
        index.record(prompt, (pool[number % len(pool)],))
    return index


def _full(pool: tuple[Endpoint, ...]) -> tuple[ApproximateIndex, float]:
    """One at its limit of landmarks, having seen a million blocks, and its size."""
    tracemalloc.start()
    index = _filled(pool, 1_000_000)
    megabytes = tracemalloc.get_traced_memory()[0] / _MB
    tracemalloc.stop()
    return index, megabytes


def _large(index: ApproximateIndex, pool: tuple[Endpoint, ...]) -> float:
    """A large prompt that is new from its first block on: hashed, matched, recorded."""
    chance = random.Random()  # noqa: S311  as above
    prompts = iter([Request("r", "m", prompts=(chance.randbytes(_LARGE_BYTES),)) for _ in range(20)])

    def one() -> None:
        request = next(prompts)
        index.record(request, pool[:1], index.match(request, pool))

    return _best(one, 20, rounds=1)


def _precise() -> Iterator[Row]:
    pool = _pool()
    index = PreciseIndex()
    tokens = tuple(range(8_000))
    for endpoint in pool[:50]:
        index.apply(endpoint, KvEventBatch(0, (BlockStored(tuple(range(500)), None, tokens, 16),)))
    prompt = [tokens[:6_000]]
    short = [tokens[:200]]
    yield _row("picker-precise-200-tokens", _best(lambda: index.match(short, pool), 100), "µs", 100.0)
    yield _row("picker-precise-6000-tokens", _best(lambda: index.match(prompt, pool), 50), "µs", 1_000.0)


def _predictor() -> Row:
    pool = _pool()
    producer = LatencyProducer("latency")
    for number in range(20 * len(pool)):
        endpoint = pool[number % len(pool)]
        request = Request("r", prompts=(b"x" * (400 + number),))
        context, decision = _sent(request, pool, endpoint)
        producer.produce(context)
        producer.pre_request(context, decision)
        producer.response_complete(
            request, decision, EndpointResponse(endpoint, 200, 0.0, 0.1, 0.5, ResponseUsage(output_tokens=10))
        )
    context, _ = _sent(Request("r", prompts=(b"x" * 800,), ttft_goal_s=1.0), pool, pool[0])
    return _row("picker-latency-predict-100", _best(lambda: producer.produce(context), 50), "µs", 1_000.0)


def _in_flight() -> Row:
    pool = _pool()
    producer = InFlightProducer("load")

    def one() -> None:
        request = Request("r", prompts=(b"x" * 800,))
        context, decision = _sent(request, pool, pool[0])
        producer.pre_request(context, decision)
        producer.release(request)

    return _row("picker-in-flight-count-and-release", _best(one, 500), "µs", 20.0)


def _sent(request: Request, pool: tuple[Endpoint, ...], endpoint: Endpoint) -> tuple[SchedulingContext, Decision]:
    context = SchedulingContext(request, pool, 0.0, lambda: 0.0)
    return context, Decision(Outcome.PICKED, ((endpoint,),))


def _flow() -> Iterator[Row]:
    policies = (
        (Strict("strict"), 10.0),
        (RoundRobin("round-robin"), 10.0),
        (TokenFair("token-fair"), 10.0),
        (LeastServed("least-served"), 150.0),
    )
    for policy, limit in policies:
        flow, requests = _queued(policy)

        def one(flow: FlowControl = flow, requests: Iterator[Request] = requests) -> None:
            flow.enqueue(next(requests), 1.0)
            flow.dispatch(1.0, 0.5, _ENDPOINTS)

        yield _row(f"picker-flow-{policy.name}-{_FLOWS}-flows", _best(one, 5_000), "µs an offer and dispatch", limit)


def _abandoning() -> Row:
    """Clients that give up, with all flows waiting."""
    flow, requests = _queued(TokenFair("token-fair"))

    def one() -> None:
        flow.abandon(flow.enqueue(next(requests), 1.0), 1.0)

    return _row(f"picker-flow-abandon-{_FLOWS}-flows", _best(one, 5_000), "µs an offer and abandon", 20.0)


def _queued(policy: FairnessPolicy) -> tuple[FlowControl, Iterator[Request]]:
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, policy)))
    requests = [
        Request(str(number), "m", fairness_id=f"tenant-{number}", prompts=(b"x" * 800,), size=900)
        for number in range(_FLOWS)
    ]
    for request in requests:
        flow.enqueue(request, 0.0)
    return flow, itertools.cycle(requests)


def _best(call: Callable[[], object], times: int, rounds: int = _ROUNDS) -> float:
    """Microseconds of CPU a call."""
    found = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - started) / times * _US)
    return min(found)
