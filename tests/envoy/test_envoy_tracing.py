import pytest

from modelplane.api.errors import InputError
from modelplane.envoy.gateways import GatewayConfigs
from modelplane.envoy.tracing import CLUSTER, TraceExport, export_cluster, trace_export
from modelplane.envoy.view import GatewayView

TRACES, GENERAL = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({GENERAL: ""}, None),
        ({GENERAL: "http://c:4318"}, TraceExport("http://c:4318/v1/traces")),
        ({GENERAL: "http://c:4318/"}, TraceExport("http://c:4318/v1/traces")),
        (
            {GENERAL: "http://c", TRACES: "https://t/x", "OTEL_TRACES_SAMPLER_ARG": ".25"},
            TraceExport("https://t/x", 0.25),
        ),
    ],
)
def test_the_variables_of_opentelemetry_say_where_spans_go(given, found):
    assert trace_export(given) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({GENERAL: "c:4317"}, f"{GENERAL}: not an http or https URL: c:4317"),
        ({TRACES: "https://"}, f"{TRACES}: not an http or https URL: https://"),
        ({GENERAL: "http://c", "OTEL_TRACES_SAMPLER_ARG": "2"}, "OTEL_TRACES_SAMPLER_ARG: not a number in"),
        ({GENERAL: "http://c", "OTEL_TRACES_SAMPLER_ARG": "all"}, "OTEL_TRACES_SAMPLER_ARG: not a number in"),
    ],
)
def test_what_cannot_be_used_is_named(given, message):
    with pytest.raises(InputError, match=message):
        trace_export(given)


def test_a_collector_behind_tls_is_called_by_its_name():
    made = export_cluster(TraceExport("https://traces.example.org/v1/traces"))
    (endpoint,) = made["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint["endpoint"]["address"]["socket_address"] == {"address": "traces.example.org", "port_value": 443}
    assert made["transport_socket"]["typed_config"]["sni"] == "traces.example.org"
    assert "transport_socket" not in export_cluster(TraceExport("http://127.0.0.1:4318/v1/traces"))


def test_without_an_endpoint_nothing_is_added():
    view = GatewayView(name="east", host="127.0.0.1", port=8080)
    plain, traced = GatewayConfigs(), GatewayConfigs(TraceExport("http://127.0.0.1:4318/v1/traces"))
    plain.put(view)
    traced.put(view)
    assert CLUSTER not in plain.config().clusters
    assert b'"tracing"' not in plain.config().listeners["east"]
    assert CLUSTER in traced.config().clusters
    assert traced.config().listeners["east"].count(b'"tracing"') == 1
