"""Active checks: whether somebody listens where endpoints are.

A connection is opened to each address every second and kept until the next. When the other side closes it, and when a
request could not reach its endpoint, all addresses are probed at once: what took one away may have taken others. So the
router mostly knows of a gateway that ended before a request is lost there. It costs a gateway next to nothing. What
answers wrongly is found by the responses (`health`).

Until that probe has an answer the endpoints of a connection that was closed are doubted. The kernel of a gateway that
ends may still take a connection after the gateway closed the others, so one probe can succeed there; the connection is
closed again when the process is gone. A peer that closes every connection and answers each probe has a short patience:
its closing says nothing after the third time, until it keeps a connection for as long as it is held.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from modelplane.router.catalog import FleetEndpoint, ServiceCatalog

INTERVAL_S: Final = 1.0
TIMEOUT_S: Final = 1.0
_LEAST_S: Final = 0.02
"""Between two rounds, however many requests fail."""
_MOST_AT_ONCE: Final = 64
_FALSE_ALARMS: Final = 3
_Address = tuple[str, int]


class _HeldConnection(asyncio.Protocol):
    """Says when the other side closes it."""

    def __init__(self, on_lost: "Callable[[_HeldConnection], object]") -> None:
        self._on_lost = on_lost
        self._transport: asyncio.BaseTransport | None = None
        self._is_released = False
        self.is_lost = False
        """Whether the other side closed it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, _why: Exception | None) -> None:
        if not self._is_released:
            self.is_lost = True
            self._on_lost(self)

    def close(self) -> None:
        """Without a word: it is not lost."""
        self._is_released = True
        if self._transport is not None:
            self._transport.close()


class Prober:
    """Probes the endpoints of a catalog between `start` and `stop`."""

    def __init__(self, catalog: ServiceCatalog, clock: Callable[[], float], interval_s: float = INTERVAL_S) -> None:
        self._catalog = catalog
        self._clock = clock
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._held: dict[_Address, _HeldConnection] = {}
        self._closed: Counter[_Address] = Counter()
        """How often in a row an address closed a connection, and took the next one."""
        self._at: Mapping[_Address, Sequence[FleetEndpoint]] = {}
        """The endpoints of each address, as last probed."""

    def soon(self) -> None:
        """Probe now, and not at the end of the interval."""
        self._wanted.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="probe endpoints")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for address in list(self._held):
            self._hold(address, None)

    async def probe_all(self) -> None:
        """Every address once. An endpoint of several answers where one of them does."""
        by_places: dict[tuple[_Address, ...], list[FleetEndpoint]] = {}
        for endpoint in self._catalog.endpoints.values():
            places = tuple((address, endpoint.plan.port) for address in endpoint.plan.targets)
            if endpoint.plan.ready and endpoint.plan.port and places:
                by_places.setdefault(places, []).append(endpoint)
        self._at = _by_address(by_places)
        for gone in self._held.keys() - self._at.keys():
            self._hold(gone, None)
        for gone in self._closed.keys() - self._at.keys():
            del self._closed[gone]
        limit = asyncio.Semaphore(_MOST_AT_ONCE)
        await asyncio.gather(*(self._probe(places, found, limit) for places, found in by_places.items()))

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.probe_all()
            await asyncio.sleep(_LEAST_S)

    async def _probe(self, places: tuple[_Address, ...], found: list[FleetEndpoint], limit: asyncio.Semaphore) -> None:
        opened = await asyncio.gather(*(self._open(address, limit) for address in places))
        for endpoint in found:
            endpoint.health.probed(self._clock(), answers=any(opened))
        for address, held in zip(places, opened, strict=True):
            if held is not None and held.is_lost:
                self._doubt(address)

    def _hold(self, address: _Address, opened: _HeldConnection | None) -> None:
        before = self._held.pop(address, None)
        if before is not None:
            before.close()
        if before is not None or opened is None:
            self._closed.pop(address, None)
        if opened is not None and not opened.is_lost:
            self._held[address] = opened

    def _lost(self, address: _Address, lost: _HeldConnection) -> None:
        """The other side closed a connection."""
        if self._held.get(address) is lost:
            del self._held[address]
        self._closed[address] += 1
        self._doubt(address)
        if self._is_alarming(address):
            self.soon()

    def _doubt(self, address: _Address) -> None:
        for endpoint in self._at.get(address, ()) if self._is_alarming(address) else ():
            endpoint.health.doubted(self._clock())

    def _is_alarming(self, address: _Address) -> bool:
        return self._closed[address] <= _FALSE_ALARMS

    async def _open(self, address: _Address, limit: asyncio.Semaphore) -> _HeldConnection | None:
        lost, opened = partial(self._lost, address), None
        with suppress(OSError, TimeoutError):
            async with limit, asyncio.timeout(TIMEOUT_S):
                loop = asyncio.get_running_loop()
                _, opened = await loop.create_connection(lambda: _HeldConnection(lost), *address)
        self._hold(address, opened)
        return opened


def _by_address(
    by_places: Mapping[tuple[_Address, ...], Sequence[FleetEndpoint]],
) -> dict[_Address, list[FleetEndpoint]]:
    """Endpoints of several addresses answer at the others: a closed connection says nothing of them."""
    found: dict[_Address, list[FleetEndpoint]] = {}
    for places, endpoints in by_places.items():
        for place in places:
            found.setdefault(place, []).extend(endpoints if len(places) == 1 else ())
    return found
