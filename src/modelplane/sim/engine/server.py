"""The listening half of an engine.

Built on aiohttp's low-level server: no application, no router, no middleware, so that hundreds of engines cost little
more than their sockets. A client that leaves cancels its request and frees its place in the batch.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from modelplane.sim.engine.config import EngineConfig
from modelplane.sim.engine.engine_loop import EngineClock, LoopClock, pause
from modelplane.sim.engine.faults import Faults
from modelplane.sim.engine.kv_events import Listener
from modelplane.sim.engine.kv_transfer import EngineRegistry
from modelplane.sim.engine.service import EngineService
from modelplane.sim.engine.sidecar import Prefillers, SimulatedSidecar

# How long a cancelled handler has to end; it waits for nothing, so this only bounds a defect.
_UNWIND_S = 1.0
_POLL_S = 0.02

RequestTracer = Callable[[Mapping[str, str], float, int], None]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an engine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SimulatedEngine:
    """One simulated serving pod. `start` returns once it accepts connections, `stop` once nothing of it is left."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: EngineClock | None = None,
        exchange: EngineRegistry | None = None,
        crashed: Callable[[], None] = lambda: None,
        prefillers: Prefillers | None = None,
        traced: RequestTracer | None = None,
    ) -> None:
        """Make an engine that does not listen yet.

        exchange: shared by engines that copy caches to each other. crashed: called when a fault ends it.
        prefillers: puts a routing sidecar before it, which finds prefill engines by this.
        traced: called with the headers, the start and the status of each request that ended.
        """
        self.config = config
        self._clock = clock or LoopClock()
        self._crashed = crashed
        self._traced = traced
        self._sidecar = SimulatedSidecar(prefillers) if prefillers is not None else None
        self._service = EngineService(config, self._clock, exchange=exchange, crash=self._crash, sidecar=self._sidecar)
        self._in_flight: set[asyncio.Task[object]] = set()
        self._connections: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int = 0) -> Address:
        """Listen on `host`; port 0 takes any free one."""
        if self._listener is not None:
            raise RuntimeError(f"engine {self.config.served_by} is already started")
        if self.config.startup_s:
            await pause(self._clock, self.config.startup_s / self.config.speed)
        self._connections = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(self._connections, host, port)
        bound = self._listener.sockets[0].getsockname()
        self._service.core.open(bound[0], bound[1])
        return Address(bound[0], bound[1])

    def set_faults(self, faults: Faults) -> None:
        """Set the injected faults."""
        self._service.core.set_faults(faults)

    def on_kv_events(self, listener: Listener) -> Callable[[], None]:
        """Call it with every batch of KV events, if it publishes any, until the returned function is called."""
        return self._service.core.log.listen(listener)

    def _crash(self) -> None:
        """End as a killed process does: nothing is listening and every connection is reset."""
        if self._listener is None or self._connections is None:
            return
        self._listener.close()
        for connection in self._connections.connections:
            if connection.transport is not None:
                connection.transport.abort()
        self._service.core.close()
        self._crashed()

    async def stop(self, *, grace_s: float = 5.0, linger_s: float = 0.0) -> None:
        """Refuse new connections, wait for responses in flight up to `grace_s`, then close the rest.

        A connection that this side closes may have a request in flight, which would be lost and must not be retried. So
        clients have `linger_s` to close theirs, and requests until then are served.
        """
        listener, connections = self._listener, self._connections
        if listener is None or connections is None:
            return
        self._listener = self._connections = None
        listener.close()
        await _until_left(connections, linger_s)
        # One turn of the loop, so that requests already read from their sockets count as in flight.
        await asyncio.sleep(0)
        connections.pre_shutdown()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=grace_s)
        for task in self._in_flight:
            task.cancel()
        await connections.shutdown(_UNWIND_S)
        await listener.wait_closed()
        self._service.core.close()
        if self._sidecar is not None:
            await self._sidecar.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is not None:
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
        began_s, response = time.monotonic(), None
        try:
            response = await self._service.handle(request)
        finally:
            if self._traced is not None and request.method == "POST":
                self._traced(request.headers, began_s, response.status if response is not None else 0)
        return response


async def _until_left(connections: web.Server, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            while connections.connections:  # noqa: ASYNC110  aiohttp has no event for it
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return
