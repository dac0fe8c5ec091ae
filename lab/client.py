"""A Kubernetes API as the lab needs it: plain manifests in and out, server-side apply, waiting for a condition.

Small on purpose and independent of the product's own client, so that a defect there cannot hide behind itself here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import Self

    from lab.certificates import Pair

Manifest = dict[str, object]

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGER = "lab"
_OK_BELOW = 300
_NOT_FOUND = 404
_BUSY = frozenset({429, 503, 504})
"""What a server says that has too much to do; definitions of megabytes bring one there on a loaded machine."""
_PAUSES_S = (1.0, 3.0, 9.0)
_TIMEOUT_S = 180.0
_POLL_S = 0.1
_RESYNC_S = 240


class ApiError(Exception):
    """The server refused; `message` is in its own words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """The three things that a Status object says."""
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class WaitedTooLongError(Exception):
    """Something that was waited for did not come."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What discovery says about a kind."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part)


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API is and who asks: what a kubeconfig says. Either a client certificate or a token."""

    server: str
    authority: bytes
    pair: Pair | None = None
    token: str = ""
    server_name: str = ""
    """What the server's certificate calls it, where the address does not."""

    def kubeconfig(self) -> str:
        def text(content: bytes) -> str:
            return base64.b64encode(content).decode()

        user: dict[str, str] = {"token": self.token} if self.token else {}
        if self.pair is not None:
            user |= {
                "client-certificate-data": text(self.pair.certificate),
                "client-key-data": text(self.pair.key),
            }
        cluster = {"server": self.server, "certificate-authority-data": text(self.authority)}
        if self.server_name:
            cluster["tls-server-name"] = self.server_name
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "lab", "user": user}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
                "current-context": "lab",
            }
        )

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode())
        # Our certificates carry no key identifiers; Python's strict mode would refuse them, Kubernetes does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.pair is not None:
            with tempfile.TemporaryDirectory() as folder:
                paths = self.pair.write(Path(folder))
                context.load_cert_chain(*paths)
        return context


