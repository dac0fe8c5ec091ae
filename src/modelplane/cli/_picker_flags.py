"""Flags of the ecosystem's pickers: those that mean the same here, those that change nothing, and those refused.

Charts pass all of them. Each is accepted with its meaning, accepted with a line that says that it changes nothing, or
refused with what to use instead. Go writes `--flag=false`, and `--flag` alone for true.
"""

import argparse
from collections.abc import Mapping
from typing import Final

from modelplane.api.errors import InputError
from modelplane.cli._log_format import ZAP_ENCODERS

POOL_GROUP: Final = "inference.networking.k8s.io"
_TLS_VERSIONS: Final = ("VersionTLS12", "VersionTLS13")

_NO_EFFECT: Final[Mapping[str, str]] = {
    "grpc-max-send-msg-size": "answers are small",
    "refresh-prometheus-metrics-interval": "the metrics are those of the moment of a scrape",
    "health-checking": "the health service always runs",
    "enable-grpc-stream-metrics": "metrics of streams are always shown",
    "allow-experimental-plugins": "plugins of every stability are loaded",
    "zap-devel": "use --zap-encoder and --zap-log-level",
    "zap-stacktrace-level": "errors of plugins always have their traceback",
    "zap-time-encoding": "times are ISO 8601",
}
"""Flags that are accepted and change nothing, and why."""

_ENGINE_CONFIGS: Final = "names of metrics are set by engineConfigs of a core-metrics-extractor in the configuration"
_REFUSED: Final[Mapping[str, str]] = {
    "total-queued-requests-metric": _ENGINE_CONFIGS,
    "total-running-requests-metric": _ENGINE_CONFIGS,
    "kv-cache-usage-percentage-metric": _ENGINE_CONFIGS,
    "lora-info-metric": _ENGINE_CONFIGS,
    "cache-info-metric": _ENGINE_CONFIGS,
    "metrics-staleness-threshold": "set metricsStalenessThreshold of a utilization-detector in the configuration",
    "metrics-client-ca-file": "the metrics port speaks plain text; restrict it by a NetworkPolicy",
    "metrics-cert-dir": "the metrics port speaks plain text; restrict it by a NetworkPolicy",
    "tls-cipher-suites": "use --tls-min-version VersionTLS13, whose cipher suites are fixed",
}
"""Flags whose meaning this picker does not have, and what to do instead."""

_REFUSED_IF_TRUE: Final[Mapping[str, str]] = {
    "ha-enable-leader-election": "every replica answers: there is no leader; with --peers they share what they know",
    "metrics-endpoint-auth": "the metrics port has no authentication; restrict it by a NetworkPolicy",
    "emit-endpoint-scores": "scores are in --decision-log",
    "disable-endpoint-subset-filter": "the proxy's subset is always kept to",
    "enable-pprof": "there is no pprof; --debug-state shows endpoints and loads",
}
"""Switches that may be given as false."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("flags of other pickers")
    group.add_argument("--pool-group", default=POOL_GROUP, metavar="GROUP", help=f"must be {POOL_GROUP}")
    group.add_argument(
        "--tracing", nargs="?", const="true", default="", metavar="BOOL", help="--tracing-share 1, or none"
    )
    group.add_argument("--refresh-metrics-interval", default="", metavar="TIME", help="between two scrapes under load")
    group.add_argument("--grpc-max-recv-msg-size", default="", metavar="SIZE", help="another name of --max-body")
    group.add_argument("--tls-min-version", default=_TLS_VERSIONS[0], choices=_TLS_VERSIONS, help="of the gRPC port")
    group.add_argument(
        "--enable-cert-reload", nargs="?", const="true", default="false", metavar="BOOL", help="reload --cert-path"
    )
    group.add_argument("-v", "--v", default="0", metavar="N", help="verbosity; from 4 on, debug lines are logged")
    group.add_argument("--zap-log-level", default="", metavar="LEVEL", help="debug, info, error, or a verbosity")
    group.add_argument(
        "--zap-encoder",
        choices=list(ZAP_ENCODERS),
        help="of log lines (default: console on a terminal, else json)",
    )
    for name in (*_NO_EFFECT, *_REFUSED, *_REFUSED_IF_TRUE):
        group.add_argument(f"--{name}", nargs="?", const="true", default=None, help=argparse.SUPPRESS)


def check_flags(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What the log says of flags that change nothing; InputError for those that are refused."""
    from modelplane.epp.server.flags import truth

    given = {name: value for name, value in vars(arguments).items() if value is not None}
    if arguments.pool_group != POOL_GROUP:
        raise InputError(f"--pool-group {arguments.pool_group}: only pools of {POOL_GROUP} are read")
    for name, why in _REFUSED.items():
        if _key(name) in given:
            raise InputError(f"--{name} is not supported: {why}")
    for name, why in _REFUSED_IF_TRUE.items():
        if _key(name) in given and truth(given[_key(name)]):
            raise InputError(f"--{name} is not supported: {why}")
    return tuple(f"--{name} has no effect: {why}" for name, why in _NO_EFFECT.items() if _key(name) in given)


def tracing_warnings(environment: Mapping[str, str], *, traced: bool) -> tuple[str, ...]:
    """What the log says where spans would be sent to a port that does not take them."""
    endpoint = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environment.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT", ""
    )
    if not traced or not endpoint.rstrip("/").endswith(":4317"):
        return ()
    return (
        f"spans are sent to {endpoint} by OTLP over HTTP; port 4317 is that of OTLP over gRPC, usually beside 4318",
    )


def log_level(arguments: argparse.Namespace) -> int:
    import logging

    named = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
    text = arguments.zap_log_level or arguments.v
    if text in named:
        return named[text]
    if not text.isdecimal():
        raise InputError(f"{text!r} is no log level; write debug, info, error or a number")
    return logging.DEBUG if int(text) >= _DEBUG_FROM else logging.INFO


_DEBUG_FROM: Final = 4


def _key(name: str) -> str:
    return name.replace("-", "_")
