"""A decision out of the log comes out as it did, whichever plugins made it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.replay.replay import Replayer, read_log
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.plugins import Admitter, PreRequest, Producer
from modelplane.epp.scheduling.producers.in_flight import InFlightProducer
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.observe import DecisionLog, PickObserver
from modelplane.framework import Filter, Scorer
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.testing.picking import make, seeded

ROLE = "llm-d.ai/role"
PARAMETERS = {
    "accelerator-filter": {"allowsNoLabel": True},
    "endpoint-attribute-filter": {
        "attribute": "price-per-hour",
        "algorithm": {"threshold": {"operator": "LessThan", "value": 3.0}},
        "fallbackOnEmpty": True,
    },
    "by-label": {"label": ROLE, "validValues": ["decode"], "allowsNoLabel": True},
    "by-label-selector": {"matchLabels": {"tier": "gold"}},
    "label-selector-filter": {"matchLabels": {"tier": "gold"}},
    "utilization-filter": {"conditions": [{"metric": "waiting-queue", "maxValue": 2}], "fallbackOnEmpty": True},
    "endpoint-attribute-scorer": {
        "attributeKey": "price-per-hour",
        "algorithm": {"type": "linear_lower_is_better", "normalization": {"adaptiveRange": {}}},
    },
    "header-label-affinity-scorer": {"headerName": "x-tier", "labelKey": "tier"},
    "prefix-cache-affinity-filter": {"explorationProbability": 0.3},
    "slo-headroom-tier-filter": {"epsilonExploreNeg": 0.3},
    "failing-endpoint-filter": {"threshold": 2, "probeProbability": 0.3},
    "context-length-aware": {"enableFiltering": True},
    "session-affinity-scorer": {"strategy": "session_id"},
    "session-affinity-filter": {"strategy": "session_id", "sessionIdConfig": {"sources": [{"attribute": "session"}]}},
    "session-id-producer": {"cookieName": "session"},
    "precise-prefix-cache-producer": {"speculativeIndexing": True, "speculativeTTL": "60s"},
    "max-score-picker": {"maxNumOfEndpoints": 2},
    "weighted-random-picker": {"maxNumOfEndpoints": 2},
    "prefix-based-pd-decider": {"nonCachedTokens": 64},
    "shadow-profile-handler": {"shadows": ["prefill"]},
    "pd-profile-handler": {"deciderPluginName": "prefix-based-pd-decider"},
    "disagg-profile-handler": {"deciders": {"prefill": "prefix-based-pd-decider"}},
}
HANDLERS = {
    "single-profile-handler": ("decode",),
    "header-profile-handler": ("decode", "prefill"),
    "shadow-profile-handler": ("decode", "prefill"),
    "disagg-profile-handler": ("decode", "prefill"),
    "pd-profile-handler": ("decode", "prefill"),
    "data-parallel-profile-handler": ("decode",),
}
DECIDERS = ("prefix-based-pd-decider", "always-disagg-pd-decider", "always-disagg-multimodal-decider")
READERS = {
    "precise-prefix-cache-producer": "prefix-cache-scorer",
    "approx-prefix-cache-producer": "prefix-cache-scorer",
    "session-id-producer": "session-affinity-filter",
    "predicted-latency-producer": "latency-scorer",
}
"""Who makes something of what a producer finds."""
PICKERS = ("max-score-picker", "random-picker", "weighted-random-picker")


def instance(name):
    return make(name, {each: make(each) for each in DECIDERS} if name in HANDLERS else {}, **PARAMETERS.get(name, {}))


def types_of(*parts):
    """Those of the registry with one of these parts; the rest is the server's."""
    mine = [name for name, kind in builtin_registry().items() if not kind.parts or "detector" in kind.parts]
    return [name for name in mine if name not in HANDLERS and isinstance(instance(name), parts)]


IN_PROFILES = types_of(Filter, Scorer)
BESIDE = [name for name in types_of(Producer, PreRequest, Admitter) if name not in IN_PROFILES]


def config_of(in_profiles, beside=(), handler="single-profile-handler", picker="max-score-picker"):
    used = dict.fromkeys((*in_profiles, *beside, handler, picker, *(DECIDERS if "p" in handler else ())))
    plugins = [{"type": name, "parameters": PARAMETERS.get(name, {})} for name in used]
    refs = [{"pluginRef": name} for name in (*in_profiles, picker)]
    profiles = [{"name": name, "plugins": refs} for name in HANDLERS[handler]]
    whole = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}
    return json.dumps({**whole, "plugins": plugins, "schedulingProfiles": profiles})


