"""The ecosystem's configuration: what it comes to, and every way to get it wrong."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.compose.picker import picker_config
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.config.no_effect import NO_EFFECT_TYPES
from modelplane.epp.config.outline import outline
from modelplane.epp.config.positions import ConfigError
from modelplane.epp.config.profiles import ProfilePlan
from modelplane.epp.scheduling.declared import ScrapeParameters
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.scheduling.units import Amount, Duration
from modelplane.framework.registry import NoParameters, Registry, declared_type, plugin_type
from modelplane.testing.picking import chances, endpoints_with

REPORTER = "request-attribute-reporter"

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
DEFAULT = ProfilePlan(
    "default",
    ("failing-endpoint-filter",),
    (("active-request-scorer", 5.0), ("prefix-cache-scorer", 4.0), ("no-hit-tokens-scorer", 2.0)),
    "max-score-picker",
)


def listed(config):
    return [entry.name for entry in config.entries if entry.at >= 0]


def added(config):
    return sorted(entry.name for entry in config.entries if entry.at < 0)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", HEAD, HEAD + "plugins: []\nschedulingProfiles: []\n"])
def test_nothing_written_is_the_default_profile(text):
    config = load(text)
    assert (config.profiles, config.handler, config.warnings) == ((DEFAULT,), "single-profile-handler", ())
    assert added(config) == [
        "active-request-scorer",
        "approx-prefix-cache-producer",
        "failing-endpoint-filter",
        "inflight-load-producer",
        "max-score-picker",
        "no-hit-tokens-scorer",
        "prefix-cache-scorer",
        "single-profile-handler",
    ]


def test_what_is_rendered_for_deployments_decides_as_the_default_does():
    rendered, default = load(json.dumps(picker_config(disaggregated=False))), load("")
    assert rendered.profiles == default.profiles
    scorers = [name for name, _ in DEFAULT.scorers]
    assert [rendered.entry(name).parameters for name in scorers] == [default.entry(name).parameters for name in scorers]


@pytest.mark.parametrize(
    ("text", "profiles", "handler", "more"),
    [
        pytest.param(
            "plugins: [{type: queue-scorer}, {type: decode-filter}, {type: random-picker}, {type: lora-filter}]",
            (ProfilePlan("default", ("decode-filter", "lora-filter"), (("queue-scorer", 1.0),), "random-picker"),),
            "single-profile-handler",
            ["single-profile-handler"],
            id="plugins without profiles are one profile, in their order",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\n"
            "schedulingProfiles: [{name: x, plugins: [{pluginRef: queue-scorer, weight: 2.5}]}]",
            (ProfilePlan("x", (), (("queue-scorer", 2.5),), "max-score-picker"),),
            "single-profile-handler",
            ["max-score-picker", "single-profile-handler"],
            id="a picker and a handler by default",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer, name: q}, {type: random-picker, name: any}, {type: single-profile-handler}]"
            "\nschedulingProfiles: [{name: x, plugins: [{pluginRef: q}]}]",
            (ProfilePlan("x", (), (("q", 1.0),), "any"),),
            "single-profile-handler",
            [],
            id="the first picker that is listed; a weight of 1",
        ),
        pytest.param(
            "plugins: [{type: random-picker}, {type: queue-scorer}]\n"
            "schedulingProfiles: [{name: x, plugins: [{pluginRef: random-picker}, {pluginRef: queue-scorer}]}]",
            (ProfilePlan("x", (), (("queue-scorer", 1.0),), "random-picker"),),
            "single-profile-handler",
            ["single-profile-handler"],
            id="a picker before its scorers",
        ),
        pytest.param(
            "plugins: [{type: context-length-aware, parameters: {enableFiltering: true}}]",
            (ProfilePlan("default", ("context-length-aware",), (("context-length-aware", 1.0),), "max-score-picker"),),
            "single-profile-handler",
            ["max-score-picker", "single-profile-handler"],
            id="one plugin in two parts",
        ),
        pytest.param(
            "plugins: [{type: active-request-scorer}]",
            (ProfilePlan("default", (), (("active-request-scorer", 1.0),), "max-score-picker"),),
            "single-profile-handler",
            ["inflight-load-producer", "max-score-picker", "single-profile-handler"],
            id="a producer of what is read",
        ),
    ],
)
def test_defaults(text, profiles, handler, more):
    config = load(HEAD + text)
    assert (config.profiles, config.handler, added(config)) == (profiles, handler, more)


def test_what_reads_comes_after_what_produces():
    config = load(HEAD + "plugins: [{type: latency-scorer}]")
    names = [entry.name for entry in config.entries]
    assert {"predicted-latency-producer", "approx-prefix-cache-producer", "inflight-load-producer"} < set(names)
    assert names.index("inflight-load-producer") < names.index("predicted-latency-producer")


def test_a_configured_producer_is_not_added_again():
    config = load(HEAD + "plugins: [{type: prefix-cache-scorer}, {type: approx-prefix-cache-producer, name: mine}]")
    assert [entry.name for entry in config.entries if "prefix" in entry.type] == ["prefix-cache-scorer", "mine"]


def problems(text, head=HEAD):
    with pytest.raises(ConfigError) as refused:
        load(head + text, "epp.yaml")
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plugin: []", ["epp.yaml:3: plugin: no such field"], id="an unknown field"),
        pytest.param(
            "plugins:\n- type: queue-scorer\n  nam: q\n",
            ["epp.yaml:5: plugins[0].nam: no such field"],
            id="an unknown field inside",
        ),
        pytest.param(
            "plugins:\n- type: max-score-picker\n  parameters:\n    maxNumOfEndpoint: 2\n",
            ["epp.yaml:6: plugins[0].parameters.maxNumOfEndpoint: no such field"],
            id="an unknown parameter",
        ),
        pytest.param(
            "plugins:\n- type: max-score-picker\n  parameters: {maxNumOfEndpoints: two}\n",
            ["epp.yaml:5: plugins[0].parameters.maxNumOfEndpoints: expected `int`, got `str`"],
            id="a parameter of the wrong type",
        ),
        pytest.param(
            "plugins:\n- type: header-label-affinity-scorer\n  parameters: {headerName: h}\n",
            ["epp.yaml:5: plugins[0].parameters.labelKey: is required"],
            id="a parameter that is missing",
        ),
        pytest.param("plugins: [{name: q}]", ["epp.yaml:3: plugins[0].type: is required"], id="no type"),
        pytest.param(
            "plugins: [{type: queue-scorrer}]",
            ["epp.yaml:3: plugins[0].type: no plugin type queue-scorrer; did you mean queue-scorer?"],
            id="an unknown type",
        ),
        pytest.param(
            "plugins:\n- {type: queue-scorer}\n- {type: random-picker}\n"
            "- {type: lora-affinity-scorer, name: queue-scorer}\n",
            ["epp.yaml:6: plugins[2].name: queue-scorer is listed twice"],
            id="a name twice",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: x\n  plugins:\n  - pluginRef: quueue\n",
            ["epp.yaml:7: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named quueue"],
            id="a reference to a missing plugin",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{plugins: [{pluginRef: queue-scorer}]}]",
            ["epp.yaml:4: schedulingProfiles[0].name: is required"],
            id="a profile without a name",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}, {type: header-profile-handler}]\nschedulingProfiles:\n"
            "- {name: decode, plugins: [{pluginRef: queue-scorer}]}\n"
            "- {name: decode, plugins: [{pluginRef: queue-scorer}]}\n",
            ["epp.yaml:6: schedulingProfiles[1].name: profile decode is listed twice"],
            id="a profile twice",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: x\n  plugins:\n"
            "  - pluginRef: queue-scorer\n    weight: -1\n",
            [
                (
                    "epp.yaml:8: schedulingProfiles[0].plugins[0].weight: "
                    "the weight of queue-scorer is -1.0; it must be a number of at least 0"
                )
            ],
            id="a negative weight",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: x\n  plugins:\n"
            "  - pluginRef: queue-scorer\n  - pluginRef: queue-scorer\n",
            ["epp.yaml:8: schedulingProfiles[0].plugins[1].pluginRef: queue-scorer is listed twice in profile x"],
            id="a plugin twice in a profile",
        ),
        pytest.param(
            "plugins: [{type: decode-filter}]\nschedulingProfiles:\n- name: x\n  plugins:\n"
            "  - {pluginRef: decode-filter, weight: 2}\n",
            ["epp.yaml:7: schedulingProfiles[0].plugins[0].weight: decode-filter is no scorer and takes no weight"],
            id="a weight on a filter",
        ),
        pytest.param(
            "plugins: [{type: random-picker}, {type: max-score-picker}]\nschedulingProfiles:\n- name: x\n"
            "  plugins: [{pluginRef: random-picker}, {pluginRef: max-score-picker}]\n",
            [
                (
                    "epp.yaml:6: schedulingProfiles[0].plugins: profile x: exactly one picker is needed, "
                    "there are 2 (random-picker, max-score-picker)"
                )
            ],
            id="two pickers",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}, {type: single-profile-handler}]\nschedulingProfiles:\n"
            "- {name: x, plugins: [{pluginRef: queue-scorer}]}\n- {name: z, plugins: [{pluginRef: queue-scorer}]}\n",
            ["epp.yaml:3: plugins[1]: single-profile-handler runs exactly one profile, and there are 2 (x, z)"],
            id="more profiles than the handler takes",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n"
            "- {name: x, plugins: [{pluginRef: queue-scorer}]}\n- {name: z, plugins: [{pluginRef: queue-scorer}]}\n",
            ["epp.yaml:4: schedulingProfiles: there are several profiles (x, z) and no profile handler"],
            id="several profiles and no handler",
        ),
        pytest.param(
            "plugins: [{type: single-profile-handler}, {type: header-profile-handler}, {type: random-picker}]\n",
            [
                (
                    "epp.yaml:3: plugins[1]: header-profile-handler is a second profile handler, "
                    "after single-profile-handler"
                )
            ],
            id="two handlers",
        ),
        pytest.param(
            "plugins:\n- type: disagg-profile-handler\n- type: queue-scorer\nschedulingProfiles:\n"
            "- {name: decode, plugins: [{pluginRef: queue-scorer}]}\n"
            "- {name: prefill, plugins: [{pluginRef: queue-scorer}]}\n"
            "- {name: other, plugins: [{pluginRef: queue-scorer}]}\n",
            [
                (
                    "epp.yaml:4: plugins[0]: disagg-profile-handler never runs profile prefill: "
                    "deciders.prefill is not set"
                ),
                "epp.yaml:4: plugins[0]: disagg-profile-handler never runs profile other",
            ],
            id="profiles that never run",
        ),
        pytest.param(
            "plugins: [{type: disagg-profile-handler, parameters: {deciders: {prefill: nobody}}}]\n",
            ["epp.yaml:3: plugins[0].parameters: disagg-profile-handler: refers to plugin nobody, which is not listed"],
            id="a decider that is not there",
        ),
        pytest.param(
            "plugins:\n- {type: disagg-profile-handler, parameters: {deciders: {prefill: queue-scorer}}}\n"
            "- {type: queue-scorer}\n",
            [
                (
                    "epp.yaml:4: plugins[0].parameters: disagg-profile-handler: "
                    "refers to queue-scorer as a decider, which it is not"
                )
            ],
            id="a decider that is none",
        ),
        pytest.param(
            "plugins:\n- {type: shadow-profile-handler, name: a, parameters: {shadows: [x], handler: b}}\n"
            "- {type: shadow-profile-handler, name: b, parameters: {shadows: [x], handler: a}}\n",
            [
                "epp.yaml:4: plugins[0].parameters: a: plugins refer to each other in a cycle: a -> b -> a",
                "epp.yaml:5: plugins[1].parameters: b: plugins refer to each other in a cycle: b -> a -> b",
            ],
            id="a ring of references",
        ),
        pytest.param(
            "featureGates: [flowControll, flowControl=maybe]\n",
            [
                (
                    "epp.yaml:3: featureGates[0]: no feature gate flowControll; there are flowControl, "
                    "populate-non-leader-datastore"
                ),
                "epp.yaml:3: featureGates[1]: the value of flowControl is maybe; it must be true or false",
            ],
            id="feature gates",
        ),
        pytest.param(
            "flowControl: {defaultRequestTTL: -5s}\n",
            [
                (
                    "epp.yaml:3: flowControl.defaultRequestTTL: "
                    "'-5s' is no duration; write it as 500ms, 1.5s or 1m30s, not negative"
                )
            ],
            id="a negative time",
        ),
        pytest.param(
            "flowControl: {maxBytes: -1Gi}\n",
            ["epp.yaml:3: flowControl.maxBytes: '-1Gi' is no whole number of at least 0"],
            id="a negative amount",
        ),
        pytest.param(
            "flowControl:\n  priorityBands:\n  - {priority: 1}\n  - {priority: 1}\n",
            ["epp.yaml:6: flowControl.priorityBands[1].priority: priority 1 is listed twice"],
            id="a priority twice",
        ),
        pytest.param(
            "plugins: [{type: random-picker}]\nflowControl: {saturationDetector: {pluginRef: random-picker}}\n",
            [
                (
                    "epp.yaml:4: flowControl.saturationDetector.pluginRef: "
                    "random-picker is of type random-picker, which is no detector"
                )
            ],
            id="a detector that is none",
        ),
        pytest.param(
            "dataLayer: {sources: [{pluginRef: x, extractors: [{pluginRef: ''}]}]}\n",
            [
                "epp.yaml:3: dataLayer.sources[0].pluginRef: no plugin is named x",
                "epp.yaml:3: dataLayer.sources[0].extractors[0].pluginRef: is required",
            ],
            id="sources that are not there",
        ),
    ],
)
def test_every_problem_is_reported_with_its_position(text, expected):
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            "kind: EndpointPickerConfig\n",
            ["epp.yaml:1: apiVersion: is missing; it must be llm-d.ai/v1 or llm-d.ai/v1alpha1"],
        ),
        (
            "apiVersion: llm-d.ai/v2\nkind: Pod\n",
            [
                "epp.yaml:1: apiVersion: is llm-d.ai/v2; it must be llm-d.ai/v1 or llm-d.ai/v1alpha1",
                "epp.yaml:2: kind: is Pod; it must be EndpointPickerConfig",
            ],
        ),
        (HEAD + "---\n" + HEAD, ["epp.yaml:4: a second document; there must be one"]),
        ("- 1\n", ["epp.yaml:1: expected `object`, got `array`"]),
    ],
)
def test_another_document_is_refused(head, expected):
    assert problems("", head) == expected


def test_a_weight_that_is_no_number_never_gets_so_far():
    with pytest.raises(InputError, match=r"epp.yaml:3:.*\.nan"):
        load(HEAD + "schedulingProfiles: [{name: x, plugins: [{pluginRef: q, weight: .nan}]}]", "epp.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "plugins: [{type: by-label-selector}]",
            ["epp.yaml:3: plugins[0].type: by-label-selector is deprecated; use label-selector-filter"],
            id="a deprecated type",
        ),
        pytest.param(
            "plugins: [{type: request-attribute-reporter}, {type: random-picker}]",
            [f"epp.yaml:3: plugins[0].type: {REPORTER} has no effect here: {NO_EFFECT_TYPES[REPORTER]}"],
            id="a type without effect",
        ),
        pytest.param(
            "flowControl: {maxRequests: 5}",
            ["epp.yaml:3: flowControl: is not in force: the feature gate flowControl is off"],
            id="flow control without its gate",
        ),
        pytest.param("featureGates: [flowControl]\nflowControl: {maxRequests: 5}", [], id="and with it"),
        pytest.param(
            "plugins: [{type: queue-scorer}, {type: random-picker}, {type: always-disagg-pd-decider}]\n"
            "schedulingProfiles: [{name: x, plugins: [{pluginRef: random-picker}]}]\n",
            [
                "epp.yaml:3: plugins[0]: nothing uses plugin queue-scorer",
                "epp.yaml:3: plugins[2]: nothing uses plugin always-disagg-pd-decider",
            ],
            id="plugins that nothing uses",
        ),
        pytest.param(
            "featureGates: [dataLayer]",
            ["epp.yaml:3: featureGates[0]: the feature gate dataLayer is of an earlier release and has no effect"],
            id="a gate of an earlier release",
        ),
        pytest.param(
            "plugins: [{type: openai-parser}]\nschedulingProfiles: [{name: x, plugins: [{pluginRef: openai-parser}]}]",
            [
                (
                    "epp.yaml:4: schedulingProfiles[0].plugins[0].pluginRef: "
                    "openai-parser is neither a filter, a scorer nor a picker, and does nothing in a profile"
                )
            ],
            id="a parser in a profile",
        ),
        pytest.param(
            "plugins: [{type: utilization-detector}, {type: openai-parser}, {type: random-picker}]\n"
            "saturationDetector: {pluginRef: utilization-detector}\nparser: {pluginRef: openai-parser}\n"
            "schedulingProfiles: [{name: x, plugins: [{pluginRef: random-picker}]}]",
            [
                "epp.yaml:5: parser: is deprecated; use requestHandler.parsers",
                "epp.yaml:4: saturationDetector: is deprecated; use flowControl.saturationDetector",
            ],
            id="deprecated sections",
        ),
    ],
)
def test_warnings(text, expected):
    assert [str(warning) for warning in load(HEAD + text, "epp.yaml").warnings] == expected


def test_the_old_group_still_loads():
    config = load(HEAD.replace("llm-d.ai", "inference.networking.x-k8s.io"), "epp.yaml")
    assert [str(warning) for warning in config.warnings] == [
        "epp.yaml:1: apiVersion: inference.networking.x-k8s.io/v1alpha1 is deprecated; use llm-d.ai/v1"
    ]


WHOLE = """
featureGates: [flowControl=true]
plugins:
- {type: metrics-data-source, parameters: {scheme: https, interval: 100ms}}
- {type: core-metrics-extractor}
- {type: openai-parser}
- {type: utilization-detector, name: watch, parameters: {queueDepthThreshold: 9, metricsStalenessThreshold: 1m30s}}
- {type: fcfs-ordering-policy}
- {type: round-robin-fairness-policy}
- {type: queue-scorer}
- {type: random-picker}
dataLayer:
  injectDefaults: false
  sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}]
