"""The routing sidecar of a decode server: sends prefill to the prefill server that the picker chose.

A request that names no prefill server, or whose path is not one of those worth it, goes to the local server unchanged.
Otherwise the legs of the connector are sent (see `disaggregation`) and the decode server's answer is passed on as it
comes. The header that names the prefill server never goes further.

Which servers may be named is a list, with ports, and there is one unless the caller says otherwise: the header comes
from outside, and a sidecar that believed it would call any address for anyone.

The prefill leg is tried again where it was not served (no connection, 502, 503, 504), `retries` times. If it fails the
client gets its failure; with `decode_fallback` the local server computes the prompt itself instead, unless the prefill
server found fault with the request.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from modelplane.epp.scheduling.headers import DATA_PARALLEL, ENCODERS, PREFILLER, PREFILLER_URL
from modelplane.epp.sidecar.disaggregation import (
    PATHS,
    THRESHOLD,
    Body,
    Connector,
    choose_prefiller,
    gave_up,
    nixl_decode_leg,
    nixl_prefill_leg,
    read_body,
    sglang_leg,
    shared_decode_leg,
    shared_prefill_leg,
)
from modelplane.epp.transport.listening import EVERYWHERE, listen_everywhere

_log = logging.getLogger(__name__)

_HOP = frozenset(
    (
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "content-length", "expect",
    )
)  # fmt: skip
_OURS = frozenset((PREFILLER, PREFILLER_URL, ENCODERS, DATA_PARALLEL))
_NOT_SERVED = frozenset((HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT))
_UNWIND_S = 1.0
_FIRST_EVENT_BYTES = 1 << 20


class SidecarSettings(msgspec.Struct, frozen=True):
    decoder: str
    """The local server's `host:port`."""
    ranks: Mapping[int, str] = MappingProxyType({})
    """Local servers of data-parallel ranks, by the port of the sidecar that is theirs."""
    connector: Connector = Connector.NIXL
    allows: Callable[[str], bool] = lambda _address: False
    """Whether a prefill server may be called."""
    retries: int = 0
    retry_after_s: float = 0.2
    decode_fallback: bool = False
    chance: Callable[[], float] | None = None
    """Chooses among several prefill servers; None: the first."""
    room: Callable[[], int] = lambda: 0
    """The number of a new room for sglang: no two requests of the fleet may get the same."""
    bootstrap_port: int = 8998
    most_body_bytes: int = 64 << 20
    connect_s: float = 5.0


