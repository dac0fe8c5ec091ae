"""Spans of the gateways: Envoy sends them by OTLP over HTTP to where OpenTelemetry's variables say.

Every listener makes a span and passes its context on, so that the fleet router, a picker and an engine find the span of
the hop before them in `traceparent`. A caller that is traced decides; others are sampled by share.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from modelplane.api.errors import InputError
from modelplane.envoy.view import Resource

CLUSTER: Final = "modelplane-otlp"
_SERVICE: Final = "modelplane-gateway"
_TRACES: Final = "/v1/traces"
_SPECIFIC, _GENERAL, _SHARE = (
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_TRACES_SAMPLER_ARG",
)
_MILLION: Final = 1_000_000
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class TraceExport:
    """Where spans go, and of what share of the requests whose callers are not traced."""

    url: str
    share: float = 1.0


def trace_export(environment: Mapping[str, str]) -> TraceExport | None:
    """None where no variable names an endpoint. InputError names one that cannot be used."""
    name = next((each for each in (_SPECIFIC, _GENERAL) if environment.get(each)), None)
    if name is None:
        return None
    given = environment[name]
    url = given if name == _SPECIFIC else given.rstrip("/") + _TRACES
    found = urlsplit(url)
    if found.scheme not in _PORTS or not found.hostname:
        raise InputError(f"{name}: not an http or https URL: {given}")
    return TraceExport(url, _share(environment.get(_SHARE) or "1"))


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"{_SHARE}: not a number in [0, 1]: {text}")
    return share


def with_tracing(listener: Resource, export: TraceExport) -> Resource:
    """A listener whose connection managers make spans."""
    chains = listener["filter_chains"]
    assert isinstance(chains, list)  # noqa: S101  listeners are made in this room
    return {**listener, "filter_chains": [_chain(chain, export) for chain in chains]}


def _chain(chain: Resource, export: TraceExport) -> Resource:
    filters = chain["filters"]
    assert isinstance(filters, list)  # noqa: S101  as above
    made = [{**each, "typed_config": {**each["typed_config"], "tracing": _tracing(export)}} for each in filters]
    return {**chain, "filters": made}


def _tracing(export: TraceExport) -> Resource:
    provider = {
        "name": "envoy.tracers.opentelemetry",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
            "http_service": {"http_uri": {"uri": export.url, "cluster": CLUSTER, "timeout": "2s"}},
            "service_name": _SERVICE,
            "sampler": _sampler(export.share),
        },
    }
    return {"provider": provider}


def _sampler(share: float) -> Resource:
    """As OpenTelemetry's `parentbased_traceidratio`: Envoy's own sampling would not let a traced caller decide."""
    ratio = {"numerator": round(share * _MILLION), "denominator": "MILLION"}
    return _named("parent_based", wrapped_sampler=_named("trace_id_ratio_based", sampling_percentage=ratio))


def _named(sampler: str, **config: object) -> Resource:
    title = "".join(word.title() for word in sampler.split("_"))
    kind = f"type.googleapis.com/envoy.extensions.tracers.opentelemetry.samplers.v3.{title}SamplerConfig"
    return {"name": f"envoy.tracers.opentelemetry.samplers.{sampler}", "typed_config": {"@type": kind, **config}}


def export_cluster(export: TraceExport) -> Resource:
    """Where Envoy sends spans."""
    found = urlsplit(export.url)
    address = {"address": found.hostname, "port_value": found.port or _PORTS[found.scheme]}
    endpoint = {"endpoint": {"address": {"socket_address": address}}}
    made: Resource = {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": CLUSTER,
        "type": "STRICT_DNS",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": CLUSTER, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if found.scheme == "https":
        context = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        tls = {"@type": f"type.googleapis.com/{context}", "sni": found.hostname}
        made["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": tls}
    return made
