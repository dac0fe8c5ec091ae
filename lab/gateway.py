"""Stands where a Gateway controller and its proxy would: the core set has none, and replicas wait for one.

It accepts every Gateway and HTTPRoute of its cluster, gives Gateways an address of their own, and listens there. A
request goes where the routes say: matched by path prefix and exact headers, with the filters that the product renders
(a rewritten prefix, headers that are set), to a weighted backend, which is a Service's ready endpoint or a Backend's
address. Answers are streamed. Pools and pickers, TLS and everything else of the API are for the genuine gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from lab.client import Api, ApiError, Manifest, items, name_of, namespace_of, text, value
from lab.cluster import ADMIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.cluster import Cluster

GATEWAY_API = "gateway.networking.k8s.io/v1"
CONTROLLER = "lab.modelplane.ai/gateway"
_LOOK_S = 0.3
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "content-length", "upgrade"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a route, ready to be matched."""

    namespace: str
    prefix: str
    headers: tuple[tuple[str, str], ...]
    rewrite: str | None
    backends: tuple[Manifest, ...]

    def matches(self, path: str, headers: Iterable[tuple[str, str]]) -> bool:
        sent = {name.lower(): content for name, content in headers}
        within = self.prefix in {"/", path} or path.startswith(f"{self.prefix}/")
        return within and all(sent.get(name) == content for name, content in self.headers)

    def target(self, path: str) -> str:
        if self.rewrite is None:
            return path
        return "/" + (self.rewrite.strip("/") + "/" + path.removeprefix(self.prefix).lstrip("/")).lstrip("/")


