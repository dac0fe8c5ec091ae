"""Stands where a Gateway controller would: the core set has none, and replicas wait for one.

It accepts every Gateway and HTTPRoute of its cluster, gives Gateways an address of their own, has a real Envoy serve
there (`proxy`) what `routing` makes of the routes, and writes their status as the Gateway API wants it. Pools that
routes lead to are accepted too. A Gateway is Programmed while Envoy runs what was last written for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Api, ApiError, Manifest, items, name_of, namespace_of, text, value
from lab.cluster import ADMIN
from lab.envoy_resources import Place
from lab.mirror import Mirror
from lab.proxy import Proxy
from lab.routing import POOLS, Seen, Tables, is_parent, table_of, tables
from modelplane.api.labels import REPLICA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.cluster import Cluster
    from lab.supervisor import Supervisor

GATEWAY_API = "gateway.networking.k8s.io/v1"
CONTROLLER = "lab.modelplane.ai/gateway"
_TOGETHER_S = 0.1
"""How long changes are gathered before Envoy is told."""
_LOOK_S = 2.0
_KINDS = {
    "gateways": (GATEWAY_API, "Gateway", ""),
    "routes": (GATEWAY_API, "HTTPRoute", ""),
    "backends": ("gateway.envoyproxy.io/v1alpha1", "Backend", ""),
    "services": ("v1", "Service", ""),
    "slices": ("discovery.k8s.io/v1", "EndpointSlice", ""),
    "pools": (f"{POOLS}/v1", "InferencePool", ""),
    "pods": ("v1", "Pod", REPLICA),
    "secrets": ("v1", "Secret", ""),
    "config_maps": ("v1", "ConfigMap", ""),
    "client_policies": ("gateway.envoyproxy.io/v1alpha1", "ClientTrafficPolicy", ""),
}


class Gateway:
    """One cluster's, following its routes until it is cancelled."""

    def __init__(self, supervisor: Supervisor, cluster: Cluster, address: str) -> None:
        """Envoy listens on this address once a Gateway asks for one."""
        self._address = address
        self._proxy = Proxy(supervisor, cluster)
        self._api = Api(cluster.access(*ADMIN))
        self._mirrors = {name: Mirror(self._api, *kind) for name, kind in _KINDS.items()}
        self._changed = asyncio.Event()
        self._programmed = False

    async def run(self) -> None:
        async with self._api, asyncio.TaskGroup() as group:
            for mirror in self._mirrors.values():
                group.create_task(mirror.run(self._changed))
            for mirror in self._mirrors.values():
                await mirror.known.wait()
            while True:
                await self._turn()

    async def _turn(self) -> None:
        """After a change, or now and then: a status that could not be written is tried again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._changed.wait()
                await asyncio.sleep(_TOGETHER_S)
        self._changed.clear()
        seen = Seen(**{name: mirror.all for name, mirror in self._mirrors.items()})
        if not seen.gateways and not self._proxy.started:
            return
        if not self._proxy.started:
            await self._proxy.start()
        place = Place(self._address, self._proxy.source, str(self._proxy.access_log))
        made = tables(seen, place)
        self._proxy.program(made)
        self._programmed = await self._settled()
        for item, status in _statuses(seen, made, self._address if self._programmed else ""):
            # The API server may be the one that a test has just killed.
            with contextlib.suppress(ApiError, aiohttp.ClientError, OSError, TimeoutError):
                await self._report(item, status)

    async def _settled(self) -> bool:
        """Whether Envoy took it; files take it a moment."""
        for _ in range(20):
            if await self._proxy.taken():
                return True
            await asyncio.sleep(_TOGETHER_S)
        return False

    async def _report(self, item: Manifest, status: Manifest) -> None:
        seen = item.get("status")
        known = seen if isinstance(seen, dict) else {}
        if _undated({key: known.get(key) for key in status}) != _undated(status):
            await self._api.patch(item, {"status": status}, subresource="status")


def _statuses(seen: Seen, made: Tables, address: str) -> Iterable[tuple[Manifest, Manifest]]:
    for gateway in seen.gateways:
        attached = sum(is_parent(gateway, route) for route in seen.routes)
        yield gateway, gateway_status(gateway, address if table_of(gateway) in made.routes else "", attached)
    for route in seen.routes:
        yield route, route_status(route, made.problems.get((namespace_of(route), name_of(route)), ""))
    for pool in seen.pools:
        if parents := _parents_of(pool, seen.routes):
            yield pool, {"parents": [_accepted(pool, parent, "") for parent in parents]}


def _parents_of(pool: Manifest, routes: Iterable[Manifest]) -> list[Manifest]:
    """The gateways of routes that lead to the pool."""
    found: list[Manifest] = []
    for route in routes:
        refs = [ref for rule in items(route, "spec", "rules") for ref in items(rule, "backendRefs")]
        names = {(namespace_of(route), text(ref, "name")) for ref in refs if text(ref, "kind") == "InferencePool"}
        if (namespace_of(pool), name_of(pool)) in names:
            found += [
                {"namespace": namespace_of(route), **parent}
                for parent in items(route, "spec", "parentRefs")
                if parent not in found
            ]
    return found


def gateway_status(gateway: Manifest, address: str, attached: int) -> Manifest:
    """Without an address it is not programmed."""
    broken = "" if address else "Envoy does not run this configuration yet"
    listeners = [
        {
            "name": listener["name"],
            "attachedRoutes": attached,
            "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
            "conditions": _conditions(gateway, {"Accepted": "", "Programmed": broken, "ResolvedRefs": ""}),
        }
        for listener in items(gateway, "spec", "listeners")
    ]
    return {
        "addresses": [{"type": "IPAddress", "value": address}] if address else [],
        "conditions": _conditions(gateway, {"Accepted": "", "Programmed": broken}),
        "listeners": listeners,
    }


def route_status(route: Manifest, problem: str) -> Manifest:
    return {"parents": [_accepted(route, parent, problem) for parent in items(route, "spec", "parentRefs")]}


def _accepted(item: Manifest, parent: Manifest, problem: str) -> Manifest:
    conditions = _conditions(item, {"Accepted": "", "ResolvedRefs": problem})
    return {"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions}


_AGAINST = {"Programmed": "Pending", "ResolvedRefs": "BackendNotFound"}


def _conditions(item: Manifest, told: Mapping[str, str]) -> list[Manifest]:
    """By type, what speaks against it; nothing makes it hold."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = value(item, "metadata", "generation")
    return [
        {
            "type": kind,
            "status": "False" if problem else "True",
            "reason": _AGAINST[kind] if problem else kind,
            "message": problem or f"{name_of(item)} is taken as it is",
            "lastTransitionTime": now,
            "observedGeneration": generation,
        }
        for kind, problem in told.items()
    ]


def _undated(status: object) -> object:
    if isinstance(status, dict):
        return {key: _undated(inner) for key, inner in status.items() if key != "lastTransitionTime"}
    return [_undated(inner) for inner in status] if isinstance(status, list) else status
