"""What a collector is made of: what is read for it, statements of its transform language, sinks that wait."""

import pytest

from modelplane.api.models import MappedMetric
from modelplane.compose.contract import Requirement
from modelplane.compose.telemetry.cluster_telemetry import telemetry_requirements
from modelplane.compose.telemetry.statements import metric_statements
from tests.compose.test_compose_telemetry import (
    GIVEN,
    MANAGED,
    PROM,
    TRACES,
    compose,
    condition,
    config,
    destination,
    mapping,
    request,
    running,
    telemetry,
)


def test_with_a_destination_what_it_names_and_what_renames_metrics_is_read():
    api = "modelplane.ai/v1alpha1"
    garbled = {**destination("other"), "spec": {"sinks": [7]}}
    assert telemetry_requirements(request({"telemetry-destinations": (destination(), garbled)})) == {
        "telemetry-destinations": Requirement(api, "TelemetryDestination"),
        "telemetry-mappings": Requirement(api, "MetricMapping"),
        "telemetry-gateway": Requirement(api, "InferenceGateway", name="default"),
        "telemetry-secret-prom-cred": Requirement("v1", "Secret", name="prom-cred", namespace="modelplane-system"),
    }


def test_texts_of_labels_are_the_collectors_and_counts_have_no_unit():
    labels = [{"name": "site", "value": "Köln $1"}]
    own = [
        {"from": "x", "part": part, "to": f"modelplane_x_{part.lower()}", "fromUnit": "Milliseconds", "labels": labels}
        for part in ("Count", "Sum")
    ]
    built_in = config(compose({**GIVEN, "telemetry-mappings": ()}))
    found = config(compose({**GIVEN, "telemetry-mappings": (mapping("own", *own),)}))
    texts, known = (
        [
            text
            for group in made["processors"]["transform/modelplane"]["metric_statements"]
            for text in group["statements"]
        ]
        for made in (found, built_in)
    )
    added = [text for text in texts if text not in known]
    assert [text for text in added if text.startswith(("extract", "scale", "set"))] == [
        'extract_count_metric(true) where metric.name == "x"',
        'extract_sum_metric(true) where metric.name == "x"',
        'scale_metric(0.001) where metric.name == "x_sum"',
        'set(datapoint.attributes["site"], "Köln $$1") where metric.name == "x_count"',
        'set(datapoint.attributes["site"], "Köln $$1") where metric.name == "x_sum"',
        'set(metric.name, "modelplane_x_count") where metric.name == "x_count"',
        'set(metric.name, "modelplane_x_sum") where metric.name == "x_sum"',
    ]


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("Millijoules", "0.001"),
        ("Milliseconds", "0.001"),
        ("Nanoseconds", "0.000000001"),
        ("Mebibytes", "1048576.0"),
        ("Percent", "0.01"),
    ],
)
def test_values_become_those_of_the_base_unit(unit, factor):
    first, *_ = metric_statements([MappedMetric(from_="x", to="modelplane_x", from_unit=unit)])
    scaled = f'scale_metric({factor}) where metric.name == "x"'
    assert (first["context"], first["statements"][0]) == ("metric", scaled)


@pytest.mark.parametrize("said", [2000, 300])
def test_a_message_of_a_collector_has_1024_characters_at_most(said):
    seen = running(compose(cluster=MANAGED), **{"telemetry-role": "x" * said})
    refused = "the cluster refuses an object of the collector: modelplane-collector: " + "x" * said
    assert condition(compose(seen=seen, cluster=MANAGED))[0][2] == refused[:1024]
    ops = destination("ops", PROM, extensions={"x" * said: {"endpoint": "https://login.monitoring.svc"}})
    inside = (
        f"TelemetryDestination ops: spec.extensions.{'x' * said}.endpoint: login.monitoring.svc is a name of an "
        "internal network (.svc); InferenceGateway default may allow it in spec.outbound.allow"
    )
    found = compose({**GIVEN, "telemetry-destinations": (ops,)}, cluster=MANAGED)
    assert condition(found)[0][2] == inside[:1024]


def test_what_has_no_statements_is_left_out():
    assert metric_statements([]) == []
    plain = metric_statements([MappedMetric(from_="x", to="modelplane_x")])
    assert [(group["context"], len(group["statements"])) for group in plain] == [("metric", 2)]


def test_destinations_that_are_listed_are_not_read_by_name():
    given = {**GIVEN, "telemetry-destinations": (destination("b", TRACES), destination("a", PROM))}
    seen = running(compose(given))
    assert telemetry_requirements(request(given, seen)).keys() == telemetry_requirements(request(given)).keys()


def test_while_one_sink_waits_for_its_secret_what_runs_stays_though_another_is_refused():
    seen = running(compose())
    inside = {**TRACES, "endpoint": "http://tempo.monitoring.svc:4318"}
    changed = {"telemetry-destinations": (destination("ops", inside, {**PROM, "secretRef": {"name": "new"}}),)}
    result = compose({**GIVEN, **changed, "telemetry-secret-new": ()}, seen)
    assert telemetry(result).keys() == telemetry(compose()).keys()
    ((status, reason, message),) = condition(result)
    assert (status, reason, message.endswith("spec.outbound.allow (and 1 more)")) == ("False", "OutboundRefused", True)
