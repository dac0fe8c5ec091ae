"""What is remembered, at work in whole decisions: configuration in, requests one after the other, endpoints out."""

from collections import Counter
from itertools import count

import pytest

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.producers.precise_producer import PrecisePrefixProducer
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


class Pool:
    """A scheduler and four endpoints. Chance goes round, time goes on by a tenth of a second."""

    def __init__(self, text: str) -> None:
        self.scheduler = Scheduler(load(HEAD + text).build())
        self.endpoints = tuple(
            Endpoint(f"ns/pod-{number}", f"10.0.0.{number}:8000", metrics=EndpointMetrics(scraped_s=0.0))
            for number in range(4)
        )
        self.scheduler.endpoints_changed(self.endpoints)
        self.sent: list[tuple[Request, object]] = []
        self._ticks = count()

    def send(self, prompt: bytes = b"hello", **fields) -> str:
        tick = next(self._ticks)
        request = Request(str(tick), "m", prompts=(prompt,), **fields)
        decision = self.scheduler.schedule(request, self.endpoints, tick / 10, lambda: (tick * 0.37) % 1.0)
        self.sent.append((request, decision))
        return decision.picked.name

    def end(self, place: int, **told) -> None:
        request, decision = self.sent[place]
        served = EndpointResponse(
            **{"endpoint": decision.picked, "status": 200, "started_s": 0.0, "ended_s": 1.0, **told}
        )
        self.scheduler.response_complete(request, decision, served)

    def lose(self, name: str) -> None:
        self.endpoints = tuple(endpoint for endpoint in self.endpoints if endpoint.name != name)
        self.scheduler.endpoints_changed(self.endpoints)

    @property
    def in_flight(self) -> list[int]:
        return [endpoint.requests_in_flight for endpoint in self.endpoints]


def plugins(*names: str) -> str:
    return "plugins:\n" + "".join(f"- type: {name}\n" for name in names)


def prompt(group: int, turn: int = 0) -> bytes:
    return b"%d group " % group * 200 + b"turn " * turn * 60


def test_prompts_with_one_beginning_stay_together():
    pool = Pool(plugins("prefix-cache-scorer"))
    homes = {group: {pool.send(prompt(group, turn)) for turn in range(6)} for group in range(8)}
    assert all(len(found) == 1 for found in homes.values())


def test_when_their_endpoint_goes_they_move_together():
    pool = Pool(plugins("prefix-cache-scorer"))
    home = pool.send(prompt(1))
    pool.lose(home)
    later = {pool.send(prompt(1, turn)) for turn in range(1, 5)}
    assert (len(later), home in later) == (1, False)


def test_new_prompts_are_spread_and_known_ones_are_not():
    pool = Pool(
        """
plugins:
- type: prefix-cache-scorer
- type: no-hit-lru-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-scorer
    weight: 2
  - pluginRef: no-hit-lru-scorer
"""
    )
    homes = {group: pool.send(prompt(group)) for group in range(40)}
    assert set(Counter(homes.values()).values()) == {10}
    assert {group: pool.send(prompt(group, 1)) for group in homes} == homes


def test_requests_in_flight_even_out_and_come_back_to_nothing():
    pool = Pool(plugins("active-request-scorer"))
    for _ in range(40):
        pool.send()
    assert pool.in_flight == [10, 10, 10, 10]
    for place in (*range(40), *range(40)):
        pool.end(place)
    assert (pool.in_flight, [endpoint.tokens_in_flight for endpoint in pool.endpoints]) == ([0] * 4, [0] * 4)


def test_tokens_in_flight_even_out_where_requests_differ():
    pool = Pool(plugins("token-load-scorer"))
    for number in range(400):
        pool.send(b"%d" % number + b"x" * (40 if number % 4 else 8000))
    tokens = [endpoint.tokens_in_flight for endpoint in pool.endpoints]
    assert max(tokens) - min(tokens) <= 2001


@pytest.mark.parametrize("plugin", ["session-affinity-scorer", "session-affinity-filter"])
def test_a_session_stays_where_it_began_until_its_endpoint_goes(plugin):
    pool = Pool(
        f"plugins:\n- type: {plugin}\n  parameters:\n    strategy: session_id\n- type: random-picker\n"
        if plugin.endswith("filter")
        else f"plugins:\n- type: {plugin}\n  parameters:\n    strategy: session_id\n"
    )
    homes = {name: {pool.send(headers={"x-session-id": name}) for _ in range(5)} for name in "abcdefgh"}
    assert all(len(found) == 1 for found in homes.values())
    assert len({home for found in homes.values() for home in found}) > 1
    (gone,) = homes["a"]
    pool.lose(gone)
    later = {pool.send(headers={"x-session-id": "a"}) for _ in range(5)}
    assert (len(later), gone in later) == (1, False)


def test_latencies_are_learned_from_what_is_served():
    pool = Pool(plugins("predicted-latency-producer", "random-picker"))
    for place in range(200):
        slow = pool.send(b"x" * 400) == "ns/pod-0"
        pool.end(place, first_byte_s=2.0 if slow else 0.1, ended_s=3.0, usage=ResponseUsage(output_tokens=10))
    producer = pool.scheduler.assembly.plugins["predicted-latency-producer"]
    lines = {endpoint.name: producer._endpoints[endpoint].ttft for endpoint in pool.endpoints}
    expected = {name: line.predict((1.0, 0.1, 0.0, 0.0, 0.0, 0.0)) for name, line in lines.items()}
    assert expected["ns/pod-0"] > 1.0
    assert all(found < 0.5 for name, found in expected.items() if name != "ns/pod-0")


def test_a_precise_producer_may_stand_beside_the_approximate_one():
    pool = Pool(
        """
plugins:
- type: precise-prefix-cache-producer
  name: precise
- type: approx-prefix-cache-producer
  name: approximate
- type: prefix-cache-scorer
  parameters:
    prefixMatchInfoProducerName: approximate
"""
    )
    home = pool.send(prompt(1))
    assert {pool.send(prompt(1, turn)) for turn in range(5)} == {home}
    assert isinstance(pool.scheduler.assembly.plugins["precise"], PrecisePrefixProducer)
    assert pool.scheduler.faults == {}
