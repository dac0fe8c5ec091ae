"""Plugins outside the profiles: admitters, and headers that name other servers."""

import pytest

from modelplane.epp.scheduling.admitters import TYPES as ADMITTERS
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.pre_request import TYPES as PRE_REQUEST
from modelplane.epp.scheduling.requests import Request
from modelplane.testing.picking import context_of, endpoint, endpoints_with, make, with_headroom, with_prefix

POOL = tuple(endpoint(name) for name in "abc")


@pytest.mark.parametrize(
    ("matched", "picked", "prefill", "parameters", "expected"),
    [
        pytest.param([0, 4, 2], 0, None, {}, POOL[1], id="another holds more"),
        pytest.param([4, 4, 2], 0, None, {}, None, id="none holds more"),
        pytest.param([0, 4, 4], 0, None, {}, POOL[1], id="two hold as much: the first by name"),
        pytest.param([0, 4, 2], 1, 0, {}, POOL[1], id="the prefill server gets the header"),
        pytest.param([0, 4, 2], 0, None, {"minCachedTokenDelta": 64}, POOL[1], id="just enough more"),
        pytest.param([0, 4, 2], 0, None, {"minCachedTokenDelta": 65}, None, id="not enough more"),
        pytest.param([0, 0, 0], 0, None, {}, None, id="none holds anything"),
    ],
)
def test_where_to_fetch_blocks(matched, picked, prefill, parameters, expected):
    context = with_prefix(context_of(POOL), matched, 8, block_size=16)
    others = () if prefill is None else (("prefill", (POOL[prefill],)),)
    decision = Decision(Outcome.PICKED, ((POOL[picked],),), others=others)
    found = make("p2p-source-producer", **parameters).pre_request(context, decision)
    assert list(found) == ([("x-kv-cache-source-host-port", expected.address)] if expected else [])


def test_one_token_more_is_enough_by_default():
    context = with_prefix(context_of(POOL), [7, 8, 0], 8)
    found = make("p2p-source-producer").pre_request(context, Decision(Outcome.PICKED, ((POOL[0],),)))
    assert found == (("x-kv-cache-source-host-port", POOL[1].address),)


def test_nothing_is_known_of_blocks_without_an_index():
    assert make("p2p-source-producer").pre_request(context_of(POOL), Decision(Outcome.PICKED, ((POOL[0],),))) == ()


BUSY = endpoints_with(
    [
        EndpointMetrics(running=3, kv_cache_usage=0.5, scraped_s=0.0),
        EndpointMetrics(running=1, kv_cache_usage=0.2, scraped_s=0.0),
    ]
)
SHED = Request("r", priority=-1, ttft_goal_s=1.0)
MISSED = [(-0.1, 1.0), (-0.1, 1.0)]


def beside_a_busy_one(running, kv_cache_usage):
    return endpoints_with([BUSY[0].metrics, EndpointMetrics(0, running, kv_cache_usage, scraped_s=0.0)])


@pytest.mark.parametrize(
    ("request_", "pool", "headrooms", "away"),
    [
        pytest.param(SHED, BUSY, [(-0.1, 1.0), (1.0, -0.1)], True, id="none would meet the SLO"),
        pytest.param(SHED, BUSY, [(-0.1, 1.0), (0.1, 0.1)], False, id="one would"),
        pytest.param(SHED, BUSY, [(-0.1, 1.0), (0.0, 0.0)], False, id="one would just meet it"),
        pytest.param(SHED, BUSY, [None, None], False, id="nothing is known"),
        pytest.param(SHED, BUSY, [(-0.1, 1.0), None], True, id="those that are known would not"),
        pytest.param(SHED, (*BUSY[:1], endpoint("z")), [(-0.1, 1.0), (-0.1, 0.0)], False, id="one runs nothing"),
        pytest.param(SHED, beside_a_busy_one(0, 0.5), MISSED, False, id="one runs nothing and has much cached"),
        pytest.param(SHED, beside_a_busy_one(1, 0.01), MISSED, False, id="one has an empty cache"),
        pytest.param(SHED, beside_a_busy_one(1, 0.02), MISSED, True, id="no cache is empty"),
        pytest.param(Request("r", priority=-1, tpot_goal_s=0.5), BUSY, MISSED, True, id="a goal for further tokens"),
        pytest.param(Request("r", ttft_goal_s=1.0), BUSY, [(-1.0, 0.0)] * 2, False, id="not sheddable"),
        pytest.param(Request("r", priority=-1), BUSY, [(-1.0, 0.0)] * 2, False, id="no goals"),
    ],
)
def test_requests_whose_slo_no_endpoint_meets(request_, pool, headrooms, away):
    context = with_headroom(context_of(pool, request_), headrooms)
    assert bool(make("latency-slo-admitter").admit(context)) is away


def test_without_predictions_everybody_is_taken():
    assert make("latency-slo-admitter").admit(context_of(BUSY, SHED)) == ""


def test_what_is_read_of_producers():
    assert {each.name: each.consumes for each in (*ADMITTERS, *PRE_REQUEST)} == {
        "latency-slo-admitter": ("latency",),
        "probabilistic-admitter": (),
        "p2p-source-producer": ("prefix",),
    }
