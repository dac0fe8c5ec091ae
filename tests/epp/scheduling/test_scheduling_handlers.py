"""Which profiles handlers run, and the headers for the proxy."""

import msgspec
import pytest

from modelplane.api.errors import InputError
from modelplane.epp.config.config import load
from modelplane.epp.scheduling.handlers import TYPES
from modelplane.epp.scheduling.handlers.deciders import PrefixBasedParameters
from modelplane.epp.scheduling.handlers.disaggregated import StageOrder
from modelplane.epp.scheduling.handlers.header import HeaderParameters
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.testing.picking import chances, context_of, endpoint, make, with_prefix

ROLE = "llm-d.ai/role"
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def roles(**counts):
    return tuple(
        endpoint(f"{role.replace('_', '-')}{at}", labels={ROLE: role.replace("_", "-")})
        for role, count in counts.items()
        for at in range(count)
    )


def decide(config, pool, request=None):
    return Scheduler(load(HEAD + config).build()).schedule(request or Request("r"), pool, 0.0, chances(0.0))


def told(decision):
    return (
        decision.outcome,
        decision.profile,
        [[found.name for found in group] for group in decision.groups],
        {profile: [found.name for found in picks] for profile, picks in decision.others},
        dict(decision.set_headers),
    )


DISAGGREGATED = """
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: always-disagg-pd-decider, encode: always-disagg-multimodal-decider}}
- type: always-disagg-pd-decider
- type: always-disagg-multimodal-decider
- type: decode-filter
- type: prefill-filter
- type: encode-filter
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
- {name: encode, plugins: [{pluginRef: encode-filter}]}
"""


def test_decode_then_prefill():
    pool = roles(decode=1, prefill=2, encode=1)
    assert told(decide(DISAGGREGATED, pool)) == (
        Outcome.PICKED,
        "decode",
        [["decode0"]],
        {"prefill": ["prefill1", "prefill0"]},
        {"x-prefiller-host-port": pool[2].address},
    )


def test_encode_where_there_is_media():
    pool = roles(decode=1, prefill=1, encode=2)
    found = decide(DISAGGREGATED, pool, Request("r", has_media=True))
    assert dict(found.set_headers) == {
        "x-prefiller-host-port": pool[1].address,
        "x-encoder-hosts-ports": f"{pool[3].address},{pool[2].address}",
    }


def test_without_a_prefill_endpoint_decode_serves_alone():
    assert told(decide(DISAGGREGATED, roles(decode=1))) == (Outcome.PICKED, "decode", [["decode0"]], {}, {})


def test_without_a_decode_endpoint_the_status_is_503():
    found = decide(DISAGGREGATED, roles(prefill=2))
    assert (found.outcome, found.outcome.status) == (Outcome.EXCLUDED, 503)
    assert found.why == "profile decode admits no endpoint: decode-filter: has the role prefill"


def test_an_endpoint_with_both_roles_gets_no_prefill_header():
    found = decide(DISAGGREGATED, roles(both=1))
    assert told(found) == (Outcome.PICKED, "decode", [["both0"]], {}, {})


PREFILL_FIRST = DISAGGREGATED.replace(
    "parameters: {deciders: {prefill: always-disagg-pd-decider, encode: always-disagg-multimodal-decider}}",
    "parameters: {stageOrder: prefill-first, deciders: {encode: always-disagg-multimodal-decider}}",
).replace("- type: always-disagg-pd-decider\n", "")


def test_prefill_first_always_prefills():
    pool = roles(decode=1, prefill=1)
    assert told(decide(PREFILL_FIRST, pool)) == (
        Outcome.PICKED,
        "decode",
        [["decode0"]],
        {"prefill": ["prefill0"]},
        {"x-prefiller-host-port": pool[1].address},
    )
    assert told(decide(PREFILL_FIRST, roles(decode=1))) == (Outcome.PICKED, "decode", [["decode0"]], {}, {})


