"""Everything that runs in a picker's process: the server, and the background services of its configuration.

A scraper of metrics, a poller of model names, a subscriber to KV events, a tokenizer, the policies of the pool, the
port for Prometheus, a log of decisions and spans. A new configuration changes decisions at once; which services run,
and how often they poll, is set when the process starts.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from modelplane.api.version import __version__
from modelplane.epp.config.config import Config
from modelplane.epp.datalayer.endpoints import Endpoints, EndpointSource
from modelplane.epp.datalayer.peers import PeerOptions, PeerSync
from modelplane.epp.datalayer.relay import PolicyReader
from modelplane.epp.datalayer.setup import (
    data_sources_of,
    kv_listener_of,
    models_watcher_of,
    precise_of,
    scraper_of,
    tokenizer_of,
)
from modelplane.epp.datalayer.shared_state import SharedState
from modelplane.epp.replay.snapshot import encode
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.handlers.disaggregated import DisaggregatedHandler
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer, Tally
from modelplane.epp.scheduling.producers.in_flight import InFlightProducer
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.compiled import describe_build
from modelplane.epp.server.interfaces import PoolPolicies
from modelplane.epp.server.observe import (
    AdminServer,
    DecisionLog,
    PickerCollector,
    PickerMetrics,
    PickObserver,
    PoolStats,
    Tracing,
)
from modelplane.epp.server.observe.collector import PrefixIndexStats
from modelplane.epp.server.observe.metrics import Histogram
from modelplane.epp.server.observe.plugin_durations import PluginDurations
from modelplane.epp.server.observe.plugin_faults import PluginFaults
from modelplane.epp.server.server import MakeServer, PickerServer, PickerSettings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
UNREAD: Final = "the pool has not been read yet"
STOPPING: Final = "the picker is stopping"


class BackgroundService(Protocol):
    """Something that runs as long as the server."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class PoolWatcher(BackgroundService, Protocol):
    """A service that watches the endpoints of a source."""

    def follow(self, source: EndpointSource, /) -> None: ...


