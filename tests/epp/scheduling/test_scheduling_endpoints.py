"""The expected load of an endpoint between two scrapes."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import NEVER_SCRAPED, Adapters, EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler

SEEN = EndpointMetrics(
    waiting=2,
    running=5,
    kv_cache_usage=0.5,
    block_size=16,
    blocks=100,
    scraped_s=1.0,
    requests_at_scrape=7,
    tokens_at_scrape=80,
)


def expected(**told):
    found = Endpoint("a", "10.0.0.1:8000", **{"metrics": SEEN, "requests_in_flight": 7, "tokens_in_flight": 80, **told})
    return found.expect()


@pytest.mark.parametrize(
    ("told", "waiting", "running", "kv_cache_usage"),
    [
        pytest.param({}, 2, 5, 0.5, id="nothing since"),
        pytest.param({"requests_in_flight": 9}, 4, 7, 0.5, id="two were sent"),
        pytest.param({"requests_in_flight": 6}, 1, 4, 0.5, id="one ended"),
        pytest.param({"requests_in_flight": 0}, 0, 0, 0.5, id="all ended, and no number is below 0"),
        pytest.param({"tokens_in_flight": 240}, 2, 5, 0.6, id="a prompt of 160 tokens in a cache of 1,600"),
        pytest.param({"tokens_in_flight": 0}, 2, 5, 0.5, id="prompts that are computed stay in the cache"),
        pytest.param({"tokens_in_flight": 10**6}, 2, 5, 1.0, id="a cache is full at most"),
        pytest.param({"metrics": EndpointMetrics(), "requests_in_flight": 3}, 3, 3, 0.0, id="never scraped"),
    ],
)
def test_the_last_scrape_and_what_was_sent_since(told, waiting, running, kv_cache_usage):
    found = expected(**told)
    assert (found.waiting, found.running, round(found.kv_cache_usage, 9)) == (waiting, running, kv_cache_usage)


@pytest.mark.parametrize("told", [{}, {"tokens_in_flight": 79}], ids=["nothing since", "fewer tokens"])
def test_where_nothing_was_sent_the_last_scrape_is_expected(told):
    assert expected(**told) is SEEN


def test_what_is_expected_has_all_else_of_the_last_scrape():
    adapters = Adapters(frozenset("x"), frozenset("y"), 3)
    seen = msgspec.structs.replace(SEEN, adapters=adapters, models=frozenset("m"))
    assert expected(metrics=seen, requests_in_flight=8, tokens_in_flight=160) == EndpointMetrics(
        waiting=3, running=6, kv_cache_usage=0.55, block_size=16, blocks=100, adapters=adapters,
        models=frozenset("m"), scraped_s=1.0, requests_at_scrape=8, tokens_at_scrape=160,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "failures"), [(0, 0, 3), (0, 1, 3), (2, 3, 3), (2, 0, 0)], ids=["up", "gone", "away", "back"]
)
def test_failures_are_of_a_process_that_did_not_restart(before, now, failures):
    found = Endpoint("a", "10.0.0.1:8000", metrics=EndpointMetrics(refused_scrapes=before), failures=3)
    found.metrics = EndpointMetrics(refused_scrapes=now)
    assert (found.failures, found.refused_scrapes) == (failures, now)


def test_what_is_counted_is_in_flight_and_in_the_cache():
    found = Endpoint("a", "10.0.0.1:8000", metrics=EndpointMetrics(block_size=16, blocks=10))
    found.count(2, 80)
    before = (found.requests_in_flight, found.tokens_in_flight, found.kv_cache_usage)
    found.count(1, 200)
    assert (before, found.kv_cache_usage, found.kv_free) == ((2, 80, 0.5), 1.0, 0.0)


def test_an_endpoint_as_people_read_it():
    found = Endpoint("ns/a", "10.0.0.1:8000", metrics=SEEN)
    assert (repr(found), found.kv_free, found.cache_tokens) == ("Endpoint(ns/a at 10.0.0.1:8000)", 0.5, 1600)


def test_an_endpoint_that_nothing_is_known_of():
    found = Endpoint("a", "10.0.0.1:8000")
    known = (found.requests_in_flight, found.tokens_in_flight, found.failures, found.refused_scrapes, found.metrics)
    assert (known, dict(found.labels), dict(found.attributes)) == ((0, 0, 0, 0, NEVER_SCRAPED), {}, {})
    assert (found.waiting, found.running, found.kv_cache_usage, found.tokens_shown) == (0.0, 0.0, 0.0, 0)


def test_a_new_scrape_resets_the_counts():
    endpoint = Endpoint("a", "10.0.0.1:8000", metrics=SEEN, requests_in_flight=9)
    assert endpoint.expect().waiting == 4
    endpoint.metrics = EndpointMetrics(waiting=1, requests_at_scrape=9)
    assert (endpoint.expected, endpoint.expect().waiting) == (None, 1)
    endpoint.requests_in_flight += 1
    assert (endpoint.metrics.waiting, endpoint.expect().waiting) == (1, 2)


def look(endpoint, kv_cache_usage=0.0):
    endpoint.metrics = EndpointMetrics(
        kv_cache_usage=kv_cache_usage,
        block_size=16,
        blocks=100,
        requests_at_scrape=endpoint.requests_in_flight,
        tokens_at_scrape=endpoint.tokens_shown,
    )


SENT, BEGUN, ENDED, ENDED_UNTOLD = (1, 160), (0, -160), (-1, 0), (-1, -160)


@pytest.mark.parametrize(
    ("events", "kv_cache_usage"),
    [
        pytest.param([SENT], 0.1, id="sent"),
        pytest.param([SENT, 0.0], 0.1, id="a scrape shows nothing of it"),
        pytest.param([SENT, 0.0, 0.0, 0.0], 0.1, id="nor do the next ones"),
        pytest.param([SENT, 0.0, SENT, 0.0], 0.2, id="another one behind it"),
        pytest.param([SENT, 0.06], 0.16, id="what is computed counts twice for a while"),
        pytest.param([SENT, 0.0, BEGUN, 0.1], 0.1, id="computed"),
        pytest.param([SENT, 0.0, SENT, BEGUN, 0.1], 0.2, id="one is computed, the other is not"),
        pytest.param([SENT, BEGUN, ENDED, SENT, 0.0], 0.1, id="ends of what has begun change nothing"),
        pytest.param([SENT, ENDED_UNTOLD, SENT], 0.1, id="starts are not reported: sent since the scrape"),
        pytest.param([SENT, ENDED_UNTOLD, SENT, 0.1], 0.1, id="starts are not reported: a scrape has all"),
        pytest.param([SENT, ENDED_UNTOLD, SENT, BEGUN, SENT, 0.1], 0.2, id="starts are reported again"),
    ],
)
def test_a_prompt_takes_its_part_of_the_cache_until_it_is_computed(events, kv_cache_usage):
    endpoint = Endpoint("a", "10.0.0.1:8000")
    look(endpoint)
    for event in events:
        if isinstance(event, tuple):
            endpoint.count(*event)
        else:
            look(endpoint, event)
    assert round(endpoint.expect().kv_cache_usage, 9) == kv_cache_usage


@given(st.lists(st.tuples(st.sampled_from(["sent", "begun", "ended"]), st.integers(1, 64), st.integers(0, 3))))
def test_repeated_equal_scrapes_change_nothing(events):
    seldom, often = (Endpoint(name, "10.0.0.1:8000") for name in "ab")
    look(seldom)
    look(often)
    uncomputed, begun = [], 0
    for event, tokens, looks in events:
        if event == "sent":
            uncomputed.append(tokens)
            counted = (1, tokens)
        elif event == "begun" and uncomputed:
            begun += 1
            counted = (0, -uncomputed.pop(0))
        elif event == "ended" and begun:
            begun -= 1
            counted = (-1, 0)
        else:
            continue
        for endpoint in (seldom, often):
            endpoint.count(*counted)
        for _ in range(looks):
            look(often)
        assert often.expect().kv_cache_usage == seldom.expect().kv_cache_usage == min(1.0, sum(uncomputed) / 1600)


def test_new_documents_are_not_sent_to_one_server_while_it_computes_the_last():
    """By its figures the server that was sent a document is as free as the others for as long as it computes."""
    pool = tuple(Endpoint(f"e{at}", f"10.0.0.{at}:8000") for at in range(4))
    scheduler = Scheduler(load("").build())
    sent: Counter[str] = Counter()
    for number in range(8):
        for endpoint in pool:
            look(endpoint)
        request = Request("r", "m", prompts=(b"%d" % number * 640,))
        picked = scheduler.schedule(request, pool, 0.0, lambda: 0.5).picked
        picked.count(1, request.tokens)
        sent[picked.name] += 1
    assert sent == Counter({endpoint.name: 2 for endpoint in pool})


@given(st.integers(2, 8), st.integers(0, 40), st.integers(0, 2**32))
def test_requests_between_two_scrapes_are_spread_evenly(servers, requests, seed):
    pool = tuple(
        Endpoint(f"e{at}", f"10.0.0.{at}:8000", metrics=EndpointMetrics(scraped_s=0.0)) for at in range(servers)
    )
    scheduler = Scheduler(load("").build())
    sent: Counter[str] = Counter({endpoint.name: 0 for endpoint in pool})
    for number in range(requests):
        prompt = b"%d is the number" % (number * 7919 + seed)
        picked = scheduler.schedule(Request("r", "m", prompts=(prompt,)), pool, 0.0, lambda: 0.5).picked
        picked.requests_in_flight += 1
        sent[picked.name] += 1
    assert max(sent.values()) - min(sent.values()) <= 1


def test_what_others_sent_changes_counts_and_not_whether_responses_are_seen():
    """Tokens of others that leave alone say nothing of the responses that this process gets."""
    endpoint, changed = Endpoint("a", "10.0.0.1:80"), []
    endpoint.watch(changed)
    endpoint.count_others(2, 100)
    endpoint.count_others(-1, -60)
    assert (endpoint.requests_in_flight, endpoint.tokens_in_flight, endpoint.tokens_shown) == (1, 40, 0)
    assert changed == [endpoint]
