"""An Envoy before a pool: alone, with one of its own ways to balance, or asking a picker."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path

import aiohttp
import msgspec

from modelplane.envoy.bootstrap import packaged_binary

_KINDS = "type.googleapis.com/envoy.extensions"
_DESTINATION = "x-gateway-destination-endpoint"
SERVED_BY = "x-bench-served-by"
_READY_S = 60.0
_OK = 200
Json = dict[str, object]


class Way(Enum):
    """Who chooses the endpoint, and how much of an exchange the picker is shown."""

    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_REQUEST = "LEAST_REQUEST"
    CLIENT = "client"
    """The client names it in a header."""
    REQUESTS = "requests"
    """A picker: requests whole, of responses the headers and the end."""
    LEAN = "lean"
    """A picker: requests whole, of responses nothing but that they end."""
    BOTH_WAYS = "both"
    """A picker: every byte in both directions, as the inference extension's chart sets it."""


_PICKED = frozenset((Way.LEAN, Way.REQUESTS, Way.BOTH_WAYS))


class Running(msgspec.Struct, frozen=True):
    port: int
    pid: int


@contextlib.asynccontextmanager
async def front(
    folder: Path,
    way: Way,
    pool: tuple[str, ...],
    picker_port: int = 0,
    *,
    threads: int = 1,
    names_server: bool = False,
) -> AsyncIterator[Running]:
    """With `names_server` each response has the address that it came from, in the header `SERVED_BY`."""
    port = free_port()
    clusters = [_pool(way, pool)]
    if way in _PICKED:
        clusters.append(_picker(picker_port))
    listener = _listener(port, _routed(names_server=names_server), _filters(way))
    if threads > 1:
        # Each thread has its own connection to the picker, so each is to have as many clients as the others.
        listener["connection_balance_config"] = {"exact_balance": {}}
    async with _envoy(folder, f"front-{port}", [listener], clusters, threads) as pid:
        yield Running(port, pid)


@contextlib.asynccontextmanager
async def instant_pool(folder: Path, addresses: tuple[str, ...], page: str, *, threads: int = 1) -> AsyncIterator[int]:
    """Endpoints that answer at once and show this page of metrics: one Envoy that listens at every address."""
    answers = [_said({"path": "/metrics"}, page), _said({"prefix": "/"}, '{"choices": [], "usage": {}}')]
    routes: Json = {
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": answers}],
        "max_direct_response_body_size_bytes": len(page) + 4096,
    }
    listeners = [_listener(int(port), routes, [], host) for host, port in (each.split(":") for each in addresses)]
    async with _envoy(folder, "instant", listeners, [], threads) as pid:
        yield pid


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def addresses(count: int) -> tuple[str, ...]:
    """An address for each endpoint and one port for all, as pods have it."""
    port = free_port()
    return tuple(f"127.0.{1 + at // 200}.{1 + at % 200}:{port}" for at in range(count))


@contextlib.asynccontextmanager
async def _envoy(
    folder: Path, name: str, listeners: list[Json], clusters: list[Json], threads: int
) -> AsyncIterator[int]:
    admin = free_port()
    document = {
        "admin": {"address": _address("127.0.0.1", admin)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }
    (folder / f"{name}.json").write_text(json.dumps(document))
    words = ["-c", str(folder / f"{name}.json"), "--concurrency", str(threads), "--disable-hot-restart"]
    words += ["--log-level", "error"]
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(packaged_binary(), *words, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(_READY_S):
            await _until_ready(process, admin, folder / f"{name}.log")
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until_ready(process: asyncio.subprocess.Process, admin: int, log: Path) -> None:
    async with aiohttp.ClientSession() as session:
        while process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{admin}/ready") as answer:
                    if answer.status == _OK:
                        return
            await asyncio.sleep(0.05)
    raise RuntimeError(f"Envoy ended: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text()[-500:]


def _address(host: str, port: int) -> Json:
    return {"socket_address": {"address": host, "port_value": port}}


def _said(match: Json, text: str) -> Json:
    return {"match": match, "direct_response": {"status": _OK, "body": {"inline_string": text}}}


def _routed(*, names_server: bool) -> Json:
    route: Json = {"match": {"prefix": "/"}, "route": {"cluster": "pool", "timeout": "0s"}}
    if names_server:
        header = {"key": SERVED_BY, "value": "%UPSTREAM_REMOTE_ADDRESS%"}
        route["response_headers_to_add"] = [{"header": header}]
    return {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]}


def _listener(port: int, routes: Json, filters: list[Json], host: str = "127.0.0.1") -> Json:
    router = {"name": "router", "typed_config": {"@type": f"{_KINDS}.filters.http.router.v3.Router"}}
    manager = {
        "@type": f"{_KINDS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": routes,
        "http_filters": [*filters, router],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {"name": f"{host}:{port}", "address": _address(host, port), "filter_chains": [chain]}


def _filters(way: Way) -> list[Json]:
    if way not in _PICKED:
        return []
    settings = {
        "@type": f"{_KINDS}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
        "message_timeout": "60s",
        "processing_mode": {
            "request_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "request_trailer_mode": "SEND",
            "response_header_mode": "SKIP" if way is Way.LEAN else "SEND",
            "response_body_mode": "FULL_DUPLEX_STREAMED" if way is Way.BOTH_WAYS else "NONE",
            "response_trailer_mode": "SEND",
        },
        "metadata_options": {"receiving_namespaces": {"untyped": ["envoy.lb"]}},
    }
    return [{"name": "envoy.filters.http.ext_proc", "typed_config": settings}]


def _cluster(name: str, hosts: list[Json]) -> Json:
    many = 40_000
    limits = {"max_connections": many, "max_pending_requests": many, "max_requests": many}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
    }


def _pool(way: Way, pool: tuple[str, ...]) -> Json:
    hosts: list[Json] = [
        {"endpoint": {"address": _address(host, int(port))}} for host, port in (each.split(":") for each in pool)
    ]
    cluster = _cluster("pool", hosts)
    if way in {Way.ROUND_ROBIN, Way.LEAST_REQUEST}:
        return cluster | {"lb_policy": way.value}
    metadata = {"metadata": {"key": "envoy.lb", "path": [{"key": _DESTINATION}]}}
    kinds = f"{_KINDS}.load_balancing_policies"
    fallback = {"name": "otherwise", "typed_config": {"@type": f"{kinds}.round_robin.v3.RoundRobin"}}
    policy = {
        "@type": f"{kinds}.override_host.v3.OverrideHost",
        "override_host_sources": [metadata, {"header": _DESTINATION}],
        "fallback_policy": {"policies": [{"typed_extension_config": fallback}]},
    }
    chosen = {"typed_extension_config": {"name": "picked", "typed_config": policy}}
    return cluster | {"load_balancing_policy": {"policies": [chosen]}}


def _picker(port: int) -> Json:
    options = {
        "@type": f"{_KINDS}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    cluster = _cluster("picker", [{"endpoint": {"address": _address("127.0.0.1", port)}}])
    return cluster | {
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
    }
