"""Which kind of server an endpoint is, and the ecosystem's parameters for it."""

import msgspec
import pytest

from modelplane.epp.datalayer.scrape.engines import (
    BadEngine,
    EngineMetricNames,
    Engines,
    MetricFamily,
    engines_from,
    metric_of,
)
from modelplane.epp.scheduling.declared import CoreMetricsParameters


def given(parameters):
    return engines_from(msgspec.convert(parameters, CoreMetricsParameters))


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({}, "vllm"),
        ({"llm-d.ai/engine-type": "sglang"}, "sglang"),
        ({"inference.networking.k8s.io/engine-type": "triton"}, "triton"),
        ({"llm-d.ai/engine-type": "sglang", "inference.networking.k8s.io/engine-type": "triton"}, "sglang"),
        ({"llm-d.ai/engine-type": "unheard-of"}, "vllm"),
    ],
)
def test_the_pod_label_names_the_engine(labels, name):
    assert Engines().of(labels).name == name


@pytest.mark.parametrize(
    ("spec", "metric"),
    [
        ("", None),
        ("  ", None),
        ("a:b_c", MetricFamily("a:b_c")),
        ("a{}", MetricFamily("a")),
        ("a{x=y}", MetricFamily("a", (("x", "y"),))),
        (' a { x = "y z" , w=v } ', MetricFamily("a", (("x", "y z"), ("w", "v")))),
    ],
)
def test_specs(spec, metric):
    assert metric_of(spec) == metric


@pytest.mark.parametrize("spec", ["1a", "a{", "a{x}", "a{x=}", "a{x=y,}", "a b", "a{x=y}{z=w}"])
def test_specs_that_are_none(spec):
    with pytest.raises(BadEngine, match="here: "):
        metric_of(spec, "here")


def test_parameters_of_the_ecosystem():
    engines = given(
        {
            "engineLabelKey": "kind",
            "defaultEngine": "mine",
            "engineConfigs": [
                {
                    "name": "mine",
                    "queuedRequestsSpec": "q{status=waiting}",
                    "cacheInfoSpec": "info",
                    "cacheBlockSizeLabelName": "page",
                    "customMetrics": [{"attributeKey": "depth", "metricSpec": "d{tier=gold}"}],
                },
                {"name": "vllm", "queuedRequestsSpec": "other"},
            ],
        }
    )
    assert engines.of({}) == EngineMetricNames(
        name="mine",
        waiting=MetricFamily("q", (("status", "waiting"),)),
        cache_info=MetricFamily("info"),
        block_size_label="page",
        others=(("depth", MetricFamily("d", (("tier", "gold"),))),),
    )
    assert engines.of({"kind": "vllm"}) == EngineMetricNames(name="vllm", waiting=MetricFamily("other"))
    assert engines.of({"kind": "sglang"}).waiting == MetricFamily("sglang:num_queue_reqs")


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"defaultEngine": "none"}, "defaultEngine: 'none' is none of"),
        ({"engineConfigs": [{"name": "a", "kvUsageSpec": "{"}]}, r"engineConfigs\[0\].kvUsageSpec"),
        ({"engineConfigs": [{"name": "a"}, {"name": "a"}]}, r"engineConfigs\[1\].name: 'a' is empty or given twice"),
        ({"engineConfigs": [{"name": ""}]}, r"engineConfigs\[0\].name"),
        (
            {"engineConfigs": [{"name": "a", "customMetrics": [{"attributeKey": "", "metricSpec": "x"}]}]},
            "attributeKey",
        ),
    ],
)
def test_parameters_that_are_refused(parameters, problem):
    with pytest.raises(BadEngine, match=problem):
        given(parameters)
