"""Active checks: whether somebody listens where endpoints are.

A connection is opened to each address every second and closed again. It costs a cluster's gateway next to nothing, and
it finds a dead one without a request being lost. What answers wrongly is found by the responses (`health`).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from modelplane.router.catalog import FleetEndpoint, ServiceCatalog

INTERVAL_S: Final = 1.0
TIMEOUT_S: Final = 1.0
_MOST_AT_ONCE: Final = 64


class Prober:
    """Probes the endpoints of a catalog between `start` and `stop`."""

    def __init__(self, catalog: ServiceCatalog, clock: Callable[[], float], interval_s: float = INTERVAL_S) -> None:
        self._catalog = catalog
        self._clock = clock
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="probe endpoints")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def probe_all(self) -> None:
        """Every address once."""
        by_address: dict[tuple[str, int], list[FleetEndpoint]] = {}
        for endpoint in self._catalog.endpoints.values():
            if endpoint.plan.ready and endpoint.plan.port:
                by_address.setdefault((endpoint.plan.address, endpoint.plan.port), []).append(endpoint)
        limit = asyncio.Semaphore(_MOST_AT_ONCE)
        await asyncio.gather(*(self._probe(address, found, limit) for address, found in by_address.items()))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.probe_all()

    async def _probe(self, address: tuple[str, int], found: list[FleetEndpoint], limit: asyncio.Semaphore) -> None:
        async with limit:
            answers = await _listens(*address)
        for endpoint in found:
            endpoint.health.probed(self._clock(), answers=answers)


async def _listens(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