class _Answer(msgspec.Struct, frozen=True):
    """A response that was read whole."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def was_served(self) -> bool:
        return self.status not in _NOT_SERVED

    @property
    def is_good(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class RoutingSidecar:
    """One listener before one local server. `start` returns once it accepts connections."""

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._connections: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._background: set[asyncio.Task[object]] = set()

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listens; port 0 takes any free one."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_s)
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            timeout=timeout, connector=connector, auto_decompress=False, skip_auto_headers=("User-Agent",)
        )
        self._connections = web.Server(self._handle, handler_cancellation=True, access_log=None)
        loop = asyncio.get_running_loop()
        if host == EVERYWHERE:
            self._listener = await loop.create_server(self._connections, sock=listen_everywhere(port))
        else:
            self._listener = await loop.create_server(self._connections, host, port)
        bound = self._listener.sockets[0].getsockname()
        return bound[0], bound[1]

    async def stop(self, grace_s: float = 5.0) -> None:
        """Takes no new connections, lets running answers end for a while, then cuts them."""
        if self._listener is None or self._connections is None or self._session is None:
            return
        self._listener.close()
        self._connections.pre_shutdown()
        await self._connections.shutdown(grace_s)
        await self._listener.wait_closed()
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background, timeout=_UNWIND_S)
        await self._session.close()
        self._listener = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):
            # Put behind an address, anything else could change it.
            return _refusal(HTTPStatus.BAD_REQUEST, "the request's target is no path")
        prefiller = choose_prefiller(request.headers.get(PREFILLER, ""), self._settings.chance)
        try:
            if not prefiller or request.path not in PATHS:
                return await self._pass_on(request, request.content if request.can_read_body else None)
            if not self._settings.allows(prefiller):
                _log.warning("prefill endpoint %s is not in the allowlist", prefiller)
                return _refusal(HTTPStatus.FORBIDDEN, f"prefill server {prefiller} is not allowed")
            text = await self._read(request)
            if text is None:
                most = self._settings.most_body_bytes
                return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {most} bytes")
            body = read_body(text)
            if body is None:
                return await self._pass_on(request, text)
            return await self._disaggregate(request, body, prefiller)
        except (aiohttp.ClientError, OSError) as error:
            _log.warning("the decode engine did not answer: %s", error)
            return _refusal(HTTPStatus.BAD_GATEWAY, "the local server did not answer")

    async def _disaggregate(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        connector = self._settings.connector
        if connector is Connector.SGLANG:
            return await self._both_at_once(request, body, prefiller)
        if connector is Connector.SHARED_STORAGE:
            return await self._through_storage(request, body, prefiller)
        answer = await self._prefill(request, nixl_prefill_leg(body, request.path), prefiller)
        if not answer.is_good:
            return await self._without_prefill(request, body, answer)
        return await self._pass_on(request, nixl_decode_leg(body, answer.body))

    async def _through_storage(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        if THRESHOLD in body:
            tried = await self._pass_on_if_cached(request, body)
            if tried is not None:
                return tried
        answer = await self._prefill(request, shared_prefill_leg(body, request.path), prefiller)
        if not answer.is_good:
            return await self._without_prefill(request, shared_decode_leg(body), answer)
        return await self._pass_on(request, shared_decode_leg(body))

    async def _both_at_once(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        """The prefill server's answer is of no use, and its failure shows at the decode server."""
        settings = self._settings
        leg = sglang_leg(body, prefiller, settings.bootstrap_port, settings.room())
        task: asyncio.Task[object] = asyncio.create_task(self._prefill(request, leg, prefiller))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        try:
            return await self._pass_on(request, leg)
        except BaseException:
            task.cancel()
            raise

    async def _without_prefill(self, request: web.BaseRequest, body: Body, answer: _Answer) -> web.StreamResponse:
        blames_request = HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
        if self._settings.decode_fallback and not blames_request:
            return await self._pass_on(request, body)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _prefill(self, request: web.BaseRequest, leg: Body, prefiller: str) -> _Answer:
        """The prefill server's answer, or that of the last try; 502 where there was none."""
        url = URL(f"http://{prefiller}{request.raw_path}", encoded=True)
        headers = _forwarded(request.headers)
        headers["Accept-Encoding"] = "identity"
        answer = await self._ask(url, headers, leg)
        for _ in range(self._settings.retries):
            if answer.was_served:
                break
            await asyncio.sleep(self._settings.retry_after_s)
            answer = await self._ask(url, headers, leg)
        return answer

    async def _ask(self, url: URL, headers: CIMultiDict[str], leg: Body) -> _Answer:
        try:
            sent = self._open().post(url, data=msgspec.json.encode(leg), headers=headers, allow_redirects=False)
            async with sent as response:
                kept = {"Content-Type": response.headers.get("Content-Type", "application/json")}
                return _Answer(response.status, await response.read(), kept)
        except (aiohttp.ClientError, OSError) as error:
            _log.warning("prefill at %s failed: %s", url, error)
            body = _error_body(HTTPStatus.BAD_GATEWAY, "the prefill server did not answer")
            return _Answer(HTTPStatus.BAD_GATEWAY, body, {"Content-Type": "application/json"})

    async def _pass_on(
        self, request: web.BaseRequest, body: Body | bytes | aiohttp.StreamReader | None
    ) -> web.StreamResponse:
        async with self._decode(request, body) as answer:
            return await _relay(request, answer, answer.content.iter_any())

    async def _pass_on_if_cached(self, request: web.BaseRequest, body: Body) -> web.StreamResponse | None:
        """The local server's answer, unless it gives up for want of a cached prompt."""
        async with self._decode(request, body) as answer:
            if answer.status != HTTPStatus.OK:
                return await _relay(request, answer, answer.content.iter_any())
            streams = answer.headers.get("Content-Type", "").startswith("text/event-stream")
            begun = await _first_event(answer) if streams else await answer.read()
            if gave_up(begun):
                return None
            return await _relay(request, answer, _after(begun, answer))

    def _decode(
        self, request: web.BaseRequest, body: Body | bytes | aiohttp.StreamReader | None
    ) -> "aiohttp.client._RequestContextManager":
        headers = _forwarded(request.headers)
        if isinstance(body, aiohttp.StreamReader) and request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        data = msgspec.json.encode(body) if isinstance(body, Mapping) else body
        rank = _port_of(request.headers.get(DATA_PARALLEL, ""))
        url = URL(f"http://{self._settings.ranks.get(rank, self._settings.decoder)}{request.raw_path}", encoded=True)
        return self._open().request(request.method, url, data=data, headers=headers, allow_redirects=False)

    async def _read(self, request: web.BaseRequest) -> bytes | None:
        """The body; None where it is too large."""
        most = self._settings.most_body_bytes
        if (request.content_length or 0) > most:
            return None
        text = bytearray()
        async for chunk in request.content.iter_any():
            text += chunk
            if len(text) > most:
                return None
        return bytes(text)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the sidecar is not started")
        return self._session


async def _relay(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Passes the answer on as it comes."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_forwarded(answer.headers))
    if (length := answer.headers.get("Content-Length")) is not None:
        response.headers["Content-Length"] = length
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response


async def _first_event(answer: aiohttp.ClientResponse) -> bytes:
    """The stream up to the end of its first event, at most so much."""
    begun = bytearray()
    while b"\n\n" not in begun and b"\r\n\r\n" not in begun and len(begun) < _FIRST_EVENT_BYTES:
        chunk = await answer.content.readany()
        if not chunk:
            break
        begun += chunk
    return bytes(begun)


async def _after(begun: bytes, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    yield begun
    async for chunk in answer.content.iter_any():
        yield chunk


def _forwarded(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers that go further: not those of one connection, nor those that were for the sidecar."""
    named = {name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(",")}
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        lower = name.lower()
        if lower not in _HOP and lower not in _OURS and lower not in named:
            kept.add(name, value)
    return kept


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    return web.Response(status=status, body=_error_body(status, message), content_type="application/json")


def _error_body(status: HTTPStatus, message: str) -> bytes:
    kind = status.phrase.lower().replace(" ", "_")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "code": status.value}})


def _port_of(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() else 0
