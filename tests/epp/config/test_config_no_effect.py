"""No setting is accepted, ignored and not warned of."""

import msgspec
import pytest

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.config.no_effect import NO_EFFECT, NO_EFFECT_TYPES, REFUSED, REFUSED_TYPES
from modelplane.epp.config.positions import ConfigError
from modelplane.epp.scheduling.declared import INERT

HEAD = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"

DIVIDED = """\
- type: prefix-based-pd-decider
- type: max-score-picker
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: max-score-picker}]}
- {name: prefill, plugins: [{pluginRef: max-score-picker}]}
"""


def configured(kind, parameters):
    plugin = f"{HEAD}plugins:\n- type: {kind}\n  parameters: {msgspec.json.encode(parameters).decode()}\n"
    return plugin + (DIVIDED if kind == "pd-profile-handler" else "")


def nested(dotted, value):
    for step in reversed(dotted.split(".")):
        value = {step: value}
    return value


VALUES = {
    "hashAlgorithm": "xxh64", "kvBlockIndexConfig": {}, "prefixStoreConfig": {}, "tokenizersPoolConfig": {},
    "useEncoderCacheFeatures": True, "samplingMean": 10, "maxDecodeTokenSamplesForPrediction": 1,
    "hashBlockSize": 4,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "dotted"), [(kind, dotted) for kind, table in NO_EFFECT.items() for dotted in table])
def test_a_parameter_that_does_nothing_is_warned_of(kind, dotted):
    value = VALUES.get(dotted.rpartition(".")[2], "x")
    found = load(configured(kind, nested(dotted, value)), "c.yaml")
    at = f"plugins[0].parameters.{dotted}"
    assert [each.sentence for each in found.warnings if each.field == at] == [
        f"has no effect here: {NO_EFFECT[kind][dotted]}"
    ]


@pytest.mark.parametrize(("kind", "dotted"), [(kind, dotted) for kind, table in REFUSED.items() for dotted in table])
def test_a_parameter_that_would_be_missed_is_refused(kind, dotted):
    path, _, value = dotted.partition("=")
    with pytest.raises(ConfigError) as caught:
        load(configured(kind, nested(path, value or {"address": "redis:6379"})), "c.yaml")
    assert [problem.sentence for problem in caught.value.problems] == [REFUSED[kind][dotted]]


def test_the_tables_name_types_that_there_are():
    assert {*NO_EFFECT, *REFUSED} <= {*builtin_registry()}


@pytest.mark.parametrize(
    ("tiers", "sentence"),
    [
        ([("gpu", 0.9), ("cpu", 0.8)], "blocks on the GPU count in full; its weight must be 1"),
        ([("gpu", 1.0), ("cpu", 0.8), ("disk", 0.2)], "tiers other than gpu must have one weight"),
    ],
)
def test_weights_of_tiers_that_would_not_be_kept_to_are_refused(tiers, sentence):
    configs = [{"name": name, "weight": weight} for name, weight in tiers]
    text = configured("precise-prefix-cache-producer", {"indexerConfig": {"kvCacheBackendConfigs": configs}})
    with pytest.raises(ConfigError, match=sentence):
        load(text)


def test_a_limit_of_the_kv_cache_is_a_share():
    conditions = [{"metric": "kv-cache-utilization", "maxValue": 80}]
    with pytest.raises(ConfigError, match="kv-cache-utilization is a share of 1, and maxValue is 80"):
        load(configured("utilization-filter", {"conditions": conditions}))


@pytest.mark.parametrize("group", ["llm-d.ai/v1", "llm-d.ai/v1alpha1"])
def test_the_groups_of_today(group):
    assert load(f"apiVersion: {group}\nkind: EndpointPickerConfig\n").warnings == ()


@pytest.mark.parametrize("kind", NO_EFFECT_TYPES)
def test_a_type_that_does_nothing_is_warned_of(kind):
    found = load(configured(kind, {}), "c.yaml")
    assert [each.sentence for each in found.warnings if each.field == "plugins[0].type"] == [
        f"{kind} has no effect here: {NO_EFFECT_TYPES[kind]}"
    ]


def test_every_type_that_does_nothing_has_a_reason():
    inert = {name for name, kind in builtin_registry().items() if INERT in kind.parts and not kind.replaced_by}
    assert inert == {*NO_EFFECT_TYPES}


@pytest.mark.parametrize("kind", REFUSED_TYPES)
def test_a_type_that_would_be_missed_is_refused(kind):
    with pytest.raises(ConfigError) as caught:
        load(configured(kind, {}), "c.yaml")
    assert [problem.sentence for problem in caught.value.problems] == [
        f"{kind} is not supported: {REFUSED_TYPES[kind]}"
    ]


def test_parameters_of_types_that_do_nothing_are_checked_all_the_same():
    queue = {"sessionType": "main", "retain": {"quantile": 0.9, "minTTL": "10s", "maxTTL": "10m"}}
    hint = {"maxProtectedPrefixTokens": 16384, "protectionBudgetTokens": 1100000, "queues": [queue]}
    assert load(configured("kv-cache-hint-v2", hint), "c.yaml").warnings
    turns = {"sessionTypeHeader": "x-session-type", "minInterval": "100ms", "queues": [{"sessionType": "chat"}]}
    assert load(configured("session-interturn-latency-producer", turns), "c.yaml").warnings
    with pytest.raises(ConfigError) as caught:
        load(configured("kv-cache-hint", {"queues": [{"retain": {"quantile": 1.5}}]}), "c.yaml")
    assert [problem.field for problem in caught.value.problems] == ["plugins[0].parameters.queues[0].retain.quantile"]


def test_hashes_of_the_body_are_what_there_is():
    assert (
        load(configured("approx-prefix-cache-producer", {"prefixHashSource": "body"}), "c.yaml").warnings
        == load(configured("approx-prefix-cache-producer", {}), "c.yaml").warnings
    )


SYNCED = "plugins: [{type: local-syncer}]\ndataLayer: {%s}\n"


@pytest.mark.parametrize(
    ("layer", "fields"),
    [
        ("crossReplica: {syncerPluginRef: local-syncer}", []),
        ("crossReplicaSyncerPluginRef: local-syncer", []),
        ("crossReplica: {syncInterval: 200ms, publishTimeout: 1s}", ["syncInterval", "publishTimeout"]),
        ("crossReplicaSyncInterval: 1s", ["crossReplicaSyncInterval"]),
    ],
)
def test_how_often_replicas_share_is_not_set(layer, fields):
    found = load(HEAD + SYNCED % layer, "c.yaml")
    warned = [each for each in found.warnings if each.field.startswith("dataLayer")]
    assert [each.field.rpartition(".")[2] for each in warned] == fields
    assert {each.sentence for each in warned} <= {"has no effect here: pickers share by --peers, at their own pace"}


def test_a_syncer_that_is_none():
    with pytest.raises(ConfigError) as caught:
        load(HEAD + SYNCED % "crossReplica: {syncerPluginRef: redis}", "c.yaml")
    assert [(each.field, each.sentence) for each in caught.value.problems] == [
        ("dataLayer.crossReplica.syncerPluginRef", "no plugin is named redis")
    ]