def pool_of(count, random):
    return tuple(
        Endpoint(
            f"team/p-{at}",
            f"10.0.0.{at}:8000",
            {
                ROLE: random.choice(["decode", "prefill", "both"]),
                "tier": random.choice(["gold", "tin"]),
                "llm-d.ai/context-length-range": random.choice(["0-100", "100-9000"]),
                "topology.kubernetes.io/zone": random.choice(["a", "b"]),
            },
            {"price-per-hour": random.random() * 4, "prefill-tokens-per-second": 1000.0 * (at + 1)},
            look(random, -1.0),
            failures=random.randrange(4),
        )
        for at in range(count)
    )


def look(random, now_s):
    adapters = Adapters(frozenset(random.sample(["x", "y", "z"], 1)), frozenset(["w"]), 2)
    kv_cache_usage = random.choice([random.random(), 0.5])
    return EndpointMetrics(
        float(random.randrange(4)), float(random.randrange(9)), kv_cache_usage, 16, 200, adapters, frozenset("m"), now_s
    )


def request_of(at, random):
    text = random.choice([b"one ", b"two ", b"six "]) * random.choice([10, 200, 900])
    headers = {
        "authorization": "Bearer secret",
        "cookie": f"session=s{random.randrange(3)}",
        "x-session-id": f"s{random.randrange(3)}",
        "x-tier": "gold",
        "epp-profile": random.choice(["decode", "prefill", "elsewhere"]),
        "test-epp-endpoint-selection": "10.0.0.1:8000,10.0.0.2:8000",
        "x-prefiller-host-port": "6.6.6.6:1",
    }
    return Request(
        f"r-{at}",
        random.choice(["m", "x", "w"]),
        prompts=(text,),
        headers={name: value for name, value in headers.items() if random.random() < 0.7},
        priority=random.choice([-1, 0]),
        size=len(text),
        subset=random.choice([None, None, ("10.0.0.1", "10.0.0.2:8000", "10.0.0.3:8000")]),
        ttft_goal_s=random.choice([0.0, 0.05]),
        tpot_goal_s=random.choice([0.0, 0.01]),
        has_media=random.random() < 0.5,
        token_ids=(tuple(text[:800]),),
    )


class Live:
    """A picker's life: requests come and end, loads change, and all decisions are logged."""

    def __init__(self, text, pool, random, known=None):
        self.lines = []
        self.now_s = 1234.5678
        log = DecisionLog(self.lines.append, share=1.0, most_per_s=1e9, wall_clock=lambda: self.now_s)
        self._observer = PickObserver(log=log, clock=lambda: self.now_s)
        config = load(text, "live", known)
        self._observer.configured(config)
        self._scheduler = Scheduler(config.build())
        self._counts = not any(isinstance(one, InFlightProducer) for one in self._scheduler.assembly.plugins.values())
        self._pool = pool
        self._scheduler.endpoints_changed(pool)
        self._random = random
        self._under_way = []
        self.decisions = []

    def go(self, requests, *, logged):
        for at in range(requests):
            request = request_of(at, self._random)
            steps = self._observer.record_steps(request, 0.0) if logged else None
            decision = self._scheduler.schedule(request, self._pool, self.now_s, self._random.random, steps)
            if logged:
                self._observer.decided(request, decision, 0.0, steps)
                self.decisions.append(decision)
            if decision.outcome is Outcome.PICKED:
                self._send(request, decision)
            self._pass_time()

    def _send(self, request, decision):
        if self._counts:
            decision.picked.requests_in_flight += 1
            decision.picked.tokens_in_flight += request.tokens
        self._under_way.append((request, decision, self.now_s))

    def _pass_time(self):
        random = self._random
        self.now_s += random.random() * 0.1
        while self._under_way and random.random() < 0.6:
            request, decision, sent_s = self._under_way.pop(0)
            if self._counts:
                decision.picked.requests_in_flight -= 1
                decision.picked.tokens_in_flight -= request.tokens
            usage = ResponseUsage(request.tokens, random.randrange(1, 90))
            served = EndpointResponse(decision.picked, 200, sent_s, self.now_s - 0.01, self.now_s, usage)
            self._scheduler.response_complete(request, decision, served)
        if self._pool and random.random() < 0.5:
            endpoint = random.choice(self._pool)
            endpoint.metrics = look(random, self.now_s)


def groups(decision):
    return tuple(tuple(each.name for each in group) for group in decision.groups)


def replay_all(lines, known=None):
    decisions, texts = read_log(lines, "log")
    replayer = Replayer(texts, known or builtin_registry())
    return [replayer.replay(one) if one.replay is not None else None for one in decisions]


