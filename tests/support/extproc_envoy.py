"""A real Envoy with an external processor in front of endpoints that it is told by header, for tests and benchmarks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path

import aiohttp
import msgspec

from modelplane.envoy.bootstrap import packaged_binary
from modelplane.envoy.ports import free_port

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_Json = dict[str, object]


class Mode(Enum):
    """What Envoy hands to the processor."""

    NO_PROCESSOR = ""
    HEADERS = "headers"
    BUFFERED = "buffered"
    DUPLEX = "duplex"
    DUPLEX_BOTH_WAYS = "both"


class EnvoyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One listener with one route. Without a processor requests go round robin to `upstreams`."""

    mode: Mode = Mode.DUPLEX
    picker_port: int = 0
    upstreams: tuple[str, ...] = ()
    tls: bool = False
    fail_open: bool = False
    shows_response: bool = True
    """Show the processor the headers of responses."""
    until_the_end: bool = True
    """Keep the processor's stream open to the end of the exchange, without showing it bodies."""
    subset: object = None
    """A hint for every request."""
    report_served: bool = False
    workers: int = 1


def processing_mode(plan: EnvoyPlan) -> dict[str, str]:
    body = {Mode.HEADERS: "NONE", Mode.BUFFERED: "BUFFERED"}.get(plan.mode, "FULL_DUPLEX_STREAMED")
    duplex = body == "FULL_DUPLEX_STREAMED"
    mode = {
        "request_header_mode": "SEND",
        "request_body_mode": body,
        "request_trailer_mode": "SEND" if duplex else "SKIP",
        "response_header_mode": "SEND" if plan.shows_response else "SKIP",
        "response_body_mode": "NONE",
        "response_trailer_mode": "SEND" if plan.until_the_end else "SKIP",
    }
    if plan.mode is Mode.DUPLEX_BOTH_WAYS:
        mode |= {"response_body_mode": "FULL_DUPLEX_STREAMED", "response_trailer_mode": "SEND"}
    return mode


def _processor(plan: EnvoyPlan) -> _Json:
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
            "failure_mode_allow": plan.fail_open,
            "processing_mode": processing_mode(plan),
            "message_timeout": "60s",
            "metadata_options": {
                "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
                "receiving_namespaces": {"untyped": ["envoy.lb"]},
            },
        },
    }


def _set_metadata(namespace: str, key: str, value: object) -> _Json:
    return {
        "name": "envoy.filters.http.set_metadata",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.http.set_metadata.v3.Config",
            "metadata": [{"metadata_namespace": namespace, "value": {key: value}, "allow_overwrite": True}],
        },
    }


def _cluster(name: str, addresses: tuple[str, ...]) -> _Json:
    pairs = [address.rsplit(":", 1) for address in addresses]
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}}}
        for host, port in pairs
    ]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{"max_connections": 40000, "max_pending_requests": 40000,
                                             "max_requests": 40000, "max_retries": 100}]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }  # fmt: skip


def _picker(plan: EnvoyPlan) -> _Json:
    options = {
        "@type": f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    cluster = _cluster("picker", (f"127.0.0.1:{plan.picker_port}",))
    cluster["typed_extension_protocol_options"] = {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
    if plan.tls:
        kind = f"{_EXTENSIONS}.transport_sockets.tls.v3.UpstreamTlsContext"
        cluster["transport_socket"] = {"name": "tls", "typed_config": {"@type": kind, "sni": "localhost"}}
    return cluster


def _picked() -> _Json:
    return {
        "name": "picked",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{"max_connections": 40000, "max_pending_requests": 40000,
                                             "max_requests": 40000}]},
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": "x-gateway-destination-endpoint"},
    }  # fmt: skip


def bootstrap(plan: EnvoyPlan, port: int, admin: int) -> _Json:
    """The whole configuration, static."""
    with_picker = plan.mode is not Mode.NO_PROCESSOR
    filters: list[_Json] = []
    if plan.subset is not None:
        filters.append(_set_metadata("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", plan.subset))
    if plan.report_served and plan.upstreams:
        filters.append(_set_metadata("envoy.lb", "x-gateway-destination-endpoint-served", plan.upstreams[0]))
    if with_picker:
        filters.append(_processor(plan))
    filters.append({"name": "router", "typed_config": {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router"}})
    route: _Json = {"match": {"prefix": "/"}, "route": {"cluster": "picked" if with_picker else "all", "timeout": "0s"}}
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    clusters = [_picker(plan), _picked()] if with_picker else [_cluster("all", plan.upstreams)]
    return {
        "admin": {"address": _socket(admin)},
        "static_resources": {
            "listeners": [
                {
                    "name": "in",
                    "address": _socket(port),
                    "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                }
            ],
            "clusters": clusters,
        },
    }


def _socket(port: int) -> _Json:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


class Running(msgspec.Struct, frozen=True):
    port: int
    pid: int
    admin: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def envoy(plan: EnvoyPlan, folder: Path) -> AsyncIterator[Running]:
    """Envoy, ready, and ended on the way out."""
    port, admin = free_port(), free_port()
    file = folder / f"envoy-{port}.json"
    file.write_text(json.dumps(bootstrap(plan, port, admin)))
    arguments = ("-c", str(file), "--concurrency", str(plan.workers), "--disable-hot-restart", "--log-level", "error")
    with (folder / f"envoy-{port}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            packaged_binary(), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        await _until_ready(process, admin, folder / f"envoy-{port}.log")
        yield Running(port, process.pid, admin)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until_ready(process: asyncio.subprocess.Process, admin: int, log: Path) -> None:
    async with aiohttp.ClientSession() as client:
        for _ in range(3000):
            if process.returncode is not None:
                raise RuntimeError(f"Envoy ended; see {log}")
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"http://127.0.0.1:{admin}/ready") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.02)
    raise RuntimeError("Envoy did not become ready")


@contextlib.asynccontextmanager
async def answering(count: int, folder: Path) -> AsyncIterator[tuple[str, ...]]:
    """Addresses of endpoints that answer at once: another Envoy, with a listener for each."""
    ports = [free_port() for _ in range(count)]
    admin = free_port()
    file = folder / "answering.json"
    listeners = [_answering_listener(port) for port in ports]
    document = {"admin": {"address": _socket(admin)}, "static_resources": {"listeners": listeners}}
    file.write_text(json.dumps(document))
    arguments = ("-c", str(file), "--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
    with (folder / "answering.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            packaged_binary(), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        await _until_ready(process, admin, folder / "answering.log")
        yield tuple(f"127.0.0.1:{port}" for port in ports)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


_METRICS = """\
vllm:num_requests_waiting{model_name="m"} 0
vllm:num_requests_running{model_name="m"} 0
vllm:kv_cache_usage_perc{model_name="m"} 0.1
vllm:cache_config_info{block_size="16",num_gpu_blocks="10000"} 1
"""


def _answering_listener(port: int) -> _Json:
    def direct(match: _Json, text: str) -> _Json:
        return {"match": match, "direct_response": {"status": 200, "body": {"inline_string": text}}}

    routes = [direct({"path": "/metrics"}, _METRICS), direct({"prefix": "/"}, '{"choices":[]}')]
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "up",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router"}}],
    }
    return {
        "name": f"up-{port}",
        "address": _socket(port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