flowControl:
  maxBytes: 1Gi
  defaultRequestTTL: 30s
  saturationDetector: {pluginRef: watch}
  priorityBands:
  - {priority: 10, maxRequests: 2k, orderingPolicyRef: fcfs-ordering-policy,
     fairnessPolicyRef: round-robin-fairness-policy}
requestHandler: {parsers: [{pluginRef: openai-parser}]}
schedulingProfiles:
- {name: x, plugins: [{pluginRef: queue-scorer}, {pluginRef: random-picker}]}
"""


def test_sections_for_others():
    config = load(HEAD + WHOLE)
    assert (config.parsers, config.saturation_detector, config.gates["flowControl"]) == (
        ("openai-parser",),
        "watch",
        True,
    )
    (source,) = config.declared("source")
    assert source.parameters == ScrapeParameters(scheme="https", interval=Duration(0.1))
    assert config.entry("watch").parameters.metrics_staleness_threshold == 90.0
    assert (config.flow_control.max_bytes, config.flow_control.default_request_ttl) == (Amount(2**30), Duration(30))
    (band,) = config.flow_control.priority_bands
    assert (band.priority, band.max_requests, band.ordering_policy_ref) == (10, 2000, "fcfs-ordering-policy")
    assert config.data_layer.inject_defaults is False
    assert config.entry("nobody") is None


def test_each_build_makes_plugins_of_its_own():
    config = load("")
    one, two = config.build(), config.build()
    assert set(one.plugins) == set(two.plugins)
    assert not {id(each) for each in one.plugins.values()} & {id(each) for each in two.plugins.values()}


def test_a_changed_configuration_forgets_nothing_that_stays_the_same():
    old = Scheduler(load("").build())
    request = Request("r", "m", prompts=(b"tides " * 100,))
    pool = endpoints_with([EndpointMetrics(), EndpointMetrics(), EndpointMetrics()])
    served = old.schedule(request, pool, 0.0, chances(0.5)).picked
    changed = load(HEAD + "plugins: [{type: prefix-cache-scorer}, {type: lora-affinity-scorer}]\n")
    kept, forgotten = Scheduler(changed.build(old.assembly)), Scheduler(changed.build())
    name = "approx-prefix-cache-producer"
    assert kept.assembly.plugins[name] is old.assembly.plugins[name]
    assert forgotten.assembly.plugins[name] is not old.assembly.plugins[name]
    assert kept.schedule(request, pool, 0.0, chances(0.0)).picked is served
    other = load(
        HEAD + f"plugins: [{{type: prefix-cache-scorer}}, {{type: {name}, parameters: {{autoTune: false}}}}]\n"
    )
    assert other.build(old.assembly).plugins[name] is not old.assembly.plugins[name]
    assert kept.assembly.plugins["prefix-cache-scorer"] is not old.assembly.plugins["prefix-cache-scorer"]


class Mine:
    def __init__(self, name, _parameters):
        self.name = name

    def score(self, _context, endpoints):
        return [1.0] * len(endpoints)


def test_types_of_other_packages():
    known = builtin_registry().extended([plugin_type("mine", Mine, NoParameters)])
    assert (
        Scheduler(load(HEAD + "plugins: [{type: mine}]", registry=known).build()).assembly.profiles["default"].scorers
    )
    with pytest.raises(InputError, match="plugin type mine is registered twice"):
        known.extended([plugin_type("mine", Mine, NoParameters)])
    with pytest.raises(InputError, match="queue-scorer is registered twice"):
        Registry([*builtin_registry().values(), plugin_type("queue-scorer", Mine, NoParameters)])


def test_the_outline_of_a_configuration():
    config = load(HEAD + "plugins: [{type: queue-scorer, name: q}, {type: random-picker}]\n", "epp.yaml")
    assert list(outline(config).lines()) == [
        "handler single-profile-handler",
        "profile default",
        "  filters  none",
        "  scorers  q x 1",
        "  picker   random-picker",
        "gates populate-non-leader-datastore",
        "plugins",
        "  q (queue-scorer)",
        "  random-picker: maxNumOfEndpoints 1",
        "  single-profile-handler, added by default",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "plugins",
                        "type",
                        "name",
                        "parameters",
                        "schedulingProfiles",
                        "pluginRef",
                        "weight",
                        "flowControl",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_written_is_read_or_refused_in_words(value):
    text = '{"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"'
    inner = msgspec.json.encode(value).decode()
    for shape in (inner, f'{text}, "plugins": {inner}}}', f'{text}, "schedulingProfiles": {inner}}}'):
        with suppress(InputError):
            Scheduler(load(shape).build())


OLD_INDEX = """
plugins:
- {type: prefix-cache-scorer, parameters: {hashBlockSize: 400, lruCapacityPerServer: 7, maxPrefixBlocksToMatch: 9}}
"""


def test_parameters_of_the_index_in_its_scorer_make_the_index():
    entry = load(HEAD + OLD_INDEX).entry("approx-prefix-cache-producer")
    found = entry.parameters
    assert (found.block_size_tokens, found.lru_capacity_per_server, found.max_prefix_blocks_to_match) == (100, 7, 9)


def test_the_precise_scorer_of_older_configurations():
    config = load(
        HEAD
        + "plugins: [{type: precise-prefix-cache-scorer, parameters: "
        + "{indexerConfig: {tokenProcessorConfig: {blockSize: 64}}}}]\n"
    )
    assert config.entry("precise-prefix-cache-producer").parameters.block_size == 64
    assert [entry.name for entry in config.entries if entry.at < 0 and "approx" in entry.name] == []


def test_parameters_that_the_added_producer_refuses():
    text = "plugins: [{type: precise-prefix-cache-scorer, parameters: {indexerConfig: {nope: 1}}}]\n"
    assert problems(text) == [
        "epp.yaml:3: plugins: parameters for a producer: Object contains unknown field `nope` - at `$.indexerConfig`"
    ]


def test_thresholds_in_the_section_of_older_configurations_are_a_detector():
    config = load(HEAD + "saturationDetector: {queueDepthThreshold: 9, metricsStalenessThreshold: 1s}\n")
    found = config.entry(config.saturation_detector).parameters
    assert (found.queue_depth_threshold, found.metrics_staleness_threshold, found.kv_cache_util_threshold) == (
        9,
        1.0,
        0.8,
    )


def test_the_outline_of_the_other_sections():
    lines = list(outline(load(HEAD + WHOLE)).lines())
    assert lines[5:9] == [
        "gates flowControl, populate-non-leader-datastore",
        (
            "flow control {maxBytes 1073741824, defaultRequestTTL 30s, priorityBands [{priority 10, maxRequests 2000, "
            "fairnessPolicyRef round-robin-fairness-policy, orderingPolicyRef fcfs-ordering-policy}], "
            "saturationDetector {pluginRef watch}}"
        ),
        "saturation detector watch",
        "parsers openai-parser",
    ]


OLD_NAMES = {
    "the scorer of latencies that was its own producer": """
