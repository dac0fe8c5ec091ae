"""The pool of a picker that watches Kubernetes: as much of an API as it needs to find an InferencePool and its pods.

Endpoints of one address are ports of one pod. A pod that has fewer ports than the pool says so by annotation. Lists,
watches and watches with initial events are answered; objectives and rewrites are not installed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from modelplane.api.objects import Json
from modelplane.conformance.epp.controls import KitEndpoint, PodState

POOL, NAMESPACE = "pool", "kit"
_GROUP = "inference.networking.k8s.io"
_LABELS = {"app": "engine"}
_ACTIVE_PORTS = ("llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports")
_ROLE = "llm-d.ai/role"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Object = dict[str, Json]
"""`metadata`, `spec` and `status` of an object."""


class KubePool:
    """An InferencePool and its pods. Watches see each change."""

    has_pods = True

    def __init__(self, addresses: Sequence[str]) -> None:
        self._ports = sorted({int(address.rpartition(":")[2]) for address in addresses})
        hosts = dict.fromkeys(KitEndpoint(address).host for address in addresses)
        self._names = {host: f"kit-{at}" for at, host in enumerate(hosts)}
        self._pods = _Objects("v1", "Pod")
        self._pools = _Objects(f"{_GROUP}/v1", "InferencePool")
        self._pools.replace([self._pool()])
        self.port = 0
        self.replace([KitEndpoint(address) for address in addresses])

    def replace(self, members: Sequence[KitEndpoint]) -> None:
        hosts: dict[str, list[KitEndpoint]] = {}
        for member in members:
            hosts.setdefault(member.host, []).append(member)
        self._pods.replace([self._pod(host, each) for host, each in hosts.items()])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["KubePool"]:
        application = web.Application()
        for path, handler in self._paths().items():
            application.router.add_get(path, handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    def write_kubeconfig(self, path: Path) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kit",
            "clusters": [{"name": "kit", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "kit", "user": {}}],
            "contexts": [{"name": "kit", "context": {"cluster": "kit", "user": "kit", "namespace": NAMESPACE}}],
        }
        path.write_bytes(msgspec.json.encode(document))

    def _paths(self) -> dict[str, _Handler]:
        version = {"groupVersion": f"{_GROUP}/v1", "version": "v1"}
        group = {"name": _GROUP, "versions": [version], "preferredVersion": version}
        return {
            "/api": _constant({"kind": "APIVersions", "versions": ["v1"]}),
            "/apis": _constant({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}),
            "/api/v1": _constant(_resources("v1", "pods", "Pod")),
            f"/apis/{_GROUP}": _constant({"kind": "APIGroup", "apiVersion": "v1", **group}),
            f"/apis/{_GROUP}/v1": _constant(_resources(f"{_GROUP}/v1", "inferencepools", "InferencePool")),
            f"/api/v1/namespaces/{NAMESPACE}/pods": self._pods.answer,
            f"/apis/{_GROUP}/v1/namespaces/{NAMESPACE}/inferencepools": self._pools.answer,
        }

    def _pool(self) -> _Object:
        spec: Json = {
            "selector": {"matchLabels": _LABELS},
            "targetPorts": [{"number": port} for port in self._ports],
            "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
        }
        return {"metadata": _metadata(POOL), "spec": spec}

    def _pod(self, host: str, members: Sequence[KitEndpoint]) -> _Object:
        metadata = _metadata(self._names[host])
        if members[0].role:
            metadata["labels"] = {**_LABELS, _ROLE: members[0].role}
        ports = sorted(int(member.address.rpartition(":")[2]) for member in members)
        if ports != self._ports:
            metadata["annotations"] = dict.fromkeys(_ACTIVE_PORTS, ",".join(map(str, ports)))
        if members[0].state is PodState.TERMINATING:
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        ready = {"type": "Ready", "status": "False" if members[0].state is PodState.UNREADY else "True"}
        status: Json = {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}], "conditions": [ready]}
        spec: Json = {"containers": [{"name": "engine", "image": "engine"}]}
        return {"metadata": metadata, "spec": spec, "status": status}


class _Objects:
    """The objects of one kind, and every change that they had."""

    def __init__(self, version: str, kind: str) -> None:
        self._type: Json = {"kind": kind, "apiVersion": version}
        self._list_type: Json = {"kind": f"{kind}List", "apiVersion": version}
        self._current: dict[str, _Object] = {}
        self._events: list[Json] = []
        self._changed = asyncio.Event()

    def replace(self, objects: Sequence[_Object]) -> None:
        found = {str(each["metadata"]["name"]): each for each in objects}
        for name in self._current.keys() - found.keys():
            self._add("DELETED", self._current[name])
        for name, each in found.items():
            before = self._current.get(name)
            if before != each:
                self._add("ADDED" if before is None else "MODIFIED", each)
        self._current = found
        self._changed.set()
        self._changed = asyncio.Event()

    def _add(self, change: str, each: _Object) -> None:
        self._events.append({"type": change, "object": self._written(each, len(self._events) + 1)})

    def _written(self, each: _Object, version: int) -> Json:
        return {**self._type, **each, "metadata": {**each["metadata"], "resourceVersion": str(version)}}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        version = len(self._events)
        items = [self._written(each, version) for each in self._current.values()]
        metadata = {"resourceVersion": str(version)}
        if request.query.get("watch") not in {"true", "1"}:
            return web.json_response({**self._list_type, "metadata": metadata, "items": items})
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            if request.query.get("sendInitialEvents") == "true":
                marked = {**metadata, "annotations": {"k8s.io/initial-events-end": "true"}}
                bookmark: Json = {"type": "BOOKMARK", "object": {**self._type, "metadata": marked}}
                added: list[Json] = [{"type": "ADDED", "object": each} for each in items]
                await _write(response, [*added, bookmark])
            else:
                version = int(request.query.get("resourceVersion") or version)
            await self._follow(response, version)
        return response

    async def _follow(self, response: web.StreamResponse, version: int) -> None:
        while True:
            changed = self._changed
            events, version = self._events[version:], len(self._events)
            await _write(response, events)
            await changed.wait()


async def _write(response: web.StreamResponse, events: Sequence[Json]) -> None:
    for event in events:
        await response.write(msgspec.json.encode(event) + b"\n")


def _constant(value: Json) -> _Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(value)

    return answer


def _resources(version: str, name: str, kind: str) -> Json:
    one = {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind}
    verbs = {"verbs": ["get", "list", "watch"]}
    return {"kind": "APIResourceList", "groupVersion": version, "resources": [one | verbs]}


def _metadata(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE, "uid": name, "labels": _LABELS}
