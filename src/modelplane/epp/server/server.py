"""The endpoint picker as a server: its endpoints, its configuration, its ports, and an orderly end.

    gRPC port      external processing, and health
    health port    health alone, in plain text, for probes that carry no certificate

The configuration file is read every two seconds. A valid one replaces the scheduler between two requests; an invalid
one is logged once and changes nothing. On stop readiness fails first, so that proxies pick another server; then calls
may finish within the grace period, and what is left is cut.
"""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from modelplane.api.errors import ModelplaneError
from modelplane.epp.config.config import Config, load
from modelplane.epp.config.flow_control import settings_of
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.flowcontrol import Evictor, FlowControl, PoolSaturation, WorkerShare, detector_of
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.plugins import Parser
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.director import Director
from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.flow import Flow
from modelplane.epp.server.health import HealthService
from modelplane.epp.server.interfaces import RequestObserver
from modelplane.epp.server.messages import METHOD
from modelplane.epp.server.parsing import PathParsers
from modelplane.epp.server.processor import processors
from modelplane.epp.server.third_party import full_registry
from modelplane.epp.server.watched_files import text_of, watch_config, watch_identity
from modelplane.epp.transport.calls import GrpcServer, Methods, Settings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.sockets import ANY_ADDRESS
from modelplane.epp.transport.tls import ServerIdentity
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_TICK_S: Final = 0.01
_CALM_S: Final = 1.0

_ALONE: Final = WorkerShare()

MakeServer = Callable[[Methods, Settings], GrpcServer]


class PickerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the picker serves. A port of 0 is chosen by the system; a health port of -1 is none."""

    host: str = ANY_ADDRESS
    port: int = 9002
    health_port: int = 9003
    identity: ServerIdentity | None = None
    """None: plain text."""
    identity_folder: Path | None = None
    """Where the identity is read from anew when it changes; None: never."""
    identity_poll_s: float = 10.0
    body_bytes: int = 32 << 20
    held_bytes: int = 512 << 20
    """The limit for all requests that are being received or decided."""
    streams: int = 20_000
    drain_s: float = 30.0
    config_file: Path | None = None
    config_poll_s: float = 2.0
    """Between two reads of the configuration file."""
    share: WorkerShare = WorkerShare()
    """Which of the picker's workers this is, for limits that hold for all of them."""


