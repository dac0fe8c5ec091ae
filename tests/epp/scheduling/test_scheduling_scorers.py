"""What each scorer makes of endpoints, by tables; and that no score ever leaves [0, 1]."""

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scorers import TYPES
from modelplane.epp.scheduling.topology import PEER
from modelplane.framework import Scorer, SparseVector
from modelplane.testing.picking import context_of, endpoint, endpoints_with, lora, make, with_headroom, with_prefix

TOKENS_8 = Request("r", prompts=(b"x" * 32,))
LABEL = "llm-d.ai/context-length-range"


def scores(type_name, endpoints, request=None, /, prepare=lambda context: context, **parameters):
    context = prepare(context_of(endpoints, request))
    return [round(value, 4) for value in make(type_name, **parameters).score(context, endpoints)]


def waiting(*counts):
    return endpoints_with(EndpointMetrics(waiting=count, scraped_s=0.0) for count in counts)


def busy(*pairs):
    return tuple(endpoint(str(at), in_flight=pair) for at, pair in enumerate(pairs))


@pytest.mark.parametrize(
    ("type_name", "parameters", "endpoints", "expected"),
    [
        pytest.param("queue-scorer", {}, waiting(5, 5), [1.0, 1.0], id="queue: all equal"),
        pytest.param("queue-scorer", {}, waiting(0, 5, 10), [1.0, 0.5, 0.0], id="queue: shortest is best"),
        pytest.param("queue-scorer", {}, waiting(7), [1.0], id="queue: alone"),
        pytest.param(
            "running-requests-size-scorer",
            {},
            endpoints_with([EndpointMetrics(running=2), EndpointMetrics(running=4), EndpointMetrics(running=3)]),
            [1.0, 0.0, 0.5],
            id="running",
        ),
        pytest.param(
            "kv-cache-utilization-scorer",
            {},
            endpoints_with(
                [
                    EndpointMetrics(kv_cache_usage=0.8),
                    EndpointMetrics(kv_cache_usage=0.5),
                    EndpointMetrics(kv_cache_usage=0.0),
                ]
            ),
            [0.2, 0.5, 1.0],
            id="kv use",
        ),
        pytest.param(
            "load-aware-scorer", {"threshold": 10}, waiting(0, 5, 10, 99), [0.5, 0.25, 0.0, 0.0], id="load aware"
        ),
        pytest.param("load-aware-scorer", {}, waiting(64), [0.25], id="load aware: threshold 128 by default"),
        pytest.param("active-request-scorer", {}, busy((3, 0), (0, 0), (6, 0)), [0.5, 1.0, 0.0], id="active"),
        pytest.param("active-request-scorer", {}, busy((3, 0), (11, 0)), [0.7273, 0.0], id="active: to the busiest"),
        pytest.param(
            "active-request-scorer",
            {"idleThreshold": 1, "maxBusyScore": 0.5},
            busy((1, 0), (2, 0), (0, 0)),
            [1.0, 0.0, 1.0],
            id="active: idle up to a count",
        ),
        pytest.param(
            "active-request-scorer",
            {"maxBusyScore": 0.5},
            busy((1, 0), (4, 0), (0, 0)),
            [0.375, 0.0, 1.0],
            id="active: the busy score less",
        ),
        pytest.param(
            "active-request-scorer",
            {"minScaleRequests": 16},
            busy((4, 0), (0, 0), (8, 0)),
            [0.75, 1.0, 0.5],
            id="active: few requests to the scale",
        ),
        pytest.param(
            "active-request-scorer",
            {"minScaleRequests": 16},
            busy((8, 0), (32, 0)),
            [0.75, 0.0],
            id="active: many requests to the busiest",
        ),
        pytest.param(
            "active-request-scorer",
            {"minScaleRequests": 16, "maxScaleRequests": 48},
            busy((20, 0), (76, 0), (100, 0), (52, 0)),
            [1.0, 0.5, 0.0, 1.0],
            id="active: very many by the difference",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {"attributeKey": "t", "algorithm": {"type": "linear_lower_is_better"}},
            [endpoint("a", attributes={"t": 2.0}), endpoint("b"), endpoint("c", attributes={"t": 10.0})],
            [1.0, 0.0, 0.0],
            id="attribute: one is missing",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {"attributeKey": "t", "algorithm": {"type": "linear_lower_is_better"}},
            [endpoint("a"), endpoint("b", attributes={"t": math.nan})],
            [0.0, 0.0],
            id="attribute: nobody has it",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {"attributeKey": "t", "algorithm": {"type": "linear_higher_is_better"}},
            [endpoint("a", attributes={"t": 7.0}), endpoint("b", attributes={"t": 7.0})],
            [1.0, 1.0],
            id="attribute: all equal",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {
                "attributeKey": "t",
                "algorithm": {
                    "type": "linear_lower_is_better",
                    "normalization": {"fixedRange": {"min": 0, "max": 10}},
                },
            },
            [endpoint(str(at), attributes={"t": value}) for at, value in enumerate((7.0, 15.0, -5.0, math.nan))],
            [0.3, 0.0, 1.0, 0.0],
            id="attribute: a fixed range clamps",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {
                "attributeKey": "t",
                "algorithm": {"type": "linear_higher_is_better", "normalization": {"fixedRange": {"max": 2}}},
            },
            [endpoint(str(at), attributes={"t": value}) for at, value in enumerate((0.0, 0.5, 2.0))],
            [0.0, 0.25, 1.0],
            id="attribute: a range from 0",
        ),
        pytest.param(
            "endpoint-attribute-scorer",
            {
                "attributeKey": "t",
                "algorithm": {"type": "linear_higher_is_better", "normalization": {"fixedRange": {"min": -2}}},
            },
            [endpoint(str(at), attributes={"t": value}) for at, value in enumerate((-2.0, -1.5, 0.0))],
            [0.0, 0.25, 1.0],
            id="attribute: a range to 0",
        ),
        pytest.param(
            "multicluster-kv-cache-utilization-scorer",
            {},
            [
                endpoint(str(at), attributes={"llm-d.ai/multicluster-kv-cache-utilization": share})
                for at, share in enumerate((0.0, 0.25, 0.5))
            ],
            [1.0, 0.75, 0.5],
            id="caches of other clusters",
        ),
        pytest.param(
            "multicluster-queue-scorer",
            {},
            [
                endpoint("a", attributes={"llm-d.ai/multicluster-queue-size": 2.0}),
                endpoint("b"),
                endpoint("c", attributes={"llm-d.ai/multicluster-queue-size": 10.0}),
            ],
            [1.0, 0.0, 0.0],
            id="queue of other clusters",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [endpoint(str(at), attributes={"price-per-hour": price}) for at, price in enumerate((2.0, 6.0, 4.0))],
            [1.0, 0.0, 0.5],
            id="cost",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [
                endpoint("a", attributes={"price-per-hour": 2.0, "prefill-tokens-per-second": 1000.0}),
                endpoint("b", attributes={"price-per-hour": 6.0, "prefill-tokens-per-second": 6000.0}),
            ],
            [0.0, 1.0],
            id="cost: of the tokens, where rates are known",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [endpoint("a", attributes={"price-per-hour": 3.0}), endpoint("b")],
            [1.0, 0.0],
            id="cost: no price is the worst",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [
                endpoint(str(at), attributes={"price-per-hour": 2.0, "prefill-tokens-per-second": rate})
                for at, rate in enumerate((0.0, -1.0, math.inf, math.nan, 0.5, 1.0))
            ],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            id="cost: a rate that is none",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [
                endpoint("a", attributes={"price-per-hour": 2.0, "prefill-tokens-per-second": 1.0}),
                endpoint("b", attributes={"price-per-hour": 3.0}),
            ],
            [1.0, 0.0],
            id="cost: prices alone, where a rate is missing",
        ),
        pytest.param(
            "cost-scorer",
            {"rateAttribute": ""},
            [
                endpoint("a", attributes={"price-per-hour": 2.0, "prefill-tokens-per-second": 1.0, "": 1.0}),
                endpoint("b", attributes={"price-per-hour": 3.0, "prefill-tokens-per-second": 9.0, "": 9.0}),
            ],
            [1.0, 0.0],
            id="cost: prices alone, where that is wanted",
        ),
        pytest.param(
            "cost-scorer",
            {},
            [
                endpoint(str(at), attributes={"price-per-hour": price})
                for at, price in enumerate((0.0, 4.0, -1.0, math.inf, math.nan))
            ],
            [1.0, 0.0, 0.0, 0.0, 0.0],
            id="cost: nothing is the cheapest, and less is no price",
        ),
        pytest.param("cost-scorer", {}, [endpoint("a"), endpoint("b")], [0.0, 0.0], id="cost: no price at all"),
        pytest.param("mm-embeddings-cache-scorer", {}, [endpoint("a")], [0.0], id="without effect"),
    ],
)
def test_scores(type_name, parameters, endpoints, expected):
    assert scores(type_name, endpoints, **parameters) == expected


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(lora(["m"], [], 4), 1.0, id="running"),
        pytest.param(lora(["x", "y"], ["m"], 2), 0.6, id="waiting, and no room"),
        pytest.param(lora(["x"], [], 2), 0.8, id="room for it"),
        pytest.param(lora(["x"], ["m"], 5), 0.8, id="room beats waiting"),
        pytest.param(lora(["x", "y"], [], 2), 0.0, id="no room"),
        pytest.param(lora(), 0.0, id="no metrics"),
    ],
)
def test_lora_affinity(load, expected):
    assert scores("lora-affinity-scorer", endpoints_with([load]), Request("r", model="m")) == [expected]


