"""Serves the read-only status page on loopback, to clients with the token that the plane printed.

The token is once in the address and then in a SameSite cookie. The Host header must be a loopback name, against DNS
rebinding.
"""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Middleware

from modelplane.views.overview import Overview
from modelplane.web.page import render, style

_COOKIE = "modelplane"
_HOSTS = {"127.0.0.1", "localhost"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
Read = Callable[[], Overview]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PageServer:
    runner: web.AppRunner
    url: str

    async def close(self) -> None:
        await self.runner.cleanup()


async def serve(read: Read, *, token: str, host: str = "127.0.0.1", port: int = 0) -> PageServer:
    app = web.Application(middlewares=[_guard(token)])
    app.router.add_get("/", _page(read))
    app.router.add_get("/style.css", _stylesheet)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return PageServer(runner, f"http://{host}:{runner.addresses[0][1]}/?token={token}")


def _page(read: Read) -> Handler:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=render(read()), content_type="text/html", headers=_HEADERS)

    return page


async def _stylesheet(_request: web.Request) -> web.Response:
    return web.Response(text=style(), content_type="text/css", headers=_HEADERS)


def _guard(token: str) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "").rpartition(":")[0] not in _HOSTS:
            raise web.HTTPForbidden(text="this page is served on loopback names only", headers=_HEADERS)
        if _is(request.query.get("token", ""), token):
            answer = web.HTTPFound("/", headers=_HEADERS)
            answer.set_cookie(_COOKIE, token, httponly=True, samesite="Strict", path="/")
            raise answer
        if not _is(request.cookies.get(_COOKIE, ""), token):
            raise web.HTTPUnauthorized(text="open the address that `modelplane up` printed", headers=_HEADERS)
        return await handler(request)

    return guard


def _is(given: str, token: str) -> bool:
    """Bytes that are not UTF-8 come as surrogates."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())
