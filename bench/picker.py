"""What a pick costs, in processor time: the default profile with its prefix index, over 10, 100 and 1,000 endpoints.

Every request is another short prompt, so each is looked up and recorded. Between picks the metrics of endpoints are
replaced as scraping would: one for every ten picks (5,000 picks and 500 scrapes a second), or one before each pick, the
worst case. `and_counted` rows add what a pick costs the next ones: it counts at its endpoint, as the server counts it,
until 200 later ones have, and every count changes what scorers expect of that endpoint; with 1,000 endpoints that must
cost as much as with 100. `decide` rows are all that is decided of a request in the server: its body is read, it is
picked for, counted and told to the metrics, when it came, when its response began and when it ended.

Figures are the least of many short rounds: a busy machine only ever adds to them. The baseline of a pick is the same
decision by the framework's plain steps, which make a value for every candidate and remember nothing.
"""

import gc
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.director import Director
from modelplane.epp.server.observe import PickerMetrics, PickObserver
from modelplane.epp.server.routing_result import RoutingResult
from modelplane.epp.server.steps import PickRequest
from tests.support.simple_runner import run

ROUNDS, PICKS = 30, 200
LIMIT_US = 30.0
LIMIT_DECIDE_US = 75.0
LIMIT_GROWTH = 1.5
LIMIT_RATIO = 0.3
_IN_FLIGHT = 200
_COMPUTED, _SENT = 20, 60
_CHANCE = random.Random(20)  # noqa: S311  figures, not secrets
_NUMBERS = itertools.count()
_WORDS = b"Why does decode wait for memory and prefill for compute, and what does a batch change about it? "