@pytest.mark.parametrize(
    ("parameters", "matched", "total", "block", "expected"),
    [
        pytest.param({}, [0, 5, 10], 10, 1, [0.0, 0.5, 1.0], id="the share that is held"),
        pytest.param(
            {"matchLengthWeight": 0.5, "matchLengthScaleTokens": 100}, [5], 10, 1, [0.2512], id="short and half held"
        ),
        pytest.param(
            {"matchLengthWeight": 0.5, "matchLengthScaleTokens": 100}, [50], 100, 1, [0.375], id="long and half held"
        ),
        pytest.param({"matchLengthWeight": 1, "matchLengthScaleTokens": 64}, [4], 8, 64, [1.0], id="length alone"),
        pytest.param(
            {"matchLengthWeight": 0.5, "matchLengthScaleTokens": 16}, [8], 4, 1, [0.625], id="no share is more than all"
        ),
        pytest.param({}, [8, 2], 4, 1, [1.0, 0.5], id="nor without a length"),
        pytest.param({}, [0, 0], 10, 1, [0.0, 0.0], id="none holds anything"),
        pytest.param({}, [0], 0, 1, [0.0], id="an empty prompt"),
    ],
)
def test_prefix_cache(parameters, matched, total, block, expected):
    endpoints = endpoints_with(EndpointMetrics() for _ in matched)
    found = scores(
        "prefix-cache-scorer",
        endpoints,
        prepare=lambda context: with_prefix(context, matched, total, block),
        **parameters,
    )
    assert found == expected


