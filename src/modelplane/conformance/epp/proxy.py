"""The kit's Envoy: a listener for each processing mode. Each calls the picker under test.

    full      FULL_DUPLEX_STREAMED requests, responses not processed
    both      FULL_DUPLEX_STREAMED both ways
    buffered  BUFFERED requests
    headers   request headers alone
    open      the same, and a request passes where the picker does not answer (`failure_mode_allow`)

Request headers stand in for what gateways know: a subset hint becomes dynamic metadata, and `x-kit-route` selects
whether Envoy routes by the picker's metadata or by its header, or to a server that is in no pool. If the picker sets
none, the request reaches a server that reports it. As gateways do, Envoy reports the endpoint that served.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from modelplane.api.objects import Json
from modelplane.conformance.epp.controls import PickerUnderTest
from modelplane.conformance.epp.upstreams import SERVED, Upstreams
from modelplane.envoy.bootstrap import command
from modelplane.envoy.errors import EnvoyFailedError

MODES = ("full", "both", "buffered", "headers")
OPEN = "open"
SUBSET_TEXT, SUBSET_VALUE, ROUTE = "x-kit-subset", "x-kit-subset-value", "x-kit-route"
TRAILERS, ELSEWHERE = "trailers", "elsewhere"
"""Routes to servers outside the pool: the one that returns trailers, and the one for what is not picked."""
HEALTH = ("", "envoy.service.ext_proc.v3.ExternalProcessor")
_DESTINATION = "x-gateway-destination-endpoint"
_TYPES = "type.googleapis.com/envoy"
_START_S = 30.0
_STRAY_WEIGHT = 1000


class Proxy:
    """A running Envoy."""

    def __init__(self, ports: dict[str, int], admin: str) -> None:
        self._ports = ports
        self._admin = admin

    def url(self, mode: str, path: str) -> str:
        return f"http://127.0.0.1:{self._ports[mode]}{path}"

    def port(self, mode: str) -> int:
        return self._ports[mode]

    async def healthy(self, service: str) -> bool:
        """Whether Envoy's gRPC health check of a service name succeeds."""
        wanted = f"health-{HEALTH.index(service)}"
        async with aiohttp.ClientSession() as session, session.get(f"{self._admin}/clusters?format=json") as answer:
            clusters = (await answer.json())["cluster_statuses"]
        states = [
            host["health_status"]
            for item in clusters
            if item["name"] == wanted
            for host in item.get("host_statuses", ())
        ]
        return bool(states) and not any(state.get("failed_active_health_check") for state in states)


@asynccontextmanager
async def proxy(folder: Path, picker: PickerUnderTest, upstreams: Upstreams, trailers: str) -> AsyncIterator[Proxy]:
    """Envoy in front of the upstream servers, one of which, at `trailers`, is in no pool."""
    admin_file = folder / "admin.txt"
    document = _bootstrap(picker, upstreams, trailers)
    (folder / "bootstrap.json").write_bytes(msgspec.json.encode(document))
    arguments = [*command(os.getpid(), binary=None, workers=1), "--admin-address-path", str(admin_file)]
    log = (folder / "envoy.log").open("wb")
    process = await asyncio.create_subprocess_exec(*arguments, cwd=folder, stdout=log, stderr=log)
    try:
        yield await _ready(process, admin_file, folder / "envoy.log")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        log.close()


async def _ready(process: asyncio.subprocess.Process, admin_file: Path, log: Path) -> Proxy:
    async with asyncio.timeout(_START_S):
        while process.returncode is None:
            admin = _content(admin_file)
            if admin and (found := await _listeners(f"http://{admin}")):
                return found
            await asyncio.sleep(0.05)
    raise EnvoyFailedError(f"Envoy ended at its start: {_content(log)[-800:]}")


