"""Sinks by the type of their exporter: what they take, and where they are."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import TelemetryDestination
from modelplane.api.outbound import OutboundRule
from modelplane.compose.telemetry.sinks import read_sinks

METRICS, TRACES = "Metrics", "Traces"
SIGNALS = {
    **dict.fromkeys(("otlp", "otlp_grpc", "otlphttp", "otlp_http", "debug"), (METRICS, TRACES)),
    **dict.fromkeys(("prometheusremotewrite", "prometheus_remote_write"), (METRICS,)),
}


def read(type_, **sink):
    item = {"metadata": {"name": "ops"}, "spec": {"sinks": [{"name": "out", "type": type_, **sink}]}}
    return read_sinks([decode(TelemetryDestination, item)], OutboundRule())


@pytest.mark.parametrize(("type_", "taken"), [*SIGNALS.items(), ("kafka", (METRICS,))])
def test_a_sink_takes_what_its_exporter_takes_and_no_traces_of_one_that_is_not_known(type_, taken):
    (sink,) = read(type_).accepted
    assert sink.signals == taken


@pytest.mark.parametrize(("type_", "refused"), [(each, TRACES not in taken) for each, taken in SIGNALS.items()])
def test_a_sink_is_not_asked_to_take_more_than_its_exporter_does(type_, refused):
    faults = read(type_, signals=[METRICS, TRACES]).faults
    said = [fault.message for fault in faults.get("ops", ())]
    assert said == ([f"spec.sinks[0].signals: {type_} takes no Traces"] if refused else [])


@pytest.mark.parametrize("signals", [[METRICS], [TRACES], [METRICS, TRACES]])
def test_an_exporter_that_is_not_known_takes_what_it_is_said_to(signals):
    (sink,) = read("kafka", signals=signals).accepted
    assert sink.signals == tuple(signals)


@pytest.mark.parametrize("type_", SIGNALS)
def test_only_exporters_of_grpc_name_a_host_and_a_port(type_):
    accepted = [sink.endpoint for sink in read(type_, endpoint="otlp.example.org:4317").accepted]
    assert accepted == (["otlp.example.org:4317"] if type_ in {"otlp", "otlp_grpc"} else [])
