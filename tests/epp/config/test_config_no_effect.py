"""No setting is accepted, ignored and not warned of."""

import msgspec
import pytest

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.config.no_effect import NO_EFFECT, REFUSED
from modelplane.epp.config.positions import ConfigError

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
    with pytest.raises(ConfigError) as caught:
        load(configured(kind, nested(dotted, {"address": "redis:6379"})), "c.yaml")
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
