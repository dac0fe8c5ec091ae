"""Several pickers of one pool that share what they know: requests in flight, and which prompts went where.

A picker that counts only its own requests takes the endpoints that another one just filled for idle, and one that knows
only its own prompts sends a conversation away from its cache. So each picker sends the others, every `SYNC_S`, how many
requests and tokens it has in flight on each endpoint whose count changed, and the prompts that it sent, as the hashes
of their blocks. What others have in flight is added to the endpoint's own counts, and their prompts to the prefix
index: plugins need not know.

One TCP connection leads from each picker to each other one. The first message of a connection has the whole state, so
a message that is lost with its connection is made up for. What a peer said counts until its connection ends, or is
silent for `SILENT_S`. Only addresses of peers are read from.

    a frame     its length (4 bytes, big endian), and a PeerUpdate in msgpack
    a greeting  8 bytes from whoever accepts: its own identity, by which a picker knows that it called itself

Not shared: queues of flow control, rates of failures, and what the precise prefix index learns, which gets it from the
engines anyway.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.datalayer.frames import FrameTooLong, framed, read_frame
from modelplane.epp.datalayer.shared_state import SYNC_S, EncodedPrompt, Load, SentPrompt, SharedState
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
SILENT_S: Final = 3.0
_ALIVE_S: Final = 1.0
_GREETING: Final = 8
_MOST_FRAME: Final = 8 << 20
_MOST_UNSENT: Final = 1 << 20

PeerAddress = tuple[str, int]


class PeerUpdate(msgspec.Struct, frozen=True, array_like=True):
    loads: dict[str, Load] = {}
    """What is in flight on endpoints, by their names: of all in the first message, then of those that changed."""
    prompts: tuple[SentPrompt, ...] = ()


class _OutgoingUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A PeerUpdate whose prompts may be encoded already."""

    loads: dict[str, Load]
    prompts: tuple[EncodedPrompt, ...]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(PeerUpdate)


FindPeers = Callable[[], Awaitable[set[PeerAddress]]]


class PeerOptions(msgspec.Struct, frozen=True, eq=False):
    """How a picker finds the others of its pool: addresses of all, this one's among them or not."""

    find: FindPeers
    port: int = 0
    """Where this one listens; 0: chosen by the system."""
    host: str = ""
    find_s: float = 5.0
    """Between two looks for others."""


def named_peers(names: Sequence[PeerAddress]) -> FindPeers:
    """The addresses that host names resolve to, such as that of a headless Service."""

    async def find() -> set[PeerAddress]:
        loop, found = asyncio.get_running_loop(), set[PeerAddress]()
        for host, port in names:
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found |= {(str(info[4][0]), port) for info in infos}
        return found

    return find


class PeerSync:
    """A background service of a picker. Runs in its event loop."""

    def __init__(self, source: EndpointSource, peers: PeerOptions) -> None:
        self.state = SharedState(source)
        self._settings = peers
        self._identity = secrets.token_bytes(_GREETING)
        self._links: dict[PeerAddress, _Link] = {}
        self._found: set[str] = set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def peers(self) -> int:
        """Other pickers that this one has updates of."""
        return self.state.loads.peers

    def share_loads(self, *, shared: bool) -> None:
        """Whether this picker sends what it has in flight, and counts what others have."""
        self.state.loads.switch(on=shared)

    async def start(self) -> None:
        self.state.follow()
        settings = self._settings
        self._server = await asyncio.start_server(self._accept, settings.host or None, settings.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = [asyncio.create_task(self._find_peers()), asyncio.create_task(self._publish())]

    async def stop(self) -> None:
        self.state.share_prompts(None)
        for task in (*self._tasks, *self._readers):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._readers, return_exceptions=True)
        for link in self._links.values():
            await link.close()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _find_peers(self) -> None:
        """Keeps a connection to every other picker."""
        while True:
            with suppress(OSError):
                found = await self._settings.find()
                self._found = {host for host, _ in found}
                for address in self._links.keys() - found:
                    await self._links.pop(address).close()
                for address in found - self._links.keys():
                    self._links[address] = _Link(address)
            await asyncio.gather(*(link.connect(self._identity) for link in self._links.values()))
            await asyncio.sleep(self._settings.find_s)

    async def _publish(self) -> None:
        loop, last = asyncio.get_running_loop(), 0.0
        while True:
            await asyncio.sleep(SYNC_S)
            own, prompts = self.state.own_loads(), self.state.take_prompts()
            update = _OutgoingUpdate(self.state.changed_loads(own), prompts)
            is_due = bool(update.loads or prompts) or loop.time() - last >= _ALIVE_S
            frame = _encode(update) if is_due else None
            for link in self._links.values():
                link.send(_encode(_OutgoingUpdate(own, prompts)) if link.needs_all else frame)
            last = loop.time() if is_due else last

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if writer.get_extra_info("peername")[0] in self._found:
                writer.write(self._identity)
                await self._read(reader)
        finally:
            await _close(writer)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        peer = object()
        try:
            while True:
                # Where an update comes in the same moment, wait_for of Python 3.11 forgets that it was cancelled.
                async with asyncio.timeout(SILENT_S):
                    update = await _next_update(reader)
                self.state.receive(peer, update.loads, update.prompts)
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError, FrameTooLong) as end:
            # A picker that called itself ends before it says anything.
            if self.state.loads.knows(peer):
                _LOG.info("a peer ended: %s", type(end).__name__, extra=because(LogReason.PEER_ENDED))
        finally:
            self.state.loads.forget(peer)


class _Link:
    """The connection to one peer, for updates."""

    def __init__(self, address: PeerAddress) -> None:
        self._address = address
        self._writer: asyncio.StreamWriter | None = None
        self._is_self = False
        self._is_fresh = True
        """Whether it needs the whole state."""

    @property
    def is_open(self) -> bool:
        return self._is_self or (self._writer is not None and not self._writer.is_closing())

    @property
    def needs_all(self) -> bool:
        return self._is_fresh and self._writer is not None and not self._writer.is_closing()

    async def connect(self, identity: bytes) -> None:
        if self.is_open:
            return
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(SILENT_S):
                reader, writer = await asyncio.open_connection(*self._address)
            try:
                async with asyncio.timeout(SILENT_S):
                    greeting = await reader.readexactly(_GREETING)
            except BaseException:
                writer.close()
                raise
            self._is_self = greeting == identity
            if self._is_self:
                await _close(writer)
            else:
                self._writer, self._is_fresh = writer, True

    def send(self, frame: bytes | None) -> None:
        """One that does not read gets the whole state when it does again."""
        writer = self._writer
        if frame is None or writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > _MOST_UNSENT:
            self._is_fresh = True
            return
        writer.write(framed(frame))
        self._is_fresh = False

    async def close(self) -> None:
        if self._writer is not None:
            await _close(self._writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _next_update(reader: asyncio.StreamReader) -> PeerUpdate:
    return _decoder.decode(await read_frame(reader, _MOST_FRAME))
