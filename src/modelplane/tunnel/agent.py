"""The agent: dials the hub, and carries its requests to the API server of the agent's own cluster.

It answers with its own ServiceAccount. Credentials and identities that a request brings are removed: who sends through
the tunnel has the agent's rights, and no others.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.tunnel.frames import (
    MAX_MESSAGE,
    MAX_STREAMS,
    TunnelError,
    TunnelFrame,
    TunnelRequest,
    TunnelResponse,
    decode_frame,
    encode_frame,
    end_to_end,
)
from modelplane.tunnel.streams import TunnelStream, TunnelStreams

_log = logging.getLogger(__name__)
_PING_S = 15.0
_CONNECT_S = 10.0
_RETRY_MOST_S = 30.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REMOVED = ("authorization", "impersonate-", "x-remote-", "x-forwarded-", "cookie", "accept-encoding")
"""By which a request would speak as somebody else. What is compressed would hold up a watch."""


class AgentApi(msgspec.Struct, frozen=True):
    """The API server of the agent's own cluster."""

    server: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Read each time: the kubelet rotates the token."""
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}

    def session(self) -> aiohttp.ClientSession:
        context = ssl.create_default_context(cafile=self.ca_file) if self.server.startswith("https") else None
        connector = aiohttp.TCPConnector(ssl=context or True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        return aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )


Connect = Callable[[], ssl.SSLContext]


class ClusterAgent:
    """One connection at a time, and a new one when it ends."""

    def __init__(self, hub: str, api: AgentApi, context: Connect, *, retry_s: float = 1.0) -> None:
        """`context` gives the TLS settings with the certificate that holds now."""
        self._hub = hub
        self._api = api
        self._context = context
        self._retry_s = retry_s
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. Pauses grow to half a minute and are spread, so that a hub that starts is not run over."""
        pause_s = self._retry_s
        async with self._api.session() as api:
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    await self._connect(api)
                except (aiohttp.ClientError, OSError, TimeoutError, TunnelError) as error:
                    extra = because(LogReason.HUB_UNREACHABLE, hub=self._hub)
                    _log.warning("the hub is not reached: %s", error, extra=extra)
                if asyncio.get_running_loop().time() - began > _RETRY_MOST_S:
                    pause_s = self._retry_s
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311  a spread, no secret
                pause_s = min(pause_s * 2, _RETRY_MOST_S)

    async def _connect(self, api: aiohttp.ClientSession) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context())
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.ws_connect(f"{self._hub}/v1/tunnel", heartbeat=_PING_S, max_msg_size=MAX_MESSAGE) as socket,
        ):
            _log.info("connected", extra=because(LogReason.AGENT_CONNECTED, hub=self._hub))
            self.connected.set()
            try:
                await AgentConnection(socket, api, self._api).run()
            finally:
                self.connected.clear()
        _log.info("disconnected", extra=because(LogReason.AGENT_DISCONNECTED, hub=self._hub))


class AgentConnection:
    """The requests that come through one connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: aiohttp.ClientSession, api: AgentApi) -> None:
        self._socket = socket
        self._session = session
        self._api = api
        self._streams = TunnelStreams(self._send, most=MAX_STREAMS)
        self._tasks: dict[TunnelStream, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    raise TunnelError(f"a message of type {message.type.name}")
                self._accept(decode_frame(message.data))
        finally:
            self._streams.fail_all("the hub is gone")
            for task in tuple(self._tasks.values()):
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _accept(self, frame: TunnelFrame) -> None:
        stream = self._streams.accept(frame)
        if stream is not None:
            task = asyncio.create_task(self._serve(stream))
            self._tasks[stream] = task
            task.add_done_callback(lambda _: self._forget(stream))
            return
        for known, task in tuple(self._tasks.items()):
            if known.number == frame.stream and known.failure:
                task.cancel()  # a watch without events would go on for ever

    def _forget(self, stream: TunnelStream) -> None:
        self._tasks.pop(stream, None)
        self._streams.close(stream)

    async def _send(self, frame: TunnelFrame) -> None:
        if self._socket.closed:
            raise TunnelError("the hub is gone")
        try:
            await self._socket.send_bytes(encode_frame(frame))
        except ConnectionError as error:
            raise TunnelError("the hub is gone") from error

    async def _serve(self, stream: TunnelStream) -> None:
        answered = False
        try:
            head = msgspec.json.decode(await stream.head(), type=TunnelRequest)
            async with self._request(head, stream) as response:
                kept = end_to_end(response.headers.items())
                await stream.send_head(msgspec.json.encode(TunnelResponse(response.status, kept)))
                answered = True
                async for part in response.content.iter_any():
                    await stream.send(part)
            await stream.end()
        except (aiohttp.ClientError, OSError, TimeoutError, TunnelError, msgspec.MsgspecError, ValueError) as error:
            with suppress(TunnelError):
                if answered or stream.failure:
                    await stream.reset(str(error))
                else:
                    await _refuse(stream, str(error))

    def _request(self, head: TunnelRequest, stream: TunnelStream) -> "aiohttp.client._RequestContextManager":
        if head.method not in _METHODS or not head.path.startswith("/"):
            raise TunnelError(f"{head.method[:16]} {head.path[:64]} is no request to an API server")
        kept = end_to_end(head.headers)
        headers = [(name, text) for name, text in kept if not name.lower().startswith(_REMOVED)]
        return self._session.request(
            head.method,
            URL(self._api.server + head.path, encoded=True),
            headers=[*headers, ("Accept-Encoding", "identity"), *self._api.headers().items()],
            data=_body(head, stream),
            allow_redirects=False,
        )


def _body(head: TunnelRequest, stream: TunnelStream) -> AsyncIterator[bytes] | None:
    sizes = [text for name, text in head.headers if name.lower() == "content-length"]
    if head.method in {"GET", "HEAD"} or sizes == ["0"] or (head.method == "DELETE" and not sizes):
        return None
    return stream.chunks()


async def _refuse(stream: TunnelStream, message: str) -> None:
    """In the place of an API server that could not be reached."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 502}
    content = msgspec.json.encode({**body, "reason": "BadGateway", "message": f"the agent: {message}"})
    await stream.send_head(msgspec.json.encode(TunnelResponse(502, (("Content-Type", "application/json"),))))
    await stream.send(content)
    await stream.end()
