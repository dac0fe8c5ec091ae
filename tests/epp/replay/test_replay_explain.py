"""Written states, and the decision that a state comes to."""

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.epp.config.config import load
from modelplane.epp.config.positions import ConfigError
from modelplane.epp.replay.explain import explain
from modelplane.epp.replay.snapshot import decode, decode_request, encode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.testing.picking import seeded

STATE = """
kind: PickerState
now: 10
endpoints:
- name: ns/a
  address: 10.0.0.1:8000
  labels: {llm-d.ai/role: decode}
  attributes: {price-per-hour: 2.5}
  load: {waiting: 2, running: 1, kvUse: 0.5, blockSize: 16, blocks: 100, age: 0.5, models: [m],
         adapters: {running: [x], waiting: [z], most: 4}}
  requestsInFlight: 3
  tokensInFlight: 70
  failures: 1
- {name: ns/b, address: "10.0.0.2:8000", labels: {llm-d.ai/role: decode}, load: {age: null}}
- {name: ns/c, address: "10.0.0.3:8000", labels: {llm-d.ai/role: prefill}}
"""


def test_a_state_holds_everything_that_is_known_of_endpoints():
    state = decode(STATE)
    first = state.endpoints[0]
    adapters = Adapters(frozenset({"x"}), frozenset({"z"}), 4)
    assert shown(first) == (
        "ns/a",
        "10.0.0.1:8000",
        {"llm-d.ai/role": "decode"},
        {"price-per-hour": 2.5},
        EndpointMetrics(
            2.0, 1.0, 0.5, 16, 100, adapters, frozenset({"m"}), 9.5, requests_at_scrape=3, tokens_at_scrape=70
        ),
        (3, 70, 1),
    )
    assert [each.metrics.scraped_s for each in state.endpoints] == [9.5, -1.0, 10.0]


names = st.text("abc/-", min_size=1, max_size=6)
endpoints = st.builds(
    Endpoint,
    names,
    st.just("10.0.0.1:8000"),
    st.dictionaries(names, names, max_size=2),
    st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
    st.builds(
        EndpointMetrics,
        st.floats(0, 1e6),
        st.floats(0, 1e6),
        st.floats(0, 1),
        st.integers(0, 256),
        st.integers(0, 10**6),
        st.builds(Adapters, st.frozensets(names, max_size=2), st.frozensets(names, max_size=2), st.integers(0, 9)),
        st.frozensets(names, max_size=2),
        st.sampled_from([-1.0, 0.0, 7.5, 8.0]),
        st.integers(0, 9),
        st.integers(0, 99),
    ),
    st.integers(0, 99),
    st.integers(0, 10**9),
    st.integers(0, 9),
)


def shown(endpoint):
    counts = endpoint.requests_in_flight, endpoint.tokens_in_flight, endpoint.failures
    return endpoint.name, endpoint.address, endpoint.labels, endpoint.attributes, endpoint.metrics, counts


@settings(max_examples=50)
@given(st.lists(endpoints, max_size=3, unique_by=lambda each: each.name))
def test_a_state_that_is_written_reads_back_the_same(pool):
    plain = encode(pool, 8.0)
    for text in (yaml.safe_dump(plain), msgspec.json.encode(plain)):
        back = decode(text)
        assert back.now_s == 8.0
        assert list(map(shown, back.endpoints)) == list(map(shown, pool))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod\n", "s.yaml:1: kind: is Pod; it must be PickerState"),
        ("endpoints:\n- {name: a, adress: x}\n", "s.yaml:2: endpoints[0].adress: no such field"),
        ("endpoints:\n- {name: a}\n", "s.yaml:2: endpoints[0].address: is required"),
        (
            "endpoints: [{name: a, address: x}, {name: a, address: x}]\n",
            "s.yaml: endpoints: two endpoints have one name",
        ),
        ("sent: [{endpoint: q, request: {}}]\n", "s.yaml: sent: no endpoint is named q"),
        ("", "s.yaml: has 0 documents; there must be one"),
    ],
)
def test_a_state_that_is_wrong_is_refused(text, says):
    with pytest.raises(ConfigError) as refused:
        decode(text, "s.yaml")
    assert str(refused.value) == says