@pytest.mark.parametrize(
    ("has_media", "named"),
    [(False, ["x-prefiller-host-port"]), (True, ["x-encoder-hosts-ports", "x-prefiller-host-port"])],
)
def test_prefill_first_encodes_where_there_is_media(has_media, named):
    pool = roles(decode=1, prefill=1, encode=1)
    found = decide(PREFILL_FIRST, pool, Request("r", has_media=has_media))
    addresses = {"x-prefiller-host-port": pool[1].address, "x-encoder-hosts-ports": pool[2].address}
    assert dict(found.set_headers) == {name: addresses[name] for name in named}
    alone = PREFILL_FIRST.replace("- {name: encode, plugins: [{pluginRef: encode-filter}]}\n", "")
    assert dict(decide(alone, pool, Request("r", has_media=has_media)).set_headers) == {
        "x-prefiller-host-port": pool[1].address
    }


def test_prefill_first_without_a_prefill_profile_decodes_at_once():
    config = """
plugins:
- {type: disagg-profile-handler, parameters: {stageOrder: prefill-first}}
- type: decode-filter
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}]}
"""
    assert told(decide(config, roles(decode=1))) == (Outcome.PICKED, "decode", [["decode0"]], {}, {})


ALWAYS = {"always": make("always-disagg-pd-decider")}


@pytest.mark.parametrize(
    ("handler", "profiles", "expected"),
    [
        (make("single-profile-handler"), ["a"], []),
        (make("single-profile-handler"), ["a", "b"], ["runs exactly one profile, and there are 2 (a, b)"]),
        (make("data-parallel-profile-handler"), ["a"], []),
        (make("data-parallel-profile-handler"), ["a", "b"], ["runs exactly one profile, and there are 2 (a, b)"]),
        (make("header-profile-handler"), ["a"], []),
        (make("header-profile-handler", defaultProfile="b"), ["a", "b"], []),
        (
            make("header-profile-handler", headerName="X-Profile"),
            ["a", "b"],
            ["needs a profile decode, for requests without the header x-profile"],
        ),
        (make("disagg-profile-handler", ALWAYS, deciders={"prefill": "always"}), ["decode", "prefill"], []),
        (make("disagg-profile-handler", stageOrder="prefill-first"), ["decode", "prefill"], []),
        (
            make("disagg-profile-handler"),
            ["prefill", "encode", "other"],
            [
                "needs a profile decode",
                "never runs profile prefill: deciders.prefill is not set",
                "never runs profile encode: deciders.encode is not set",
                "never runs profile other",
            ],
        ),
        (make("shadow-profile-handler", shadows=["trial"]), ["real", "trial"], []),
        (
            make("shadow-profile-handler", shadows=["trial", "second"]),
            ["trial", "a", "b"],
            ["needs a profile second", "leaves 2 profiles that are no shadows; set handler"],
        ),
    ],
)
def test_profiles_that_a_handler_cannot_run_are_named(handler, profiles, expected):
    assert list(handler.validate_profiles(profiles)) == expected


def test_what_handlers_read_of_producers_and_what_replaces_them():
    found = {each.name: (each.consumes, each.replaced_by) for each in TYPES}
    assert {name: told for name, told in found.items() if any(told)} == {
        "data-parallel-profile-handler": ((), "one endpoint a port, which the pool's target ports give"),
        "prefix-based-pd-decider": (("prefix",), ""),
    }


@pytest.mark.parametrize(
    ("type_name", "parameters", "says"),
    [
        (
            "disagg-profile-handler",
            {"stageOrder": "prefill-first", "deciders": {"prefill": "always"}},
            "deciders.prefill cannot be used where prefill comes first",
        ),
        (
            "disagg-profile-handler",
            {"deciders": {"encode": "picker"}},
            "refers to picker as a decider, which it is not",
        ),
        ("shadow-profile-handler", {"shadows": []}, "shadows is empty; list at least one profile"),
        (
            "shadow-profile-handler",
            {"shadows": ["a"], "handler": "picker"},
            "refers to picker as a profile handler, which it is not",
        ),
    ],
)
def test_a_handler_is_made_of_parts_that_fit(type_name, parameters, says):
    with pytest.raises(InputError, match=says):
        make(type_name, {**ALWAYS, "picker": make("random-picker")}, **parameters)


