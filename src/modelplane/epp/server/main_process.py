"""The main process of a picker with workers: it reads the pool for all of them, and serves no request itself.

    once, here            discovery, scrapes, policies, the connection to other pickers, metrics and health, the files
    in every worker       requests, on the connections of the gRPC port that are handed over to it

Connections are accepted here and given to the worker that has the fewest. A proxy keeps a few connections for hours, so
to leave the choice to the kernel's hash (SO_REUSEPORT) would leave workers without any. Where workers have more than
others by two, one of them ends a connection once its calls have ended.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from modelplane.api.errors import InputError, ModelplaneError
from modelplane.api.version import __version__
from modelplane.epp.config.config import Config, load
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.datalayer.kv_events import settings_from
from modelplane.epp.datalayer.peers import PeerSync
from modelplane.epp.datalayer.relay import PoolRelay
from modelplane.epp.datalayer.setup import data_sources_of, models_watcher_of, precise_of, scraper_of
from modelplane.epp.datalayer.shared_state import SYNC_S, EncodedPrompt
from modelplane.epp.flowcontrol import WorkerShare
from modelplane.epp.replay.snapshot import encode
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.server.health import HealthService
from modelplane.epp.server.observe import AdminServer, PickerCollector, PickerMetrics, PoolStats
from modelplane.epp.server.observe.collector import place_of
from modelplane.epp.server.observe.families import Family
from modelplane.epp.server.observe.plugin_faults import PluginFaults
from modelplane.epp.server.observe.worker_pages import WorkerPages, process_families, restart_family
from modelplane.epp.server.runner import STOPPING, UNREAD, BackgroundService, PoolWatcher, RunnerOptions, shares_loads
from modelplane.epp.server.server import PickerSettings, assemble
from modelplane.epp.server.third_party import full_registry
from modelplane.epp.server.watched_files import text_of, watch_config, watch_identity
from modelplane.epp.server.worker_messages import FromWorker, ToWorker, WorkerSetup
from modelplane.epp.server.workers import WorkerLink, WorkerProcesses
from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.sockets import listen_at
from modelplane.epp.transport.tls import ServerIdentity
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_RELAY_S: Final = SYNC_S / 2
_BALANCE_S: Final = 1.0
_PAGE_S: Final = 2.0
"""How long a page of metrics waits for a worker; after that its last one is shown."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How many workers, and what only they are to know: a setup without what this process adds."""

    count: int
    setup: Callable[[WorkerShare], WorkerSetup]


