"""As much of a Kubernetes API as a picker needs to find its endpoints: an InferencePool, and pods that are ready.

Nothing in it ever changes. The inference extension's picker asks for no more where objectives are not installed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
from aiohttp import web

POOL = "engines"
NAMESPACE = "bench"
_LABELS = {"app": "engine"}
_GROUP = "inference.networking.k8s.io"
Json = dict[str, object]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def pods_api(folder: Path, addresses: tuple[str, ...]) -> AsyncIterator[Path]:
    """Serves a pod for each address, which must have one port; gives a kubeconfig."""
    application = web.Application()
    pods = [_pod(at, address.split(":")[0]) for at, address in enumerate(addresses)]
    pools = [_pool(int(addresses[0].split(":")[1]))]
    version = {"groupVersion": f"{_GROUP}/v1", "version": "v1"}
    group = {"name": _GROUP, "versions": [version], "preferredVersion": version}
    for path, handler in (
        ("/api", _constant({"kind": "APIVersions", "versions": ["v1"]})),
        ("/apis", _constant({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})),
        ("/api/v1", _constant(_resources("v1", "pods", "Pod"))),
        (f"/apis/{_GROUP}", _constant({"kind": "APIGroup", "apiVersion": "v1", **group})),
        (f"/apis/{_GROUP}/v1", _constant(_resources(f"{_GROUP}/v1", "inferencepools", "InferencePool"))),
        (f"/api/v1/namespaces/{NAMESPACE}/pods", _listing("v1", "Pod", pods)),
        (f"/apis/{_GROUP}/v1/namespaces/{NAMESPACE}/inferencepools", _listing(f"{_GROUP}/v1", "InferencePool", pools)),
    ):
        application.router.add_get(path, handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield _kubeconfig(folder, runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _constant(value: Json) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(value)

    return answer


def _resources(version: str, name: str, kind: str) -> Json:
    one = {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind}
    verbs = {"verbs": ["get", "list", "watch"]}
    return {"kind": "APIResourceList", "groupVersion": version, "resources": [one | verbs]}


def _listing(version: str, kind: str, items: list[Json]) -> Handler:
    whole = {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await _watch(request, version, kind, items)
        return web.json_response(whole)

    return answer


async def _watch(request: web.Request, version: str, kind: str, items: list[Json]) -> web.StreamResponse:
    """Who asks for the initial events of a watch gets them, and their end; nothing follows."""
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    if request.query.get("sendInitialEvents") == "true":
        for item in items:
            await response.write(msgspec.json.encode({"type": "ADDED", "object": item}) + b"\n")
        mark = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "1"}
        last = {"kind": kind, "apiVersion": version, "metadata": mark}
        await response.write(msgspec.json.encode({"type": "BOOKMARK", "object": last}) + b"\n")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)
    return response


def _metadata(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1", "labels": _LABELS}


def _pod(number: int, host: str) -> Json:
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}], "conditions": [ready]}
    spec = {"containers": [{"name": "engine", "image": "engine"}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": _metadata(f"e-{number:03}"), "spec": spec, "status": status}


def _pool(port: int) -> Json:
    spec = {
        "selector": {"matchLabels": _LABELS},
        "targetPorts": [{"number": port}],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
    }
    return {"kind": "InferencePool", "apiVersion": f"{_GROUP}/v1", "metadata": _metadata(POOL), "spec": spec}


def _kubeconfig(folder: Path, port: int) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
    path = folder / f"kubeconfig-{port}"
    path.write_bytes(msgspec.json.encode(document))
    return path
