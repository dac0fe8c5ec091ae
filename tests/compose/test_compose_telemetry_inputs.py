"""What a collector is made of: what is read for it, statements of its transform language, sinks that wait."""

from modelplane.api.models import MappedMetric
from modelplane.compose.contract import Requirement
from modelplane.compose.telemetry.cluster_telemetry import telemetry_requirements
from modelplane.compose.telemetry.statements import metric_statements
from tests.compose.test_compose_telemetry import (
    GIVEN,
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
