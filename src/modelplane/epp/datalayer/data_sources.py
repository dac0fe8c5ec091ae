"""Calls the data sources of other packages, and gives endpoints the numbers that they read.

A source that fails or takes too long is called again after its interval; endpoints keep the numbers that they had.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import Final

import msgspec

from modelplane.epp.datalayer.endpoints import Endpoints, EndpointSource
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import DataSource
from modelplane.framework import PluginFault
from modelplane.framework.faults import raised

_SHORTEST_S: Final = 0.05
_TIMEOUT_S: Final = 30.0


class DataSourcePoller:
    """Calls each source between `start` and `stop`. One event loop."""

    def __init__(
        self, sources: Sequence[DataSource], on_fault: Callable[[PluginFault], None], timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._sources = sources
        self._on_fault = on_fault
        self._timeout_s = timeout_s
        self._endpoints: Endpoints = ()
        self._tasks: list[asyncio.Task[None]] = []

    def follow(self, source: EndpointSource) -> None:
        self._watch(source.current)
        source.on_change(self._watch)

    def _watch(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run(source)) for source in self._sources]

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(tasks)

    async def _run(self, source: DataSource) -> None:
        while True:
            try:
                await self._collect(source)
            except Exception as error:  # noqa: BLE001  a plugin's defect must not end the others
                self._on_fault(error if isinstance(error, PluginFault) else raised(source.name, error))
            await asyncio.sleep(max(_SHORTEST_S, source.interval_s))

    async def _collect(self, source: DataSource) -> None:
        if not self._endpoints:
            return
        async with asyncio.timeout(self._timeout_s):
            found = await source.collect(self._endpoints)
        for endpoint, numbers in found.items():
            _add_attributes(source.name, endpoint, numbers)


def _add_attributes(name: str, endpoint: Endpoint, numbers: Mapping[str, float]) -> None:
    wrong = {key: value for key, value in numbers.items() if not isfinite(value)}
    if wrong:
        raise PluginFault(name, f"read {wrong} of {endpoint.name}; numbers must be finite")
    if any(endpoint.attributes.get(key) != value for key, value in numbers.items()):
        endpoint.attributes = MappingProxyType({**endpoint.attributes, **numbers})
        # Another object of the same metrics notifies those who watch the endpoint: rankings, and the relay to workers.
        endpoint.metrics = msgspec.structs.replace(endpoint.metrics)
