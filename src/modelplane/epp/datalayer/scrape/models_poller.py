"""Polls the names of the models that endpoints serve.

Names change when an adapter is loaded or a server is replaced, so seconds of delay are acceptable. A server that does
not respond keeps its last names.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from modelplane.epp.datalayer.endpoint_logs import about_endpoint
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.datalayer.scrape.connections import ScrapeConnection
from modelplane.epp.datalayer.scrape.targets import TargetOf, models_of
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)

_NAMES_MOST = 10_000


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: tuple[_Model, ...]


_DECODER = msgspec.json.Decoder(_Models)


class ModelsPoller:
    """Polls the endpoints that it is given, between `start` and `stop`. One event loop."""

    def __init__(
        self, *, every_s: float = 15.0, timeout_s: float = 5.0, at_once: int = 8, where: TargetOf = models_of
    ) -> None:
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(at_once)
        self._where = where
        self._endpoints: Sequence[Endpoint] = ()
        self._new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

    def follow(self, source: EndpointSource) -> None:
        """Poll the endpoints of a source, and those that it changes to."""
        self.watch(source.current)
        source.on_change(self.watch)

    def watch(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(endpoints)
        self._new.set()

    async def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        await cancel_all([task])

    async def _run(self) -> None:
        while True:
            self._new.clear()
            await asyncio.gather(*(self._poll_endpoint(endpoint) for endpoint in self._endpoints))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._new.wait()

    async def _poll_endpoint(self, endpoint: Endpoint) -> None:
        target = self._where(endpoint)
        if target is None:
            return
        async with self._places:
            answer: asyncio.Future[tuple[bytes | None, str]] = asyncio.get_running_loop().create_future()
            connection = ScrapeConnection(target, timeout_s=self._timeout_s)
            connection.fetch(lambda page, problem: answer.set_result((page, problem)))
            try:
                page, problem = await answer
            finally:
                connection.close()
        self._take(endpoint, page, problem)

    def _take(self, endpoint: Endpoint, page: bytes | None, problem: str) -> None:
        names = None
        try:
            if page is not None:
                names = frozenset(model.id for model in _DECODER.decode(page).data[:_NAMES_MOST])
        except (msgspec.DecodeError, UnicodeDecodeError) as broken:
            problem = str(broken)
        if names is None:
            self.failures += 1
            _log.debug("models are not read: %s", problem, extra=about_endpoint(LogReason.MODELS_UNREAD, endpoint))
        elif names != endpoint.metrics.models:
            endpoint.metrics = msgspec.structs.replace(endpoint.metrics, models=names)
