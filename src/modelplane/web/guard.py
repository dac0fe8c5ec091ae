"""Who may read the dashboard: programs of this machine with the token that the plane printed.

The token is once in the address and then in a SameSite cookie, which has the port in its name: cookies do not know
ports, and a machine may have several planes. The Host header must be a loopback name, against DNS rebinding, and a
request that a page of another origin makes is refused.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

HOSTS: Final = frozenset({"127.0.0.1", "localhost"})
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OWN_SITES = frozenset({"", "same-origin", "none"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def guard(token: str) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        if host.rpartition(":")[0] not in HOSTS:
            raise web.HTTPForbidden(text="the dashboard is served on loopback names only", headers=HEADERS)
        if _is(request.query.get("token", ""), token) and request.method == "GET":
            answer = web.HTTPFound("/", headers=HEADERS)
            answer.set_cookie(_cookie(request), token, httponly=True, samesite="Strict", path="/")
            raise answer
        if not _is(request.cookies.get(_cookie(request), ""), token):
            raise web.HTTPUnauthorized(text="open the address that `modelplane up` printed", headers=HEADERS)
        if not _own_origin(request, host):
            raise web.HTTPForbidden(text="another site's page may not use the dashboard", headers=HEADERS)
        return await handler(request)

    return check


def _own_origin(request: web.Request, host: str) -> bool:
    """Browsers name the page that a request comes from; other programs name none."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return False
    return request.headers.get("Sec-Fetch-Site", "") in _OWN_SITES


def _cookie(request: web.Request) -> str:
    address = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return f"modelplane-{address[1]}" if address else "modelplane"


def _is(given: str, token: str) -> bool:
    """Bytes that are not UTF-8 come as surrogates."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())