def test_prefix_cache_without_a_producer_scores_nothing():
    assert scores("prefix-cache-scorer", endpoints_with([EndpointMetrics(), EndpointMetrics()])) == [0.0, 0.0]


def test_prefix_cache_is_aligned_with_the_endpoints_that_filters_left():
    endpoints = endpoints_with(EndpointMetrics() for _ in range(3))
    context = with_prefix(context_of(endpoints), [1, 2, 3], 4)
    assert list(make("prefix-cache-scorer").score(context, (endpoints[2], endpoints[0]))) == [0.75, 0.25]


def test_prefix_cache_keeps_only_those_that_hold_something():
    endpoints = endpoints_with(EndpointMetrics() for _ in range(4))
    for matched in ([0, 1, 0, 9], SparseVector(4, {1: 1, 3: 9}, 0)):
        found = make("prefix-cache-scorer").score(with_prefix(context_of(endpoints), matched, 4), endpoints)
        assert (list(found), found.values) == ([0.0, 0.25, 0.0, 1.0], {1: 0.25, 3: 1.0})


def test_the_older_scorer_of_the_precise_index_reads_that():
    endpoints = endpoints_with([EndpointMetrics()])
    context, scorer = context_of(endpoints), make("precise-prefix-cache-scorer")
    for producer, matched in (("precise-prefix-cache-producer", 1), ("approx-prefix-cache-producer", 2)):
        put_prefix(context, producer, PrefixMatch(4, 1, [matched]))
    assert (scorer.name, list(scorer.score(context, endpoints))) == ("precise-prefix-cache-scorer", [0.25])