def test_the_older_handler_for_prefill_and_decode():
    config = """
plugins:
- {type: pd-profile-handler, parameters: {deciderPluginName: always-disagg-pd-decider}}
- type: always-disagg-pd-decider
- type: decode-filter
- type: prefill-filter
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
"""
    pool = roles(decode=1, prefill=1)
    assert dict(decide(config, pool).set_headers) == {"x-prefiller-host-port": pool[1].address}


@pytest.mark.parametrize(
    ("least", "prompt", "cached", "expected"),
    [
        pytest.param(5, 0, 8, False, id="little is left to compute"),
        pytest.param(5, 0, 5, True, id="just enough is left"),
        pytest.param(5, 0, 0, True, id="all is left"),
        pytest.param(5, 11, 0, False, id="the prompt is too short"),
        pytest.param(5, 10, 0, True, id="the prompt is just long enough"),
        pytest.param(10, 0, 0, True, id="just all of it is left"),
        pytest.param(0, 0, 0, False, id="never"),
        pytest.param(11, 0, 0, False, id="less input than has to be left"),
    ],
)
def test_the_decider_by_what_is_cached(least, prompt, cached, expected):
    pool = [endpoint("a")]
    context = with_prefix(context_of(pool, Request("r", prompts=(b"x" * 40,))), [cached], 10)
    decider = make("prefix-based-pd-decider", nonCachedTokens=least, promptTokens=prompt)
    assert decider.disaggregate(context, pool[0]) is expected


def test_the_decider_by_what_is_cached_knows_nothing_without_an_index():
    pool = [endpoint("a")]
    context = context_of(pool, Request("r", prompts=(b"x" * 40,)))
    assert make("prefix-based-pd-decider", nonCachedTokens=1).disaggregate(context, pool[0]) is False


def test_a_header_names_the_rank_of_a_server():
    pool = (endpoint("a", metrics=EndpointMetrics(waiting=1)),)
    pool[0].address = "[2001:db8::1]:8003"
    found = decide("plugins: [{type: data-parallel-profile-handler}, {type: queue-scorer}]\n", pool)
    assert found.destinations == "[2001:db8::1]:8000"
    assert dict(found.set_headers) == {"x-data-parallel-host-port": "[2001:db8::1]:8003"}


def test_no_rank_is_named_where_none_is_picked():
    found = decide("plugins: [{type: data-parallel-profile-handler}, {type: prefill-filter}]\n", roles(decode=1))
    assert told(found) == (Outcome.EXCLUDED, "default", [], {}, {})


BY_HEADER = """
plugins:
- type: header-profile-handler
- type: decode-filter
- type: prefill-filter
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
"""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ("Picked", "decode", "")),
        ({"epp-profile": " prefill "}, ("Picked", "prefill", "")),
        ({"epp-profile": "nope"}, ("Malformed", "", "header epp-profile: no profile is named nope")),
    ],
)
@pytest.mark.parametrize("parameters", ["{}", '{headerName: " ", defaultProfile: " "}'], ids=["not set", "blank"])
def test_the_profile_that_a_header_names(headers, expected, parameters):
    config = BY_HEADER.replace("header-profile-handler", f"header-profile-handler\n  parameters: {parameters}")
    found = decide(config, roles(decode=1, prefill=1), Request("r", headers=headers))
    assert (found.outcome.title, found.profile, found.why) == expected


