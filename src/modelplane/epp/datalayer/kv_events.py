"""Subscribes to the KV cache events of engines, over ZeroMQ, and feeds them to the precise index.

Each endpoint has its own socket, so the source of an event is certain. Engines number their batches and keep the last
ones for replay:

    at the start    the picker requests a replay of what the engine keeps, so that a new picker learns the cache
    a gap           the picker requests the missing batches; if there are none, the index drops the endpoint's blocks
                    and continues with the next batch
    numbers fall    the engine restarted: the index drops its blocks and requests a replay

With `discoverPods: false` engines connect to one socket of the picker, and the topic of a message, `kv@<who>@<model>`,
names the source: an address, a host (whose ranks have ports in their order) or a pod's name. There is no replay then,
so after a gap an engine's cache is learned from the start.

An engine with several data-parallel ranks, each on its own serving port, publishes on as many ports, counted from the
first one. The picker cannot distinguish ranks that share a serving port, and subscribes to the first only.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.datalayer.endpoint_logs import about_endpoint
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.kv_events import KvEventBatch, KvEventError, read_batch, read_frames
from modelplane.epp.scheduling.producers.precise import BatchOutcome
from modelplane.reconcile.log_reasons import LogReason

if TYPE_CHECKING:
    from zmq.asyncio import Context, Socket

_log = logging.getLogger(__name__)

_SEQUENCE_BYTES = 8
_REPLY_FRAMES = 3
_MOST_HELD = 100_000
"""Messages that wait in a socket; more are dropped, and show as a gap."""


class KvIndex(Protocol):
    """The part of the precise index that is fed."""

    def expected(self, endpoint: Endpoint) -> int | None: ...
    def apply(self, endpoint: Endpoint, batch: KvEventBatch) -> BatchOutcome: ...
    def reset(self, endpoint: Endpoint) -> None: ...


class KvSettings(msgspec.Struct, frozen=True):
    """The addresses of engines' events, and the time limit of a replay."""

    port: int = 5557
    replay_port: int = 5558
    """0: no replay is requested."""
    topic: str = "kv@"
    """The prefix of topics; empty: any."""
    replay_idle_s: float = 2.0
    replay_most_s: float = 120.0
    replays_at_once: int = 8
    cooldown_s: float = 30.0
    """Between two replays of one endpoint."""
    bind: str = ""
    """The address that engines connect to; empty: the picker connects to each engine."""


class _PodDiscovery(msgspec.Struct, frozen=True):
    socket_port: int = msgspec.field(name="socketPort", default=5557)
    replay_port: int = msgspec.field(name="replaySocketPort", default=0)


class _Config(msgspec.Struct, frozen=True):
    topic: str = msgspec.field(name="topicFilter", default="kv@")
    pods: _PodDiscovery = msgspec.field(name="podDiscoveryConfig", default=_PodDiscovery())
    discovers: bool = msgspec.field(name="discoverPods", default=True)
    bind: str = msgspec.field(name="zmqEndpoint", default="tcp://*:5557")


def settings_from(config: Mapping[str, object]) -> KvSettings:
    """Reads the ecosystem's `kvEventsConfig`. Fields about its concurrency are ignored."""
    read = msgspec.convert(dict(config), _Config)
    if not read.discovers:
        return KvSettings(topic=read.topic, bind=read.bind)
    return KvSettings(read.pods.socket_port, read.pods.replay_port, read.topic)


class KvCounts(msgspec.Struct):
    """Since the start."""

    batches: int = 0
    gaps: int = 0
    replayed: int = 0
    """Batches received by replay."""
    started_over: int = 0
    """How often an endpoint was reset because batches were lost or it restarted."""
    malformed: int = 0
    unknown: int = 0
    """Batches whose topic names no endpoint of the pool."""


class KvTarget(msgspec.Struct, frozen=True):
    """Addresses in ZeroMQ's form; no replay address: no replay."""

    events: str
    replay: str = ""


def targets_of(endpoints: Iterable[Endpoint], settings: KvSettings) -> dict[int, KvTarget]:
    """The address of each endpoint's events, by the identity of the endpoint."""
    by_host: dict[str, list[tuple[int, Endpoint]]] = {}
    for endpoint in endpoints:
        host, _, port = endpoint.address.rpartition(":")
        if host and port.isdecimal():
            by_host.setdefault(host, []).append((int(port), endpoint))
    found = {}
    for host, ranks in by_host.items():
        for rank, (_, endpoint) in enumerate(sorted(ranks, key=lambda one: one[0])):
            replay = f"tcp://{host}:{settings.replay_port + rank}" if settings.replay_port else ""
            found[id(endpoint)] = KvTarget(f"tcp://{host}:{settings.port + rank}", replay)
    return found


