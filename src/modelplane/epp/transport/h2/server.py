"""The rules of `connection` over sockets: plain or TLS, with back-pressure, time limits and a graceful end."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final, cast

import msgspec

from modelplane.epp.transport.calls import NO_PORT, Methods, Settings
from modelplane.epp.transport.h2.connection import H2Connection
from modelplane.epp.transport.h2.frames import ErrorCode
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address
from modelplane.epp.transport.tls import ServerIdentity, load_identity, server_context
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

if TYPE_CHECKING:
    from modelplane.epp.transport.direct_reads import DirectReaders

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 1.0
_DEFER_S: Final = 0.05
"""Under load the timer for it fires as often as it may, and wakes the process each time for nothing."""
_MORE_THAN_AN_END: Final = 23
"""An empty frame that ends a stream and a reset after it have 22 bytes together, and no call begins with less."""
_UNWRITTEN_BYTES: Final = 4 << 20
"""In the transport's buffer, beyond which nothing more is read from the peer."""
_READ_BYTES: Final = 64 << 10
"""At once. More than 128 kB come from the kernel and go back to it each time, page by page, by most allocators."""
_read: Final = os.read
_write: Final = os.write
_now: Final = time.monotonic
"""The loop's clock, without a call through the loop."""


class H2Server:
    """A gRPC server (`GrpcServer`)."""

    def __init__(self, methods: Methods, settings: Settings, limits: H2Limits | None = None) -> None:
        base = limits or H2Limits()
        self.limits = msgspec.structs.replace(base, message_bytes=settings.message_bytes, streams=settings.streams)
        self._methods = methods
        self._settings = settings
        self._context: ssl.SSLContext | None = None
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._deferred_timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()

    async def start(self) -> int:
        settings = self._settings
        self._context = server_context(settings.identity) if settings.identity else None
        self._tick()
        if settings.port == NO_PORT:
            return NO_PORT
        self._server = await self._listen(settings.host, settings.port)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        loop, context = asyncio.get_running_loop(), self._context
        if host == ANY_ADDRESS:
            sock = listen_any_address(port)
            return await loop.create_server(lambda: _Link(self), sock=sock, ssl=context, backlog=1024)
        return await loop.create_server(lambda: _Link(self), host, port, ssl=context, backlog=1024)

    @property
    def connections(self) -> int:
        """Those that take new calls."""
        return sum(not link.is_draining for link in self._links)

    def release_connection(self) -> None:
        """One connection takes no new calls, and ends with those that it has."""
        link = next((each for each in self._links if not each.is_draining), None)
        if link is not None:
            link.drain()

    async def adopt(self, connection: socket.socket) -> None:
        """Serves a connection that another process accepted."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: _Link(self), connection, ssl=self._context)

    def renew(self, identity: ServerIdentity) -> None:
        """New connections get this certificate."""
        if self._context is not None:
            load_identity(self._context, identity)

    async def stop(self, grace_s: float) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._empty()
        for link in list(self._links):
            link.abort(ErrorCode.NO_ERROR, "stopped")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TICK_S):
                await self._empty()
        for timer in (self._ticking, self._deferred_timer):
            if timer is not None:
                timer.cancel()

    def connection(self, link: "_Link") -> H2Connection:
        now_s = asyncio.get_running_loop().time()
        return H2Connection(self._methods, self.limits, now_s=now_s, on_output=link.flush)

    def joined(self, link: "_Link") -> None:
        self._links.add(link)

    def left(self, link: "_Link") -> None:
        self._links.discard(link)
        if not self._links:
            self._gone.set()

    async def _empty(self) -> None:
        """Until the last connection is gone."""
        self._gone.clear()
        if self._links:
            await self._gone.wait()

    def defer(self, wait_s: float = _DEFER_S) -> None:
        """A link reads ends of calls with a delay: read them together, before long."""
        if self._deferred_timer is None:
            self._deferred_timer = asyncio.get_running_loop().call_later(wait_s, self._read_deferred)

    def _read_deferred(self) -> None:
        self._deferred_timer = None
        now_s = asyncio.get_running_loop().time()
        waits_s = [wait_s for link in self._links if (wait_s := link.read_deferred(now_s)) > 0.0]
        if waits_s:
            self.defer(min(waits_s))

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for link in list(self._links):
            link.tick(now_s)
        self._ticking = loop.call_later(_TICK_S, self._tick)


class _Link(asyncio.Protocol):
    """One connection and its transport."""

    def __init__(self, server: H2Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._connection: H2Connection | None = None
        self._stalled_s = float("inf")
        self.is_draining = False
        self._socket: socket.socket | None = None
        """A plain-text connection, whose reads may be deferred."""
        self._deferred = False
        self._read_s = 0.0
        """When something was read last."""
        self._direct_readers: DirectReaders | None = getattr(asyncio.get_running_loop(), "direct_readers", None)
        self._fd = -1
        """Of a plain-text connection that is read and written here, without the transport."""
        self._behind = False
        """Whether the transport may have something to write that comes first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Loops of other makers have transports of their own that do not inherit from asyncio's.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_UNWRITTEN_BYTES)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = raw if transport.get_extra_info("ssl_object") is None else None
            if self._socket is not None and self._direct_readers is not None:
                self._fd = raw.fileno()
                self._direct_readers[self._fd] = self.read
        tls = transport.get_extra_info("ssl_object")
        if isinstance(tls, ssl.SSLObject) and tls.selected_alpn_protocol() != "h2":
            transport.abort()
            return
        self._connection = self._server.connection(self)
        self._server.joined(self)
        self.flush()

    def read(self) -> bool:
        """Read what there is. False: the transport is to find out what became of the connection."""
        try:
            data = _read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        try:
            self.data_received(data)
        except Exception:  # noqa: BLE001  as transports do it: a defect ends this connection, and not the loop
            _LOG.exception("a connection failed", extra=because(LogReason.HANDLER_FAILED))
            self._end_direct()
            if self._transport is not None:
                self._transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        self._read_s = now_s = _now()
        connection.receive(data, now_s)
        self._write_output(connection, transport)
        if connection.idle:
            if not self._deferred:
                self._defer_reads()
        elif self._deferred:
            self.read_at_once()

    def flush(self) -> None:
        """Write what there is; a connection that is over is closed after it."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        self._write_output(connection, transport)

    def _write_output(self, connection: H2Connection, transport: asyncio.Transport) -> None:
        output = connection.take_output()
        if output and self._fd >= 0:
            output = self._write_direct(transport, output)
        if output and not transport.is_closing():
            self._behind = True
            transport.write(output)
        if connection.closing:
            self._end_direct()
            transport.close()

    def _write_direct(self, transport: asyncio.Transport, output: bytes) -> bytes:
        """Write to the socket. The rest is for the transport, which meets the same error."""
        if self._behind:
            self._behind = transport.get_write_buffer_size() > 0
            if self._behind:
                return output
        try:
            return output[_write(self._fd, output) :]
        except OSError:
            return output

    def _end_direct(self) -> None:
        """From here on the transport alone reads and writes."""
        if self._direct_readers is not None:
            self._direct_readers.pop(self._fd, None)
        self._fd = -1

    def _defer_reads(self) -> None:
        """Read ends of calls several at a time: to be woken for each costs more than to read it.

        The kernel wakes us once there is more than an end: a call that begins, a message, several ends.
        """
        if self._socket is not None:
            self._deferred = True
            self._server.defer()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _MORE_THAN_AN_END)

    def read_deferred(self, now_s: float) -> float:
        """Read what there is, unless something was read a moment ago: then the seconds until it is time."""
        if not self._deferred:
            return 0.0
        wait_s = self._read_s + _DEFER_S - now_s
        if wait_s <= 0.0:
            self.read_at_once()
        return wait_s

    def read_at_once(self) -> None:
        """Be woken for every byte again, from what is there already on."""
        if self._deferred and self._socket is not None:
            self._deferred = False
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def pause_writing(self) -> None:
        self._stalled_s = _now()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._stalled_s = float("inf")
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a peer that resets is as gone as one that closes
        self._end_direct()
        self._socket = None
        self._server.left(self)
        if self._connection is not None:
            self._connection.connection_lost()

    def tick(self, now_s: float) -> None:
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        # Closing waits for what was written, which a peer that reads nothing can delay for ever.
        if connection.closing and self._stalled_s > now_s:
            self._stalled_s = now_s
        if now_s - self._stalled_s > self._server.limits.stall_s:
            self._end_direct()
            transport.abort()
            return
        connection.tick(now_s)
        self.flush()

    def drain(self) -> None:
        self.is_draining = True
        self.read_at_once()
        if self._connection is not None:
            self._connection.drain()

    def abort(self, code: ErrorCode, sentence: str) -> None:
        if self._connection is not None:
            self._connection.abort(code, sentence)