def test_a_request_in_words():
    found = decode_request(
        "{model: m, api: completions, prompts: [hello], headers: {X-Session: s}, priority: -1, subset: ['10.0.0.1:1'], "
        "ttftGoal: 0.5, maxOutputTokens: 7}"
    )
    assert (found.model, found.api, found.prompts, found.headers, found.priority, found.size) == (
        "m",
        InferenceApi.COMPLETIONS,
        (b"hello",),
        {"x-session": "s"},
        -1,
        5,
    )
    assert (found.subset, found.ttft_goal_s, found.max_output_tokens) == (("10.0.0.1:1",), 0.5, 7)


HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
CONFIG = HEAD + "plugins: [{type: decode-filter}, {type: queue-scorer}, {type: kv-cache-utilization-scorer}]\n"


def test_an_explanation_covers_every_endpoint():
    request = Request("r", headers={"x-prefiller-host-port": "6.6.6.6:1"}, subset=("10.0.0.1:8000", "10.0.0.3:8000"))
    found = explain(load(CONFIG), request, decode(STATE), seeded(0))
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
        "outcome": "Picked",
        "status": 200,
        "why": "",
        "profile": "default",
        "destinations": "10.0.0.1:8000",
        "groups": [["ns/a"]],
        "setHeaders": {},
        "removeHeaders": ["x-prefiller-host-port"],
        "shadows": {},
        "notAllowed": ["ns/b"],
        "profiles": [
            {
                "name": "default",
                "picks": ["ns/a"],
                "endpoints": [
                    {
                        "name": "ns/a",
                        "address": "10.0.0.1:8000",
                        "verdict": "picked",
                        "total": 0.75,
                        "scores": [
                            {"scorer": "queue-scorer", "score": 1.0, "weight": 1.0},
                            {"scorer": "kv-cache-utilization-scorer", "score": 0.5, "weight": 1.0},
                        ],
                    },
                    {
                        "name": "ns/c",
                        "address": "10.0.0.3:8000",
                        "verdict": "refused",
                        "filter": "decode-filter",
                        "code": "Unresolvable",
                        "reason": "has the role prefill",
                    },
                ],
            }
        ],
    }


def test_nothing_to_pick_from():
    found = explain(load(""), Request("r"), decode("kind: PickerState\n"), seeded(0))
    assert (found.outcome, found.status, found.profiles) == ("NoEndpoints", 503, ())


def test_requests_that_were_sent_before_are_remembered():
    prompt = "tell me about the tides " * 20
    sent = f'sent: [{{endpoint: ns/c, request: {{model: m, prompts: ["{prompt}"]}}}}]\n'
    request = Request("r", "m", prompts=(prompt.encode(),))
    warm = explain(load(""), request, decode(STATE + sent), seeded(0))
    cold = explain(load(""), request, decode(STATE), seeded(0))
    prefix = {
        shown.name: part.score
        for shown in warm.profiles[0].endpoints
        for part in shown.scores
        if part.scorer == "prefix-cache-scorer"
    }
    assert prefix == {"ns/a": 0.0, "ns/b": 0.0, "ns/c": 1.0}
    assert warm.groups == (("ns/c",),)
    assert cold.profiles[0].endpoints != warm.profiles[0].endpoints


@given(st.integers(0, 2**32), st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=5))
def test_an_explanation_is_of_the_decision_that_would_be_made(seed, queues):
    state = decode(
        msgspec.json.encode(
            encode(
                [Endpoint(f"e{at}", f"10.0.0.{at}:1", metrics=EndpointMetrics(each)) for at, each in enumerate(queues)],
                0.0,
            )
        )
    )
    found = explain(load(""), Request("r"), state, seeded(seed))
    assert explain(load(""), Request("r"), state, seeded(seed)) == found
    # Last: the request that is sent counts.
    made = Scheduler(load("").build()).schedule(Request("r"), state.endpoints, 0.0, seeded(seed))
    assert found.destinations == made.destinations