DISAGGREGATED = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
- type: always-disagg-pd-decider
- type: decode-filter
- type: prefill-filter
- type: prefix-cache-scorer
- type: queue-scorer
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer}, {pluginRef: queue-scorer}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer}, {pluginRef: queue-scorer}]}
"""


def rows() -> list[dict[str, object]]:
    plain = {count: _plain_us(count) for count in (10, 100, 1000)}
    counted = {count: _pick_us(count, every=10, counted=True) for count in (100, 1000)}
    return [
        _row("picker.pick.10", _pick_us(10, every=10), LIMIT_US, plain[10]),
        _row("picker.pick.100", _pick_us(100, every=10), LIMIT_US, plain[100]),
        _row("picker.pick.1000", _pick_us(1000, every=10), LIMIT_US, plain[1000]),
        _row("picker.pick.100.and_counted", counted[100], LIMIT_US, plain[100]),
        _by_size(counted[1000], counted[100]),
        _decide("picker.decide.10", _decide_us(10), _pick_us(10, every=10, counted=True)),
        _ratio("picker.pick.100.after_each_scrape", _pick_us(100, every=1), plain[100]),
        _ratio("picker.pick.100.prompt_is_cached", _pick_us(100, every=10, prompts=50), plain[100]),
        _ratio("picker.pick.100.prefill_and_decode", _pick_us(100, every=10, config=DISAGGREGATED), plain[100]),
        _growth(),
    ]


def _row(name: str, value: float, limit: float, plain_us: float) -> dict[str, object]:
    baseline = {"what": "one profile by the framework's plain steps", "value": round(plain_us, 2), "unit": "µs"}
    ok = value <= limit
    return {"id": name, "value": round(value, 2), "unit": "µs", "limit": limit, "ok": ok, "baseline": baseline}


def _ratio(name: str, value_us: float, plain_us: float) -> dict[str, object]:
    ratio = value_us / plain_us
    baseline = {"what": "one profile by the framework's plain steps", "value": round(plain_us, 2), "unit": "µs"}
    unit = f"of the baseline ({value_us:.0f} µs)"
    ok = ratio <= LIMIT_RATIO
    return {"id": name, "value": round(ratio, 3), "unit": unit, "limit": LIMIT_RATIO, "ok": ok, "baseline": baseline}


def _by_size(value_us: float, fewer_us: float) -> dict[str, object]:
    """How much dearer a pick that counts is among ten times as many endpoints."""
    ratio = value_us / fewer_us
    baseline = {"what": "with 100 endpoints", "value": round(fewer_us, 2), "unit": "µs"}
    unit = f"of the baseline ({value_us:.0f} µs)"
    ok = ratio <= LIMIT_GROWTH
    row_id = "picker.pick.1000.and_counted"
    return {"id": row_id, "value": round(ratio, 3), "unit": unit, "limit": LIMIT_GROWTH, "ok": ok, "baseline": baseline}


def _decide(name: str, value: float, pick_us: float) -> dict[str, object]:
    baseline = {"what": "the pick in it, for a shorter prompt", "value": round(pick_us, 2), "unit": "µs"}
    ok = value <= LIMIT_DECIDE_US
    value = round(value, 2)
    return {"id": name, "value": value, "unit": "µs", "limit": LIMIT_DECIDE_US, "ok": ok, "baseline": baseline}


def _growth() -> dict[str, object]:
    """How much dearer a pick is when the prefix index is full of other prompts."""
    scheduler, endpoints = Scheduler(load("").build()), _endpoints(100)
    fresh = _least_us(lambda: _picks(scheduler, endpoints, 10, _requests(PICKS)))
    for request in _requests(60_000, words=4):
        scheduler.schedule(request, endpoints, 0.0, _CHANCE.random)
    full = _least_us(lambda: _picks(scheduler, endpoints, 10, _requests(PICKS)))
    ratio = full / fresh
    baseline: Mapping[str, object] = {"what": "with an empty index", "value": round(fresh, 2), "unit": "µs"}
    return {
        "id": "picker.pick.100.growth",
        "value": round(ratio, 2),
        "unit": "ratio after 60,000 prompts",
        "limit": LIMIT_GROWTH,
        "ok": ratio <= LIMIT_GROWTH,
        "baseline": baseline,
    }


def _pick_us(count: int, *, every: int, config: str = "", prompts: int = 0, counted: bool = False) -> float:
    scheduler, endpoints = Scheduler(load(config).build()), _endpoints(count)
    repeated = _requests(prompts, words=40)

    def one_round() -> float:
        requests = [repeated[at % prompts] for at in range(PICKS)] if prompts else _requests(PICKS)
        return _picks(scheduler, endpoints, every, requests, counted=counted)

    return _least_us(one_round)


def _picks(
    scheduler: Scheduler,
    endpoints: Sequence[Endpoint],
    every: int,
    requests: Sequence[Request],
    *,
    counted: bool = False,
) -> float:
    loads = [_load() for _ in requests]
    count = len(endpoints)
    sent: deque[Endpoint] = deque()
    started = time.process_time()
    for at, request in enumerate(requests):
        if at % every == 0:
            endpoints[at % count].metrics = loads[at]
        picked = scheduler.schedule(request, endpoints, 0.0, _CHANCE.random).picked
        if counted:
            picked.requests_in_flight += 1
            sent.append(picked)
            if len(sent) > _IN_FLIGHT:
                sent.popleft().requests_in_flight -= 1
    spent_s = time.process_time() - started
    for endpoint in sent:
        endpoint.requests_in_flight -= 1
    return spent_s / len(requests) * 1e6


class _NobodyWaits:
    def answer(self, verdict: RoutingResult) -> None: ...

    def evict(self) -> None: ...


def _decide_us(count: int) -> float:
    """Prompts of 200 words, 20 of them computed at a time and 60 in flight."""
    endpoints = _endpoints(count)
    source, scheduler = StaticEndpoints(endpoints), Scheduler(load("").build())
    director = Director(source, scheduler, clock=time.monotonic, chance=_CHANCE.random)
    director.observer = PickObserver(PickerMetrics())
    asker = _NobodyWaits()

    def one_round() -> float:
        asks = [_ask() for _ in range(PICKS)]
        sent: list[RoutingResult] = []
        started = time.process_time()
        for at, ask in enumerate(asks):
            verdict = director.decide(ask, asker)
            if verdict is None:
                continue
            sent.append(verdict)
            if at >= _COMPUTED:
                director.response_received(sent[at - _COMPUTED])
            if at >= _SENT:
                _end(director, sent[at - _SENT])
        spent_s = time.process_time() - started
        for verdict in sent[-_SENT:]:
            _end(director, verdict)
        return spent_s / len(asks) * 1e6

    return _least_us(one_round)


def _end(director: Director, verdict: RoutingResult) -> None:
    director.ended(verdict, EndpointResponse(verdict.decision.picked, 200, 1.0, 1.1, 1.5))


def _ask() -> PickRequest:
    number = next(_NUMBERS)
    text = " ".join(_CHANCE.choices(_WORDS.decode().split(), k=200))
    turn = {"role": "user", "content": f"{number} {text}"}
    body = msgspec.json.encode({"model": "qwen3-8b", "messages": [turn], "max_tokens": 100, "stream": True})
    headers = {
        ":method": "POST",
        ":path": "/v1/chat/completions",
        ":authority": "pool.example",
        "content-type": "application/json",
        "x-request-id": str(number),
        "user-agent": "bench",
    }
    return PickRequest(headers, body, whole=True, subset=None)


def _plain_us(count: int) -> float:
    scheduler, endpoints = Scheduler(load("").build()), _endpoints(count)
    profile = scheduler.assembly.profiles["default"]

    def one_round() -> float:
        requests = _requests(PICKS // 8)
        started = time.process_time()
        for request in requests:
            context = SchedulingContext(request, endpoints, 0.0, _CHANCE.random)
            for producer in scheduler.assembly.producers:
                producer.produce(context)
            run(profile, context, endpoints)
        return (time.process_time() - started) / len(requests) * 1e6

    return _least_us(one_round)


def _least_us(one_round: Callable[[], float]) -> float:
    gc.collect()
    gc.freeze()
    return min(one_round() for _ in range(ROUNDS))


def _endpoints(count: int) -> tuple[Endpoint, ...]:
    roles = ("decode", "prefill")
    return tuple(
        Endpoint(
            f"pool/server-{at:04}",
            f"10.0.{at // 250}.{at % 250}:8000",
            {"llm-d.ai/role": roles[at % 2]},
            metrics=_load(),
        )
        for at in range(count)
    )


def _load() -> EndpointMetrics:
    return EndpointMetrics(float(_CHANCE.randrange(10)), float(_CHANCE.randrange(20)), _CHANCE.random(), scraped_s=0.0)


def _requests(count: int, words: int = 2) -> list[Request]:
    headers = {":path": "/v1/chat/completions", "content-type": "application/json", "x-request-id": "1"}
    return [
        Request("r", "qwen3-8b", prompts=(b"%d %s" % (next(_NUMBERS), _WORDS * words),), headers=headers)
        for _ in range(count)
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
