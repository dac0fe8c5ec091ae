"""Serves the dashboard: one page with its script and its style, the views as JSON, and their changes.

    /                the page
    /api/VIEW        a view as JSON; `pages.VIEWS` has them
    /api/stream      the summary and the view named by `view`, as server-sent events
    /api/models      the models that a service lists, and requests to paste
    /api/chat        a chat completion of a service (POST)

Everything but the chat reads. The server's own words are JSON with an `error`.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from aiohttp import web

from modelplane.api.errors import InputError, InvalidObject, ModelplaneError, NotFoundError, UnavailableError
from modelplane.reconcile.clock import Clock, SystemClock
from modelplane.web.guard import HEADERS, Handler, guard
from modelplane.web.live import LiveSnapshot
from modelplane.web.page_token import PageToken
from modelplane.web.pages import VIEWS, to_json, view_json
from modelplane.web.paging import ViewQuery
from modelplane.web.playground import chat, service_models
from modelplane.web.probes import listening
from modelplane.web.source import DashboardSource, ObjectSource
from modelplane.web.stream import send_events

LOOPBACK: Final = "127.0.0.1"
_FILES: Final = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/app.css": ("app.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_STATUSES: Final = ((InvalidObject, 500), (InputError, 400), (NotFoundError, 404), (UnavailableError, 502))


@dataclass(frozen=True, slots=True)
class PageServer:
    runner: web.AppRunner
    live: LiveSnapshot
    url: str

    async def close(self) -> None:
        """Streams end at once: a browser opens them again where there is something to read."""
        await self.live.close()
        await self.runner.cleanup()


async def serve(
    source: DashboardSource, *, token: PageToken, clock: Clock | None = None, host: str = LOOPBACK, port: int = 0
) -> PageServer:
    """At a port of the host; no host: of every address. Loopback names alone are answered, wherever it listens."""
    live = LiveSnapshot(source, clock or SystemClock())
    app = web.Application(middlewares=[guard(token), _errors])
    for path, (name, kind) in _FILES.items():
        app.router.add_get(path, _file(name, kind))
    app.router.add_get("/api/stream", _stream(live))
    app.router.add_get("/api/models", _models(source.objects))
    app.router.add_post("/api/chat", _chat(source.objects))
    app.router.add_get("/api/{view}", _view(live))
    runner = await listening(app, host, port)
    return PageServer(runner, live, f"http://{LOOPBACK}:{runner.addresses[0][1]}/{token.query}")


def _file(name: str, kind: str) -> Handler:
    body = files(__package__).joinpath("static", name).read_bytes()

    async def send(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=HEADERS)

    return send


def _view(live: LiveSnapshot) -> Handler:
    async def view(request: web.Request) -> web.Response:
        query = ViewQuery.of(dict(request.query))
        body = view_json(request.match_info["view"], await live.current(), query)
        return web.Response(body=body, content_type="application/json", headers=HEADERS)

    return view


def _stream(live: LiveSnapshot) -> Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        given = dict(request.query)
        view = given.pop("view", "overview")
        if view not in VIEWS:
            raise InputError(f"view: must be one of {', '.join(VIEWS)}")
        return await send_events(request, live, view, ViewQuery.of(given))

    return stream


def _models(objects: ObjectSource) -> Handler:
    async def models(request: web.Request) -> web.Response:
        query = ViewQuery.of(dict(request.query))
        found = await service_models(objects, query.namespace, query.name)
        return web.Response(body=to_json(found), content_type="application/json", headers=HEADERS)

    return models


def _chat(objects: ObjectSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await chat(request, objects)

    return answer


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """An error that names what is wrong goes to the client; others are aiohttp's to report."""
    try:
        return await handler(request)
    except ModelplaneError as error:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
        body = to_json({"error": str(error)})
        return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)
