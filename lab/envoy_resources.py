"""The clusters and listeners that the lab's Gateway controller gives to Envoy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Json = dict[str, object]

DESTINATION = "x-gateway-destination-endpoint"
REQUEST_HEADER = "x-lab-request"
"""By which a client finds its request in the log; gateways give requests ids of their own."""
STAT_PREFIX, PICKER = "gateway", "picker"
TYPES = "type.googleapis.com/envoy"
_FILTERS = f"{TYPES}.extensions.filters.http"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_DUPLEX = "FULL_DUPLEX_STREAMED"
_LARGEST_BODY = 32 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where the proxy listens, reads its routes from and writes its log to."""

    address: str
    routes_source: Callable[[str], Json]
    """Of a table, by its name."""
    access_log: str


def static_cluster(name: str, addresses: Sequence[str]) -> Json:
    endpoints = [{"endpoint": {"address": _socket(address)}} for address in addresses]
    return {
        "@type": f"{TYPES}.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def picker_cluster(name: str, addresses: Sequence[str]) -> Json:
    options = {"@type": f"{TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions"}
    tls = {
        "@type": f"{TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"alpn_protocols": ["h2"]},
    }
    return static_cluster(name, addresses) | {
        "typed_extension_protocol_options": {
            _HTTP_OPTIONS: {**options, "explicit_http_config": {"http2_protocol_options": {}}}
        },
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
    }


def as_picked() -> Json:
    """The pod that the picker named, or any where it named none."""
    fallback = {"@type": f"{TYPES}.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
    policy = {
        "@type": f"{TYPES}.extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}}],
        "fallback_policy": {
            "policies": [{"typed_extension_config": {"name": "round-robin", "typed_config": fallback}}]
        },
    }
    return {"policies": [{"typed_extension_config": {"name": "override-host", "typed_config": policy}}]}


def picker_overrides(cluster: str, *, fails_open: bool) -> Json:
    """Envoy lets a request pass without an answer only while it still holds the body: not in full duplex."""
    return {
        "@type": f"{_FILTERS}.ext_proc.v3.ExtProcPerRoute",
        "overrides": {
            "grpc_service": {"envoy_grpc": {"cluster_name": cluster}, "timeout": "10s"},
            "failure_mode_allow": fails_open,
            "processing_mode": _mode("BUFFERED", "NONE") if fails_open else _mode(_DUPLEX, _DUPLEX),
        },
    }


def _mode(request_body: str, response_body: str) -> Json:
    return {
        "request_header_mode": "SEND",
        "request_body_mode": request_body,
        "request_trailer_mode": "SEND" if request_body == _DUPLEX else "SKIP",
        "response_header_mode": "SEND",
        "response_body_mode": response_body,
        "response_trailer_mode": "SEND",
    }


def _processor() -> Json:
    """Off, except for routes to pools, which say whom to ask."""
    config = {
        "@type": f"{_FILTERS}.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": PICKER}},
        "message_timeout": "5s",
        "processing_mode": _mode(_DUPLEX, _DUPLEX),
        "metadata_options": {
            "forwarding_namespaces": {"untyped": ["envoy.lb"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    }
    return {"name": PICKER, "typed_config": config, "disabled": True}


def http_listener(place: Place, port: int, table: str, tls: Json | None = None) -> Json:
    router = {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{_FILTERS}.router.v3.Router"}}
    manager = {
        "@type": f"{TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": STAT_PREFIX,
        "rds": {"route_config_name": table, "config_source": place.routes_source(table)},
        "normalize_path": True,
        "access_log": [_access_log(place.access_log)],
        "http_filters": [_processor(), router],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {
        "@type": f"{TYPES}.config.listener.v3.Listener",
        "name": f"port-{port}",
        "address": _socket(f"{place.address}:{port}"),
        "per_connection_buffer_limit_bytes": _LARGEST_BODY,
        "filter_chains": [chain if tls is None else {**chain, "transport_socket": tls}],
    }


def log_fields(picked: str) -> dict[str, str]:
    """By which tests tell whether the pod that answered is the one that the picker named, as `picked` says."""
    return {
        "request": f"%REQ({REQUEST_HEADER})%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "cluster": "%UPSTREAM_CLUSTER%",
        "upstream": "%UPSTREAM_HOST%",
        "picked": picked,
    }


def _access_log(path: str) -> Json:
    kind = f"{TYPES}.extensions.access_loggers.file.v3.FileAccessLog"
    fields = log_fields(f"%DYNAMIC_METADATA(envoy.lb:{DESTINATION})%")
    config = {"@type": kind, "path": path, "log_format": {"json_format": fields}}
    return {"name": "envoy.access_loggers.file", "typed_config": config}


def _socket(address: str) -> Json:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}