plugins:
- type: predicted-latency-scorer
  parameters: {samplingMean: 1000.0, sloBufferFactor: 0.5, headroomSelectionStrategy: composite-most}
schedulingProfiles: [{name: default, plugins: [{pluginRef: predicted-latency-scorer}]}]
""",
    "the KV scorer": "plugins: [{type: kv-cache-scorer}]\n",
    "the extractor": "plugins: [{type: model-server-protocol-metrics, parameters: {defaultEngine: sglang}}]\n",
    "the data layer": """
plugins: [{type: models-data-source}, {type: models-data-extractor}]
data: {sources: [{pluginRef: models-data-source, extractors: [{pluginRef: models-data-extractor}]}]}
""",
    "a threshold in place of a decider": """
plugins: [{type: pd-profile-handler, parameters: {threshold: 100, hashBlockSize: 5, primaryPort: 8000}}]
schedulingProfiles: [{name: prefill, plugins: []}, {name: decode, plugins: []}]
""",
}


@pytest.mark.parametrize("text", OLD_NAMES.values(), ids=OLD_NAMES)
def test_deprecated_configurations_load_with_warnings(text):
    config = load(HEAD + text)
    config.build()
    assert any("is deprecated; use" in str(one) for one in config.warnings)


def test_the_old_scorer_of_latencies_makes_its_producer():
    producer = load(HEAD + OLD_NAMES["the scorer of latencies that was its own producer"]).entry(
        "predicted-latency-producer"
    )
    assert producer.parameters.slo_buffer_factor == 0.5


@pytest.mark.parametrize(
    "section",
    [
        "flowControl: {saturationDetector: {pluginRef: utilization-detector}}",
        "flowControl: {saturationDetector: {}}",
        "saturationDetector: {pluginRef: utilization-detector}",
    ],
)
def test_the_usual_detector_need_not_be_listed(section):
    assert load(HEAD + "featureGates: [flowControl]\n" + section).saturation_detector == ""


def test_two_names_of_the_data_layer_are_one_too_many():
    assert problems("dataLayer: {}\ndata: {}\n") == [
        "epp.yaml:4: data: and dataLayer are the same section; set one of them"
    ]


def test_the_cache_of_embeddings_may_be_listed_as_an_extractor():
    config = load(
        HEAD
        + "plugins: [{type: endpoint-notification-source}, {type: mm-embeddings-cache-producer, "
        + "parameters: {cacheSizeInMB: 2048}}]\n"
        + "dataLayer: {sources: [{pluginRef: endpoint-notification-source, "
        + "extractors: [{pluginRef: mm-embeddings-cache-producer}]}]}\n"
    )
    assert [str(one) for one in config.warnings if "no effect" in str(one)]


@pytest.mark.parametrize(
    ("threshold", "prompt", "wanted"), [(0, b"", True), (100, b"x" * 90, False), (100, b"x" * 400, True)]
)
def test_a_threshold_in_bytes_decides_about_prefill(threshold, prompt, wanted):
    text = (
        f"plugins: [{{type: pd-profile-handler, parameters: {{threshold: {threshold}}}}}, {{type: prefill-filter}}]\n"
        "schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}]}, {name: decode, plugins: []}]\n"
    )
    pool = (
        Endpoint("a", "10.0.0.1:8000", {"llm-d.ai/role": "decode"}),
        Endpoint("b", "10.0.0.2:8000", {"llm-d.ai/role": "prefill"}),
    )
    request = Request("r", "m", prompts=(prompt,))
    decision = Scheduler(load(HEAD + text).build()).schedule(request, pool, 0.0, lambda: 0.0)
    assert bool(decision.others) is wanted


def test_all_problems_are_reported_at_once():
    text = """foo: 1
