"""One page of a list, one watch, one object, one annotation, one status.

Answers are decoded once, as plain data. A page and a watched object have a most size, so a server cannot make us hold
more than that at a time.
"""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from modelplane.api.outbound import OutboundRule
from modelplane.kube.errors import KubeError, KubeStatusError, Unreachable
from modelplane.kube.kinds import GroupVersionResource

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig

    from modelplane.kube.checked_transport import CheckedTransport

_T = TypeVar("_T")

Raw = Mapping[str, object]
"""An object as its API sent it."""

_LINE_MOST_BYTES = 16 * 1024 * 1024
_LOG_MOST_BYTES = 4096
_OK_BELOW = 300
_AGENT = "modelplane"


class Query(msgspec.Struct, frozen=True):
    """Which objects of a kind: all, or those of a namespace, with labels, with fields (as Kubernetes' selectors)."""

    kind: GroupVersionResource
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def parameters(self) -> dict[str, str]:
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in given.items() if value}


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class ListChunk(msgspec.Struct):
    """A part of a list. `metadata.continue_` is empty in the last."""

    metadata: _ListMeta
    items: list[dict[str, object]] = []


class WatchLine(msgspec.Struct):
    """One event of a watch, as it came."""

    type: str
    object: dict[str, object]


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


_PAGE = msgspec.json.Decoder(ListChunk)
_LINE = msgspec.json.Decoder(WatchLine)
_OBJECT = msgspec.json.Decoder(dict[str, object])


