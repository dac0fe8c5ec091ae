"""The routing sidecar of a decode server: sends prefill to the prefill server that the picker chose.

A request without a prefill server, or with a path that is not disaggregated, goes to the local server unchanged.
Otherwise the sidecar sends the requests of the connector (see `disaggregation`) and streams the decode server's
response. The header that names the prefill server is not forwarded.

An allowlist of addresses with ports applies unless the caller disables it: the header comes from outside, and without
the list the sidecar would connect to any address.

The prefill request is retried if it was not served (no connection, 502, 503, 504), `retries` times. If it fails the
client gets its failure; with `decode_fallback` the local server computes the prompt instead, unless the prefill server
rejected the request.

Bodies that are held for prefill are bounded, each and together: a large one is answered 413, one too many 503.
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
    is_cache_miss,
    nixl_decode_request,
    nixl_prefill_request,
    read_body,
    sglang_request,
    shared_decode_request,
    shared_prefill_request,
)
from modelplane.epp.transport.held_bodies import BodyRefused, HeldBodies
from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)

_HOP_BY_HOP = frozenset(
    (
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "content-length", "expect",
    )
)  # fmt: skip
_SIDECAR_HEADERS = frozenset((PREFILLER, PREFILLER_URL, ENCODERS, DATA_PARALLEL))
_NOT_SERVED = frozenset((HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT))
_UNWIND_S = 1.0
_BEGINNING_BYTES = 1 << 20
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")


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
    """A bootstrap room for SGLang, unique in the fleet."""
    bootstrap_port: int = 8998
    most_body_bytes: int = 64 << 20
    most_held_bytes: int = 512 << 20
    """Of all bodies that are held at once."""
    connect_s: float = 5.0


class _WholeResponse(msgspec.Struct, frozen=True):
    """A response that was read whole."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def was_served(self) -> bool:
        return self.status not in _NOT_SERVED

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class RoutingSidecar:
    """One listener in front of one local server. `start` returns once it accepts connections."""

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._connections: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._background: set[asyncio.Task[object]] = set()
        self._bodies = HeldBodies(settings.most_body_bytes, settings.most_held_bytes)

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listens; port 0 takes any free one."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_s)
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            timeout=timeout, connector=connector, auto_decompress=False, skip_auto_headers=("User-Agent",)
        )
        self._connections = web.Server(self._handle, handler_cancellation=True, access_log=None)
        loop = asyncio.get_running_loop()
        if host == ANY_ADDRESS:
            self._listener = await loop.create_server(self._connections, sock=listen_any_address(port))
        else:
            self._listener = await loop.create_server(self._connections, host, port)
        bound = self._listener.sockets[0].getsockname()
        return bound[0], bound[1]

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accepts no new connections, waits for responses in flight, then closes them."""
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
            # Appended to an address, anything else could change the host.
            return _refusal(HTTPStatus.BAD_REQUEST, "the request target is not a path")
        prefiller = choose_prefiller(request.headers.get(PREFILLER, ""), self._settings.chance)
        try:
            if not prefiller or request.path not in PATHS:
                return await self._forward(request, request.content if request.can_read_body else None)
            if not self._settings.allows(prefiller):
                extra = because(LogReason.PREFILL_REFUSED)
                _log.warning("prefill endpoint %s is not in the allowlist", prefiller, extra=extra)
                return _refusal(HTTPStatus.FORBIDDEN, f"prefill server {prefiller} is not allowed")
            with self._bodies.lease() as lease:
                text = await lease.read(request.content.iter_any(), request.content_length)
                body = read_body(text)
                if body is None:
                    return await self._forward(request, text)
                return await self._disaggregate(request, body, prefiller)
        except BodyRefused as refused:
            return _refusal(refused.status, str(refused))
        except RecursionError:
            return _refusal(HTTPStatus.BAD_REQUEST, "the body is nested too deeply")
        except (aiohttp.ClientError, OSError) as error:
            _log.warning("the decode engine did not respond: %s", error, extra=because(LogReason.ENGINE_UNREACHABLE))
            return _refusal(HTTPStatus.BAD_GATEWAY, "the local server did not respond")

    async def _disaggregate(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        connector = self._settings.connector
        if connector is Connector.SGLANG:
            return await self._sglang(request, body, prefiller)
        if connector is Connector.SHARED_STORAGE:
            return await self._shared_storage(request, body, prefiller)
        response = await self._prefill(request, nixl_prefill_request(body, request.path), prefiller)
        if not response.is_success:
            return await self._fall_back(request, body, response)
        return await self._forward(request, nixl_decode_request(body, response.body))

    async def _shared_storage(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        if THRESHOLD in body:
            tried = await self._forward_if_cached(request, body)
            if tried is not None:
                return tried
        response = await self._prefill(request, shared_prefill_request(body, request.path), prefiller)
        if not response.is_success:
            return await self._fall_back(request, shared_decode_request(body), response)
        return await self._forward(request, shared_decode_request(body))

    async def _sglang(self, request: web.BaseRequest, body: Body, prefiller: str) -> web.StreamResponse:
        """The prefill server's response is ignored; the decode server reports its failure."""
        settings = self._settings
        both = sglang_request(body, prefiller, settings.bootstrap_port, settings.room())
        task: asyncio.Task[object] = asyncio.create_task(self._prefill(request, both, prefiller))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        try:
            return await self._forward(request, both)
        except BaseException:
            task.cancel()
            raise

    async def _fall_back(self, request: web.BaseRequest, body: Body, response: _WholeResponse) -> web.StreamResponse:
        is_client_error = HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR
        if self._settings.decode_fallback and not is_client_error:
            return await self._forward(request, body)
        return web.Response(status=response.status, body=response.body, headers=response.headers)

    async def _prefill(self, request: web.BaseRequest, body: Body, prefiller: str) -> _WholeResponse:
        """The prefill server's response, or that of the last retry; 502 if there was none."""
        url = URL(f"http://{prefiller}{request.raw_path}", encoded=True)
        headers = _forwarded(request.headers)
        headers["Accept-Encoding"] = "identity"
        response = await self._post(url, headers, body)
        for _ in range(self._settings.retries):
            if response.was_served:
                break
            await asyncio.sleep(self._settings.retry_after_s)
            response = await self._post(url, headers, body)
        return response

    async def _post(self, url: URL, headers: CIMultiDict[str], body: Body) -> _WholeResponse:
        try:
            sent = self._client().post(url, data=msgspec.json.encode(body), headers=headers, allow_redirects=False)
            async with sent as response:
                kept = {"Content-Type": response.headers.get("Content-Type", "application/json")}
                with self._bodies.lease() as lease:
                    text = await lease.read(response.content.iter_any(), response.content_length)
                return _WholeResponse(response.status, text, kept)
        except (aiohttp.ClientError, OSError, BodyRefused) as error:
            _log.warning("prefill at %s failed: %s", url, error, extra=because(LogReason.PREFILL_FAILED))
            error_body = _error_body(HTTPStatus.BAD_GATEWAY, "the prefill server did not respond")
            return _WholeResponse(HTTPStatus.BAD_GATEWAY, error_body, {"Content-Type": "application/json"})

    async def _forward(
        self, request: web.BaseRequest, body: Body | bytes | aiohttp.StreamReader | None
    ) -> web.StreamResponse:
        async with self._decode(request, body) as response:
            return await _relay(request, response, response.content.iter_any())

    async def _forward_if_cached(self, request: web.BaseRequest, body: Body) -> web.StreamResponse | None:
        """The local server's response, unless it stops because too little is cached."""
        async with self._decode(request, body) as response:
            if response.status != HTTPStatus.OK:
                return await _relay(request, response, response.content.iter_any())
            streams = response.headers.get("Content-Type", "").startswith("text/event-stream")
            begun = await _beginning(response, _EVENT_ENDS if streams else ())
            if is_cache_miss(begun):
                return None
            return await _relay(request, response, _after(begun, response))

    def _decode(
        self, request: web.BaseRequest, body: Body | bytes | aiohttp.StreamReader | None
    ) -> "aiohttp.client._RequestContextManager":
        headers = _forwarded(request.headers)
        if isinstance(body, aiohttp.StreamReader) and request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        data = msgspec.json.encode(body) if isinstance(body, Mapping) else body
        rank = _port_of(request.headers.get(DATA_PARALLEL, ""))
        url = URL(f"http://{self._settings.ranks.get(rank, self._settings.decoder)}{request.raw_path}", encoded=True)
        return self._client().request(request.method, url, data=data, headers=headers, allow_redirects=False)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the sidecar is not started")
        return self._session


async def _relay(
    request: web.BaseRequest, upstream: aiohttp.ClientResponse, chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Streams the response to the client."""
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=_forwarded(upstream.headers))
    if (length := upstream.headers.get("Content-Length")) is not None:
        response.headers["Content-Length"] = length
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response


async def _beginning(response: aiohttp.ClientResponse, ends: tuple[bytes, ...]) -> bytes:
    """The response up to one of the ends, or up to _BEGINNING_BYTES: that too little is cached is said in fewer."""
    begun = bytearray()
    while len(begun) < _BEGINNING_BYTES and not any(end in begun for end in ends):
        chunk = await response.content.readany()
        if not chunk:
            break
        begun += chunk
    return bytes(begun)


async def _after(begun: bytes, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    yield begun
    async for chunk in response.content.iter_any():
        yield chunk


def _forwarded(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The forwarded headers: without hop-by-hop headers and those for the sidecar."""
    named = {name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(",")}
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        lower = name.lower()
        if lower not in _HOP_BY_HOP and lower not in _SIDECAR_HEADERS and lower not in named:
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
