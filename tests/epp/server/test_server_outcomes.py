"""Very many requests at once on one picker, in any order of messages, with a queue that fills, expires and displaces.

The suite sends a few thousand; MODELPLANE_REQUESTS=1000000 sends that many.
"""

import os
import random
from collections import Counter

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.server.director import Director
from modelplane.epp.server.processor import Processor
from modelplane.epp.server.server import assemble
from modelplane.epp.transport.wire import nested
from tests.epp.server.test_server_processor import BODY, answered, body

REQUESTS = int(os.environ.get("MODELPLANE_REQUESTS", "4000"))
MOST_AT_ONCE = 120
CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins: [{type: random-picker}, {type: concurrency-detector, parameters: {maxConcurrency: 8}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
  defaultRequestTTL: 2s
  defaultPriorityBand: {maxRequests: 24}
"""
GARBAGE = b"\xff"


class Sink:
    """Envoy's end of a call."""

    def __init__(self):
        self.has_ended = False

    def send(self, *_messages):
        assert not self.has_ended

    def finish(self, *_status):
        self.has_ended = True

    def mark_idle(self):
        pass


class Ledger:
    """Counts what becomes of each request (an observer of the director)."""

    def __init__(self):
        self.outcomes = Counter()
        self.ends = Counter()
        self.kinds = Counter()

    def decided(self, request, decision, *_more, **_names):
        self.outcomes[request.id] += 1
        self.kinds[decision.outcome] += 1

    def ended(self, request, *_more, **_names):
        self.ends[request.id] += 1

    def record_steps(self, *_more):
        return None

    def evicted(self, _request):
        raise AssertionError("nobody is urgent")

    def waited(self, *_more, **_names):
        pass

    def opened(self):
        pass

    def closed(self, *_more):
        pass


class Storm:
    def __init__(self, seed):
        self.random = random.Random(seed)  # noqa: S311  a test's
        self.now_s = 0.0
        self.ledger = Ledger()
        self.endpoints = [Endpoint(f"ns/{name}", f"10.0.0.{number}:8000") for number, name in enumerate("abcd")]
        scheduler, flow = assemble(load(CONFIG))
        source = StaticEndpoints(self.endpoints)
        self.director = Director(source, scheduler, clock=lambda: self.now_s, chance=self.random.random, flow=flow)
        self.director.observer = self.ledger
        self.live = []
        self.opened = 0

    def step(self):
        self.now_s += self.random.expovariate(200.0)
        if self.random.random() < 0.02:
            self.director.tick()
        if self.opened < REQUESTS and (not self.live or (len(self.live) < MOST_AT_ONCE and self.random.random() < 0.4)):
            self._open()
        else:
            self._go_on()

    def _open(self):
        call = Sink()
        processor = Processor(call, self.director, lambda: self.now_s, 1000)
        processor.message(begin(self.opened, f"team-{self.random.randrange(3)}"))
        self.live.append((call, processor))
        self.opened += 1

    def _go_on(self):
        number = self.random.randrange(len(self.live))
        call, processor = self.live[number]
        chance = self.random.random()
        if chance < 0.75 and not call.has_ended:
            processor.message(self.random.choices(MESSAGES, SHARES)[0])
            return
        self.live[number] = self.live[-1]
        self.live.pop()
        getattr(processor, "closed" if chance < 0.9 else "cancelled")()


MESSAGES = (body(BODY), body(b"{"), body(b"x" * 1001), answered(), answered("503"), GARBAGE)
SHARES = (70, 2, 2, 20, 4, 2)


def begin(number, team):
    """The headers of a request as they are on the wire: to make them by protobuf takes longer than to serve them."""
    given = {
        ":method": "POST", ":path": "/v1/chat/completions", "x-request-id": f"r{number}",
        "x-gateway-inference-fairness-id": team,
    }  # fmt: skip
    entries = b"".join(nested(1, nested(1, name.encode()) + nested(3, value.encode())) for name, value in given.items())
    return nested(2, nested(1, entries)) + b"\x5a\x02\x08\x04"


def test_each_of_very_many_requests_has_exactly_one_outcome():
    storm = Storm(seed=7)
    while storm.opened < REQUESTS or storm.live:
        storm.step()
    outcomes, kinds = storm.ledger.outcomes, storm.ledger.kinds
    assert (len(outcomes), set(outcomes.values())) == (REQUESTS, {1})
    assert (len(storm.ledger.ends), set(storm.ledger.ends.values())) == (kinds[Outcome.PICKED], {1})
    assert [endpoint.requests_in_flight for endpoint in storm.endpoints] == [0, 0, 0, 0]
    assert storm.director.waiting == 0
    # The storm reached what it is about: some were served, refused at once, displaced, or waited for too long.
    reached = {Outcome.PICKED, Outcome.SATURATED, Outcome.EXPIRED, Outcome.ABANDONED, Outcome.MALFORMED}
    assert set(kinds) == {*reached, Outcome.TOO_LARGE}