def _content(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def _listeners(admin: str) -> Proxy | None:
    try:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            async with session.get(f"{admin}/ready"):
                pass
            async with session.get(f"{admin}/listeners?format=json") as answer:
                listed = (await answer.json())["listener_statuses"]
    except aiohttp.ClientError:
        return None
    ports = {item["name"]: item["local_address"]["socket_address"]["port_value"] for item in listed}
    return Proxy(ports, admin) if {*MODES, OPEN} <= ports.keys() else None


def _bootstrap(target: PickerUnderTest, upstreams: Upstreams, trailers: str) -> Json:
    picker, tls = target.address, target.tls
    return {
        "node": {"id": "kit", "cluster": "kit"},
        "admin": {"address": _address("127.0.0.1:0")},
        "static_resources": {
            "listeners": [_listener(mode) for mode in (*MODES, OPEN)],
            "clusters": [
                _picker_cluster("picker", picker, tls=tls),
                *(_health_cluster(f"health-{at}", picker, service, tls=tls) for at, service in enumerate(HEALTH)),
                _pool("by-metadata", upstreams, [_metadata_source()]),
                _pool("by-header", upstreams, [{"header": _DESTINATION}]),
                _pool("by-either", upstreams, [_metadata_source(), {"header": _DESTINATION}]),
                _server(ELSEWHERE, upstreams.stray_address),
                _server(TRAILERS, trailers),
            ],
        },
    }


def _address(text: str) -> Json:
    host, _, port = text.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def _listener(mode: str) -> Json:
    routes = [_route("by-metadata", "metadata"), _route("by-header", "header")]
    routes += [_route(TRAILERS, TRAILERS), _route(ELSEWHERE, ELSEWHERE), _route("by-either", "")]
    manager = {
        "@type": f"{_TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": mode,
        "http_protocol_options": {"enable_trailers": True},
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            _hints(),
            _ext_proc(mode),
            _served(),
            {"name": "router", "typed_config": {"@type": f"{_TYPES}.extensions.filters.http.router.v3.Router"}},
        ],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {"name": mode, "address": _address("127.0.0.1:0"), "filter_chains": [chain]}


def _route(cluster: str, name: str) -> Json:
    match: Json = {"prefix": "/"}
    if name:
        match["headers"] = [{"name": ROUTE, "string_match": {"exact": name}}]
    return {"match": match, "route": {"cluster": cluster, "timeout": "60s"}}


def _hints() -> Json:
    """Turns headers of the kit into the metadata that a gateway would send."""
    where = {"metadata_namespace": "envoy.lb.subset_hint", "key": "x-gateway-destination-endpoint-subset"}
    rules = [
        {"header": SUBSET_TEXT, "on_header_present": {**where, "type": "STRING"}, "remove": True},
        {
            "header": SUBSET_VALUE,
            "on_header_present": {**where, "type": "PROTOBUF_VALUE", "encode": "BASE64"},
            "remove": True,
        },
    ]
    kind = f"{_TYPES}.extensions.filters.http.header_to_metadata.v3.Config"
    return {"name": "hints", "typed_config": {"@type": kind, "request_rules": rules}}


def _served() -> Json:
    """Turns a header of the servers into the metadata by which a gateway reports who served."""
    where = {"metadata_namespace": "envoy.lb", "key": "x-gateway-destination-endpoint-served", "type": "STRING"}
    kind = f"{_TYPES}.extensions.filters.http.header_to_metadata.v3.Config"
    rules = [{"header": SERVED, "on_header_present": where, "remove": True}]
    return {"name": "served", "typed_config": {"@type": kind, "response_rules": rules}}


_BODY_MODES = {"full": "FULL_DUPLEX_STREAMED", "both": "FULL_DUPLEX_STREAMED", "buffered": "BUFFERED"}


def _ext_proc(mode: str) -> Json:
    body = _BODY_MODES.get(mode, "NONE")
    processing = {"request_header_mode": "SEND", "request_body_mode": body, "response_header_mode": "SKIP"}
    if body == "FULL_DUPLEX_STREAMED":
        processing["request_trailer_mode"] = "SEND"
    if mode == "both":
        processing |= {"response_header_mode": "SEND", "response_body_mode": body, "response_trailer_mode": "SEND"}
    return {
        "name": "picker",
        "typed_config": {
            "@type": f"{_TYPES}.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "30s"},
            "message_timeout": "30s",
            "failure_mode_allow": mode == OPEN,
            "processing_mode": processing,
            "metadata_options": {
                "forwarding_namespaces": {"untyped": ["envoy.lb.subset_hint", "envoy.lb"]},
                "receiving_namespaces": {"untyped": ["envoy.lb"]},
            },
            "mutation_rules": {"allow_all_routing": True},
        },
    }


def _picker_cluster(name: str, picker: str, *, tls: bool) -> Json:
    options: Json = {"explicit_http_config": {"http2_protocol_options": {}}}
    cluster: Json = {
        "name": name,
        "type": "STRICT_DNS" if not picker[0].isdigit() and not picker.startswith("[") else "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [_host(picker, 1)]}]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{_TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
                **options,
            }
        },
        "circuit_breakers": {"thresholds": [{"max_requests": 40_000, "max_pending_requests": 40_000}]},
    }
    if tls:
        context = {"common_tls_context": {"alpn_protocols": ["h2"]}}
        kind = f"{_TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        cluster["transport_socket"] = {"name": "tls", "typed_config": {"@type": kind, **context}}
    return cluster


def _health_cluster(name: str, picker: str, service: str, *, tls: bool) -> Json:
    check = {
        "timeout": "5s",
        "interval": "0.2s",
        "no_traffic_interval": "0.2s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "grpc_health_check": {"service_name": service},
    }
    return {**_picker_cluster(name, picker, tls=tls), "health_checks": [check]}


def _pool(name: str, upstreams: Upstreams, sources: list[Json]) -> Json:
    hosts = [_host(address, 1) for address in upstreams.addresses]
    hosts.append(_host(upstreams.stray_address, _STRAY_WEIGHT))
    fallback = {
        "name": "round-robin",
        "typed_config": {"@type": f"{_TYPES}.extensions.load_balancing_policies.round_robin.v3.RoundRobin"},
    }
    policy = {
        "@type": f"{_TYPES}.extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": sources,
        "fallback_policy": {"policies": [{"typed_extension_config": fallback}]},
    }
    chosen = {"typed_extension_config": {"name": "override-host", "typed_config": policy}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
        "load_balancing_policy": {"policies": [chosen]},
    }


def _server(name: str, address: str) -> Json:
    options = {
        "@type": f"{_TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http_protocol_options": {"enable_trailers": True}},
    }
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [_host(address, 1)]}]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
    }


def _metadata_source() -> Json:
    return {"metadata": {"key": "envoy.lb", "path": [{"key": _DESTINATION}]}}


def _host(address: str, weight: int) -> Json:
    return {"endpoint": {"address": _address(address)}, "load_balancing_weight": weight}