def test_prefix_cache_reads_the_producer_it_names():
    endpoints = endpoints_with([EndpointMetrics()])
    context = with_prefix(context_of(endpoints), [2], 4)
    named = make("prefix-cache-scorer", prefixMatchInfoProducerName="prefix")
    other = make("prefix-cache-scorer", prefixMatchInfoProducerName="other")
    assert (list(named.score(context, endpoints)), list(other.score(context, endpoints))) == ([0.5], [0.0])


@pytest.mark.parametrize(
    ("ahead", "matched", "expected"),
    [
        pytest.param([0, 250, 750], None, [0.992, 0.742, 0.242], id="what is in flight, and the request"),
        pytest.param([0, 250, 750], [0, 4, 8], [0.992, 0.746, 0.25], id="less what is cached"),
        pytest.param([5000, 0], None, [0.0, 0.992], id="beyond the threshold"),
        pytest.param([-50], None, [1.0], id="less than nothing"),
    ],
)
def test_token_load(ahead, matched, expected):
    def prepare(context):
        return context if matched is None else with_prefix(context, matched, 8)

    endpoints = busy(*((0, tokens) for tokens in ahead))
    assert scores("token-load-scorer", endpoints, TOKENS_8, prepare=prepare, queueThresholdTokens=1000) == expected


def test_token_load_up_to_four_mebitokens():
    endpoints = busy((0, 4 * 2**20 - 1), (0, 4 * 2**20))
    assert make("token-load-scorer").score(context_of(endpoints), endpoints) == [2.0**-22, 0.0]


def test_active_requests_are_read_of_one_endpoint():
    (found,) = busy((3, 700))
    assert make("active-request-scorer").read(found) == 3


@pytest.mark.parametrize(
    ("label", "tokens", "expected"),
    [
        ("0-20", 0, 0.999),
        ("0-10000", 0, 0.755),
        ("500-1000", 0, 0.2),
        ("500-1000", 100, 0.2143),
        (None, 0, 0.5),
        ("8-8", 8, 1.0),
        ("0-8", 8, 0.7896),
        ("8-16", 8, 0.9996),
        ("0-4", 8, 0.2988),
        ("nonsense", 8, 0.0),
        ("9-3", 8, 0.0),
        ("-3", 8, 0.0),
    ],
)
def test_context_length(label, tokens, expected):
    labels = {} if label is None else {LABEL: label}
    request = Request("r", prompts=(b"x" * (4 * tokens),))
    assert scores("context-length-aware", [endpoint(labels=labels)], request) == [expected]


def test_a_range_of_ten_thousand_tokens_is_half_as_narrow_as_one_of_none():
    found = make("context-length-aware").score(context_of([endpoint()]), [endpoint(labels={LABEL: "0-10000"})])
    assert found == [pytest.approx(0.3 + 0.7 * (0.7 / 2 + 0.3), rel=1e-9)]


def test_context_length_is_no_filter_by_default():
    found = [hasattr(make("context-length-aware", **given), "refuse") for given in ({}, {"enableFiltering": True})]
    assert found == [False, True]