def senders_of(endpoints: Iterable[Endpoint]) -> dict[str, tuple[Endpoint, ...]]:
    """The endpoints that a topic may mean by a name, in the order of their ports."""
    found: dict[str, list[tuple[int, Endpoint]]] = {}
    for endpoint in endpoints:
        host, _, port = endpoint.address.rpartition(":")
        pod = endpoint.name.partition("/")[2] or endpoint.name
        for name in {endpoint.address, host, host.strip("[]"), endpoint.name, pod, pod.partition(":")[0]}:
            found.setdefault(name, []).append((int(port) if port.isdecimal() else 0, endpoint))
    return {name: tuple(each for _, each in sorted(some, key=lambda one: one[0])) for name, some in found.items()}


class KvEventSubscriber:
    """Subscribes to the endpoints that it is given, between `start` and `stop`. One event loop."""

    def __init__(
        self,
        index: KvIndex,
        settings: KvSettings = KvSettings(),  # noqa: B008 - frozen
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._clock = clock
        self._context: Context | None = None
        self._replays = asyncio.Semaphore(settings.replays_at_once)
        self._endpoints: Sequence[Endpoint] = ()
        self._tasks: dict[int, tuple[KvTarget, asyncio.Task[None]]] = {}
        self._shared: asyncio.Task[None] | None = None
        self._senders: Mapping[str, tuple[Endpoint, ...]] = {}
        self._subscriptions: dict[int, _Subscription] = {}
        self.counts = KvCounts()

    async def start(self) -> None:
        """Needs pyzmq, the extra `kv-events`."""
        try:
            from zmq.asyncio import Context
        except ModuleNotFoundError as missing:
            raise InputError("no ZeroMQ is installed for KV events: install modelplane[kv-events]") from missing
        self._context = Context()
        if self._settings.bind:
            self._shared = asyncio.create_task(self._receive_all(self._bound(self._context)))
        self.watch(self._endpoints)

    async def stop(self) -> None:
        tasks = [task for _, task in self._tasks.values()]
        if self._shared is not None:
            tasks.append(self._shared)
            self._shared = None
        self._tasks = {}
        await cancel_all(tasks)
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def follow(self, source: EndpointSource) -> None:
        """Subscribe to the current and future endpoints of a source."""
        self.watch(source.current)
        source.on_change(self.watch)

    def feed(self, index: KvIndex) -> None:
        """Feed another index from here on, starting with a replay."""
        self._index = index
        for _, task in self._tasks.values():
            task.cancel()
        self._tasks = {}
        self._subscriptions = {}
        self.watch(self._endpoints)

    def watch(self, endpoints: Sequence[Endpoint]) -> None:
        """These, and no others: a callback of `EndpointSource.on_change`."""
        self._endpoints = endpoints
        if self._context is None:
            return
        if self._settings.bind:
            self._senders = senders_of(endpoints)
            kept, nowhere = self._subscriptions, KvTarget("")
            self._subscriptions = {
                id(endpoint): kept.get(id(endpoint)) or _Subscription(self, self._context, endpoint, nowhere)
                for endpoint in endpoints
            }
            return
        targets = targets_of(endpoints, self._settings)
        for key in [key for key, (target, _) in self._tasks.items() if targets.get(key) != target]:
            self._tasks.pop(key)[1].cancel()
        for endpoint in endpoints:
            target = targets.get(id(endpoint))
            if target is not None and id(endpoint) not in self._tasks:
                subscription = _Subscription(self, self._context, endpoint, target)
                self._tasks[id(endpoint)] = (target, asyncio.create_task(subscription.run()))

    def _bound(self, context: "Context") -> "Socket":
        import zmq

        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.RCVHWM, _MOST_HELD)
        socket.setsockopt(zmq.IPV6, 1)
        socket.setsockopt_string(zmq.SUBSCRIBE, self._settings.topic)
        try:
            socket.bind(self._settings.bind)
        except zmq.ZMQError as error:
            socket.close(linger=0)
            raise InputError(f"kvEventsConfig.zmqEndpoint: {self._settings.bind}: {error.strerror}") from error
        return socket

    async def _receive_all(self, socket: "Socket") -> None:
        try:
            while True:
                frames = await socket.recv_multipart()
                subscription = self._sender(frames)
                if subscription is None:
                    self.counts.unknown += 1
                else:
                    await subscription.on_message(frames)
        finally:
            socket.close(linger=0)

    def _sender(self, frames: Sequence[bytes]) -> "_Subscription | None":
        """With several ranks behind one name the batch names its rank."""
        _, _, rest = frames[0].decode(errors="replace").partition("@")
        found = self._senders.get(rest.partition("@")[0], ())
        rank = 0
        if len(found) > 1:
            with suppress(KvEventError):
                rank = read_frames(frames)[1].rank or 0
        return self._subscriptions.get(id(found[rank])) if rank < len(found) else None

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()


