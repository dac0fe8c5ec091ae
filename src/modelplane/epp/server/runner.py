"""Everything that runs in a picker's process: the server, and beside it what its configuration asks for.

A scraper of metrics, a watcher of the models that servers name, a listener to KV events, a tokenizer, the rules that
stand beside a pool, the port for Prometheus, a log of decisions and spans. A new configuration changes decisions at
once; which of these run, and how often they look, is settled when the process starts.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from modelplane.api.version import __version__
from modelplane.epp.config.config import Config
from modelplane.epp.datalayer.endpoints import Endpoints, EndpointSource
from modelplane.epp.datalayer.setup import kv_listener_of, models_watcher_of, precise_of, scraper_of, tokenizer_of
from modelplane.epp.replay.snapshot import encode
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.handlers.disaggregated import DisaggregatedHandler
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer, Tally
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.compiled import way_of_running
from modelplane.epp.server.interfaces import Rules
from modelplane.epp.server.observe import (
    AdminServer,
    DecisionLog,
    Numbers,
    PickerCollector,
    PickObserver,
    PoolStats,
    Tracing,
)
from modelplane.epp.server.observe.collector import PrefixShown
from modelplane.epp.server.observe.numbers import Histogram
from modelplane.epp.server.server import MakeServer, PickerServer, PickerSettings
from modelplane.epp.transport.h2.server import H2Server

_LOG = logging.getLogger(__name__)
_UNREAD: Final = "the pool has not been read yet"
_STOPPING: Final = "the picker is stopping"


class Beside(Protocol):
    """Something that runs beside the server."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Follower(Beside, Protocol):
    """The same, looking at the endpoints of a source."""

    def follow(self, source: EndpointSource, /) -> None: ...


class KeptRules(Rules, Beside, Protocol):
    """Rules that are kept up to date between `start` and `stop`."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What runs beside the server. A metrics port of -1 is none."""

    metrics_port: int = 9090
    scrapes: bool = True
    pool: str = ""
    rules: KeptRules | None = None
    make_server: MakeServer = H2Server
    legacy_metrics: bool = False
    """Show numbers under the names of earlier releases, too."""
    shows_state: bool = False
    """Show endpoints and their loads at /debug/state."""
    log: DecisionLog | None = None
    tracing: Tracing | None = None


class Program:
    """Started once, stopped once."""

    def __init__(self, source: EndpointSource, config: Config, settings: PickerSettings, wishes: Wishes) -> None:
        self._source = source
        self._pool_name = wishes.pool
        self._tracing = wishes.tracing
        self._observer = PickObserver(Numbers(), log=wishes.log, tracing=wishes.tracing)
        self.server = PickerServer(source, config, settings, make_server=wishes.make_server, observer=self._observer)
        self.server.director.rules = wishes.rules
        self.server.on_reload = self._reloaded
        self._scraper = scraper_of(config) if wishes.scrapes else None
        self._listener = kv_listener_of(self.server.director.scheduler.assembly) if wishes.scrapes else None
        self._tokenizer = tokenizer_of(config, self.server.director.scheduler.assembly) if wishes.scrapes else None
        models = models_watcher_of(config) if wishes.scrapes else None
        followers = (self._scraper, self._listener, self._tokenizer, models)
        self._followers: list[Follower] = [each for each in followers if each is not None]
        address = (settings.host, max(wishes.metrics_port, 0))
        page = PickerCollector(self._observer.numbers, self._pool, version=__version__, legacy=wishes.legacy_metrics)
        state = self._state if wishes.shows_state else None
        self._admin = AdminServer(page, address, problem=self._problem, state=state)
        self._beside: list[Beside] = [
            *self._followers,
            *([wishes.rules] if wishes.rules is not None else ()),
            *([self._admin] if wishes.metrics_port >= 0 else ()),
        ]
        self._has_admin = wishes.metrics_port >= 0
        source.on_change(self._observer.numbers.changed)
        self._learn(self.server.director.scheduler, config)

    @property
    def metrics_port(self) -> int:
        return self._admin.port if self._has_admin else -1

    async def start(self) -> None:
        """Serves when it returns."""
        _LOG.info("the request path is %s", way_of_running())
        for follower in self._followers:
            follower.follow(self._source)
        for each in self._beside:
            await each.start()
        await self.server.start()

    async def stop(self) -> None:
        """Drains, then ends everything that was started."""
        await self.server.stop()
        for each in reversed(self._beside):
            await each.stop()
        if self._tracing is not None:
            self._tracing.close()

    def _learn(self, scheduler: Scheduler, config: Config) -> None:
        """What the rest of the program has to know of the scheduler that decides."""
        self._observer.configured(config)
        self.server.director.tokenizer = self._tokenizer if precise_of(scheduler.assembly) is not None else None
        self._observer.divides = isinstance(scheduler.assembly.handler, DisaggregatedHandler)
        if scheduler.reads_bodies:
            _LOG.info("plugins want the usage that response bodies tell: let Envoy show them (response_body_mode)")

    def _reloaded(self, scheduler: Scheduler, config: Config) -> None:
        self._learn(scheduler, config)
        producer = precise_of(scheduler.assembly)
        if self._listener is not None and producer is not None:
            self._listener.feed(producer.index)

    def _problem(self) -> str:
        if self.server.stopping:
            return _STOPPING
        return "" if self._source.known else _UNREAD

    def _state(self) -> Mapping[str, object]:
        return encode(self._source.current, time.monotonic())

    def _pool(self) -> PoolStats:
        scraper = self._scraper
        return PoolStats(
            name=self._pool_name,
            endpoints=self._source.current,
            stale=0 if scraper is None else len(scraper.stale()),
            poll_errors=0 if scraper is None else scraper.counts.failures,
            extract_errors=0 if scraper is None else scraper.counts.unread,
            waiting=self.server.director.bands,
            saturation=self.server.director.saturation,
            prefix=_prefix(self.server.director.scheduler.assembly, self._source.current),
            queues=self.server.director.queues,
        )


def _prefix(assembly: Assembly, endpoints: Endpoints) -> PrefixShown | None:
    """Blocks that the index takes endpoints to hold, and what it was worth; None where there is no such index."""
    producer = next((one for one in assembly.plugins.values() if isinstance(one, ApproxPrefixProducer)), None)
    if producer is None:
        return None
    blocks = sum(producer.index.blocks_of(endpoint) for endpoint in endpoints)
    return PrefixShown(blocks, _histogram(producer.hit_ratios), _histogram(producer.hit_bytes))


def _histogram(tally: Tally) -> Histogram:
    found = Histogram(tally.bounds)
    found.counts, found.total = list(tally.counts), tally.total
    return found
