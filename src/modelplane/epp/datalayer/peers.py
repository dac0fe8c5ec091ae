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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Final

import msgspec

from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.producers.matches import PrefixMatch

_LOG = logging.getLogger(__name__)
SYNC_S: Final = 0.01
SILENT_S: Final = 3.0
_ALIVE_S: Final = 1.0
_GREETING: Final = 8
_LENGTH: Final = 4
_MOST_FRAME: Final = 8 << 20
_MOST_UNSENT: Final = 1 << 20
_MOST_PROMPTS: Final = 1_000
"""Kept between two messages: a picker that sends more prompts than that in `SYNC_S` shares the first of them."""

PeerAddress = tuple[str, int]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
Load = tuple[int, int]
"""Requests and tokens in flight."""


class SentPrompt(msgspec.Struct, frozen=True, array_like=True):
    endpoint: str
    block_tokens: Annotated[int, msgspec.Meta(gt=0)]
    chains: tuple[tuple[_Natural, ...], ...]
    lengths: tuple[_Natural, ...]


class PeerUpdate(msgspec.Struct, frozen=True, array_like=True):
    loads: dict[str, Load] = {}
    """What is in flight on endpoints, by their names: of all in the first message, then of those that changed."""
    prompts: tuple[SentPrompt, ...] = ()


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
        self._source, self._settings = source, peers
        self._identity = secrets.token_bytes(_GREETING)
        self._shared = SharedLoads()
        self._producer: ApproxPrefixProducer | None = None
        self._prompts: list[SentPrompt] = []
        self._links: dict[PeerAddress, _Link] = {}
        self._found: set[str] = set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def peers(self) -> int:
        """Other pickers that this one has updates of."""
        return self._shared.peers

    def share_loads(self, *, shared: bool) -> None:
        """Whether this picker sends what it has in flight, and counts what others have."""
        self._shared.switch(on=shared)

    def share_prompts(self, producer: ApproxPrefixProducer | None) -> None:
        """Of this producer, instead of the one before."""
        if self._producer is not None:
            self._producer.on_record = None
        self._producer = producer
        if producer is not None:
            producer.on_record = self._sent

    async def start(self) -> None:
        self._source.on_change(self._shared.follow)
        self._shared.follow(self._source.current)
        settings = self._settings
        self._server = await asyncio.start_server(self._accept, settings.host or None, settings.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = [asyncio.create_task(self._find_peers()), asyncio.create_task(self._publish())]

    async def stop(self) -> None:
        self.share_prompts(None)
        for task in (*self._tasks, *self._readers):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._readers, return_exceptions=True)
        for link in self._links.values():
            await link.close()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _sent(self, endpoints: Iterable[Endpoint], match: PrefixMatch) -> None:
        if self._links and len(self._prompts) < _MOST_PROMPTS:
            chains = tuple(tuple(chain) for chain in match.chains)
            self._prompts += [
                SentPrompt(endpoint.name, match.block_size, chains, tuple(match.lengths)) for endpoint in endpoints
            ]

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
        loop, published, last = asyncio.get_running_loop(), dict[str, Load](), 0.0
        while True:
            await asyncio.sleep(SYNC_S)
            own = self._shared.own(self._source.current)
            changed = {name: load for name, load in own.items() if published.get(name, (0, 0)) != load}
            changed |= {name: (0, 0) for name in published if name not in own}
            update = PeerUpdate(changed, tuple(self._prompts))
            self._prompts.clear()
            published = own
            is_due = bool(changed or update.prompts) or loop.time() - last >= _ALIVE_S
            for link in self._links.values():
                link.send(PeerUpdate(own, update.prompts) if link.is_fresh else update if is_due else None)
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
                update = await asyncio.wait_for(_next_update(reader), SILENT_S)
                self._shared.receive(peer, update.loads)
                for prompt in update.prompts:
                    self._learn(prompt)
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError) as end:
            # A picker that called itself ends before it says anything.
            if self._shared.knows(peer):
                _LOG.info("a peer ended: %s", type(end).__name__)
        finally:
            self._shared.forget(peer)

    def _learn(self, prompt: SentPrompt) -> None:
        endpoint = self._shared.endpoint(prompt.endpoint)
        if endpoint is not None and self._producer is not None and len(prompt.chains) == len(prompt.lengths):
            self._producer.index.record_chains(endpoint, prompt.block_tokens, prompt.chains, prompt.lengths)


