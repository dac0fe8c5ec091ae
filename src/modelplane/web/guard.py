"""Who may read the dashboard: programs of this machine with its token, also through `kubectl port-forward`.

The token is once in the address and then in a SameSite cookie, which has the address's port in its name: cookies do not
know ports, and a machine may reach several dashboards. The Host header must be a loopback name, against DNS rebinding,
and a request that a page of another origin makes is refused.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from modelplane.web.page_token import PageToken

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


def guard(token: PageToken) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        if name not in HOSTS or not (port.isascii() and port.isdigit()):
            raise web.HTTPForbidden(text="the dashboard is served on loopback names only", headers=HEADERS)
        valid, cookie = token.read(), f"modelplane-{port}"
        if _is(request.query.get("token", ""), valid) and request.method == "GET":
            answer = web.HTTPFound("/", headers=HEADERS)
            answer.set_cookie(cookie, valid, httponly=True, samesite="Strict", path="/")
            raise answer
        if not _is(request.cookies.get(cookie, ""), valid):
            raise web.HTTPUnauthorized(text=token.where, headers=HEADERS)
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


def _is(given: str, token: str) -> bool:
    """Bytes that are not UTF-8 come as surrogates. No token is nobody's."""
    return bool(token) and hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())