class PickerMainProcess:
    """Started once, stopped once."""

    def __init__(
        self,
        source: EndpointSource,
        config: Config,
        settings: PickerSettings,
        options: RunnerOptions,
        workers: WorkerOptions,
    ) -> None:
        self._source, self._settings, self._options = source, settings, options
        assembly = _checked(config)
        self._config, self._identity = config.text.encode(), settings.identity
        self._setup = workers.setup
        self._count = workers.count
        self._workers = WorkerProcesses(workers.count, self._setup_of, self)
        self._relay = PoolRelay(source, options.rules)
        self._scraper = scraper_of(config, options.scrape_interval_s) if options.scrapes else None
        models = models_watcher_of(config) if options.scrapes else None
        self._faults = PluginFaults(time.monotonic)
        sources = data_sources_of(assembly, self._faults.report)
        self._watchers: list[PoolWatcher] = [each for each in (self._scraper, models, sources) if each is not None]
        self._peers = PeerSync(source, options.peers) if options.peers is not None else None
        self._share_with_peers(assembly)
        self._collector = PickerCollector(
            PickerMetrics(), self._pool, version=__version__, legacy=options.legacy_metrics
        )
        self._pages = WorkerPages(self._own_families)
        self._admin = self._make_admin()
        self._health = HealthService(lambda: not self.problem)
        self._health_server: H2Server | None = None
        self._sockets: list[socket.socket] = []
        self._is_accepting = False
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._has_started = False
        self.port = 0
        self.health_port = 0

    @property
    def metrics_port(self) -> int:
        return self._admin.port if self._options.metrics_port >= 0 else -1

    @property
    def problem(self) -> str:
        """Why the picker is not ready; empty: it is. At the start all workers are waited for, later one is enough."""
        if self._stopping:
            return STOPPING
        if not self._source.known:
            return UNREAD
        if not self._has_started:
            return f"workers are starting: {', '.join(map(str, self._workers.starting()))}"
        return "" if self._serving() else "no worker runs"

    async def start(self) -> None:
        """Serves when it returns."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        await self._source.start()
        self._relay.start()
        self._source.on_change(lambda _endpoints: self._health.refresh())
        self._source.on_change(lambda endpoints: self._pages.keep_endpoints({place_of(each) for each in endpoints}))
        for watcher in self._watchers:
            watcher.follow(self._source)
        for service in self._services():
            await service.start()
        if self._settings.health_port >= 0:
            plain = Settings(host=self._settings.host, port=self._settings.health_port)
            self._health_server = H2Server(self._health.methods, plain)
            self.health_port = await self._health_server.start()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(each) for each in (self._relay_changes(), self._balance(), *self._watches())]
        await self._workers.start()
        self._sockets = await listen_at(self._settings.host, self._settings.port)
        self.port = self._sockets[0].getsockname()[1]
        self._has_started = True
        self._health.refresh()

    async def stop(self) -> None:
        """Drains every worker, then ends everything that was started."""
        if self._stopping:
            return
        self._stopping = True
        self._health.close()
        self._accept_connections(wanted=False)
        for sock in self._sockets:
            sock.close()
        try:
            await self._workers.stop(self._settings.drain_s)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for service in reversed(self._services()):
                await service.stop()
            if self._health_server is not None:
                await self._health_server.stop(0.0)
            await self._source.stop()

    def joined(self, worker: WorkerLink) -> None:
        self._relay.join(worker)

    def received(self, worker: WorkerLink, message: FromWorker[msgspec.Raw]) -> None:
        self._relay.receive(worker, message.loads, message.prompts)
        if self._peers is not None:
            self._peers.state.add_prompts(message.prompts)

    def paged(self, worker: WorkerLink, families: list[Family]) -> None:
        self._pages.replace(worker.number, families)

    def left(self, worker: WorkerLink) -> None:
        self._relay.leave(worker)
        self._pages.retire(worker.number)
        self._pages.keep_endpoints({place_of(each) for each in self._source.current})
        self._health.refresh()

    def _services(self) -> list[BackgroundService]:
        rules, peers = self._options.rules, self._peers
        return [
            *self._watchers,
            *([peers] if peers is not None else ()),
            *([rules] if rules is not None else ()),
            *([self._admin] if self._options.metrics_port >= 0 else ()),
        ]

    def _setup_of(self, number: int) -> WorkerSetup:
        """Of a worker that starts now: with the files as they were last accepted."""
        setup = self._setup(WorkerShare(number, self._count))
        return msgspec.structs.replace(setup, config=self._config, identity=self._identity)

    def _make_admin(self) -> AdminServer:
        address = (self._settings.host, max(self._options.metrics_port, 0))
        state = self._state if self._options.shows_state else None
        return AdminServer(self._pages, address, problem=lambda: self.problem, state=state, refresh=self._refresh)

    def _state(self) -> Mapping[str, object]:
        return encode(self._source.current, time.monotonic())

    async def _refresh(self) -> None:
        """Get the page of every worker."""
        links = list(self._workers.links.values())
        for link in links:
            link.request_page()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAGE_S):
                for link in links:
                    await link.paged.wait()

    def _own_families(self) -> Iterator[Family]:
        yield from self._collector.families()
        yield restart_family(self._workers.restarts)
        yield from process_families()

    def _pool(self) -> PoolStats:
        scraper = self._scraper
        return PoolStats(
            name=self._options.pool,
            endpoints=self._source.current,
            stale=0 if scraper is None else len(scraper.stale()),
            poll_errors=0 if scraper is None else scraper.counts.failures,
            extract_errors=0 if scraper is None else scraper.counts.unread,
            faults=self._faults.counts,
            peers=self._peers.peers if self._peers is not None else None,
        )

    def _share_with_peers(self, assembly: Assembly) -> None:
        if self._peers is not None:
            self._peers.share_loads(shared=shares_loads(assembly))
            self._peers.state.on_prompts = self._relay.pass_on

    async def _relay_changes(self) -> None:
        while True:
            self._relay.collect_changes()
            for link in self._workers.links.values():
                if not link.is_behind:
                    self._send_changes(link)
            self._accept_connections(wanted=bool(self._serving()))
            await asyncio.sleep(_RELAY_S)

    def _send_changes(self, link: WorkerLink) -> None:
        pool = self._relay.update_for(link)
        config = self._config if link.config is not self._config else None
        identity = self._identity if link.identity is not self._identity else None
        if pool is not None or config is not None or identity is not None:
            link.config, link.identity = self._config, self._identity
            link.send(ToWorker[EncodedPrompt](pool, config, identity))

    def _accept_connections(self, *, wanted: bool) -> None:
        """While no worker runs, connections wait in the kernel."""
        wanted = wanted and self._has_started and not self._stopping
        if wanted is self._is_accepting:
            return
        self._is_accepting = wanted
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            if wanted:
                loop.add_reader(sock.fileno(), self._accept, sock)
            else:
                loop.remove_reader(sock.fileno())

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            for link in sorted(self._serving(), key=lambda each: each.connections):
                if link.hand_over(connection):
                    return
        _LOG.warning("no worker takes a connection: it is closed", extra=because(LogReason.NO_WORKER))

    async def _balance(self) -> None:
        """A worker that was started again has no connections until proxies open new ones: some are made to."""
        while True:
            await asyncio.sleep(_BALANCE_S)
            serving = sorted(self._serving(), key=lambda link: link.connections)
            if serving and serving[-1].connections - serving[0].connections > 1:
                serving[-1].send(ToWorker[EncodedPrompt](releases_connection=True))

    def _serving(self) -> list[WorkerLink]:
        return [link for link in self._workers.links.values() if link.serves]

    def _watches(self) -> Iterator[Coroutine[None, None, None]]:
        settings = self._settings
        if settings.config_file is not None:
            known = text_of(settings.config_file)
            yield watch_config(settings.config_file, known, settings.config_poll_s, self._reload)
        if settings.identity_folder is not None and settings.identity is not None:
            yield watch_identity(settings.identity_folder, settings.identity, settings.identity_poll_s, self._renew)

    def _reload(self, text: bytes) -> None:
        """A text that no worker would accept reaches none."""
        source = str(self._settings.config_file)
        try:
            assembly = _checked(load(text, source, full_registry()))
        except ModelplaneError as error:
            _LOG.error("kept the previous configuration: %s", error, extra=because(LogReason.CONFIG_INVALID))
        else:
            self._config = text
            self._share_with_peers(assembly)

    def _renew(self, identity: ServerIdentity) -> None:
        self._identity = identity


def _checked(config: Config) -> Assembly:
    """What the configuration names can be built, and by several processes."""
    scheduler, _ = assemble(config)
    producer = precise_of(scheduler.assembly)
    if producer is not None and settings_from(producer.parameters.kv_events_config).bind:
        raise InputError(
            "kvEventsConfig.discoverPods: with --workers above 1 it must be true, for engines connect to one socket"
        )
    return scheduler.assembly
