"""Serves a volume to other clusters: what its marker lists and nothing else, read-only, with ranges."""

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from aiohttp import web

from modelplane.hydrate.peer import FILES_PATH, MARKER_PATH
from modelplane.hydrate.volume import CacheVolume, CompleteMarker

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_RETRY_AFTER_S = "10"
_CHUNK_BYTES = 1 << 20


class PeerServer:
    def __init__(self, volume: CacheVolume, token_file: Path | None) -> None:
        self._volume = volume
        self._token_file = token_file

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._authenticate])
        application.router.add_get("/healthz", _healthy)
        application.router.add_get(MARKER_PATH, self._complete)
        application.router.add_get(f"{FILES_PATH}/{{key}}/{{path:.+}}", self._file)
        return application

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None, ready: Callable[[str, int], None]) -> None:
        runner = web.AppRunner(self.application(), access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=tls)
            await site.start()
            ready(host, runner.addresses[0][1])
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """The token is read on each request, so that a Secret may change under the server."""
        if self._token_file is not None and request.path != "/healthz":
            wanted = f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}"
            given = request.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), wanted.encode()):
                raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    async def _complete(self, _request: web.Request) -> web.Response:
        return web.json_response(body=msgspec.json.encode(self._marker(None)))

    async def _file(self, request: web.Request) -> web.FileResponse:
        marker = self._marker(request.match_info["key"])
        path = request.match_info["path"]
        listed = next((file for file in marker.files if file.path == path), None)
        if listed is None:
            raise web.HTTPNotFound(text=f"{marker.key} has no file {path}")
        target = (self._volume.root / marker.root / path).resolve()
        if not target.is_relative_to(self._volume.root.resolve()):
            raise web.HTTPNotFound(text=f"{path} is not on the volume")
        return web.FileResponse(target, chunk_size=_CHUNK_BYTES, headers={"X-Modelplane-Key": marker.key})

    def _marker(self, key: str | None) -> CompleteMarker:
        """The current revision, or one that is kept. A volume that is still being filled asks for patience."""
        if key is not None and not (key.isascii() and key.isalnum()):
            raise web.HTTPNotFound
        marker = self._volume.marker(key)
        if marker is None and key is None:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": _RETRY_AFTER_S}, text="not complete yet")
        if marker is None:
            raise web.HTTPNotFound(text=f"no revision {key}")
        return marker


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
