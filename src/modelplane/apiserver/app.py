"""The HTTP server in front of the plane's store.

A write is acknowledged when it survives a power cut.

Loopback only. Every request needs the bearer token. The Host header must be a loopback name, against DNS rebinding, and
cross-origin requests of browsers are refused.

aiohttp's low-level server is used without its router: one function handles every request, which more than doubles the
reads a second.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from modelplane.api.errors import ModelplaneError
from modelplane.apiserver.bodies import MOST_BYTES
from modelplane.apiserver.failures import ApiError, as_api_error
from modelplane.apiserver.group_commit import GroupCommit
from modelplane.apiserver.handlers import ApiHandlers, failed
from modelplane.apiserver.reads import Reads
from modelplane.apiserver.store.database import SqliteStore
from modelplane.apiserver.watches import DEFAULT_LIMITS, WatchHub, WatchLimits
from modelplane.apiserver.wire import Wire
from modelplane.apiserver.writes import Writes
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)
_HOSTS: Final = frozenset(("127.0.0.1", "localhost", "[::1]"))
_READY_PATH: Final = "/readyz"
_READING: Final = frozenset(("GET", "HEAD"))
_OPEN_PATHS: Final = frozenset(("/healthz", "/livez", "/readyz"))


class ApiServer:
    """Serves one store. A site is started with `runner`; `close` ends the watches first."""

    def __init__(
        self,
        store: SqliteStore,
        *,
        token: str,
        clock: Clock,
        limits: WatchLimits = DEFAULT_LIMITS,
        others: Mapping[str, Handler] | None = None,
    ) -> None:
        """`others` handle the paths under their prefix, after the same checks."""
        wire = Wire()
        reads = Reads(store, wire, clock)
        self._watches = WatchHub(store, reads, wire, clock, limits)
        self._api = ApiHandlers(reads, Writes(store, reads, clock), self._watches)
        self._others = tuple((others or {}).items())
        self._database = store.database
        self._commits = GroupCommit(store.database)
        self._expected = f"Bearer {token}".encode()
        self._runner = web.ServerRunner(
            web.Server(self._handle, request_factory=_request, handler_cancellation=True, access_log=None),
            shutdown_timeout=1.0,
        )

    @property
    def runner(self) -> web.ServerRunner:
        return self._runner

    async def close(self) -> None:
        self._watches.close()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check(request)
            for prefix, handler in self._others:
                if request.path.startswith(prefix):
                    return await handler(request)
            if request.path == _READY_PATH:
                return self._ready()
            return await self._answer(request)
        except ModelplaneError as error:
            return failed(as_api_error(error))
        except web.HTTPException as error:
            return failed(ApiError(error.status, error.reason.replace(" ", ""), error.reason))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:  # noqa: BLE001  the boundary: one broken request must not end the server
            _log.exception("%s %s failed", request.method, request.path, extra=because(LogReason.REQUEST_FAILED))
            return failed(ApiError(500, "InternalError", "the plane failed on this request; its log says why"))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._api.answer(request)
        if request.method not in _READING:
            await self._commits.flush()
        return response

    def _ready(self) -> web.Response:
        problem = self._database.problem()
        if problem:
            return web.Response(status=503, text=f"[-]store failed: {problem}\nreadyz check failed\n")
        return web.Response(text="ok")

    def _check(self, request: web.BaseRequest) -> None:
        headers = request.headers
        host = headers.get("Host", "")
        if _name(host) not in _HOSTS:
            raise ApiError(403, "Forbidden", "this API answers on loopback names only")
        own = f"{request.scheme}://{host}"
        if headers.get("Origin", own) != own:
            raise ApiError(403, "Forbidden", "requests of other origins are refused")
        # Bytes that are not UTF-8 come as surrogates.
        given = headers.get("Authorization", "").encode(errors="surrogatepass")
        if request.path not in _OPEN_PATHS and not hmac.compare_digest(given, self._expected):
            raise ApiError(401, "Unauthorized", "a bearer token is required; the plane's kubeconfig has it")


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MOST_BYTES)


def _name(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if port.isdigit() and name else host
