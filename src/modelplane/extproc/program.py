"""Everything that runs in a picker's process: the server, and beside it the scraper, the admin port and the rules."""

from typing import Final, Protocol

import msgspec

from modelplane.extproc.director import Rules
from modelplane.extproc.endpoints import EndpointSource
from modelplane.extproc.h2.server import H2Server
from modelplane.extproc.observe import AdminServer, Numbers, Observer, PickerCollector, Pool
from modelplane.extproc.scrape import Scraper
from modelplane.extproc.server import MakeServer, PickerServer, PickerSettings
from modelplane.picker.config import Config

_UNREAD: Final = "the pool has not been read yet"


class KeptRules(Rules, Protocol):
    """Rules that are kept up to date between `start` and `stop`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Wishes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What runs beside the server. A metrics port of -1 is none."""

    metrics_port: int = 9090
    scrapes: bool = True
    pool: str = ""
    rules: KeptRules | None = None
    make_server: MakeServer = H2Server


class Program:
    """Started once, stopped once."""

    def __init__(self, source: EndpointSource, config: Config, settings: PickerSettings, wishes: Wishes) -> None:
        self._wishes = wishes
        self._source = source
        self._numbers = Numbers()
        self._scraper = Scraper() if wishes.scrapes else None
        self.metrics_port = -1
        self.server = PickerServer(
            source, config, settings, make_server=wishes.make_server, observer=Observer(self._numbers)
        )
        self.server.director.rules = wishes.rules
        address = (settings.host, max(wishes.metrics_port, 0))
        self._admin = AdminServer(PickerCollector(self._numbers, self._pool), address, problem=self._problem)

    async def start(self) -> None:
        wishes = self._wishes
        if self._scraper is not None:
            self._source.on_change(self._scraper.watch)
            await self._scraper.start()
        if wishes.rules is not None:
            await wishes.rules.start()
        await self.server.start()
        if self._scraper is not None:
            self._scraper.watch(self._source.current)
        if wishes.metrics_port >= 0:
            await self._admin.start()
            self.metrics_port = self._admin.port

    async def stop(self) -> None:
        await self.server.stop()
        if self._scraper is not None:
            await self._scraper.stop()
        if self._wishes.rules is not None:
            await self._wishes.rules.stop()
        await self._admin.stop()

    def _problem(self) -> str:
        return "" if self._source.known else _UNREAD

    def _pool(self) -> Pool:
        counts = None if self._scraper is None else self._scraper.counts
        return Pool(
            name=self._wishes.pool,
            endpoints=self._source.current,
            stale=0 if self._scraper is None else len(self._scraper.stale()),
            poll_errors=counts.failures if counts else 0,
            extract_errors=counts.unread if counts else 0,
        )