class Gateway:
    """One cluster's, following its routes until it is cancelled."""

    def __init__(self, cluster: Cluster, address: str) -> None:
        """Listens on this address once a Gateway asks for one."""
        self._cluster = cluster
        self._address = address
        self._rules: tuple[Rule, ...] = ()
        self._sites: dict[int, web.ServerRunner] = {}
        self._session: aiohttp.ClientSession | None = None
        self._api = Api(cluster.access(*ADMIN))

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None, connect=5.0)
        async with self._api, aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as self._session:
            try:
                while True:
                    # The API server may be the one that a test has just killed.
                    with contextlib.suppress(ApiError, aiohttp.ClientError, OSError, TimeoutError):
                        await self._look()
                    await asyncio.sleep(_LOOK_S)
            finally:
                for runner in self._sites.values():
                    await runner.cleanup()

    async def _look(self) -> None:
        gateways = await self._api.list(GATEWAY_API, "Gateway")
        routes = await self._api.list(GATEWAY_API, "HTTPRoute")
        for gateway in gateways:
            await self._report(gateway, self._gateway_status(gateway))
            for listener in items(gateway, "spec", "listeners"):
                await self._listen(int(str(listener["port"])))
        for route in routes:
            await self._report(route, _route_status(route))
        self._rules = tuple(sorted(_rules(routes), key=lambda rule: (-len(rule.prefix), -len(rule.headers))))

    async def _report(self, item: Manifest, status: Manifest) -> None:
        seen = item.get("status")
        if _undated(seen if isinstance(seen, dict) else {}) != _undated(status):
            await self._api.patch(item, {"status": status}, subresource="status")

    def _gateway_status(self, gateway: Manifest) -> Manifest:
        conditions = _conditions(gateway, ("Accepted", "Programmed"))
        listeners = [
            {
                "name": listener["name"],
                "attachedRoutes": 0,
                "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
                "conditions": _conditions(gateway, ("Accepted", "Programmed", "ResolvedRefs")),
            }
            for listener in items(gateway, "spec", "listeners")
        ]
        addresses = [{"type": "IPAddress", "value": self._address}]
        return {"addresses": addresses, "conditions": conditions, "listeners": listeners}

    async def _listen(self, port: int) -> None:
        if port in self._sites:
            return
        runner = web.ServerRunner(web.Server(self._forward, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, self._address, port).start()
        self._sites[port] = runner

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        rule = next((rule for rule in self._rules if rule.matches(request.path, request.headers.items())), None)
        if rule is None:
            return web.Response(status=404, text="no route\n")
        backend = _chosen(rule.backends)
        address = await self._endpoint(rule.namespace, backend) if backend is not None else None
        if backend is None or address is None or self._session is None:
            return web.Response(status=503, text="no endpoint\n")
        headers = {name: each for name, each in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers |= dict(_set_headers(backend))
        url = f"http://{address}{rule.target(request.path)}"
        try:
            return await self._relay(request, url, headers)
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=503, text=f"{error}\n")

    async def _relay(self, request: web.BaseRequest, url: str, headers: dict[str, str]) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the gateway is not running")
        body = await request.read()
        async with self._session.request(request.method, url, headers=headers, data=body or None) as answer:
            kept = {name: each for name, each in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _endpoint(self, namespace: str, backend: Manifest) -> str | None:
        if backend.get("kind") == "Backend":
            found = await self._api.get(
                "gateway.envoyproxy.io/v1alpha1", "Backend", str(backend["name"]), namespace=namespace
            )
            addresses = [each["ip"] for each in items(found, "spec", "endpoints") if isinstance(each.get("ip"), dict)]
            return next((f"{text(each, 'address')}:{text(each, 'port')}" for each in addresses), None)
        labels = f"kubernetes.io/service-name={backend['name']}"
        slices = await self._api.list("discovery.k8s.io/v1", "EndpointSlice", namespace=namespace, labels=labels)
        ready = list(_ready(slices))
        return random.choice(ready) if ready else None  # noqa: S311 - spreads requests


def _rules(routes: Iterable[Manifest]) -> Iterator[Rule]:
    for route in routes:
        for rule in items(route, "spec", "rules"):
            for match in items(rule, "matches"):
                headers = tuple((text(each, "name").lower(), text(each, "value")) for each in items(match, "headers"))
                prefix = text(match, "path", "value").rstrip("/") or "/"
                yield Rule(namespace_of(route), prefix, headers, _rewrite(rule), tuple(items(rule, "backendRefs")))


def _rewrite(rule: Manifest) -> str | None:
    found = (value(each, "urlRewrite", "path", "replacePrefixMatch") for each in items(rule, "filters"))
    return next((str(each) for each in found if each is not None), None)


def _chosen(backends: tuple[Manifest, ...]) -> Manifest | None:
    weights = [int(str(backend.get("weight", 1))) for backend in backends]
    if not any(weights):
        return None
    return random.choices(backends, weights)[0]  # noqa: S311 - spreads requests


def _set_headers(backend: Manifest) -> Iterator[tuple[str, str]]:
    for each in items(backend, "filters"):
        for header in items(each, "requestHeaderModifier", "set"):
            yield text(header, "name"), text(header, "value")


def _ready(slices: Iterable[Manifest]) -> Iterator[str]:
    for each in slices:
        ports = [text(port, "port") for port in items(each, "ports")]
        for endpoint in items(each, "endpoints"):
            addresses = endpoint.get("addresses")
            if value(endpoint, "conditions", "ready") and isinstance(addresses, list) and ports:
                yield f"{addresses[0]}:{ports[0]}"


def _route_status(route: Manifest) -> Manifest:
    parents = [
        {
            "parentRef": parent,
            "controllerName": CONTROLLER,
            "conditions": _conditions(route, ("Accepted", "ResolvedRefs")),
        }
        for parent in items(route, "spec", "parentRefs")
    ]
    return {"parents": parents}


def _conditions(item: Manifest, kinds: Iterable[str]) -> list[Manifest]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = value(item, "metadata", "generation")
    return [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": f"{name_of(item)} is taken as it is",
            "lastTransitionTime": now,
            "observedGeneration": generation,
        }
        for kind in kinds
    ]


def _undated(status: object) -> object:
    if isinstance(status, dict):
        return {key: _undated(inner) for key, inner in status.items() if key != "lastTransitionTime"}
    return [_undated(inner) for inner in status] if isinstance(status, list) else status
