"""Sinks of TelemetryDestinations as a collector may use them, and why others are left out.

A sink's name is its exporter's, so two destinations cannot both have it: the one whose name sorts first keeps it.
Hosts are checked by the outbound rule of InferenceGateway default: those of endpoints, and those that `config` and
`extensions` name, as URLs or as host:port. Names are resolved on the clusters, where this cannot see what they
resolve to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from modelplane.api.models import TelemetryDestination, TelemetrySink
from modelplane.api.named_hosts import host_of, is_address_field, named_hosts
from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason

Signal = Literal["Metrics", "Traces"]
_BOTH: Final[tuple[Signal, ...]] = ("Metrics", "Traces")
_METRICS: Final[tuple[Signal, ...]] = ("Metrics",)
SIGNALS: Final[Mapping[str, tuple[Signal, ...]]] = {
    "otlp": _BOTH,
    "otlp_grpc": _BOTH,
    "otlphttp": _BOTH,
    "otlp_http": _BOTH,
    "debug": _BOTH,
    "prometheusremotewrite": _METRICS,
    "prometheus_remote_write": _METRICS,
}
"""What exporters take, by type."""
_BY_HOST: Final = frozenset({"otlp", "otlp_grpc"})
"""Types whose endpoint may be host:port."""
_LISTENERS: Final = ("pprof", "zpages")
"""Extensions whose endpoint is where they listen."""
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#\s]*)", re.IGNORECASE)
_ALLOW: Final = "InferenceGateway default may allow it in spec.outbound.allow"


@dataclass(frozen=True, slots=True)
class SinkFault:
    reason: Reason
    message: str
    """It names the field."""


@dataclass(frozen=True, slots=True)
class AcceptedSink:
    destination: str
    name: str
    type_: str
    signals: tuple[Signal, ...]
    endpoint: str = ""
    secret: str = ""
    token_key: str = ""
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkReport:
    accepted: tuple[AcceptedSink, ...] = ()
    extensions: Mapping[str, object] = field(default_factory=dict)
    faults: Mapping[str, tuple[SinkFault, ...]] = field(default_factory=dict)
    """By destination."""
    destinations: frozenset[str] = frozenset()
    """Names of all that were read."""


def read_sinks(destinations: Iterable[TelemetryDestination], rule: OutboundRule) -> SinkReport:
    """All destinations, the one whose name sorts first before the others."""
    accepted: dict[str, AcceptedSink] = {}
    extensions: dict[str, tuple[str, object]] = {}
    faults: dict[str, tuple[SinkFault, ...]] = {}
    declared = sorted(destinations, key=lambda each: each.metadata.name)
    for destination in declared:
        name, found = destination.metadata.name, list[SinkFault]()
        for at, sink in enumerate(destination.spec.sinks):
            problem = _sink_fault(f"spec.sinks[{at}]", sink, rule, accepted.get(sink.name))
            if problem is None:
                accepted[sink.name] = _accepted(name, sink)
            else:
                found.append(problem)
        for key, value in destination.spec.extensions.items():
            problem = _extension_fault(key, value, rule, extensions)
            if problem is None:
                extensions[key] = (name, value)
            else:
                found.append(problem)
        faults |= {name: tuple(found)} if found else {}
    return SinkReport(
        tuple(accepted.values()),
        {key: value for key, (_, value) in extensions.items()},
        faults,
        frozenset(destination.metadata.name for destination in declared),
    )


def _accepted(destination: str, sink: TelemetrySink) -> AcceptedSink:
    return AcceptedSink(
        destination,
        sink.name,
        sink.type_,
        sink.signals or SIGNALS.get(sink.type_, _METRICS),
        sink.endpoint or "",
        sink.secret_ref.name if sink.secret_ref is not None else "",
        sink.auth.bearer_token_key if sink.auth is not None else "",
        sink.config,
    )


def _sink_fault(path: str, sink: TelemetrySink, rule: OutboundRule, taken: AcceptedSink | None) -> SinkFault | None:
    if taken is not None:
        return SinkFault(Reason.INVALID, f"{path}.name: TelemetryDestination {taken.destination} has {sink.name}")
    surplus = [signal for signal in sink.signals if signal not in SIGNALS.get(sink.type_, _BOTH)]
    if surplus:
        return SinkFault(Reason.INVALID, f"{path}.signals: {sink.type_} takes no {surplus[0]}")
    if sink.endpoint is not None:
        host = _endpoint_host(sink.endpoint, by_host=sink.type_ in _BY_HOST)
        if host is None:
            wanted = "host:port or an http or https URL" if sink.type_ in _BY_HOST else "an http or https URL"
            return SinkFault(Reason.INVALID, f"{path}.endpoint: not {wanted} without user and variables")
        refusal = rule.refuse_host(host)
        if refusal is not None:
            return SinkFault(Reason.OUTBOUND_REFUSED, f"{path}.endpoint: {refusal}; {_ALLOW}")
    return _nested_fault(f"{path}.config", sink.config, rule)


def _extension_fault(
    name: str, value: object, rule: OutboundRule, taken: Mapping[str, tuple[str, object]]
) -> SinkFault | None:
    path = f"spec.extensions.{name}"
    if name in taken:
        return SinkFault(Reason.INVALID, f"{path}: TelemetryDestination {taken[name][0]} has it")
    if name.startswith(("bearertokenauth/sink-", "health_check")):
        return SinkFault(Reason.INVALID, f"{path}: Modelplane has an extension of this name itself")
    return None if name.partition("/")[0] in _LISTENERS else _nested_fault(path, value, rule)


def _nested_fault(path: str, value: object, rule: OutboundRule) -> SinkFault | None:
    """Why a host that free settings name may not be called."""
    for where, field_name, text in _texts(path, path.rpartition(".")[2], value):
        hosts = named_hosts(text, is_address=is_address_field(field_name))
        if hosts is None:
            message = f"{where}: not a URL or host:port without user and variables"
            return SinkFault(Reason.INVALID, message)
        refusal = next((found for host in hosts if (found := rule.refuse_host(host)) is not None), None)
        if refusal is not None:
            return SinkFault(Reason.OUTBOUND_REFUSED, f"{where}: {refusal}; {_ALLOW}")
    return None


def _texts(path: str, field_name: str, value: object) -> Iterator[tuple[str, str, str]]:
    """Where each text is, the name of its field, and the text."""
    if isinstance(value, str):
        yield path, field_name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{path}.{key}", str(key), item)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _texts(f"{path}[{at}]", field_name, item)


def _endpoint_host(endpoint: str, *, by_host: bool) -> str | None:
    found = _URL.match(endpoint)
    if found is None:
        return host_of(endpoint) if by_host else None
    return host_of(found.group(2)) if found.group(1).lower() in {"http", "https"} and "$" not in endpoint else None