class Api:
    """One API server, as one user. Use it as an async context manager."""

    def __init__(self, access: Access) -> None:
        """Nothing is opened before it is entered."""
        self.access = access
        self._session: aiohttp.ClientSession | None = None
        self._kinds: dict[tuple[str, str], Kind] = {}

    async def __aenter__(self) -> Self:
        """Open the connections."""
        headers = {"Authorization": f"Bearer {self.access.token}"} if self.access.token else {}
        connector = aiohttp.TCPConnector(ssl=self.access.tls(), limit=64)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        self._session = aiohttp.ClientSession(self.access.server, connector=connector, headers=headers, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Manifest:
        if self._session is None:
            raise RuntimeError("the API is not open")
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content, "Accept": "application/json"}
        async with self._session.request(method, path, data=data, params=query or {}, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= _OK_BELOW:
                raise _error(answer.status, text)
            return dict(json.loads(text)) if text.startswith("{") else {"text": text}

    async def kind(self, api_version: str, kind: str) -> Kind:
        known = self._kinds.get((api_version, kind))
        if known is not None:
            return known
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        for found in items(await self.call("GET", root), "resources"):
            name = str(found["name"])
            if "/" not in name:
                fact = Kind(api_version, name, bool(found["namespaced"]))
                self._kinds[api_version, str(found["kind"])] = fact
        if (api_version, kind) not in self._kinds:
            raise ApiError(_NOT_FOUND, "NotFound", f"the server has no kind {kind} in {api_version}")
        return self._kinds[api_version, kind]

    async def apply(self, manifest: Manifest, *, dry_run: bool = False, manager: str = MANAGER) -> Manifest:
        """Server-side apply, taking over what others manage."""
        kind = await self.kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        path = kind.path(namespace_of(manifest) or "default", name_of(manifest))
        for pause_s in _PAUSES_S:
            try:
                return await self.call("PATCH", path, body=manifest, query=query, content=APPLY)
            except ApiError as error:
                if error.status not in _BUSY:
                    raise
            await asyncio.sleep(pause_s)
        return await self.call("PATCH", path, body=manifest, query=query, content=APPLY)

    async def apply_all(self, manifests: Iterable[Manifest], *, at_once: int = 16) -> None:
        gate = asyncio.Semaphore(at_once)

        async def one(manifest: Manifest) -> None:
            async with gate:
                await self.apply(manifest)

        async with asyncio.TaskGroup() as group:
            for manifest in manifests:
                group.create_task(one(manifest))

    async def create(self, manifest: Manifest, *, namespace: str = "default") -> Manifest:
        kind = await self.kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        return await self.call("POST", kind.path(namespace_of(manifest) or namespace), body=manifest)

    async def get(self, api_version: str, kind: str, name: str, *, namespace: str = "default") -> Manifest | None:
        found = await self.kind(api_version, kind)
        try:
            return await self.call("GET", found.path(namespace, name))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def list(self, api_version: str, kind: str, *, namespace: str = "", labels: str = "") -> list[Manifest]:
        found = await self.kind(api_version, kind)
        query = {"labelSelector": labels} if labels else {}
        listed = items(await self.call("GET", found.path(namespace), query=query), "items")
        # In a list, only the list says what its objects are.
        return [{"apiVersion": api_version, "kind": kind, **item} for item in listed]

    async def follow(
        self, api_version: str, kind: str, *, labels: str = ""
    ) -> AsyncIterator[tuple[str, Sequence[Manifest]]]:
        """What there is, then every change, until the server ends the watch: (LISTED, all), (ADDED, [one]), ..."""
        found = await self.kind(api_version, kind)
        query = {"labelSelector": labels} if labels else {}
        listed = await self.call("GET", found.path(""), query=query)
        yield "LISTED", items(listed, "items")
        version = text(listed, "metadata", "resourceVersion")
        query |= {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_RESYNC_S)}
        async for line in self._lines(found.path(""), query):
            event = dict(json.loads(line))
            if event.get("type") == "ERROR":
                return
            yield str(event["type"]), items([event["object"]])

    async def _lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        if self._session is None:
            raise RuntimeError("the API is not open")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_S)
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            if answer.status >= _OK_BELOW:
                raise _error(answer.status, await answer.text())
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def patch(
        self, manifest: Manifest, change: object, *, subresource: str = "", content: str = MERGE
    ) -> Manifest:
        kind = await self.kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        path = kind.path(namespace_of(manifest) or "default", name_of(manifest), subresource)
        return await self.call("PATCH", path, body=change, content=content)

    async def delete(self, manifest: Manifest, *, propagation: str = "Background") -> None:
        kind = await self.kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        path = kind.path(namespace_of(manifest) or "default", name_of(manifest))
        try:
            await self.call("DELETE", path, query={"propagationPolicy": propagation})
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    async def ready(self) -> bool:
        try:
            await self.call("GET", "/readyz")
        except (ApiError, aiohttp.ClientError, OSError):
            return False
        return True


async def until(what: str, holds: Callable[[], Awaitable[bool]], *, within_s: float = 180.0) -> float:
    """Ask again and again; answers how long it took. Refusals and broken connections count as "not yet"."""
    began = time.monotonic()
    last: Exception | None = None
    while time.monotonic() - began < within_s:
        try:
            if await holds():
                return time.monotonic() - began
            last = None
        except (ApiError, aiohttp.ClientError, OSError) as error:
            last = error
        await asyncio.sleep(_POLL_S)
    suffix = f"; last: {last}" if last else ""
    raise WaitedTooLongError(f"{what}: not within {within_s:.0f} s{suffix}")


def _error(status: int, text: str) -> ApiError:
    try:
        said = json.loads(text)
    except ValueError:
        return ApiError(status, "", text)
    return ApiError(status, str(said.get("reason", "")), str(said.get("message", "")))


def items(manifest: object, *path: str) -> list[Manifest]:
    """The objects of a list somewhere in a manifest; none where there is nothing."""
    found = value(manifest, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def value(manifest: object, *path: str) -> object:
    for key in path:
        if not isinstance(manifest, dict):
            return None
        manifest = manifest.get(key)
    return manifest


def text(manifest: object, *path: str) -> str:
    found = value(manifest, *path)
    return "" if found is None else str(found)


def name_of(manifest: Manifest) -> str:
    return text(manifest, "metadata", "name")


def namespace_of(manifest: Manifest) -> str:
    return text(manifest, "metadata", "namespace")


def condition(manifest: object, kind: str) -> str:
    """The status of a condition: True, False, Unknown, or nothing where there is none."""
    return next(
        (text(found, "status") for found in items(manifest, "status", "conditions") if found.get("type") == kind), ""
    )
