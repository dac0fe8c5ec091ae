"""The HTTP server in front of the plane's store.

Loopback only. Every request needs the bearer token; Host must name this machine, so that a page whose name was rebound
to loopback gets nowhere, and a request that a browser made for another origin is refused.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from modelplane.api.errors import InputError, ModelplaneError, NotFoundError
from modelplane.local.server import answers
from modelplane.local.server.resources import Resource, Target, find_target, resources
from modelplane.reconcile.store import Manifest, ObjectRef, Store

_log = logging.getLogger(__name__)
_HOSTS: Final = {"127.0.0.1", "localhost", "[::1]"}
_OPEN_PATHS: Final = {"/healthz", "/livez", "/readyz"}
_MAX_BODY: Final = 3 * 1024 * 1024
Admit = Callable[[Manifest, Manifest | None], Manifest]
"""The object as it is to be stored, or InvalidObject. The second one is what it replaces."""


def make_app(store: Store, *, token: str, admit: Admit) -> web.Application:
    """An application that answers from the store; the caller runs it on a loopback address."""
    api = _Api(store, admit)
    app = web.Application(client_max_size=_MAX_BODY, middlewares=[_failures, _guard(token)])
    app.router.add_get("/{path:healthz|livez|readyz}", _healthy)
    app.router.add_get("/version", _version)
    app.router.add_get("/api", _api_versions)
    app.router.add_get("/apis", _groups)
    app.router.add_get("/api/{version}", _core_resources)
    app.router.add_get("/apis/{group}/{version}", _group_resources)
    app.router.add_route("*", "/{path:(api|apis)/.*}", api.serve)
    return app


class _Api:
    def __init__(self, store: Store, admit: Admit) -> None:
        self._store = store
        self._admit = admit

    async def serve(self, request: web.Request) -> web.Response:
        target = find_target(request.path)
        if target is None:
            raise NotFoundError("the server could not find the requested resource")
        if request.method == "GET":
            return _json(self._list(target) if target.name is None else self._get(target))
        if not target.resource.writable:
            return _not_allowed(f"{target.resource.plural} are written by the plane itself")
        match request.method, target.name, target.subresource:
            case "POST", None, "":
                created = self._store.create(self._admit(await _body(request, target), None))
                return _json(created, status=201)
            case "PUT", str(), "" | "status":
                return _json(await self._replace(request, target))
            case "DELETE", str(), "":
                self._get(target)
                self._store.delete(_ref(target))
                return _json(answers.deleted(target.resource, target.name or ""))
            case _:
                return _not_allowed(f"{request.method} is not served here")

    def _list(self, target: Target) -> answers.Json:
        resource = target.resource
        found = self._store.list(resource.group, resource.kind, namespace=target.namespace)
        return answers.listing(resource, found, self._store.revision)

    def _get(self, target: Target) -> Manifest:
        found = self._store.get(_ref(target))
        if found is None:
            raise NotFoundError(f'{target.resource.plural} "{target.name}" not found')
        return found

    async def _replace(self, request: web.Request, target: Target) -> Manifest:
        before = self._get(target)
        wanted = await _body(request, target)
        if target.subresource == "status":
            return self._store.replace_status(wanted)
        return self._store.replace(self._admit(wanted, before))


def _ref(target: Target) -> ObjectRef:
    return ObjectRef(target.resource.group, target.resource.kind, target.namespace or "", target.name or "")


async def _body(request: web.Request, target: Target) -> dict[str, object]:
    try:
        manifest = msgspec.json.decode(await request.read(), type=dict[str, object])
    except msgspec.DecodeError as error:
        raise InputError(f"the body is no JSON object: {error}") from error
    resource = target.resource
    if (manifest.get("apiVersion"), manifest.get("kind")) != (resource.api_version, resource.kind):
        raise InputError(f"apiVersion and kind must be {resource.api_version} and {resource.kind} on this path")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise InputError("metadata: is required")
    named = {"namespace": target.namespace} if resource.namespaced else {}
    for field, value in {**named, **({"name": target.name} if target.name else {})}.items():
        if metadata.setdefault(field, value) != value:
            raise InputError(f"metadata.{field}: {metadata[field]!r} is not {value!r}, which the path says")
    return manifest


def _guard(token: str) -> Callable[..., Awaitable[web.StreamResponse]]:
    expected = f"Bearer {token}"

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if _host(request.headers.get("Host", "")) not in _HOSTS:
            return _failed(403, "Forbidden", "this API answers on loopback names only")
        if request.headers.get("Origin", "null") not in {"null", f"{request.scheme}://{request.headers['Host']}"}:
            return _failed(403, "Forbidden", "requests of other origins are refused")
        given = request.headers.get("Authorization", "")
        if request.path not in _OPEN_PATHS and not hmac.compare_digest(given.encode(), expected.encode()):
            return _failed(401, "Unauthorized", "a bearer token is required; the plane's kubeconfig has it")
        return await handler(request)

    return guard


def _host(header: str) -> str:
    host, _, port = header.rpartition(":")
    return host if port.isdigit() and host else header


@web.middleware
async def _failures(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ModelplaneError as error:
        answer = answers.failure_of(error)
        return _json(answer, status=int(str(answer["code"])))
    except web.HTTPException as error:
        return _failed(error.status, error.reason.replace(" ", ""), error.reason)
    except Exception:  # noqa: BLE001  the boundary: one broken request must not end the server
        _log.exception("%s %s failed", request.method, request.path)
        return _failed(500, "InternalError", "the plane failed on this request; its log says why")


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _version(_request: web.Request) -> web.Response:
    return _json({"major": "1", "minor": "36", "gitVersion": "v1.36.0+modelplane"})


async def _api_versions(_request: web.Request) -> web.Response:
    return _json({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})


async def _groups(_request: web.Request) -> web.Response:
    return _json(answers.group_list(resources().values()))


async def _core_resources(request: web.Request) -> web.Response:
    return _discovered("", request.match_info["version"])


async def _group_resources(request: web.Request) -> web.Response:
    return _discovered(request.match_info["group"], request.match_info["version"])


def _discovered(group: str, version: str) -> web.Response:
    found: list[Resource] = [each for each in resources().values() if (each.group, each.version) == (group, version)]
    if not found:
        raise NotFoundError("the server could not find the requested resource")
    return _json(answers.resource_list(found[0].api_version, found))


def _not_allowed(message: str) -> web.Response:
    return _failed(405, "MethodNotAllowed", message)


def _failed(code: int, reason: str, message: str) -> web.Response:
    return _json(answers.failure(code, reason, message), status=code)


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