def check(live, known=None):
    found = replay_all(live.lines, known)
    assert len(found) == len(live.decisions)
    for one, decision in zip(found, live.decisions, strict=True):
        if one is None:
            assert decision.outcome is Outcome.NO_ENDPOINTS
            continue
        assert one.differences == ()
        assert one.explanation.outcome == decision.outcome.title
        assert one.explanation.groups == groups(decision)
        assert one.explanation.destinations == decision.destinations
        assert set(one.explanation.remove_headers) >= set(decision.remove_headers)


@pytest.mark.parametrize("name", [*IN_PROFILES, *BESIDE, *HANDLERS, *PICKERS])
def test_whichever_plugin_decides_it_can_be_replayed(name):
    random = seeded(sum(map(ord, name))).__self__
    text = config_of(
        dict.fromkeys(["queue-scorer", READERS.get(name, name if name in IN_PROFILES else "queue-scorer")]),
        [name] if name in BESIDE else [],
        name if name in HANDLERS else "single-profile-handler",
        name if name in PICKERS else "max-score-picker",
    )
    live = Live(text, pool_of(6, random), random)
    live.go(30, logged=False)
    live.go(12, logged=True)
    check(live)
    assert {decision.outcome for decision in live.decisions} & {Outcome.PICKED, Outcome.EXCLUDED}


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(IN_PROFILES), unique=True, max_size=5),
    st.lists(st.sampled_from(BESIDE), unique=True, max_size=3),
    st.sampled_from(list(HANDLERS)),
    st.sampled_from(PICKERS),
    st.integers(0, 6),
    st.integers(0, 2**32),
)
def test_every_logged_decision_can_be_replayed(in_profiles, beside, handler, picker, count, seed):
    random = seeded(seed).__self__
    live = Live(config_of(in_profiles, beside, handler, picker), pool_of(count, random), random)
    live.go(12, logged=False)
    live.go(5, logged=True)
    check(live)
    assert b"Bearer" not in b"".join(live.lines)
    assert b"one one" not in b"".join(live.lines)
    assert b"session=" not in b"".join(live.lines)


def logged_with(text="", count=3):
    random = seeded(1).__self__
    live = Live(text, pool_of(count, random), random)
    live.go(1, logged=True)
    return live


def test_another_configuration_is_reported_with_its_difference():
    live = logged_with(config_of(["queue-scorer"]))
    decisions, texts = read_log(live.lines, "log")
    other = load(config_of(["queue-scorer", "cost-scorer"]), "other.yaml")
    with pytest.raises(InputError) as refused:
        Replayer(texts, builtin_registry(), other).replay(decisions[0])
    sentence = str(refused.value)
    assert sentence.startswith("was decided with configuration ")
    assert "\n-  scorers  queue-scorer x 1\n+  scorers  queue-scorer x 1, cost-scorer x 1" in sentence


def test_a_configuration_that_is_written_otherwise_is_the_same():
    live = logged_with(config_of(["queue-scorer"]))
    decisions, _ = read_log(live.lines, "log")
    same = load(json.dumps(json.loads(config_of(["queue-scorer"])), indent=4), "same.yaml")
    assert Replayer({}, builtin_registry(), same).replay(decisions[0]).differences == ()
    with pytest.raises(InputError, match="which is not in the log; pass it as --config"):
        Replayer({}, builtin_registry()).replay(decisions[0])


def test_a_decision_without_plugins_cannot_be_replayed():
    decisions, texts = read_log(logged_with(count=0).lines, "log")
    with pytest.raises(InputError) as refused:
        Replayer(texts, builtin_registry()).replay(decisions[0])
    assert str(refused.value) == "ended as NoEndpoints (no endpoint is ready) before any plugin ran"


class Forgetful:
    """A third party's, which remembers and does not say what."""

    def __init__(self, name, _parameters):
        self.name = name
        self._turn = 0

    def score(self, _context, endpoints):
        self._turn += 1
        return [1.0 if (at + self._turn) % 2 else 0.0 for at in range(len(endpoints))]


def test_a_different_replay_is_reported_with_its_totals():
    known = builtin_registry().extended([plugin_type("forgetful", Forgetful, NoParameters)])
    random = seeded(3).__self__
    text = config_of(["forgetful"])
    live = Live(text, pool_of(2, random), random, known)
    live.go(4, logged=True)
    told = [one.differences for one in replay_all(live.lines, known) if one is not None]
    assert any("totals of profile decode: recorded [0.0, 1.0], replayed [1.0, 0.0]" in each for each in told)


def test_a_line_of_something_else_is_named():
    with pytest.raises(InputError, match=r"log:2: not a line of a decision log"):
        read_log([b'{"event": "decision"}\n', b'{"event":\n'], "log")


def test_lines_of_others_are_passed_over():
    decisions, _ = read_log([b"serving on port 9002\n", b"\n", b'{"event": "decision", "request": "r"}\n'], "log")
    assert [one.request for one in decisions] == ["r"]