class SharedLoads:
    """What other pickers have in flight, added to the counts of the endpoints."""

    def __init__(self) -> None:
        self._received: dict[object, dict[str, Load]] = {}
        self._added: dict[Endpoint, Load] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._is_on = True

    @property
    def peers(self) -> int:
        return len(self._received)

    def switch(self, *, on: bool) -> None:
        """Off, endpoints have this picker's own counts, and it says nothing of them."""
        self._is_on = on
        self._add(self._endpoints)

    def endpoint(self, name: str) -> Endpoint | None:
        return self._endpoints.get(name)

    def knows(self, peer: object) -> bool:
        return peer in self._received

    def own(self, endpoints: Sequence[Endpoint]) -> dict[str, Load]:
        """What this picker has in flight itself, where there is something."""
        found: dict[str, Load] = {}
        for endpoint in endpoints if self._is_on else ():
            requests, tokens = self._added.get(endpoint, (0, 0))
            own = endpoint.requests_in_flight - requests, endpoint.tokens_in_flight - tokens
            if own != (0, 0):
                found[endpoint.name] = own
        return found

    def follow(self, endpoints: Sequence[Endpoint]) -> None:
        """The pool is these. An endpoint that is new may be one of which a peer spoke before."""
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        kept = set(endpoints)
        self._added = {endpoint: load for endpoint, load in self._added.items() if endpoint in kept}
        self._add(self._endpoints)

    def receive(self, peer: object, loads: dict[str, Load]) -> None:
        """Kept while it is off, too: a peer repeats nothing that did not change."""
        held = self._received.setdefault(peer, {})
        held |= loads
        self._add(loads)

    def forget(self, peer: object) -> None:
        self._add(self._received.pop(peer, {}))

    def _add(self, names: Iterable[str]) -> None:
        """Brings these endpoints to what all peers have in flight there."""
        for name in names:
            endpoint = self._endpoints.get(name)
            if endpoint is None:
                continue
            received = [held.get(name, (0, 0)) for held in self._received.values()] if self._is_on else []
            total = sum(load[0] for load in received), sum(load[1] for load in received)
            before = self._added.get(endpoint, (0, 0))
            if total != before:
                self._added[endpoint] = total
                endpoint.requests_in_flight += total[0] - before[0]
                endpoint.tokens_in_flight += total[1] - before[1]


class _Link:
    """The connection to one peer, for updates."""

    def __init__(self, address: PeerAddress) -> None:
        self._address = address
        self._writer: asyncio.StreamWriter | None = None
        self._is_self = False
        self.is_fresh = True
        """Whether it needs the whole state."""

    @property
    def is_open(self) -> bool:
        return self._is_self or (self._writer is not None and not self._writer.is_closing())

    async def connect(self, identity: bytes) -> None:
        if self.is_open:
            return
        with suppress(OSError, EOFError, TimeoutError):
            reader, writer = await asyncio.wait_for(asyncio.open_connection(*self._address), SILENT_S)
            try:
                greeting = await asyncio.wait_for(reader.readexactly(_GREETING), SILENT_S)
            except BaseException:
                writer.close()
                raise
            self._is_self = greeting == identity
            if self._is_self:
                await _close(writer)
            else:
                self._writer, self.is_fresh = writer, True

    def send(self, update: PeerUpdate | None) -> None:
        """One that does not read gets the whole state when it does again."""
        writer = self._writer
        if update is None or writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > _MOST_UNSENT:
            self.is_fresh = True
            return
        frame = _encode(update)
        writer.write(len(frame).to_bytes(_LENGTH) + frame)
        self.is_fresh = False

    async def close(self) -> None:
        if self._writer is not None:
            await _close(self._writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _next_update(reader: asyncio.StreamReader) -> PeerUpdate:
    length = int.from_bytes(await reader.readexactly(_LENGTH))
    if length > _MOST_FRAME:
        raise msgspec.DecodeError(f"a frame of {length} bytes")
    return _decoder.decode(await reader.readexactly(length))
