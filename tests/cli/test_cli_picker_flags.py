"""Flags of the ecosystem's pickers: every one is accepted with its meaning, or refused with what to use instead."""

import argparse
import logging
import re

import pytest

from modelplane.api.errors import InputError
from modelplane.cli import _picker_serve
from modelplane.cli._picker_flags import check_flags, log_level, tracing_warnings

UPSTREAM = {
    "grpc-port": "9002", "ha-enable-leader-election": "false", "drain-timeout": "30s", "grpc-max-recv-msg-size": "32Mi",
    "grpc-max-send-msg-size": "32Mi", "pool-group": "inference.networking.k8s.io", "pool-namespace": "default",
    "pool-name": "llama", "endpoint-selector": "", "endpoint-target-ports": "8000",
    "disable-endpoint-subset-filter": "false", "emit-endpoint-scores": "false", "refresh-metrics-interval": "50ms",
    "refresh-prometheus-metrics-interval": "5s", "v": "2", "zap-encoder": "json", "zap-log-level": "info",
    "zap-devel": "false", "zap-stacktrace-level": "error", "zap-time-encoding": "iso8601", "tracing": "false",
    "health-checking": "true", "metrics-port": "9090", "grpc-health-port": "9003", "enable-pprof": "false",
    "enable-cert-reload": "false", "enable-grpc-stream-metrics": "true", "secure-serving": "true",
    "tls-min-version": "VersionTLS12", "metrics-endpoint-auth": "false", "config-text": "",
    "allow-experimental-plugins": "true",
}  # fmt: skip
REFUSED = {
    "total-queued-requests-metric": "engineConfigs",
    "total-running-requests-metric": "engineConfigs",
    "kv-cache-usage-percentage-metric": "engineConfigs",
    "lora-info-metric": "engineConfigs",
    "cache-info-metric": "engineConfigs",
    "metrics-staleness-threshold": "metricsStalenessThreshold",
    "metrics-client-ca-file": "NetworkPolicy",
    "metrics-cert-dir": "NetworkPolicy",
    "tls-cipher-suites": "--tls-min-version",
    "ha-enable-leader-election": "every replica answers",
    "metrics-endpoint-auth": "NetworkPolicy",
    "emit-endpoint-scores": "--decision-log",
    "disable-endpoint-subset-filter": "subset",
    "enable-pprof": "--debug-state",
}


def parsed(*flags):
    parser = argparse.ArgumentParser()
    _picker_serve.configure(parser)
    return parser.parse_args(flags)


def test_every_flag_with_its_value_as_charts_write_them():
    arguments = parsed(*(f"--{name}={value}" for name, value in UPSTREAM.items()))
    assert [re.match("--([a-z-]+) has no effect", line)[1] for line in check_flags(arguments)] == [
        "grpc-max-send-msg-size", "refresh-prometheus-metrics-interval", "health-checking",
        "enable-grpc-stream-metrics", "allow-experimental-plugins", "zap-devel", "zap-stacktrace-level",
        "zap-time-encoding",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "instead"), REFUSED.items())
def test_a_flag_that_is_refused_names_what_to_use(name, instead):
    with pytest.raises(InputError, match=f"--{name} is not supported: .*{instead}"):
        check_flags(parsed(f"--{name}"))


def test_the_pools_of_another_group_are_refused():
    with pytest.raises(InputError, match=r"--pool-group inference\.networking\.x-k8s\.io: only pools of"):
        check_flags(parsed("--pool-group", "inference.networking.x-k8s.io"))


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ([], logging.INFO),
        (["-v", "3"], logging.INFO),
        (["--v=4"], logging.DEBUG),
        (["--zap-log-level", "error", "--v", "9"], logging.ERROR),
        (["--zap-log-level=5"], logging.DEBUG),
    ],
)
def test_the_level_of_the_log(flags, level):
    assert log_level(parsed(*flags)) == level


def test_a_level_that_is_none():
    with pytest.raises(InputError, match="'loud' is no log level"):
        log_level(parsed("--zap-log-level", "loud"))


@pytest.mark.parametrize(("flags", "traced"), [(["--tracing"], True), (["--tracing=false"], False), ([], False)])
def test_tracing_is_a_switch(flags, traced, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert (_picker_serve._tracing(parsed(*flags)) is not None) is traced


@pytest.mark.parametrize(
    ("environment", "traced", "count"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, True, 1),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317/"}, True, 1),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, False, 0),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True, 0),
        ({}, True, 0),
    ],
)
def test_spans_to_a_port_that_does_not_take_them_are_warned_of(environment, traced, count):
    found = tracing_warnings(environment, traced=traced)
    assert [line.startswith("spans are sent to http://") for line in found] == [True] * count
