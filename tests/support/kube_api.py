"""A small Kubernetes API that holds any kind of object, for tests of those who list and watch.

It speaks lists with pages, watches with bookmarks, merge patches of metadata, and can be told to forget its history,
to drop its connections and to refuse. It validates nothing.
"""

import asyncio
import copy
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import msgspec
from aiohttp import web

from modelplane.api.objects import Json
from modelplane.kube.client import KubeClient
from modelplane.kube.kinds import GroupVersionResource

_Key = tuple[GroupVersionResource, str, str]

GONE = 410
_TOO_OLD = {"kind": "Status", "code": GONE, "reason": "Expired", "message": "too old resource version"}


class KubeApi:
    """The objects, and what was asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        """How often each verb was used: list, watch, get, patch."""
        self.used: set[tuple[str, str, str]] = set()
        """Verb, API group and resource of every request, as RBAC spells them."""
        self.git_version = "v1.35.1"
        self.refusals: dict[str, int] = {}
        """HTTP status by verb: what is answered instead, until taken away."""
        self.logs: dict[str, str] = {}
        self.log_queries: list[dict[str, str]] = []
        """The log of each pod, by its name."""
        self._objects: dict[_Key, Json] = {}
        self._history: list[tuple[int, str, _Key, Json]] = []
        self._forgotten = 0
        self._version = 0
        self._uids = 0
        self._stir: set[asyncio.Event] = set()
        self._epoch = 0
        self._mutes = 0

    def put(self, kind: GroupVersionResource, manifest: Mapping[str, object]) -> None:
        """Create or replace."""
        written = copy.deepcopy(dict(manifest))
        metadata = cast("Json", written.setdefault("metadata", {}))
        key = (kind, str(metadata.get("namespace", "")), str(metadata["name"]))
        before = self._objects.get(key)
        if before is None:
            self._uids += 1
        metadata.setdefault("uid", f"uid-{self._uids}" if before is None else cast("Json", before["metadata"])["uid"])
        metadata["resourceVersion"] = str(self._version + 1)
        self._objects[key] = written
        self._record("ADDED" if before is None else "MODIFIED", key, written)

    def delete(self, kind: GroupVersionResource, name: str, namespace: str = "") -> None:
        key = (kind, namespace, name)
        gone = copy.deepcopy(self._objects.pop(key))
        cast("Json", gone["metadata"])["resourceVersion"] = str(self._version + 1)
        self._record("DELETED", key, gone)

    def get(self, kind: GroupVersionResource, name: str, namespace: str = "") -> Json:
        return self._objects[kind, namespace, name]

    def forget(self) -> None:
        """Watches that would continue from before this moment are told 410."""
        self._history.clear()
        self._forgotten = self._version

    def bookmark(self) -> None:
        """Move every watch on without an object."""
        self._version += 1
        self._wake()

    def drop(self) -> None:
        """End every connection that watches."""
        self._epoch += 1
        self._wake()

    def mute(self) -> None:
        """Watches that are open send nothing more, as over a connection that is half-open."""
        self._mutes += 1

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["KubeApi"]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"{'http' if tls is None else 'https'}://{host}:{port}"
        try:
            yield self
        finally:
            self.drop()
            await runner.cleanup()

    def _record(self, change: str, key: _Key, manifest: Json) -> None:
        self._version += 1
        self._history.append((self._version, change, key, copy.deepcopy(manifest)))
        self._wake()

    def _wake(self) -> None:
        for event in self._stir:
            event.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": self.git_version})
        kind, namespace, name = _target(request.path)
        verb = _verb(request, name)
        self.asked[verb] += 1
        self.used.add((verb, kind.group, "/".join([kind.plural, *_subresource(request.path)])))
        if verb in self.refusals:
            status = self.refusals[verb]
            body = {"kind": "Status", "code": status, "reason": "Refused", "message": "told to refuse"}
            return web.json_response(body, status=status)
        if verb == "watch":
            return await self._watch(request, kind, namespace)
        if verb == "list":
            return self._list(request, kind, namespace)
        found = self._objects.get((kind, namespace, name))
        if found is None:
            body = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"{kind} {name} not found"}
            return web.json_response(body, status=404)
        if _subresource(request.path) == ["log"]:
            return await self._log(request, name)
        if verb == "patch":
            _merge(found, await request.json())
            self.put(kind, found)
        return web.json_response(self._objects[kind, namespace, name])

    async def _log(self, request: web.Request, pod: str) -> web.StreamResponse:
        """Of a pod, or of one of its containers (`pod/container`). One that is not there has not started yet."""
        container = request.query.get("container", "")
        self.log_queries.append(dict(request.query))
        text = self.logs.get(f"{pod}/{container}", self.logs.get(pod, "" if not container else None))
        if text is None:
            body = {"kind": "Status", "code": 400, "reason": "BadRequest", "message": f"container of {pod} is waiting"}
            return web.json_response(body, status=400)
        lines = text.splitlines(keepends=True)
        if "tailLines" in request.query:
            lines = lines[-int(request.query["tailLines"]) :]
        response = web.StreamResponse()
        await response.prepare(request)
        epoch, stir = self._epoch, asyncio.Event()
        self._stir.add(stir)
        await response.write("".join(lines).encode())
        while request.query.get("follow") == "true" and epoch == self._epoch:
            stir.clear()
            await stir.wait()
        self._stir.discard(stir)
        return response

    def _list(self, request: web.Request, kind: GroupVersionResource, namespace: str) -> web.Response:
        chosen = [held for key, held in self._objects.items() if _asked_for(request, kind, namespace, key, held)]
        first = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "1000"))
        metadata = {"resourceVersion": str(self._version)}
        if first + limit < len(chosen):
            metadata["continue"] = str(first + limit)
        return web.json_response({"kind": "List", "metadata": metadata, "items": chosen[first : first + limit]})

    async def _watch(self, request: web.Request, kind: GroupVersionResource, namespace: str) -> web.StreamResponse:
        version, epoch = int(request.query["resourceVersion"]), self._epoch
        if version < self._forgotten:
            return web.Response(body=_line("ERROR", _TOO_OLD))
        response = web.StreamResponse()
        await response.prepare(request)
        stir = asyncio.Event()
        self._stir.add(stir)
        mutes = self._mutes
        try:
            while epoch == self._epoch:
                stir.clear()
                lines = [
                    _line(change, held)
                    for at, change, key, held in self._history
                    if at > version and _asked_for(request, kind, namespace, key, held)
                ]
                if not lines and version < self._version:
                    lines = [_line("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})]
                version = self._version
                if mutes == self._mutes:
                    await response.write(b"".join(lines))
                await stir.wait()
        finally:
            self._stir.discard(stir)
        return response


def client_of(url: str, token: str | None = None) -> KubeClient:
    """A client of an API at a plain URL."""
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.config.models import User

    config = KubeConfig.from_server(url).get()
    assert config is not None
    return KubeClient(config._replace(user=User(token=token)))


@asynccontextmanager
async def running(main: Awaitable[None]) -> AsyncIterator[None]:
    """Run it beside the body."""
    task = asyncio.ensure_future(main)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def tell(story: Callable[[KubeApi, KubeClient], Awaitable[None]]) -> None:
    """Run a story against a fresh API, with a client of it."""

    async def main() -> None:
        async with KubeApi().serving() as api:
            client = client_of(api.url)
            try:
                await story(api, client)
            finally:
                await client.close()

    asyncio.run(main())


def _verb(request: web.Request, name: str) -> str:
    if request.method == "PATCH":
        return "patch"
    if name:
        return "get"
    return "watch" if request.query.get("watch") == "true" else "list"


def _target(path: str) -> tuple[GroupVersionResource, str, str]:
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    return GroupVersionResource(group, version, rest[0]), namespace, rest[1] if len(rest) > 1 else ""


def _subresource(path: str) -> list[str]:
    """What comes after the name of an object."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return (rest[2:] if rest[0] == "namespaces" else rest)[2:]


def _asked_for(request: web.Request, kind: GroupVersionResource, namespace: str, key: _Key, held: Json) -> bool:
    metadata = cast("Json", held["metadata"])
    labels = cast("dict[str, str]", metadata.get("labels", {}))
    wanted = [part.partition("=") for part in request.query.get("labelSelector", "").split(",") if part]
    fields = [part.split("=") for part in request.query.get("fieldSelector", "").split(",") if part]
    return (
        key[0] == kind
        and namespace in {"", key[1]}
        and all(labels.get(name) == value if equals else name in labels for name, equals, value in wanted)
        and all(metadata.get(name.removeprefix("metadata.")) == value for name, value in fields)
    )


def _merge(target: Json, patch: Json) -> None:
    for name, value in patch.items():
        if isinstance(value, dict):
            _merge(cast("Json", target.setdefault(name, {})), value)
        elif value is None:
            target.pop(name, None)
        else:
            target[name] = value


def _line(change: str, manifest: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"type": change, "object": manifest}) + b"\n"
