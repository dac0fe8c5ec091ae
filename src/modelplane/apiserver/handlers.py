"""Handles requests: dispatches on method and path, and makes the response."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from modelplane.api.objects import Json
from modelplane.api.version import __version__
from modelplane.apiserver import bodies, discovery, openapi
from modelplane.apiserver.failures import ApiError, bad_request, not_allowed, not_found, unsupported_media
from modelplane.apiserver.media import JSON, accepts, media_of, wanted_form, wants_aggregated
from modelplane.apiserver.objects import shown
from modelplane.apiserver.options import delete_options, is_true, list_options, write_options
from modelplane.apiserver.paths import RequestInfo, find_target
from modelplane.apiserver.reads import Reads
from modelplane.apiserver.resources import namespaces
from modelplane.apiserver.reviews import answer, find_review
from modelplane.apiserver.scales import scale_of
from modelplane.apiserver.selectors import ListSelector, read_selector
from modelplane.apiserver.watches import WatchHub, WatchStream
from modelplane.apiserver.wire import encode, listing
from modelplane.apiserver.writes import Patch, WriteResult, Writes

_BODY_TIMEOUT_S: Final = 30.0
_WRITE_TIMEOUT_S: Final = 30.0
_VERSION: Final[Json] = {
    "major": "1",
    "minor": "36",
    "gitVersion": f"v1.36.0+modelplane.{__version__}",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_HEALTH: Final = {"/healthz", "/livez", "/readyz"}


class ApiHandlers:
    """Handles every authenticated request."""

    def __init__(self, reads: Reads, writes: Writes, watches: WatchHub) -> None:
        self._reads = reads
        self._writes = writes
        self._watches = watches

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        target = find_target(path)
        if target is not None:
            return await self._resource(request, target)
        kind = find_review(path)
        if kind is not None:
            return await _review(request, kind)
        if request.method not in {"GET", "HEAD"}:
            return _page_not_found()
        return _document(request, path)

    async def _resource(self, request: web.BaseRequest, target: RequestInfo) -> web.StreamResponse:
        if target.subresource and target.subresource not in target.resource.subresources:
            return _no_subresource(target)
        method = request.method
        if method == "GET":
            return await self._read(request, target)
        if target.is_everywhere:
            return _page_not_found()
        raw = await _body(request)
        match method:
            case "POST" if not target.name:
                _check_verb(target, "create")
                return await self._create(request, target, raw)
            case "PUT" if target.name:
                _check_verb(target, "update")
                return await self._replace(request, target, raw)
            case "PATCH" if target.name:
                _check_verb(target, "patch")
                return await self._patch(request, target, raw)
            case "DELETE" if not target.subresource:
                return self._delete(request, target, raw)
            case "PUT" | "PATCH":
                raise bad_request("name must be provided")
            case _:
                raise not_allowed()

    async def _read(self, request: web.BaseRequest, target: RequestInfo) -> web.StreamResponse:
        form = wanted_form(request.headers.get("Accept", ""))
        query = request.query
        if target.subresource == "scale":
            return _answer(scale_of(target.resource, self._reads.find(target)))
        watch = not target.name and is_true(query.get("watch", ""))
        options = list_options(query, watch=watch) if query else _NO_OPTIONS
        if target.name:
            return _response(self._reads.get(target, form, options))
        selector = _selector(target, query)
        if watch:
            return await _stream(request, self._watches.open(target, selector, options, form))
        return _response(await self._reads.list_all(target, selector, options, form))

    async def _create(self, request: web.BaseRequest, target: RequestInfo, raw: bytes) -> web.Response:
        options = write_options(request.query, _OPTIONS["POST"], request.headers.get("User-Agent", ""))
        body = await _object(request, raw, target.resource.kind)
        return _written(target, self._writes.create(target, body, options))

    async def _replace(self, request: web.BaseRequest, target: RequestInfo, raw: bytes) -> web.Response:
        options = write_options(request.query, _OPTIONS["PUT"], request.headers.get("User-Agent", ""))
        body = await _object(request, raw, target.resource.kind)
        return _written(target, self._writes.replace(target, body, options))

    async def _patch(self, request: web.BaseRequest, target: RequestInfo, raw: bytes) -> web.Response:
        kind = _patch_kind(request, target)
        agent = request.headers.get("User-Agent", "")
        options = write_options(request.query, _OPTIONS["PATCH"], agent, applies=kind is Patch.APPLY)
        return _written(target, self._writes.patch(target, raw, kind, options))

    def _delete(self, request: web.BaseRequest, target: RequestInfo, raw: bytes) -> web.Response:
        query = request.query
        options = delete_options(query, raw)
        if target.name:
            _check_verb(target, "delete")
            return _answer(shown(target.resource, self._writes.delete(target, options)))
        _check_verb(target, "deletecollection")
        page = self._writes.delete_all(target, _selector(target, query), list_options(query), options)
        items = (encode(shown(target.resource, each)) for each in page.items)
        names = target.resource.definition.names
        return _response(listing(target.resource.api_version, names.list_kind, page.metadata, items))


_NO_OPTIONS: Final = list_options({})


def _no_subresource(target: RequestInfo) -> web.Response:
    """Below a namespace are kinds, so an unknown name there is an unknown kind and not a subresource."""
    if target.resource is namespaces():
        return _page_not_found()
    raise not_found(target.resource, target.name)


def _check_verb(target: RequestInfo, verb: str) -> None:
    if verb not in target.resource.verbs:
        raise not_allowed()


def _selector(target: RequestInfo, query: Mapping[str, str]) -> ListSelector:
    return read_selector(target.resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _patch_kind(request: web.BaseRequest, target: RequestInfo) -> Patch:
    accepted = [each for each in Patch if each is not Patch.STRATEGIC or not target.resource.custom]
    media = media_of(request.headers.get("Content-Type", ""))
    if media not in accepted:
        raise unsupported_media(accepted)
    return Patch(media)


async def _body(request: web.BaseRequest) -> bytes:
    """The whole body; the time to send it is bounded."""
    if not request.body_exists:
        return b""
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise ApiError(408, "RequestTimeout", "the body of the request did not come in time") from None


async def _object(request: web.BaseRequest, raw: bytes, kind: str) -> bodies.Body:
    media = media_of(request.headers.get("Content-Type", ""))
    if media not in bodies.ACCEPTED:
        raise unsupported_media(bodies.ACCEPTED)
    if len(raw) > bodies.LARGE_BYTES:
        return await asyncio.to_thread(bodies.read_object, raw, media, kind)
    return bodies.read_object(raw, media, kind)


async def _review(request: web.BaseRequest, kind: str) -> web.Response:
    if request.method != "POST":
        raise not_allowed()
    body = await _object(request, await _body(request), kind)
    group, version = request.path.strip("/").split("/")[1:3]
    return _answer(answer(kind, f"{group}/{version}", body.value), status=201)


async def _stream(request: web.BaseRequest, watch: WatchStream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
    chunks = watch.chunks()
    try:
        await response.prepare(request)
        async for chunk in chunks:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await response.write(chunk)
        await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    finally:
        await chunks.aclose()  # type: ignore[attr-defined]  # an async generator
        watch.close()  # A generator that never started does not close it.
    return response


def _document(request: web.BaseRequest, path: str) -> web.Response:
    accept = request.headers.get("Accept", "")
    if path in _HEALTH or path.startswith(tuple(f"{each}/" for each in _HEALTH)):
        return web.Response(text="ok")
    if path in {"/api", "/apis"} and wants_aggregated(accept):
        found = discovery.aggregated(core=path == "/api")
        return _response(encode(found), content_type=discovery.AGGREGATED[0])
    if path == "/openapi/v2" and accepts(accept, openapi.VERSION_2_REQUESTED, openapi.VERSION_2_BINARY):
        return _response(openapi.version_2_binary(), content_type=openapi.VERSION_2_BINARY)
    fixed = _DOCUMENTS.get(path.rstrip("/"))
    if fixed is not None:
        return _response(encode(fixed(request)))
    return _known(_find_document(path.strip("/").split("/")))


def _find_document(steps: list[str]) -> Json | bytes | None:
    match steps:
        case ["openapi", "v3"]:
            return openapi.paths()
        case ["openapi", "v3", *rest]:
            return openapi.document("/".join(rest))
        case ["apis", group]:
            return discovery.group(group)
        case ["api", version]:
            return discovery.resource_list("", version)
        case ["apis", group, version]:
            return discovery.resource_list(group, version)
        case _:
            return None


_DOCUMENTS: Final[Mapping[str, Callable[[web.BaseRequest], Json]]] = {
    "": lambda _: {
        "paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    },
    "/version": lambda _: _VERSION,
    "/api": lambda request: discovery.versions(request.host),
    "/apis": lambda _: discovery.group_list(),
    "/openapi/v2": lambda _: openapi.VERSION_2,
}


def _known(found: Json | bytes | None) -> web.Response:
    if found is None:
        return _page_not_found()
    return _response(found if isinstance(found, bytes) else encode(found))


def _page_not_found() -> web.Response:
    return web.Response(text="404 page not found\n", status=404)


def _written(target: RequestInfo, written: WriteResult) -> web.Response:
    manifest = written.manifest if target.subresource == "scale" else shown(target.resource, written.manifest)
    return _response(encode(manifest), status=201 if written.created else 200, warnings=written.warnings)


def _answer(value: object, *, status: int = 200) -> web.Response:
    return _response(encode(value), status=status)


def failed(error: ApiError) -> web.Response:
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    response = _response(encode(error.to_status()), status=error.code)
    response.headers.update(headers)
    return response


def _response(
    body: bytes, *, status: int = 200, warnings: tuple[str, ...] = (), content_type: str = JSON
) -> web.Response:
    headers = CIMultiDict({"Content-Type": content_type, "Cache-Control": "no-cache, private"})
    for warning in warnings:
        headers.add("Warning", f'299 - "{_quoted(warning)}"')
    return web.Response(body=body, status=status, headers=headers)


def _quoted(text: str) -> str:
    plain = "".join(char if char.isprintable() and char.isascii() else " " for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
