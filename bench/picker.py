"""What a pick costs, in processor time: the default profile with its prefix index, over 10, 100 and 1,000 endpoints.

Every request is another short prompt, so each is looked up and recorded. Between picks the loads of endpoints are
replaced as scraping would: one for every ten picks (5,000 picks and 500 scrapes a second), or one before each pick, the
worst case. `and_counted` rows add what a pick costs the next ones: it counts at its endpoint, as the server counts it,
until 200 later ones have, and every count changes what scorers expect of that endpoint. Figures are the least of
several rounds: a busy machine only ever adds to them. The baseline of each is the same decision by the framework's
plain steps, which make a value for every candidate and remember nothing.
"""

import gc
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from modelplane.framework import run
from modelplane.picker.config import load
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.requests import Request
from modelplane.picker.scheduler import Scheduler

ROUNDS, PICKS = 9, 600
LIMIT_US = 30.0
LIMIT_RATIO = 0.3
_IN_FLIGHT = 200
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
    return [
        _row("picker.pick.10", _pick_us(10, every=10), LIMIT_US, plain[10]),
        _row("picker.pick.100", _pick_us(100, every=10), LIMIT_US, plain[100]),
        _row("picker.pick.1000", _pick_us(1000, every=10), 300.0, plain[1000]),
        _ratio("picker.pick.100.and_counted", _pick_us(100, every=10, counted=True), plain[100]),
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


def _growth() -> dict[str, object]:
    """How much dearer a pick is when the prefix index is full of other prompts."""
    scheduler, endpoints = Scheduler(load("")), _endpoints(100)
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
        "limit": 1.5,
        "ok": ratio <= 1.5,  # noqa: PLR2004  the limit above
        "baseline": baseline,
    }


def _pick_us(count: int, *, every: int, config: str = "", prompts: int = 0, counted: bool = False) -> float:
    scheduler, endpoints = Scheduler(load(config)), _endpoints(count)
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
            endpoints[at % count].load = loads[at]
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


def _plain_us(count: int) -> float:
    scheduler, endpoints = Scheduler(load("")), _endpoints(count)
    profile = scheduler.assembly.profiles["default"]

    def one_round() -> float:
        requests = _requests(PICKS // 3)
        started = time.process_time()
        for request in requests:
            cycle = Cycle(request, endpoints, 0.0, _CHANCE.random)
            for producer in scheduler.assembly.producers:
                producer.produce(cycle)
            run(profile, cycle, endpoints)
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
            load=_load(),
        )
        for at in range(count)
    )


def _load() -> Load:
    return Load(float(_CHANCE.randrange(10)), float(_CHANCE.randrange(20)), _CHANCE.random(), seen_s=0.0)


def _requests(count: int, words: int = 2) -> list[Request]:
    headers = {":path": "/v1/chat/completions", "content-type": "application/json", "x-request-id": "1"}
    return [
        Request("r", "qwen3-8b", prompts=(b"%d %s" % (next(_NUMBERS), _WORDS * words),), headers=headers)
        for _ in range(count)
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