def test_header_label_affinity():
    endpoints = [endpoint("a", labels={"tier": "gold"}), endpoint("b", labels={"tier": "tin"}), endpoint("c")]
    parameters = {"headerName": "X-Tier", "labelKey": "tier"}
    wanted = Request("r", headers={"x-tier": "gold"})
    assert scores("header-label-affinity-scorer", endpoints, wanted, **parameters) == [1.0, 0.0, 0.0]
    assert scores("header-label-affinity-scorer", endpoints, **parameters) == [0.0, 0.0, 0.0]


def test_topology_affinity():
    topology = "topology.kubernetes.io"
    places = ("kubernetes.io/hostname", f"{topology}/rack", f"{topology}/zone", f"{topology}/region")
    near = [endpoint(f"n{level}", labels=dict.fromkeys(places[level:], "here")) for level in range(5)]
    peer = endpoint("peer", labels=dict.fromkeys(places, "here"))

    def prepare(context):
        context.put(PEER, peer)
        return context

    assert scores("topology-affinity-scorer", near, prepare=prepare) == [1.0, 0.2, 0.05, 0.02, 0.0]
    assert scores("topology-affinity-scorer", near) == [0.0] * 5


GOALS = Request("r", ttft_goal_s=1.0, tpot_goal_s=1.0)


@pytest.mark.parametrize(
    ("request_", "headrooms", "parameters", "expected"),
    [
        pytest.param(GOALS, [(0.1, 0.0), (0.5, 0.0)], {}, [1.0, 0.01], id="least headroom first"),
        pytest.param(
            GOALS, [(0.1, 0.0), (0.5, 0.0)], {"headroomSelectionStrategy": "least"}, [1.0, 0.01], id="by its name"
        ),
        pytest.param(
            GOALS, [(0.1, 0.0), (0.5, 0.0)], {"headroomSelectionStrategy": "most"}, [0.01, 1.0], id="most first"
        ),
        pytest.param(GOALS, [(0.1, 0.4), (0.5, 0.0)], {}, [0.81, 0.2], id="both dimensions, weighed"),
        pytest.param(
            GOALS, [(0.1, 0.4), (0.5, 0.0)], {"ttftWeight": 1, "tpotWeight": 3}, [0.26, 0.76], id="weighed otherwise"
        ),
        pytest.param(
            GOALS, [(0.1, 0.4), (0.5, 0.0)], {"ttftWeight": 0, "tpotWeight": 0}, [1.0, 0.01], id="without weights"
        ),
        pytest.param(GOALS, [(0.0, 0.0), (0.5, 0.0)], {}, [1.0, 0.01], id="goals that are just met"),
        pytest.param(GOALS, [(0.2, 0.2), (0.2, 0.2)], {}, [0.51, 0.51], id="all alike"),
        pytest.param(GOALS, [(0.3, 0.1), (-0.1, 0.1)], {}, [0.51, 0.0], id="those that miss score nothing"),
        pytest.param(GOALS, [(0.3, 0.1), None], {}, [0.51, 0.0], id="nor do those nothing is known of"),
        pytest.param(
            Request("r", ttft_goal_s=0.5), [(0.1, -9.0), (0.5, 9.0)], {}, [1.0, 0.01], id="a goal for the first token"
        ),
        pytest.param(
            Request("r", tpot_goal_s=0.5), [(-9.0, 0.1), (9.0, 0.5)], {}, [1.0, 0.01], id="a goal for the others"
        ),
        pytest.param(
            Request("r"), [(0.3, 0.0), (-0.1, 0.0)], {}, [1.0, 0.01], id="without goals the shortest time is best"
        ),
    ],
)
def test_latency(request_, headrooms, parameters, expected):
    endpoints = busy(*((1, 0) for _ in headrooms))
    found = scores(
        "latency-scorer", endpoints, request_, prepare=lambda context: with_headroom(context, headrooms), **parameters
    )
    assert found == expected


