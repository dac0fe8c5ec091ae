"""Models and chat completions of a service through its gateway: the page may connect to its own server only.

The service is named, and its address is the one of its status. Nobody gives an address, so nobody makes the plane
connect elsewhere. What the service answers is passed on as it comes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec
from aiohttp import web

from modelplane.api.errors import InputError, NotFoundError, UnavailableError
from modelplane.api.objects import GROUP, text_at
from modelplane.epp.transport.held_bodies import BodyRefused, read_at_most
from modelplane.reconcile.store import ObjectRef
from modelplane.views.services import chosen_model
from modelplane.web.guard import HEADERS
from modelplane.web.shapes import ServiceModels
from modelplane.web.snippets import client_snippets
from modelplane.web.source import ObjectSource

_MAX_BODY: Final = 1 << 20
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=300)
_LIST_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)


class PlaygroundMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: str
    content: str


class PlaygroundRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    namespace: str
    service: str
    messages: tuple[PlaygroundMessage, ...]
    model: str = ""
    max_tokens: int = 1024
    temperature: float | None = None
    key: str = ""
    """Of a gateway with callers. It is passed on and not kept."""


async def chat(request: web.Request, objects: ObjectSource) -> web.StreamResponse:
    """The service's own stream of events, with its status."""
    given = await _read(request)
    headers = {"Authorization": f"Bearer {given.key}"} if given.key else {}
    address, model = _service(objects, given.namespace, given.service)
    async with aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT) as session:
        chosen = given.model or chosen_model(await _models(session, address), model)
        body = _completion(given, chosen)
        async with _opened(session, "POST", f"{address}/v1/chat/completions", body) as answer:
            return await _pass_on(request, answer, chosen)


async def _read(request: web.Request) -> PlaygroundRequest:
    """InputError names what is wrong."""
    if request.content_type != "application/json":
        raise InputError("Content-Type: must be application/json")
    try:
        body = await read_at_most(request.content.iter_any(), _MAX_BODY, request.content_length)
        given = msgspec.json.decode(body, type=PlaygroundRequest)
    except BodyRefused as error:
        raise InputError(str(error)) from error
    except msgspec.DecodeError as error:
        raise InputError(f"the body: {error}") from error
    if _header(given.key) != given.key:
        raise InputError("key: must be printable ASCII")
    return given


def _completion(given: PlaygroundRequest, model: str) -> dict[str, object]:
    body: dict[str, object] = {
        "model": model,
        "messages": msgspec.to_builtins(given.messages),
        "max_tokens": given.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return body if given.temperature is None else {**body, "temperature": given.temperature}


async def service_models(objects: ObjectSource, namespace: str, name: str) -> ServiceModels:
    """As the service lists them now. No key is sent: where the gateway asks for one, it lists none."""
    address, model = _service(objects, namespace, name)
    async with aiohttp.ClientSession(timeout=_LIST_TIMEOUT) as session:
        listed = await _models(session, address)
    chosen = chosen_model(listed, model)
    return ServiceModels(models=tuple(listed), model=chosen, snippets=client_snippets(address, chosen))


def _service(objects: ObjectSource, namespace: str, name: str) -> tuple[str, str]:
    """Address and model of a ModelService."""
    item = objects.get(ObjectRef(GROUP, "ModelService", namespace, name))
    if item is None:
        raise NotFoundError(f"ModelService {namespace}/{name} does not exist")
    address = text_at(item, "status", "address")
    if not address:
        raise UnavailableError(f"ModelService {namespace}/{name} has no address yet")
    return address, text_at(item, "status", "model")


async def _models(session: aiohttp.ClientSession, address: str) -> list[str]:
    async with _opened(session, "GET", f"{address}/v1/models", None) as answer:
        try:
            listed = msgspec.json.decode(await read_at_most(answer.content.iter_any(), _MAX_BODY))
            return [str(each["id"]) for each in listed["data"]]
        except (msgspec.DecodeError, BodyRefused, KeyError, TypeError, aiohttp.ClientError):
            return []


@asynccontextmanager
async def _opened(
    session: aiohttp.ClientSession, method: str, url: str, body: object
) -> AsyncIterator[aiohttp.ClientResponse]:
    try:
        answer = await session.request(method, url, json=body, allow_redirects=False)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnavailableError(f"{url} is unreachable: {error}") from error
    async with answer:
        yield answer


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse, model: str) -> web.StreamResponse:
    headers = {**HEADERS, "Content-Type": answer.headers.get("Content-Type", "application/octet-stream")}
    response = web.StreamResponse(status=answer.status, headers={**headers, "X-Modelplane-Model": _header(model)})
    await response.prepare(request)
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


def _header(text: str) -> str:
    """Names come from engines: a header gets their printable ASCII."""
    return "".join(each for each in text if each.isascii() and each.isprintable())