class PolicySource(PoolPolicies, PolicyReader, BackgroundService, Protocol):
    """Policies that are kept up to date between `start` and `stop`."""


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Which services run. A metrics port of -1 is none."""

    metrics_port: int = 9090
    scrapes: bool = True
    scrape_interval_s: float | None = None
    """Between two scrapes of an endpoint under load, where the configuration gives none."""
    pool: str = ""
    rules: PolicySource | None = None
    make_server: MakeServer = H2Server
    legacy_metrics: bool = False
    """Show metrics under the names of earlier releases, too."""
    shows_state: bool = False
    """Show endpoints and their loads at /debug/state."""
    log: DecisionLog | None = None
    tracing: Tracing | None = None
    peers: PeerOptions | None = None
    """The other pickers of the pool."""
    is_worker: bool = False
    """Another process scrapes the endpoints, and shares what the workers of the picker know."""
    shared: SharedState | None = None
    """What this worker shares."""


class PickerRunner:
    """Started once, stopped once."""

    def __init__(
        self, source: EndpointSource, config: Config, settings: PickerSettings, options: RunnerOptions
    ) -> None:
        self._source = source
        self._pool_name = options.pool
        self._tracing = options.tracing
        self._faults = PluginFaults(time.monotonic)
        self._observer = PickObserver(PickerMetrics(), log=options.log, tracing=options.tracing)
        self.server = PickerServer(source, config, settings, make_server=options.make_server, observer=self._observer)
        self._durations = PluginDurations(self.server.director.scheduler, time.perf_counter)
        self.server.director.reader.rules = options.rules
        self.server.on_reload = self._reloaded
        reads = options.scrapes and not options.is_worker
        self._scraper = scraper_of(config, options.scrape_interval_s) if reads else None
        self._listener = kv_listener_of(self.server.director.scheduler.assembly) if options.scrapes else None
        self._tokenizer = tokenizer_of(config, self.server.director.scheduler.assembly) if options.scrapes else None
        models = models_watcher_of(config) if reads else None
        assembly = self.server.director.scheduler.assembly
        sources = None if options.is_worker else data_sources_of(assembly, self._faults.report)
        watchers = (self._scraper, self._listener, self._tokenizer, models, sources)
        self._watchers: list[PoolWatcher] = [each for each in watchers if each is not None]
        address = (settings.host, max(options.metrics_port, 0))
        self.page = PickerCollector(
            self._observer.numbers, self._pool, version=__version__, legacy=options.legacy_metrics
        )
        state = self._state if options.shows_state else None
        self._admin = AdminServer(self.page, address, problem=lambda: self.problem, state=state)
        self._shared = options.shared
        self.peers = PeerSync(source, options.peers) if options.peers is not None else None
        self._services: list[BackgroundService] = [
            *self._watchers,
            *([self.peers] if self.peers is not None else ()),
            *([options.rules] if options.rules is not None else ()),
            *([self._admin] if options.metrics_port >= 0 else ()),
        ]
        self._has_admin = options.metrics_port >= 0
        source.on_change(self._observer.numbers.changed)
        self._scheduler_changed(self.server.director.scheduler, config)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def health_port(self) -> int:
        return self.server.health_port

    @property
    def metrics_port(self) -> int:
        return self._admin.port if self._has_admin else -1

    async def start(self) -> None:
        """Serves when it returns."""
        _LOG.info("the request path is %s", describe_build(), extra=because(LogReason.STARTING))
        for watcher in self._watchers:
            watcher.follow(self._source)
        for each in self._services:
            await each.start()
        await self.server.start()

    async def stop(self) -> None:
        """Drains, then ends everything that was started."""
        await self.server.stop()
        for each in reversed(self._services):
            await each.stop()
        if self._tracing is not None:
            self._tracing.close()

    def _scheduler_changed(self, scheduler: Scheduler, config: Config) -> None:
        """Give the current scheduler to the other components."""
        scheduler.on_fault = self._faults.report
        self._durations.follow(scheduler)
        self._observer.configured(config)
        self.server.director.tokenizer = self._tokenizer if precise_of(scheduler.assembly) is not None else None
        self._observer.divides = isinstance(scheduler.assembly.handler, DisaggregatedHandler)
        if self.peers is not None:
            self.peers.share_loads(shared=shares_loads(scheduler.assembly))
        shared = self.peers.state if self.peers is not None else self._shared
        if shared is not None:
            shared.share_prompts(prefix_producer(scheduler.assembly))
        if scheduler.reads_bodies:
            _LOG.info(
                "plugins read token usage from response bodies: set response_body_mode in Envoy's processing_mode",
                extra=because(LogReason.OPTION_NEEDED),
            )

    def _reloaded(self, scheduler: Scheduler, config: Config) -> None:
        self._scheduler_changed(scheduler, config)
        producer = precise_of(scheduler.assembly)
        if self._listener is not None and producer is not None:
            self._listener.feed(producer.index)

    @property
    def requests(self) -> int:
        """How many were received."""
        return sum(record.requests for record in self._observer.numbers.records)

    @property
    def problem(self) -> str:
        """Why the picker is not ready; empty: it is."""
        if self.server.stopping:
            return STOPPING
        return "" if self._source.known else UNREAD

    def _state(self) -> Mapping[str, object]:
        return encode(self._source.current, time.monotonic())

    def _pool(self) -> PoolStats:
        scraper = self._scraper
        self._durations.scraped()
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
            faults=self._faults.counts,
            durations=self._durations.histograms,
            peers=self.peers.peers if self.peers is not None else None,
        )


def prefix_producer(assembly: Assembly) -> ApproxPrefixProducer | None:
    return next((one for one in assembly.plugins.values() if isinstance(one, ApproxPrefixProducer)), None)


def shares_loads(assembly: Assembly) -> bool:
    """Unless the producer of loads is told not to."""
    producers = (one for one in assembly.plugins.values() if isinstance(one, InFlightProducer))
    return all(one.parameters.sync_cross_replica_state for one in producers)


def _prefix(assembly: Assembly, endpoints: Endpoints) -> PrefixIndexStats | None:
    """Size and hit statistics of the prefix index; None without one."""
    producer = prefix_producer(assembly)
    if producer is None:
        return None
    blocks = sum(producer.index.blocks_of(endpoint) for endpoint in endpoints)
    return PrefixIndexStats(blocks, _histogram(producer.hit_ratios), _histogram(producer.hit_bytes))


def _histogram(tally: Tally) -> Histogram:
    found = Histogram(tally.bounds)
    found.counts, found.total = list(tally.counts), tally.total
    return found