def test_latency_where_none_meets_the_goals():
    headrooms = [(-0.5, -0.5), (-0.1, 0.2), (0.3, -0.2), (0.3, -0.4)]

    def prepare(context):
        return with_headroom(context, headrooms)

    at_work = busy(*((1, 0) for _ in headrooms))
    assert scores("latency-scorer", at_work, GOALS, prepare=prepare) == [0.0, 0.0, 1.0, 0.01]
    one_idle = busy((0, 0), (1, 0), (1, 0), (1, 0))
    assert scores("latency-scorer", one_idle, GOALS, prepare=prepare) == [0.51, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("headrooms", "expected"),
    [
        pytest.param([(-0.5, -0.5), (0.0, -0.3)], [0.0, 0.51], id="the first token is just in time"),
        pytest.param([(-0.5, -0.5), (-0.2, 0.3), (-0.1, 0.0)], [0.0, 0.01, 1.0], id="only the first token is late"),
        pytest.param([(-0.5, -0.1), (-0.1, -0.5)], [0.2, 0.81], id="all miss both"),
    ],
)
def test_latency_by_what_is_missed(headrooms, expected):
    at_work = busy(*((1, 0) for _ in headrooms))
    assert scores("latency-scorer", at_work, GOALS, prepare=lambda each: with_headroom(each, headrooms)) == expected


def test_latency_without_goals_is_by_all_of_the_expected_time():
    """Nothing is expected for further tokens of the first: it is 10 s late with the first one all the same."""
    endpoints = busy((1, 0), (1, 0))
    found = scores("latency-scorer", endpoints, prepare=lambda each: with_headroom(each, [(-9.0, 1.0), (0.9, 0.0)]))
    assert found == [0.2, 0.81]


