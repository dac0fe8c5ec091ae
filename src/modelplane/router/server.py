"""The fleet router as a server: the picker's transport, the router's decisions, its ports and an orderly end.

Plans come from a folder (`plans`) or are given by its owner (`replace`). On stop readiness fails first, and calls may
finish within the grace period. Envoy goes on by the static plan from then on.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from modelplane.api.errors import InputError
from modelplane.compose.service_plan import ServicePlan
from modelplane.epp.config.config import Config
from modelplane.epp.datalayer.discovery.endpoints_file import read_endpoints
from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.health import HealthService
from modelplane.epp.server.messages import METHOD
from modelplane.epp.transport.calls import GrpcServer, Methods, Settings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.sockets import ANY_ADDRESS
from modelplane.epp.transport.tls import ServerIdentity
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.router.admin import RouterAdmin
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.director import RouterDirector
from modelplane.router.hop_folder import HopFolder
from modelplane.router.plans import PlanFolder
from modelplane.router.probes import Prober
from modelplane.router.processor import FrontProcessor
from modelplane.router.profile import load_profile, make_scheduler
from modelplane.router.served_models import HopContext, ServedModels
from modelplane.router.spans import router_spans
from modelplane.router.stalls import Stalls
from modelplane.router.summaries import apply_summaries
from modelplane.router.wall_clock import WallClock

_LOG = logging.getLogger(__name__)
_POLL_S: Final = 1.0


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the router serves. A port of 0 is chosen by the system; one of -1 is none."""

    host: str = ANY_ADDRESS
    port: int = 9012
    health_port: int = 9013
    admin_port: int = 9091
    identity: ServerIdentity | None = None
    body_bytes: int = 32 << 20
    held_bytes: int = 512 << 20
    drain_s: float = 30.0
    plans: Path | None = None
    summaries: Path | None = None
    """The loads of whole clusters, in the ecosystem's endpoints file."""
    hop_identity: Path | None = None
    """The folder with the certificate for gateways of clusters that want one."""
    probes: bool = True
    """Whether endpoints are checked, and replicas asked for their models."""


class RouterServer:
    """Started once, stopped once."""

    def __init__(
        self,
        settings: RouterSettings | None = None,
        config: Config | None = None,
        *,
        write_usage: Callable[[bytes], object] | None = None,
        hop: HopContext | None = None,
    ) -> None:
        """`hop`: how the gateways of clusters are called, where that takes a certificate."""
        self.settings = settings or RouterSettings()
        self.catalog = ServiceCatalog()
        # Random numbers only break ties: predicting them gains nothing.
        chance = random.Random().random  # noqa: S311  see above
        self.director = RouterDirector(
            self.catalog,
            make_scheduler(config or load_profile()),
            clock=time.monotonic,
            wall_clock=WallClock(),
            chance=chance,
            write_usage=write_usage,
        )
        self.port = self.health_port = 0
        self._admin = RouterAdmin(self.director, (self.settings.host, max(0, self.settings.admin_port)), time.monotonic)
        self._health = HealthService(lambda: self.catalog.known and not self.director.stopping)
        self._prober = Prober(self.catalog, time.monotonic)
        self.director.on_refused = self._prober.soon
        self._models = ServedModels(self.catalog, hop)
        self._stalls = Stalls()
        self._spans = router_spans(os.environ)
        plans, identity = self.settings.plans, self.settings.hop_identity
        self._folder = PlanFolder(plans) if plans is not None else None
        self._hop_folder = HopFolder(identity, plans) if plans is not None and identity is not None else None
        self._summaries = b""
        self._servers: list[GrpcServer] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def admin_port(self) -> int:
        return self._admin.port

    def replace(self, plans: Iterable[ServicePlan]) -> None:
        """The services are these."""
        self.catalog.replace(plans)
        self._health.refresh()

    async def start(self) -> None:
        """Serves when it returns."""
        settings = self.settings
        self._poll()
        common = Settings(
            host=settings.host,
            port=settings.port,
            identity=settings.identity,
            message_bytes=settings.body_bytes + (1 << 20),
        )
        process = partial(
            FrontProcessor,
            director=self.director,
            clock=time.monotonic,
            body_limit=settings.body_bytes,
            budget=Budget(settings.held_bytes),
            stalls=self._stalls,
            spans=self._spans,
        )
        methods: Methods = {METHOD: process, **self._health.methods}
        self.port = await self._serve(H2Server(methods, common))
        if settings.health_port >= 0:
            plain = Settings(host=settings.host, port=settings.health_port)
            self.health_port = await self._serve(H2Server(self._health.methods, plain))
        if settings.admin_port >= 0:
            await self._admin.start()
        if settings.probes:
            await self._prober.start()
            await self._models.start()
        self._task = asyncio.create_task(self._watch(), name="read plans")

    async def stop(self) -> None:
        """Drains, then ends everything that was started."""
        if self.director.stopping:
            return
        self.director.stopping = True
        self._health.close()
        await asyncio.gather(*(server.stop(self.settings.drain_s) for server in self._servers))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._prober.stop()
        await self._models.stop()
        await self._admin.stop()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)

    async def _serve(self, server: GrpcServer) -> int:
        port = await server.start()
        self._servers.append(server)
        return port

    async def _watch(self) -> None:
        while True:
            for _ in range(2):
                await asyncio.sleep(_POLL_S / 2)
                self._stalls.sweep(time.monotonic())
            self._poll()

    def _poll(self) -> None:
        if self._folder is not None:
            plans = self._folder.read()
            if plans is not None:
                self.replace(plans)
                _LOG.info("read the plans of %d services", len(plans), extra=because(LogReason.PLANS_READ))
            hop = self._hop_folder.read() if self._hop_folder is not None else None
            if hop is not None:
                self._models.hop = hop
            callers = self._folder.read_callers()
            if callers is not None:
                self.director.callers.replace(callers)
        self._read_summaries()

    def _read_summaries(self) -> None:
        path = self.settings.summaries
        if path is None:
            return
        try:
            text = path.read_bytes()
            if text != self._summaries:
                apply_summaries(read_endpoints(text, str(path)), self.catalog.endpoints)
        except (OSError, InputError) as error:
            _LOG.warning("kept the previous summaries: %s", error, extra=because(LogReason.SUMMARIES_INVALID))
        else:
            self._summaries = text