def test_what_is_not_set():
    assert [msgspec.to_builtins(each()) for each in (HeaderParameters, PrefixBasedParameters)] == [
        {"headerName": "EPP-Profile", "defaultProfile": "decode"},
        {"nonCachedTokens": 0, "promptTokens": 0, "prefixMatchInfoProducerName": ""},
    ]
    assert list(StageOrder) == ["decode-first", "prefill-first"]


@pytest.mark.parametrize("named", [["decode"], ["decode", "prefill"]])
@pytest.mark.parametrize(
    "type_name", ["single-profile-handler", "data-parallel-profile-handler", "header-profile-handler"]
)
def test_after_a_profile_there_is_no_other(type_name, named):
    context = context_of([endpoint("a")])
    handler, profiles = make(type_name), dict.fromkeys(named)
    before = handler.pick_profiles(context, profiles)
    context.results["decode"] = None
    assert (before[0], handler.pick_profiles(context, profiles)) == ("decode", ())


def test_the_only_profile_runs_whatever_a_header_names():
    config = "plugins: [{type: header-profile-handler}, {type: decode-filter}]\n"
    found = decide(config, roles(decode=1), Request("r", headers={"epp-profile": "nope"}))
    assert told(found) == (Outcome.PICKED, "default", [["decode0"]], {}, {})


@pytest.mark.parametrize("config", [DISAGGREGATED, PREFILL_FIRST], ids=["decode first", "prefill first"])
def test_after_all_stages_there_is_no_other(config):
    made, context = load(HEAD + config).build(), context_of(roles(decode=1, prefill=1))
    assert Scheduler(made).decide(context).outcome is Outcome.PICKED
    assert made.handler.pick_profiles(context, made.profiles) == ()


SHADOWED = """
plugins:
- {type: shadow-profile-handler, parameters: {shadows: [trial]}}
- type: queue-scorer
- type: kv-cache-utilization-scorer
schedulingProfiles:
- {name: real, plugins: [{pluginRef: queue-scorer}]}
- {name: trial, plugins: [{pluginRef: kv-cache-utilization-scorer}]}
"""


def test_shadows_watch_and_change_nothing():
    pool = (
        endpoint("a", metrics=EndpointMetrics(waiting=0, kv_cache_usage=0.9)),
        endpoint("b", metrics=EndpointMetrics(waiting=5, kv_cache_usage=0.1)),
    )
    found = decide(SHADOWED, pool)
    assert told(found) == (Outcome.PICKED, "real", [["a"]], {}, {})
    assert [(name, [each.name for each in picks]) for name, picks in found.shadows] == [("trial", ["b"])]


def test_shadows_come_last_in_any_order_of_profiles():
    handler, context = make("shadow-profile-handler", shadows=["trial"]), context_of([endpoint("a")])
    profiles = dict.fromkeys(("trial", "real"))
    rounds = [list(handler.pick_profiles(context, profiles))]
    for name in ("real", "trial"):
        context.results[name] = None
        rounds.append(list(handler.pick_profiles(context, profiles)))
    assert rounds == [["real"], ["trial"], []]


def test_shadows_beside_another_handler():
    config = DISAGGREGATED.replace(
        "plugins:\n",
        "plugins:\n- {type: shadow-profile-handler, parameters: {shadows: [trial], handler: disagg-profile-handler}}\n",
        1,
    ) + ("- {name: trial, plugins: [{pluginRef: prefill-filter}]}\n")
    pool = roles(decode=1, prefill=1)
    found = decide(config, pool)
    plain = decide(DISAGGREGATED, pool)
    assert told(found) == told(plain)
    assert [name for name, _ in found.shadows] == ["trial"]


def test_a_shadow_profile_without_a_pick_is_reported():
    config = SHADOWED.replace("- type: kv-cache-utilization-scorer", "- type: prefill-filter").replace(
        "pluginRef: kv-cache-utilization-scorer", "pluginRef: prefill-filter"
    )
    found = decide(config, roles(decode=2))
    assert (found.outcome, found.shadows) == (Outcome.PICKED, (("trial", ()),))