plugins:
- {type: queue-scorer, colour: red}
- {type: max-score-picker, parameters: {maxNumOfEndpoint: 2}}
schedulingProfiles:
- {name: a, plugins: [{pluginRef: queue-scorr, weight: 2}, {pluginRef: max-score-picker}]}
flowControl: {priorityBands: [{priority: 1}, {priority: 2, ttl: 5s}]}
"""
    assert problems(text) == [
        "epp.yaml:3: foo: no such field",
        "epp.yaml:5: plugins[0].colour: no such field",
        "epp.yaml:6: plugins[1].parameters.maxNumOfEndpoint: no such field",
        "epp.yaml:8: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named queue-scorr",
        "epp.yaml:9: flowControl.priorityBands[1].ttl: no such field",
    ]


@pytest.mark.parametrize(
    ("part", "protocol"),
    [
        ("parser", "Parser"),
        ("source", "DataSource"),
        ("detector", "SaturationDetector"),
        ("fairness", "FairnessPolicy"),
        ("ordering", "OrderingPolicy"),
        ("usage limit", "UsageLimitPolicy"),
    ],
)
def test_a_type_of_another_package_that_is_not_what_it_serves_as(part, protocol):
    registry = builtin_registry().extended([declared_type("theirs", part)])
    with pytest.raises(ConfigError) as raised:
        load(HEAD + "plugins: [{type: theirs}]\n", "epp.yaml", registry)
    assert str(raised.value) == f"epp.yaml:3: plugins[0].type: theirs serves as {part} and is no {protocol}"


@pytest.mark.parametrize("part", ["extractor", "discovery"])
def test_a_type_of_another_package_that_nothing_would_read(part):
    """An extractor that nothing reads would leave its metrics unread."""
    registry = builtin_registry().extended([declared_type("theirs", part)])
    with pytest.raises(ConfigError) as raised:
        load(HEAD + "plugins: [{type: theirs}, {type: openai-parser}]\n", "epp.yaml", registry)
    (line,) = str(raised.value).splitlines()
    assert line == f"epp.yaml:3: plugins[0].type: theirs serves as {part} and is of another package: nothing reads it"
