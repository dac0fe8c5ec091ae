"""Whom each filter keeps, by tables; and that those which never empty a pool never do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.epp.config.config import load as read_config
from modelplane.epp.scheduling.endpoints import Role
from modelplane.epp.scheduling.filters import TYPES
from modelplane.epp.scheduling.filters.attribute import ThresholdAlgorithm
from modelplane.epp.scheduling.filters.detectors import ConcurrencyParameters
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.scheduling.topology import PEER
from modelplane.framework import Profile, RefusalCode, Runner, RunOutcome, StepRecorder
from modelplane.testing.picking import (
    chances,
    context_of,
    endpoint,
    endpoints_with,
    lora,
    make,
    with_headroom,
    with_prefix,
)

ROLE = "llm-d.ai/role"
EVERY_ROLE = [*(endpoint(str(role), labels={ROLE: str(role)}) for role in Role), endpoint("none")]


def kept(plugin, context, endpoints):
    """Names that a profile of this filter alone admits, and what it says of the others."""
    told = StepRecorder()
    Runner(Profile("p", make("max-score-picker"), (plugin,))).run(context, endpoints, told)
    assert {found.name for found, _ in told.refusals}.isdisjoint(found.name for found, *_ in told.scores)
    return [found.name for found, *_ in told.scores], {found.name: refusal for found, refusal in told.refusals}


def names_kept(type_name, endpoints, request=None, /, prepare=lambda context: context, chance=None, **parameters):
    return kept(make(type_name, **parameters), prepare(context_of(endpoints, request, chance=chance)), endpoints)[0]


@pytest.mark.parametrize(
    ("type_name", "expected"),
    [
        ("decode-filter", ["decode", "prefill-decode", "both", "encode-prefill-decode", "none"]),
        ("prefill-filter", ["prefill", "prefill-decode", "both", "encode-prefill", "encode-prefill-decode"]),
        ("encode-filter", ["encode", "encode-prefill", "encode-prefill-decode"]),
    ],
)
def test_roles(type_name, expected):
    assert names_kept(type_name, EVERY_ROLE) == expected


def test_a_missing_role_is_unresolvable_and_never_unschedulable():
    _, refusals = kept(make("prefill-filter"), context_of(EVERY_ROLE), EVERY_ROLE)
    assert {name: (refusal.code, refusal.reason) for name, refusal in refusals.items()} == {
        "decode": (RefusalCode.UNRESOLVABLE, "has the role decode"),
        "encode": (RefusalCode.UNRESOLVABLE, "has the role encode"),
        "none": (RefusalCode.UNRESOLVABLE, "has no role label"),
    }


TIERS = [endpoint("gold", labels={"tier": "gold"}), endpoint("tin", labels={"tier": "tin"}), endpoint("none")]


@pytest.mark.parametrize(
    ("type_name", "parameters", "expected"),
    [
        pytest.param("label-selector-filter", {}, ["gold", "tin", "none"], id="an empty selector takes all"),
        pytest.param("label-selector-filter", {"matchLabels": {"tier": "gold"}}, ["gold"], id="labels"),
        pytest.param(
            "label-selector-filter",
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "tin"]}]},
            ["gold", "tin"],
            id="in",
        ),
        pytest.param(
            "by-label-selector",
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]},
            ["tin", "none"],
            id="not in takes those without the label",
        ),
        pytest.param(
            "label-selector-filter",
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            ["gold", "tin"],
            id="exists",
        ),
        pytest.param(
            "label-selector-filter",
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            ["none"],
            id="does not exist",
        ),
        pytest.param("by-label", {"label": "tier", "validValues": ["tin"]}, ["tin"], id="one label"),
        pytest.param(
            "by-label",
            {"label": "tier", "validValues": ["tin"], "allowsNoLabel": True},
            ["tin", "none"],
            id="one label, or none",
        ),
    ],
)
def test_labels(type_name, parameters, expected):
    assert names_kept(type_name, TIERS, **parameters) == expected


ACCELERATED = [
    endpoint("h100", labels={"modelplane.ai/accelerator": "H100"}),
    endpoint("l4", labels={"modelplane.ai/accelerator": "L4"}),
    endpoint("unknown"),
]


@pytest.mark.parametrize(
    ("parameters", "headers", "expected"),
    [
        pytest.param({}, {}, ["h100", "l4", "unknown"], id="no requirement"),
        pytest.param({"values": ["H100"]}, {}, ["h100"], id="the configuration requires"),
        pytest.param({}, {"x-modelplane-accelerator": "L4, TPU"}, ["l4"], id="the request requires"),
        pytest.param({"allowsNoLabel": True, "values": ["L4"]}, {}, ["l4", "unknown"], id="unknown may pass"),
        pytest.param({"values": ["H100"]}, {"x-modelplane-accelerator": "L4"}, [], id="both require, none left"),
    ],
)
def test_accelerators(parameters, headers, expected):
    assert names_kept("accelerator-filter", ACCELERATED, Request("r", headers=headers), **parameters) == expected


def test_models_and_adapters():
    served = endpoints_with(
        [EndpointMetrics(models=frozenset({"m"})), EndpointMetrics(models=frozenset({"x"})), EndpointMetrics()]
    )
    assert names_kept("model-filter", served, Request("r", model="m")) == ["a", "c"]
    adapters = endpoints_with([lora(["m"], [], 1), lora(["x"], [], 1), lora(["x"], [], 2), lora(), lora([], ["m"], 1)])
    assert names_kept("lora-filter", adapters, Request("r", model="m")) == ["a", "c", "d", "e"]
    assert names_kept("lora-filter", adapters, Request("r", model="m"), allowLoad=False) == ["a", "d", "e"]


@pytest.mark.parametrize(
    ("filters", "outcome"),
    [
        pytest.param(["model-filter"], Outcome.UNKNOWN_MODEL, id="no endpoint has the model"),
        pytest.param(["decode-filter", "model-filter"], Outcome.UNKNOWN_MODEL, id="no decode endpoint has it"),
        pytest.param(["model-filter", "prefill-filter"], Outcome.UNKNOWN_MODEL, id="none left for the role"),
        pytest.param(["prefill-filter", "model-filter"], Outcome.EXCLUDED, id="no endpoint has the role"),
        pytest.param(["utilization-filter", "model-filter"], Outcome.SATURATED, id="a busy one may have it"),
    ],
)
def test_a_model_without_a_server_is_not_found(filters, outcome):
    busy = "{conditions: [{metric: waiting-queue, maxValue: 5}]}"
    listed = [f"- {{type: {name}, parameters: {busy if name.startswith('util') else '{}'}}}\n" for name in filters]
    config = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n" + "".join(listed)
    pool = endpoints_with(
        [EndpointMetrics(models=frozenset({"x"})), EndpointMetrics(waiting=9, models=frozenset({"y"}))]
    )
    decision = Scheduler(read_config(config).build()).schedule(Request("r", model="m"), pool, 0.0, lambda: 0.5)
    assert decision.outcome is outcome


@pytest.mark.parametrize(
    ("models_of_failing", "outcome"),
    [
        pytest.param(frozenset(), Outcome.UNKNOWN_MODEL, id="404 stays 404 while another endpoint fails"),
        pytest.param(frozenset({"y"}), Outcome.UNKNOWN_MODEL, id="the failing one has another model"),
        pytest.param(frozenset({"m"}), Outcome.SATURATED, id="the failing one has it: it may come back"),
    ],
)
def test_a_failing_endpoint_says_nothing_about_models(models_of_failing, outcome):
    plugins = "plugins: [{type: failing-endpoint-filter}, {type: model-filter}]\n"
    config = f"apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n{plugins}"
    pool = endpoints_with([EndpointMetrics(models=models_of_failing), EndpointMetrics(models=frozenset({"x"}))])
    pool[0].failures = 10
    decision = Scheduler(read_config(config).build()).schedule(Request("r", model="m"), pool, 0.0, lambda: 0.5)
    assert decision.outcome is outcome


@pytest.mark.parametrize(
    ("type_name", "parameters"),
    [
        ("utilization-filter", {"conditions": [{"metric": "waiting-queue", "maxValue": 5}]}),
        ("utilization-filter", {"conditions": [{"metric": "running-requests", "maxValue": 5}]}),
        ("utilization-filter", {"conditions": [{"metric": "kv-cache-utilization", "maxValue": 0.5}]}),
        ("utilization-detector", {"queueDepthThreshold": 5}),
    ],
)
def test_a_burst_between_two_scrapes_counts(type_name, parameters):
    pool = endpoints_with([EndpointMetrics(scraped_s=0.0, block_size=16, blocks=50)] * 2)
    for _ in range(50):
        pool[0].count(1, 10)
    assert names_kept(type_name, pool, **parameters) == ["b"]


LOADED = endpoints_with(
    [
        EndpointMetrics(waiting=1, kv_cache_usage=0.5, scraped_s=0.0),
        EndpointMetrics(waiting=9, kv_cache_usage=0.2, scraped_s=0.0),
        EndpointMetrics(kv_cache_usage=0.95, scraped_s=0.0),
    ]
)
QUEUE_AND_KV = [{"metric": "waiting-queue", "maxValue": 5}, {"metric": "kv-cache-utilization", "maxValue": 0.9}]


@pytest.mark.parametrize(
    ("type_name", "parameters", "expected"),
    [
        pytest.param("utilization-filter", {"conditions": QUEUE_AND_KV}, ["a"], id="every condition holds"),
        pytest.param(
            "utilization-filter", {"conditions": [{"metric": "waiting-queue", "maxValue": 1}]}, ["a", "c"], id="at most"
        ),
        pytest.param(
            "utilization-filter", {"conditions": [{"metric": "running-requests", "maxValue": 0}]}, ["a", "b", "c"]
        ),
        pytest.param(
            "utilization-filter",
            {"conditions": [{"metric": "kv-cache-utilization", "maxValue": 1.0}]},
            ["a", "b", "c"],
            id="all of the cache",
        ),
        pytest.param("utilization-detector", {}, ["a"], id="detector: below both thresholds"),
        pytest.param("utilization-detector", {"headroom": 1.0}, ["a", "b", "c"], id="detector: with headroom"),
        pytest.param(
            "utilization-detector",
            {"queueDepthThreshold": 1, "kvCacheUtilThreshold": 0.1},
            ["a", "b", "c"],
            id="detector: all full, so all stay",
        ),
        pytest.param(
            "endpoint-attribute-filter",
            {
                "attribute": "t",
                "algorithm": {"type": "threshold", "threshold": {"operator": "LessThan", "value": 3}},
            },
            ["a", "b", "c"],
            id="attribute: missing passes",
        ),
    ],
)
def test_figures(type_name, parameters, expected):
    assert names_kept(type_name, LOADED, **parameters) == expected


@pytest.mark.parametrize(("most", "expected"), [(0, ["c"]), (1, ["b", "c"]), (2, ["a", "b", "c"])])
def test_requests_of_this_picker_in_flight(most, expected):
    pool = [endpoint(name, in_flight=(count, 0)) for name, count in zip("abc", (2, 1, 0), strict=True)]
    conditions = [{"metric": "active-requests", "maxValue": most}]
    assert names_kept("utilization-filter", pool, conditions=conditions) == expected


@pytest.mark.parametrize(("fallback", "expected"), [(False, []), (True, ["a", "b", "c"])])
def test_all_above_their_limits(fallback, expected):
    conditions = [{"metric": "kv-cache-utilization", "maxValue": 0.1}]
    parameters = {"conditions": conditions, "fallbackOnEmpty": fallback}
    assert names_kept("utilization-filter", LOADED, **parameters) == expected


@pytest.mark.parametrize(
    ("scraped_s", "now_s", "stale"),
    [(1.0, 1.25, False), (1.0, 1.3, True), (0.0, 0.0, False), (-1.0, -1.0, True), (2.0, 1.0, False)],
)
def test_how_old_figures_may_be(scraped_s, now_s, stale):
    parameters = make("utilization-detector", metricsStalenessThreshold="250ms").parameters
    assert parameters.are_stale(EndpointMetrics(scraped_s=scraped_s), now_s) is stale


def test_where_figures_are_old_requests_in_flight_count():
    pool = endpoints_with([EndpointMetrics(scraped_s=0.0), EndpointMetrics(scraped_s=9.9), EndpointMetrics()])
    detector = make("utilization-detector")
    context = context_of(pool, now_s=10.0)
    assert kept(detector, context, pool)[0] == ["a", "b", "c"]
    pool[0].requests_in_flight = 100
    names, refusals = kept(detector, context, pool)
    assert names == ["b", "c"]
    assert refusals["a"].reason == "its metrics are stale and 100 requests are in flight"


@pytest.mark.parametrize(("mode", "expected"), [("requests", ["b", "c"]), ("tokens", ["a", "b"]), ("hybrid", ["b"])])
def test_concurrency(mode, expected):
    pool = [endpoint("a", in_flight=(10, 5)), endpoint("b", in_flight=(9, 99)), endpoint("c", in_flight=(1, 100))]
    found = names_kept("concurrency-detector", pool, maxConcurrency=10, maxTokenConcurrency=100, concurrencyMode=mode)
    assert found == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("LessThan", ["a"]),
        ("LessThanOrEqual", ["a", "b"]),
        ("GreaterThan", ["c"]),
        ("GreaterThanOrEqual", ["b", "c"]),
        ("Equal", ["b"]),
        ("NotEqual", ["a", "c"]),
    ],
)
def test_attribute_operators(operator, expected):
    pool = [*(endpoint(name, attributes={"t": value}) for name, value in zip("abc", (1, 2, 3), strict=True))]
    pool.append(endpoint("d"))
    algorithm = {"type": "threshold", "threshold": {"operator": operator, "value": 2}}
    found = names_kept("endpoint-attribute-filter", pool, attribute="t", onMissing="Fail", algorithm=algorithm)
    assert found == expected


def sticky(shares, tokens=(0, 0, 0), **parameters):
    pool = [endpoint(name, in_flight=(0, ahead)) for name, ahead in zip("abc", tokens, strict=True)]
    return names_kept(
        "prefix-cache-affinity-filter",
        pool[: len(shares)],
        prepare=lambda context: with_prefix(context, shares, 100),
        **parameters,
    )


@pytest.mark.parametrize(
    ("shares", "tokens", "parameters", "expected"),
    [
        pytest.param([90, 85, 10], (0, 0, 0), {}, ["a", "b"], id="those that hold most"),
        pytest.param([10, 20, 30], (0, 0, 0), {}, ["a", "b", "c"], id="none holds enough"),
        pytest.param([90], (0, 0, 0), {}, ["a"], id="alone"),
        pytest.param([90, 10, 10], (400_000, 0, 0), {}, ["a", "b", "c"], id="too far behind"),
        pytest.param([90, 10, 10], (400_000, 0, 0), {"maxTTFTPenaltyMs": 30_000}, ["a"], id="not too far for this"),
        pytest.param([90, 10, 10], (10**9, 0, 0), {"maxTTFTPenaltyMs": 0}, ["a"], id="no penalty is too much"),
        pytest.param([90, 10, 10], (0, 0, 0), {"affinityThreshold": 0.95}, ["a", "b", "c"], id="a higher threshold"),
        pytest.param([90, 10, 10], (0, 0, 0), {"explorationProbability": 1}, ["a", "b", "c"], id="explores"),
        pytest.param(
            [90, 10, 10], (0, 0, 0), {"explorationProbability": 0.5, "chance": chances(0.5)}, ["a"], id="less often"
        ),
        pytest.param([80, 79, 10], (0, 0, 0), {}, ["a"], id="just enough"),
        pytest.param([90, 10], (0, 0, 0), {}, ["a"], id="one of two"),
        pytest.param([90, 10], (286_704, 0, 0), {}, ["a"], id="18 s at 15928 tokens a second"),
        pytest.param([90, 10], (286_705, 0, 0), {}, ["a", "b"], id="a token more"),
        pytest.param([90, 85, 10], (10**6, 286_704, 0), {}, ["a", "b"], id="the best of those that hold most"),
        pytest.param([90, 10, 10], (286_706, 10**6, 1), {}, ["a", "b", "c"], id="the best of the others"),
    ],
)
def test_prefix_affinity(shares, tokens, parameters, expected):
    assert sticky(shares, tokens, **parameters) == expected


def test_prefix_affinity_by_expected_latency():
    pool = [endpoint("a"), endpoint("b")]

    def prepare(context):
        return with_headroom(with_prefix(context, [90, 10], 100), [(-0.5, 0.0), (0.5, 0.0)])

    parameters = {"ttftSource": "latencyPredictor", "maxTTFTPenaltyMs": 999}
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, **parameters) == ["a", "b"]
    parameters = {"ttftSource": "latencyPredictor", "maxTTFTPenaltyMs": 1000}
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, **parameters) == ["a"]
    parameters = {"ttftSource": "prefillThroughput", "maxTTFTPenaltyMs": 999}
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, **parameters) == ["a"]
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, maxTTFTPenaltyMs=1000) == ["a"]


def test_prefix_affinity_by_tokens_in_flight_where_a_prediction_is_missing():
    pool = [endpoint("a"), endpoint("b")]

    def prepare(context):
        return with_headroom(with_prefix(context, [90, 10], 100), [(-5.0, 0.0), None])

    parameters = {"ttftSource": "latencyPredictor", "maxTTFTPenaltyMs": 1000}
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, **parameters) == ["a"]
    pool[0].tokens_in_flight = 400_000
    assert names_kept("prefix-cache-affinity-filter", pool, prepare=prepare, **parameters) == ["a", "b"]


GOALS = Request("r", ttft_goal_s=1.0)


MISSES, MEETS = "is not expected to meet the goals", "is expected to meet the goals, others are tried"


@pytest.mark.parametrize(
    ("request_", "headrooms", "chance", "expected"),
    [
        pytest.param(GOALS, [(0.0, 0.0), (-0.1, 0.1), None], 0.5, [None, MISSES, MISSES], id="just met"),
        pytest.param(GOALS, [(0.1, 0.1), (0.1, -0.1), None], 0.01, [None, MISSES, MISSES], id="tried less often"),
        pytest.param(GOALS, [(0.1, 0.1), (-0.1, 0.1), None], 0.009, [MEETS, None, None], id="the others are tried"),
        pytest.param(
            Request("r", tpot_goal_s=0.5),
            [(-0.1, 0.1), (0.1, 0.1)],
            0.5,
            [MISSES, None],
            id="a goal for further tokens",
        ),
        pytest.param(GOALS, [(0.1, 0.1), (0.1, 0.1)], 0.5, [], id="all meet the goals"),
        pytest.param(GOALS, [(-0.1, 0.1), None], 0.5, [], id="none meets them"),
        pytest.param(Request("r"), [(0.1, 0.1), (-0.1, 0.1)], 0.5, [], id="there are no goals"),
    ],
)
def test_what_headroom_tiers_say(request_, headrooms, chance, expected):
    pool = tuple(endpoint(str(at)) for at in range(len(headrooms)))
    context = with_headroom(context_of(pool, request_, chance=chances(chance)), headrooms)
    found = make("slo-headroom-tier-filter").narrow(context, pool)
    assert [refusal and refusal.reason for refusal in found] == expected


@pytest.mark.parametrize(
    ("type_name", "parameters"),
    [
        ("slo-headroom-tier-filter", {"epsilonExploreNeg": 0}),
        ("prefix-cache-affinity-filter", {"explorationProbability": 0}),
        ("failing-endpoint-filter", {"probeProbability": 0}),
    ],
)
def test_a_filter_that_never_explores_draws_nothing(type_name, parameters):
    pool, drawn = (endpoint("a"), endpoint("b")), chances(0.0, 0.5)
    pool[1].failures = 9
    context = with_prefix(context_of(pool, GOALS, chance=drawn), [9, 0], 10)
    found = make(type_name, **parameters).narrow(with_headroom(context, [(0.1, 0.1), None]), pool)
    assert ([refusal is None for refusal in found], drawn()) == ([True, False], 0.0)


@pytest.mark.parametrize(
    ("request_", "headrooms", "chance", "expected"),
    [
        pytest.param(GOALS, [(0.1, 0.1), (-0.1, 0.1), None], 0.5, ["a"], id="those that meet the goals"),
        pytest.param(GOALS, [(0.1, 0.1), (-0.1, 0.1), None], 0.001, ["b", "c"], id="now and then the others"),
        pytest.param(GOALS, [(-1.0, 0.1), (-0.1, 0.1), None], 0.5, ["a", "b", "c"], id="none meets them"),
        pytest.param(Request("r"), [(0.1, 0.1), (-0.1, 0.1), None], 0.5, ["a", "b", "c"], id="there are no goals"),
    ],
)
def test_headroom_tiers(request_, headrooms, chance, expected):
    pool = [endpoint(name) for name in "abc"]
    found = names_kept(
        "slo-headroom-tier-filter",
        pool,
        request_,
        prepare=lambda context: with_headroom(context, headrooms),
        chance=chances(chance),
    )
    assert found == expected


def test_failing_endpoints_are_left_alone_while_others_answer():
    pool = [endpoint("a"), endpoint("b"), endpoint("c")]
    pool[0].failures = 9
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == ["b", "c"]
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.01)) == ["b", "c"]
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.009)) == ["a", "b", "c"]
    for each in pool:
        each.failures = 9
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == ["a", "b", "c"]


@pytest.mark.parametrize("failures", [(0, 4), (5, 9)])
def test_where_none_or_all_fail_nothing_is_said(failures):
    pool = (endpoint("a"), endpoint("b"))
    pool[0].failures, pool[1].failures = failures
    assert make("failing-endpoint-filter").narrow(context_of(pool, chance=chances(0.5)), pool) == ()


@pytest.mark.parametrize(("refused", "kept"), [(1, ["a", "b"]), (2, ["b"])])
def test_an_endpoint_that_refused_two_scrapes_is_left_alone(refused, kept):
    pool = [endpoint("a"), endpoint("b")]
    pool[0].metrics = EndpointMetrics(refused_scrapes=refused)
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == kept
    pool[1].metrics = EndpointMetrics(refused_scrapes=9)
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == (["a"] if refused == 1 else ["a", "b"])


@pytest.mark.parametrize(
    ("failures", "refused", "models", "code", "reason"),
    [
        (5, 0, {"x"}, "UNRESOLVABLE", "failed 5 times in a row"),
        (5, 1, {"m", "x"}, "UNSCHEDULABLE", "failed 5 times in a row"),
        (0, 2, set(), "UNRESOLVABLE", "refused 2 connections in a row"),
        (9, 3, {"m"}, "UNSCHEDULABLE", "refused 3 connections in a row"),
    ],
)
def test_what_is_said_of_an_endpoint_that_does_not_answer(failures, refused, models, code, reason):
    pool = endpoints_with([EndpointMetrics(models=frozenset(models), refused_scrapes=refused), EndpointMetrics()])
    pool[0].failures = failures
    context = context_of(pool, Request("r", model="m"), chance=chances(0.5))
    found, answering = make("failing-endpoint-filter").narrow(context, pool)
    assert (found.code.name, found.reason, answering) == (code, reason, None)


def test_no_request_is_spent_on_an_endpoint_that_refuses_connections():
    pool = [endpoint("away"), endpoint("failing"), endpoint("answers")]
    pool[0].metrics, pool[0].failures, pool[1].failures = EndpointMetrics(refused_scrapes=2), 9, 9
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == ["answers"]
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.001)) == ["failing", "answers"]


def test_an_endpoint_that_was_away_and_is_back_starts_without_failures():
    pool = [endpoint("a"), endpoint("b")]
    pool[0].failures = pool[1].failures = 9
    pool[0].metrics = EndpointMetrics(refused_scrapes=2)
    for each in pool:
        each.metrics = EndpointMetrics(waiting=1)
    assert [each.failures for each in pool] == [0, 9]
    assert names_kept("failing-endpoint-filter", pool, chance=chances(0.5)) == ["a"]


def test_topology_keeps_those_near_the_peer():
    host, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    pool = [endpoint("a", labels={host: "h1", zone: "z"}), endpoint("b", labels={host: "h2", zone: "z"}), endpoint("c")]

    def near(peer):
        def prepare(context):
            context.put(PEER, peer)
            return context

        return prepare

    peer = endpoint("p", labels={host: "h1", zone: "z"})
    assert names_kept("topology-affinity-filter", pool, prepare=near(peer)) == ["a"]
    assert names_kept("topology-affinity-filter", pool, prepare=near(peer), minAffinity="zone") == ["a", "b"]
    assert names_kept("topology-affinity-filter", pool, prepare=near(endpoint("far"))) == ["a", "b", "c"]
    assert names_kept("topology-affinity-filter", pool) == ["a", "b", "c"]


def test_context_length_as_a_filter():
    label = "llm-d.ai/context-length-range"
    ranges = ("0-99", "0-100", "4-900", "100-900", "101-900", "100", "none")
    pool = [*(endpoint(each, labels={label: each}) for each in ranges), endpoint("any")]
    request = Request("r", prompts=(b"x" * 400,))
    found = names_kept("context-length-aware", pool, request, enableFiltering=True)
    assert found == ["0-100", "4-900", "100-900", "any"]
    refusal = make("context-length-aware", enableFiltering=True).refuse(context_of(pool, request), pool[0])
    assert (refusal.code.name, refusal.reason) == (
        "UNRESOLVABLE",
        "takes contexts of 0-99 tokens; the request has 100",
    )


@pytest.mark.parametrize(
    ("header", "expected"), [("10.0.0.97", ["a"]), ("10.0.0.98:8000, 10.0.0.97:1", ["b"]), (None, []), (" ", [])]
)
def test_the_header_of_conformance_tests(header, expected):
    pool = [endpoint("a"), endpoint("b")]
    headers = {} if header is None else {"test-epp-endpoint-selection": header}
    assert names_kept("header-based-testing-filter", pool, Request("r", headers=headers)) == expected


@pytest.mark.parametrize(
    ("type_name", "parameters", "says"),
    [
        ("by-label", {"label": ""}, "label is required"),
        ("by-label", {"label": "x"}, "no endpoint would ever pass"),
        ("label-selector-filter", {"matchExpressions": [{"key": "k", "operator": "In"}]}, "In needs values"),
        (
            "label-selector-filter",
            {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["v"]}]},
            "takes no values",
        ),
        ("utilization-filter", {}, "at least one"),
        ("utilization-filter", {"conditions": [{"metric": "nope", "maxValue": 1}]}, "nope"),
        (
            "utilization-filter",
            {"conditions": [{"metric": "kv-cache-utilization", "maxValue": 1.5}]},
            "conditions: kv-cache-utilization is a share of 1, and maxValue is 1.5",
        ),
        ("endpoint-attribute-filter", {"attribute": "t"}, "algorithm.threshold is required"),
        ("endpoint-attribute-filter", {"attribute": ""}, "attribute is required"),
        ("prefix-cache-affinity-filter", {"affinityThreshold": 1.5}, "affinityThreshold"),
        ("accelerator-filter", {"label": ""}, "label is required"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(type_name, parameters, says):
    with pytest.raises((InputError, ValueError), match=says):
        make(type_name, **parameters)


ABOVE_2 = {"algorithm": {"threshold": {"operator": "GreaterThan", "value": 2}}}
QUEUE = [{"metric": "waiting-queue", "maxValue": 5}]


@pytest.mark.parametrize(
    ("type_name", "parameters", "admitted"),
    [
        ("by-label", {"label": "tier", "validValues": ["gold"]}, [True, False]),
        ("header-based-testing-filter", {}, [True, False]),
        ("endpoint-attribute-filter", {"attribute": "t", **ABOVE_2}, [True, False]),
        ("endpoint-attribute-filter", {"attribute": "t", "fallbackOnEmpty": True, **ABOVE_2}, [True, True]),
        ("utilization-filter", {"conditions": QUEUE}, [True, False]),
        ("utilization-filter", {"conditions": QUEUE, "fallbackOnEmpty": True}, [True, True]),
        ("utilization-detector", {}, [True, True]),
        ("failing-endpoint-filter", {}, [True, True]),
        ("slo-headroom-tier-filter", {}, [True, True]),
        ("topology-affinity-filter", {}, [True, True]),
        ("prefix-cache-affinity-filter", {}, [True, True]),
    ],
)
def test_a_filter_of_all_endpoints_judges_a_single_one_as_a_pool_of_one(type_name, parameters, admitted):
    host = "kubernetes.io/hostname"
    good = endpoint("good", labels={"tier": "gold", host: "h"}, attributes={"t": 3})
    bad = endpoint("bad", labels={"tier": "tin"}, attributes={"t": 1}, metrics=EndpointMetrics(99, 0, 1.0, scraped_s=0))
    bad.failures = 99
    request = Request("r", ttft_goal_s=1.0, headers={"test-epp-endpoint-selection": good.address})
    found, alone = [], []
    for each, cached, headroom in ((good, 90, 0.5), (bad, 0, -0.5)):
        context = with_headroom(with_prefix(context_of((each,), request), [cached], 100), [(headroom, 0.0)])
        context.put(PEER, good)
        plugin = make(type_name, **parameters)
        found.append(plugin.refuse(context, each))
        alone.append((plugin.narrow(context, (each,)) or (None,))[0])
    assert (found, [refusal is None for refusal in found]) == (alone, admitted)


ACCELERATOR = "modelplane.ai/accelerator"
GPU = endpoint("e", labels={ACCELERATOR: "L4"})
WAITED_FOR = endpoint("e", metrics=EndpointMetrics(waiting=8, kv_cache_usage=0.9, scraped_s=0.0))
CALLED = endpoint("e", in_flight=(7, 700))
GOLD = {"matchLabels": {"tier": "gold"}}
IN_GOLD = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "tin"]}]}
UTILIZED = [{"metric": "kv-cache-utilization", "maxValue": 0.5}]


@pytest.mark.parametrize(
    ("type_name", "parameters", "refused", "code", "reason"),
    [
        ("model-filter", {}, endpoints_with([EndpointMetrics(models=frozenset({"x"}))])[0], "UNRESOLVABLE",
         "does not serve m"),
        ("lora-filter", {}, endpoints_with([lora(["x"], ["y"], 2)])[0], "UNSCHEDULABLE",
         "2 of 2 adapters are active, and m is not one of them"),
        ("lora-filter", {"allowLoad": False}, endpoints_with([lora(["x"], [], 2)])[0], "UNSCHEDULABLE",
         "has not loaded m"),
        ("label-selector-filter", GOLD, endpoint("e"), "UNRESOLVABLE", "has no label for tier, not gold"),
        ("label-selector-filter", GOLD, endpoint("e", labels={"tier": "tin"}), "UNRESOLVABLE",
         "has label tin for tier, not gold"),
        ("label-selector-filter", IN_GOLD, endpoint("e"), "UNRESOLVABLE",
         "its labels do not match tier In (gold, tin)"),
        ("by-label", {"label": "tier", "validValues": ["gold", "tin"]}, endpoint("e"), "UNRESOLVABLE", "has no tier"),
        ("by-label", {"label": "tier", "validValues": ["gold", "tin"]}, endpoint("e", labels={"tier": "lead"}),
         "UNRESOLVABLE", "has lead for tier; allowed are gold, tin"),
        ("accelerator-filter", {"values": ["H200", "H100"]}, GPU, "UNRESOLVABLE",
         "runs on L4; allowed are H100, H200"),
        ("accelerator-filter", {"values": ["H100"]}, endpoint("e"), "UNRESOLVABLE", f"has no {ACCELERATOR}"),
        ("accelerator-filter", {}, GPU, "UNRESOLVABLE", "runs on L4; the request requires H100, H200"),
        ("endpoint-attribute-filter", {"attribute": "t", "onMissing": "Fail", **ABOVE_2}, endpoint("e"),
         "UNSCHEDULABLE", "has no t"),
        ("endpoint-attribute-filter", {"attribute": "t", **ABOVE_2}, endpoint("e", attributes={"t": 2.0}),
         "UNSCHEDULABLE", "t is 2, not GreaterThan 2"),
        ("utilization-filter", {"conditions": QUEUE}, WAITED_FOR, "UNSCHEDULABLE", "waiting-queue is 8, above 5"),
        ("utilization-filter", {"conditions": UTILIZED}, WAITED_FOR, "UNSCHEDULABLE",
         "kv-cache-utilization is 0.9, above 0.5"),
        ("concurrency-detector", {"maxConcurrency": 7}, CALLED, "UNSCHEDULABLE",
         "7 requests are in flight, the limit is 7"),
        ("concurrency-detector", {"maxConcurrency": 5, "headroom": 0.4}, CALLED, "UNSCHEDULABLE",
         "7 requests are in flight, the limit is 7"),
        ("concurrency-detector", {"concurrencyMode": "tokens", "maxTokenConcurrency": 500, "headroom": 0.4}, CALLED,
         "UNSCHEDULABLE", "700 tokens are in flight, the limit is 700"),
        ("header-based-testing-filter", {}, WAITED_FOR, "UNRESOLVABLE", "is not listed in the request header: none"),
    ],
)  # fmt: skip
def test_what_a_filter_says_of_an_endpoint_that_it_refuses(type_name, parameters, refused, code, reason):
    request = Request("r", model="m", headers={"x-modelplane-accelerator": "H100, H200"})
    found = make(type_name, **parameters).refuse(context_of((refused,), request), refused)
    assert (found.filter, found.code.name, found.reason) == (type_name, code, reason)


@pytest.mark.parametrize(
    ("type_name", "parameters", "refused", "reason"),
    [
        ("utilization-detector", {}, WAITED_FOR, "8 requests are waiting, the limit is 5"),
        ("utilization-detector", {"queueDepthThreshold": 9}, WAITED_FOR,
         "90% of the KV cache is in use, the limit is 80%"),
        ("utilization-detector", {"queueDepthThreshold": 8}, WAITED_FOR, "8 requests are waiting, the limit is 8"),
        ("utilization-detector", {"queueDepthThreshold": 9, "kvCacheUtilThreshold": 0.9}, WAITED_FOR,
         "90% of the KV cache is in use, the limit is 90%"),
        ("utilization-detector", {"headroom": 0.4}, WAITED_FOR, "8 requests are waiting, the limit is 7"),
        ("utilization-detector", {"queueDepthThreshold": 9, "headroom": 0.1}, WAITED_FOR,
         "90% of the KV cache is in use, the limit is 88%"),
        ("utilization-detector", {}, endpoint("e", metrics=EndpointMetrics(), in_flight=(100, 0)),
         "its metrics are stale and 100 requests are in flight"),
        ("prefix-cache-affinity-filter", {}, WAITED_FOR, "holds 10% of the prompt, others 80% or more"),
        ("topology-affinity-filter", {}, WAITED_FOR, "is not in the same host as good"),
    ],
)  # fmt: skip
def test_what_a_filter_says_of_an_endpoint_beside_a_better_one(type_name, parameters, refused, reason):
    good = endpoint("good", labels={"kubernetes.io/hostname": "h"})
    context = with_prefix(context_of((good, refused), Request("r")), [9, 1], 10)
    context.put(PEER, good)
    kept_one, found = make(type_name, **parameters).narrow(context, (good, refused))
    assert (kept_one, found.code, found.reason) == (None, RefusalCode.UNSCHEDULABLE, reason)


@pytest.mark.parametrize("matched", [[0, 0], [9, 9], None])
def test_a_filter_by_prefix_leaves_a_choice_that_is_none(matched):
    pool = (endpoint("a"), endpoint("b"))
    context = context_of(pool, Request("r"))
    context = context if matched is None else with_prefix(context, matched, 10)
    assert make("prefix-cache-affinity-filter").narrow(context, pool) == ()


PLACES = {
    "host": "kubernetes.io/hostname",
    "rack": "topology.kubernetes.io/rack",
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
}


@pytest.mark.parametrize("at", range(4), ids=list(PLACES))
def test_topology_keeps_those_that_share_a_place(at):
    labels = list(PLACES.values())
    pool = tuple(endpoint(str(first), labels=dict.fromkeys(labels[first:], "here")) for first in range(5))
    context = context_of(pool, Request("r"))
    context.put(PEER, endpoint("peer", labels=dict.fromkeys(labels, "here")))
    level = list(PLACES)[at]
    found = make("topology-affinity-filter", minAffinity=level).narrow(context, pool)
    far = f"is not in the same {level} as peer"
    assert [each and each.reason for each in found] == [None] * (at + 1) + [far] * (4 - at)


def test_an_empty_label_is_no_place():
    pool = tuple(endpoint(name, labels={PLACES["host"]: ""}) for name in "ab")
    context = context_of(pool, Request("r"))
    context.put(PEER, pool[0])
    assert make("topology-affinity-filter").narrow(context, pool) == ()


def test_a_list_of_endpoints_is_read_anew():
    plugin, pool = make("encode-filter"), [endpoint("a", labels={ROLE: "encode"}), endpoint("b")]
    before = [refusal is None for refusal in plugin.narrow(context_of(pool), pool)]
    pool.reverse()
    assert (before, [refusal is None for refusal in plugin.narrow(context_of(pool), pool)]) == (
        [True, False],
        [False, True],
    )


@pytest.mark.parametrize("peer", [None, endpoint("far")])
def test_a_filter_by_topology_leaves_a_choice_that_is_none(peer):
    pool = (endpoint("a", labels={"kubernetes.io/hostname": "h"}), endpoint("b"))
    context = context_of(pool, Request("r"))
    if peer is not None:
        context.put(PEER, peer)
    assert make("topology-affinity-filter").narrow(context, pool) == ()


def test_what_filters_read_of_producers_and_what_replaces_them():
    found = {each.name: (each.consumes, each.replaced_by) for each in TYPES}
    assert {name: told for name, told in found.items() if any(told)} == {
        "concurrency-detector": (("in-flight load",), ""),
        "prefix-cache-affinity-filter": (("prefix", "in-flight load"), ""),
        "slo-headroom-tier-filter": (("latency",), ""),
        "utilization-filter": (("in-flight load",), ""),
        "by-label": ((), "label-selector-filter"),
        "by-label-selector": ((), "label-selector-filter"),
    }
    assert {each.name: set(each.parts) for each in TYPES if each.parts} == {
        "utilization-detector": {"detector"},
        "concurrency-detector": {"detector"},
    }


NEVER_EMPTY = (
    "prefix-cache-affinity-filter",
    "slo-headroom-tier-filter",
    "failing-endpoint-filter",
    "topology-affinity-filter",
    "utilization-detector",
)


@given(
    st.lists(
        st.builds(
            lambda load, failures, tokens: (load, failures, tokens),
            st.builds(
                EndpointMetrics, waiting=st.floats(0, 20), kv_cache_usage=st.floats(0, 1), scraped_s=st.floats(-1, 5)
            ),
            st.integers(0, 9),
            st.integers(0, 10**7),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(0, 10), min_size=6, max_size=6),
    st.lists(st.none() | st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=6, max_size=6),
    st.floats(0, 0.999),
)
def test_preferring_filters_keep_at_least_one_endpoint(states, matched, headrooms, chance):
    pool = []
    for at, (load, failures, tokens) in enumerate(states):
        each = endpoint(str(at), metrics=load, in_flight=(0, tokens))
        each.failures = failures
        pool.append(each)
    context = context_of(pool, GOALS, now_s=5.0, chance=chances(chance))
    with_headroom(with_prefix(context, matched[: len(pool)], 10), headrooms[: len(pool)])
    context.put(PEER, endpoint("peer", labels={"kubernetes.io/hostname": "h"}))
    profile = Profile("p", make("max-score-picker"), tuple(make(name) for name in NEVER_EMPTY))
    assert Runner(profile).run(context, pool).outcome is RunOutcome.PICKED


def test_what_is_not_set():
    assert msgspec.to_builtins(ConcurrencyParameters()) == {
        "maxConcurrency": 100,
        "headroom": 0.0,
        "concurrencyMode": "requests",
        "maxTokenConcurrency": 1_000_000,
        "inFlightLoadProducerName": "",
    }
    assert msgspec.to_builtins(ThresholdAlgorithm()) == {"type": "threshold", "threshold": None}