class PickerServer:
    """Started once, stopped once."""

    def __init__(
        self,
        source: EndpointSource,
        config: Config,
        settings: PickerSettings | None = None,
        *,
        make_server: MakeServer = H2Server,
        observer: RequestObserver | None = None,
    ) -> None:
        self.settings = settings or PickerSettings()
        self.source = source
        scheduler, flow = assemble(config, share=self.settings.share)
        self._is_calm = flow is None
        # Random numbers only break ties: predicting them gains nothing.
        chance = random.Random().random  # noqa: S311  see above
        self.director = Director(source, scheduler, clock=time.monotonic, chance=chance, flow=flow)
        self._parse_by(config, scheduler)
        self.director.observer = observer
        self.on_reload: Callable[[Scheduler, Config], None] = lambda _scheduler, _config: None
        """Called with each scheduler before it takes over."""
        self._budget = Budget(self.settings.held_bytes)
        self.port = 0
        self.health_port = 0
        self.stopping = False
        self._health = HealthService(lambda: source.known and not self.stopping)
        self._make_server = make_server
        self._servers: list[GrpcServer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._read = b""

    async def start(self) -> None:
        """Serves when it returns."""
        self._read = text_of(self.settings.config_file)
        await self.source.start()
        self.source.on_change(lambda _endpoints: self._health.refresh())
        settings = self.settings
        common = Settings(
            host=settings.host, port=settings.port, identity=settings.identity, streams=settings.streams,
            message_bytes=settings.body_bytes + (1 << 20),
        )  # fmt: skip
        process = processors(self.director, time.monotonic, settings.body_bytes, self._budget)
        methods: Methods = {METHOD: process, **self._health.methods}
        self.port = await self._serve(self._make_server(methods, common))
        if settings.health_port >= 0:
            plain = Settings(host=settings.host, port=settings.health_port)
            self.health_port = await self._serve(H2Server(self._health.methods, plain))
        running = (self._tick(), *self._watches())
        self._tasks = [asyncio.create_task(each) for each in running]

    async def stop(self) -> None:
        """Drains, then ends everything that was started."""
        if self.stopping:
            return
        self.stopping = True
        self._health.close()
        self.director.stop()
        try:
            await asyncio.gather(*(server.stop(self.settings.drain_s) for server in self._servers))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.source.stop()

    def reload(self, config: Config) -> None:
        """Decide by another configuration from here on."""
        scheduler, flow = assemble(config, self.director.scheduler.assembly, share=self.settings.share)
        self._parse_by(config, scheduler)
        self._is_calm = flow is None
        # First, for what a plugin does when it learns of the pool is to be observed.
        self.on_reload(scheduler, config)
        self.director.reload(scheduler, flow)

    def _parse_by(self, config: Config, scheduler: Scheduler) -> None:
        self.director.reader.apis = apis_of(config)
        self.director.reader.parsers = parsers_of(config, scheduler.assembly)

    async def _serve(self, server: GrpcServer) -> int:
        port = await server.start()
        self._servers.append(server)
        return port

    async def _tick(self) -> None:
        """Requests that wait are checked often while there are any; without flow control there are none."""
        while True:
            idle_s = _CALM_S if self._is_calm else _TICK_S * 10
            await asyncio.sleep(_TICK_S if self.director.waiting else idle_s)
            self.director.tick()

    def adopt(self, connection: socket.socket) -> Awaitable[None]:
        """Serves a connection of the gRPC port that another process accepted."""
        server = self._servers[0]
        if not isinstance(server, H2Server):
            raise TypeError(f"{type(server).__name__} accepts connections itself")
        return server.adopt(connection)

    @property
    def connections(self) -> int:
        """Those of the gRPC port that take new calls; 0 where the server does not count them."""
        return self._servers[0].connections if isinstance(self._servers[0], H2Server) else 0

    def release_connection(self) -> None:
        """One connection of the gRPC port takes no new calls, and ends with those that it has."""
        if isinstance(self._servers[0], H2Server):
            self._servers[0].release_connection()

    def renew(self, identity: ServerIdentity) -> None:
        """New connections get this certificate."""
        for server in self._servers:
            if isinstance(server, H2Server):
                server.renew(identity)

    def _watches(self) -> Iterator[Coroutine[None, None, None]]:
        settings = self.settings
        if settings.config_file is not None:
            reload = partial(self.try_reload, source=str(settings.config_file))
            yield watch_config(settings.config_file, self._read, settings.config_poll_s, reload)
        if settings.identity_folder is not None and settings.identity is not None:
            yield watch_identity(settings.identity_folder, settings.identity, settings.identity_poll_s, self.renew)

    def try_reload(self, text: bytes, source: str) -> None:
        """Decide by this text from here on, unless it is no valid configuration."""
        try:
            self.reload(load(text, source, full_registry()))
        except ModelplaneError as error:
            _LOG.error("kept the previous configuration: %s", error, extra=because(LogReason.CONFIG_INVALID))
        else:
            _LOG.info("reloaded the configuration from %s", source, extra=because(LogReason.CONFIG_RELOADED))


_PARSERS: Final = {
    "openai-parser": (InferenceApi.CHAT, InferenceApi.COMPLETIONS, InferenceApi.RESPONSES, InferenceApi.EMBEDDINGS),
    "anthropic-parser": (InferenceApi.MESSAGES,),
    "vllmhttp-parser": (InferenceApi.GENERATE,),
    "sglanghttp-parser": (InferenceApi.GENERATE,),
    "passthrough-parser": (InferenceApi.OTHER,),
    "vllmgrpc-parser": (InferenceApi.OTHER,),
    "vertexai-parser": (InferenceApi.OTHER,),
}
"""gRPC messages are not parsed: they are forwarded."""


def apis_of(config: Config) -> frozenset[InferenceApi] | None:
    """The APIs of the configured parsers; None if there are none, which means all."""
    entries = [config.entry(name) for name in config.parsers]
    if not entries:
        return None
    return frozenset(api for entry in entries if entry is not None for api in _PARSERS.get(entry.type, ()))


def parsers_of(config: Config, assembly: Assembly) -> PathParsers | None:
    """The configured parsers of other packages; None if there are none."""
    found = [plugin for name in config.parsers if isinstance(plugin := assembly.plugins.get(name), Parser)]
    return PathParsers(found) if found else None


def assemble(
    config: Config, before: Assembly | None = None, *, share: WorkerShare = _ALONE
) -> tuple[Scheduler, Flow | None]:
    """Build what a configuration names. Stateful plugins with equal settings are kept from `before`."""
    assembly = config.build(before)
    scheduler = Scheduler(assembly)
    if not config.gates.get("flowControl", False):
        return scheduler, None
    detector = detector_of(assembly.plugins.get(config.saturation_detector), scheduler.count_fault)
    settings = settings_of(config.flow_control, assembly.plugins.get).divided(share)
    evictor = Evictor() if settings.evicts else None
    return scheduler, Flow(FlowControl(settings), PoolSaturation(detector, share=share), evictor)