class _Subscription:
    """One endpoint."""

    def __init__(self, listener: KvEventSubscriber, context: "Context", endpoint: Endpoint, target: KvTarget) -> None:
        self._listener = listener
        self._index = listener._index  # noqa: SLF001 - a part of the listener
        self._settings = listener._settings  # noqa: SLF001 - as above
        self._counts = listener.counts
        self._context = context
        self._endpoint = endpoint
        self._target = target
        self._replayed_to = -1
        """Batches up to this one came by replay and may be published again; -1: none is expected."""
        self._requested_at_s = float("-inf")

    async def run(self) -> None:
        import zmq

        async with _socket(self._context, zmq.SUB) as socket:
            socket.setsockopt(zmq.RCVHWM, _MOST_HELD)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5000)
            socket.setsockopt_string(zmq.SUBSCRIBE, self._settings.topic)
            socket.connect(self._target.events)
            await self._replay(0)
            while True:
                await self.on_message(await socket.recv_multipart())

    def _note_malformed(self, broken: KvEventError) -> None:
        self._counts.malformed += 1
        extra = about_endpoint(LogReason.KV_EVENTS_MALFORMED, self._endpoint)
        _log.warning("a KV event cannot be read: %s", broken, extra=extra)

    async def on_message(self, frames: Sequence[bytes]) -> None:
        try:
            _, batch = read_frames(frames)
        except KvEventError as broken:
            self._note_malformed(broken)
            return
        self._counts.batches += 1
        applied = self._index.apply(self._endpoint, batch)
        if applied is BatchOutcome.GAP:
            self._counts.gaps += 1
            await self._replay(self._index.expected(self._endpoint) or 0)
            if self._index.apply(self._endpoint, batch) is BatchOutcome.GAP:
                self._reset()
                self._index.apply(self._endpoint, batch)
        elif applied is BatchOutcome.REPEATED and batch.sequence > self._replayed_to:
            self._reset()
            await self._replay(0)
            if batch.sequence > self._replayed_to:
                self._index.apply(self._endpoint, batch)
        if batch.sequence >= self._replayed_to:
            self._replayed_to = -1

    def _reset(self) -> None:
        self._counts.started_over += 1
        self._replayed_to = -1
        self._index.reset(self._endpoint)

    async def _replay(self, first: int) -> None:
        """Request the batches from this one on, and apply them."""
        now = self._listener._now()  # noqa: SLF001 - as above
        if not self._target.replay or now - self._requested_at_s < self._settings.cooldown_s:
            return
        self._requested_at_s = now
        with suppress(TimeoutError):
            async with self._listener._replays, asyncio.timeout(self._settings.replay_most_s):  # noqa: SLF001 - as above
                await self._request_replay(first)

    async def _request_replay(self, first: int) -> None:
        import zmq

        async with _socket(self._context, zmq.DEALER) as socket:
            socket.connect(self._target.replay)
            await socket.send_multipart([b"", first.to_bytes(_SEQUENCE_BYTES, "big")])
            while True:
                async with asyncio.timeout(self._settings.replay_idle_s):
                    frames = await socket.recv_multipart()
                if not self._take(frames):
                    return

    def _take(self, frames: Sequence[bytes]) -> bool:
        """Apply one batch of a replay; False after the last."""
        if len(frames) < _REPLY_FRAMES or not frames[-1]:
            return False
        sequence = int.from_bytes(frames[-2], "big")
        try:
            batch = read_batch(frames[-1], sequence)
        except KvEventError as broken:
            self._note_malformed(broken)
            return True
        if self._index.apply(self._endpoint, batch) is BatchOutcome.APPLIED:
            self._counts.replayed += 1
            self._replayed_to = max(self._replayed_to, sequence)
        return True


@asynccontextmanager
async def _socket(context: "Context", kind: int) -> AsyncIterator["Socket"]:
    import zmq

    socket = context.socket(kind)
    try:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, 1)
        yield socket
    finally:
        socket.close(linger=0)