class KubeClient:
    """Speaks to one API. Safe for many tasks of one event loop."""

    def __init__(
        self, config: "SingleConfig", *, timeout_s: float = 10.0, outbound: OutboundRule | None = None
    ) -> None:
        """`outbound`: the rule for an address that somebody else wrote."""
        import httpx2
        from lightkube.config.client_adapter import AsyncClient, ConnectionParams

        self._timeout_s = timeout_s
        parameters = ConnectionParams(timeout=httpx2.Timeout(timeout_s), trust_env=False)
        if outbound is not None:
            parameters.transport = _checked(config, outbound)  # type: ignore[assignment]  # its type is the other client's
        self._http: httpx2.AsyncClient = AsyncClient(config, parameters)
        self._http.headers["User-Agent"] = _AGENT
        self._http.headers["Accept"] = "application/json"
        self.namespace = config.namespace
        """Of the kubeconfig's context, or of the pod."""

    async def close(self) -> None:
        await self._http.aclose()

    async def page(self, query: Query, *, limit: int, after: str = "") -> ListChunk:
        parameters = {**query.parameters(), "limit": str(limit)}
        if after:
            parameters["continue"] = after
        body = await self._send("GET", query.kind.path(query.namespace), parameters)
        return _decoded(_PAGE, body)

    async def get(self, kind: GroupVersionResource, name: str, namespace: str | None = None) -> Raw:
        return _decoded(_OBJECT, await self._send("GET", kind.path(namespace, name), {}))

    async def last_log_line(self, pod: str, namespace: str) -> str:
        """Of a pod with one container."""
        kind = GroupVersionResource("", "v1", "pods")
        parameters = {"tailLines": "1", "limitBytes": str(_LOG_MOST_BYTES)}
        body = await self._send("GET", f"{kind.path(namespace, pod)}/log", parameters)
        return body.decode(errors="replace").strip()

    async def version(self) -> str:
        """Of the API server, such as v1.35.1."""
        found = _decoded(_OBJECT, await self._send("GET", "/version", {}))
        return str(found.get("gitVersion", ""))

    async def list_all(self, query: Query, *, limit: int = 500) -> tuple[dict[str, object], ...]:
        """Every object, page by page."""
        items: list[dict[str, object]] = []
        after = ""
        while True:
            chunk = await self.page(query, limit=limit, after=after)
            items += chunk.items
            after = chunk.metadata.continue_
            if not after:
                return tuple(items)

    async def label(self, kind: GroupVersionResource, name: str, labels: Mapping[str, str]) -> None:
        """Set these labels of one object without a namespace. Others are left alone."""
        patch = msgspec.json.encode({"metadata": {"labels": dict(labels)}})
        await self._send("PATCH", kind.path(None, name), {"fieldManager": _AGENT}, patch)

    async def annotate(
        self, kind: GroupVersionResource, name: str, namespace: str | None, annotations: Mapping[str, str | None]
    ) -> None:
        """Set these annotations of one object; None takes one away. Others are left alone."""
        patch = msgspec.json.encode({"metadata": {"annotations": dict(annotations)}})
        await self._send("PATCH", kind.path(namespace, name), {"fieldManager": _AGENT}, patch)

    async def create(self, kind: GroupVersionResource, namespace: str | None, manifest: Mapping[str, object]) -> None:
        parameters = {"fieldManager": _AGENT}
        await self._send("POST", kind.path(namespace), parameters, msgspec.json.encode(manifest), "application/json")

    async def merge(
        self, kind: GroupVersionResource, name: str, namespace: str | None, patch: Mapping[str, object]
    ) -> None:
        """Merge these fields into one object. With a resourceVersion among them, only into that version."""
        body = msgspec.json.encode(patch)
        await self._send("PATCH", kind.path(namespace, name), {"fieldManager": _AGENT}, body)

    async def patch_status(
        self, kind: GroupVersionResource, name: str, namespace: str | None, status: Mapping[str, object]
    ) -> None:
        """Merge these fields into the status of one object. Others are left alone."""
        body = msgspec.json.encode({"status": status})
        await self._send("PATCH", f"{kind.path(namespace, name)}/status", {"fieldManager": _AGENT}, body)

    async def watch(
        self, query: Query, *, version: str, seconds: int, silent_s: float = 90.0
    ) -> AsyncIterator[list[WatchLine]]:
        """What changed after the version, in the batches in which it arrived; ends when the server ends it.

        It also ends when nothing came for `silent_s`. API servers send a bookmark every minute, so the connection may
        be half-open.
        """
        import httpx2

        parameters = query.parameters() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        timeout = httpx2.Timeout(self._timeout_s, read=silent_s)
        headers = {"Accept-Encoding": "identity"}
        path = query.kind.path(query.namespace)
        answered = False
        try:
            async with self._http.stream("GET", path, params=parameters, headers=headers, timeout=timeout) as response:
                if response.status_code >= _OK_BELOW:
                    raise _refusal(response.status_code, await response.aread())
                rest, answered = b"", True
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > _LINE_MOST_BYTES:
                        raise Unreachable(f"{query.kind}: an event of more than {_LINE_MOST_BYTES} bytes")
                    batch = [_decoded(_LINE, line) for line in lines if line.strip()]
                    if batch:
                        yield batch
        except httpx2.ReadTimeout as silence:
            if not answered:
                raise _unreachable(silence) from silence
        except (httpx2.HTTPError, OSError) as broken:
            raise _unreachable(broken) from broken

    async def _send(
        self,
        method: str,
        path: str,
        parameters: dict[str, str],
        body: bytes | None = None,
        media_type: str = "application/merge-patch+json",
    ) -> bytes:
        import httpx2

        headers = {"Content-Type": media_type} if body is not None else {}
        try:
            answer = await self._http.request(method, path, params=parameters, content=body, headers=headers)
        except (httpx2.HTTPError, OSError) as broken:
            raise _unreachable(broken) from broken
        if answer.status_code >= _OK_BELOW:
            raise _refusal(answer.status_code, answer.content)
        return answer.content


def _checked(config: "SingleConfig", rule: OutboundRule) -> "CheckedTransport":
    import httpx2
    from lightkube.config.client_adapter import verify_cluster
    from lightkube.config.models import User

    from modelplane.kube.checked_transport import CheckedTransport

    tls = verify_cluster(config.cluster, config.user or User(), config.abs_file, trust_env=False)
    return CheckedTransport(httpx2.AsyncHTTPTransport(verify=tls, trust_env=False), rule)


def refusal(raw: Raw) -> KubeStatusError:
    """A Status that came as an object."""
    try:
        status = msgspec.convert(raw, _Status)
    except msgspec.ValidationError:
        status = _Status(message="an error that cannot be read")
    return KubeStatusError(status.code, status.reason, status.message)


def _refusal(code: int, body: bytes) -> KubeError:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=body[:200].decode(errors="replace"))
    return KubeStatusError(code, status.reason, status.message.strip())


def _unreachable(broken: Exception) -> Unreachable:
    return Unreachable(f"{type(broken).__name__}: {broken}")


def _decoded(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as broken:
        raise Unreachable(f"an answer that cannot be read: {broken}") from broken