def test_latency_without_predictions_goes_by_load_and_prefix():
    endpoints = endpoints_with(
        [EndpointMetrics(waiting=0, kv_cache_usage=0.5), EndpointMetrics(waiting=4, kv_cache_usage=0.0)]
    )
    assert scores("latency-scorer", endpoints, prepare=lambda context: with_prefix(context, [0, 4], 4)) == [0.5, 0.67]
    assert scores("latency-scorer", endpoints, prepare=lambda context: with_prefix(context, [0, 9], 4)) == [0.5, 0.67]
    assert scores("latency-scorer", endpoints, prepare=lambda context: with_prefix(context, [1, 2], 4)) == [0.58, 0.5]
    assert scores("latency-scorer", endpoints[:1]) == [0.5]
    weights = {"compositeKVWeight": 1, "compositeQueueWeight": 3, "compositePrefixWeight": 4}
    assert scores("latency-scorer", endpoints[:1], **weights) == [0.44]
    none = dict.fromkeys(weights, 0)
    held = [4, 0]
    assert scores("latency-scorer", endpoints, prepare=lambda each: with_prefix(each, held, 4), **none) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("type_name", "parameters", "says"),
    [
        ("prefix-cache-scorer", {"matchLengthWeight": -0.1}, "matchLengthWeight"),
        ("prefix-cache-scorer", {"matchLengthWeight": 1.1}, "matchLengthWeight"),
        ("prefix-cache-scorer", {"matchLengthScaleTokens": 0}, "matchLengthScaleTokens"),
        ("load-aware-scorer", {"threshold": 0}, "threshold"),
        ("header-label-affinity-scorer", {"headerName": "", "labelKey": "k"}, "headerName and labelKey"),
        (
            "endpoint-attribute-scorer",
            {
                "attributeKey": "k",
                "algorithm": {
                    "type": "linear_lower_is_better",
                    "normalization": {"fixedRange": {"min": 3, "max": 3}},
                },
            },
            "min must be less than max",
        ),
        ("endpoint-attribute-scorer", {"attributeKey": "", "algorithm": {"type": "linear_lower_is_better"}}, "requ"),
        (
            "endpoint-attribute-scorer",
            {
                "attributeKey": "k",
                "algorithm": {
                    "type": "linear_lower_is_better",
                    "normalization": {"fixedRange": {"min": 0, "max": 3}, "adaptiveRange": {}},
                },
            },
            "fixedRange and adaptiveRange exclude each other",
        ),
        ("cost-scorer", {"priceAttribute": ""}, "priceAttribute is required"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(type_name, parameters, says):
    with pytest.raises((InputError, ValueError), match=says):
        make(type_name, **parameters)


def test_what_scorers_read_of_producers_and_what_replaces_them():
    found = {each.name: (each.consumes, each.replaced_by, set(each.parts)) for each in TYPES}
    assert {name: told for name, told in found.items() if any(told)} == {
        "active-request-scorer": (("in-flight load",), "", set()),
        "latency-scorer": (("latency", "prefix"), "", set()),
        "mm-embeddings-cache-scorer": ((), "", {"without effect"}),
        "multicluster-prefix-cache-scorer": (("prefix",), "", set()),
        "precise-prefix-cache-scorer": ((), "prefix-cache-scorer", {"extractor"}),
        "prefix-cache-scorer": (("prefix",), "", set()),
        "token-load-scorer": (("in-flight load",), "", set()),
    }


anything = st.floats(allow_nan=True, allow_infinity=True)
loads = st.builds(
    EndpointMetrics,
    waiting=anything,
    running=anything,
    kv_cache_usage=anything,
    adapters=st.sampled_from([lora(["m"], [], 1).adapters, lora([], ["m"], 1).adapters, lora().adapters]),
    scraped_s=st.floats(-1, 10),
)
SCORERS = {
    "header-label-affinity-scorer": {"headerName": "h", "labelKey": LABEL},
    "endpoint-attribute-scorer": {"attributeKey": "price-per-hour", "algorithm": {"type": "linear_lower_is_better"}},
    "latency-scorer": {"headroomSelectionStrategy": "most"},
}


@st.composite
def pools(draw):
    return tuple(
        endpoint(
            f"e{at}",
            labels=draw(st.sampled_from([{}, {LABEL: "0-50"}, {LABEL: "7"}, {LABEL: "10-9"}])),
            attributes=draw(st.sampled_from([{}, {"price-per-hour": 1.0}])) or {"price-per-hour": draw(anything)},
            in_flight=(draw(st.integers(0, 50)), draw(st.integers(-5, 10**9))),
            metrics=draw(loads),
        )
        for at in range(draw(st.integers(1, 8)))
    )


@cache
def every_scorer():
    found = []
    for kind in builtin_registry().values():
        try:
            found.append(make(kind.name, **SCORERS.get(kind.name, {})))
        except (InputError, ValueError):
            continue
    return [plugin for plugin in found if isinstance(plugin, Scorer)]


def test_every_scorer_is_tried_below():
    assert len(every_scorer()) >= 17


@given(
    pools(),
    st.binary(max_size=400),
    st.lists(st.tuples(anything, anything) | st.none(), min_size=8, max_size=8),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
)
def test_no_score_leaves_its_range_and_none_is_nan(endpoints, prompt, headrooms, matched):
    request = Request("r", model="m", prompts=(prompt,), headers={"h": "0-50"}, ttft_goal_s=1.0, tpot_goal_s=0.1)
    finite = [pair if pair and all(map(math.isfinite, pair)) else None for pair in headrooms]
    context = with_headroom(
        with_prefix(context_of(endpoints, request), matched[: len(endpoints)], 8), finite[: len(endpoints)]
    )
    for scorer in every_scorer():
        found = list(scorer.score(context, endpoints))
        assert len(found) == len(endpoints), scorer.name
        assert all(0.0 <= value <= 1.0 for value in found), (scorer.name, found)


@given(pools(), st.randoms(use_true_random=False))
def test_the_order_of_endpoints_does_not_change_their_scores(endpoints, random):
    mixed = list(endpoints)
    random.shuffle(mixed)
    for scorer in every_scorer():
        one = dict(zip(endpoints, scorer.score(context_of(endpoints), endpoints), strict=True))
        assert one == dict(zip(mixed, scorer.score(context_of(mixed), mixed), strict=True)), scorer.name
