"""The embedded plane: store, composers, simulated clusters, Envoy and the API in one process tree.

Everything listens on loopback. `stop` ends every engine, Envoy and every task. The store is kept; the next start with
the same data folder continues from it.
"""

import asyncio
import fcntl
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from aiohttp import web

from modelplane.api.errors import UnavailableError
from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP
from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import Lifecycle, ensure_namespaces
from modelplane.apiserver.served_kinds import ensure_kinds
from modelplane.apiserver.store.database import Database, SqliteStore
from modelplane.envoy import EnvoyProcess, free_port
from modelplane.envoy.access_log import AccessLogReader
from modelplane.envoy.die_with_parent import lift_file_limit
from modelplane.envoy.recent_traffic import RecentTraffic
from modelplane.k8s.admission.layout import Document
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.plane.apply import admitted, apply_documents
from modelplane.plane.certificates import server_context
from modelplane.plane.clusters import CLOUD_SPEED, Clusters
from modelplane.plane.controller import PlaneController
from modelplane.plane.events import EventExpiry
from modelplane.plane.gateway_routers import GatewayRouters
from modelplane.plane.hop_identity import HopIdentity
from modelplane.plane.kubeconfig import write_kubeconfig, write_token
from modelplane.plane.metrics import METRICS_PATH, PlaneMetrics
from modelplane.plane.request_counter import RequestCounter
from modelplane.plane.simulation import PREFIX, Simulation
from modelplane.plane.traffic import Traffic
from modelplane.plane.traffic_meter import TrafficMeter
from modelplane.reconcile.clock import Clock, SystemClock
from modelplane.reconcile.metrics_page import FleetPage
from modelplane.reconcile.resolver import HostResolver
from modelplane.reconcile.store import ObjectRef
from modelplane.router.provider_lists import ProviderLists
from modelplane.sim.cluster.engines import EngineFactory, LocalEngines
from modelplane.sim.cluster.settings import ClusterSettings
from modelplane.views.overview import Overview, overview

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneSettings:
    """A port of 0 means any that is free."""

    data: Path
    api_port: int = 0
    gateway_port: int = 0
    engine_speed: float = 1.0
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    cloud_speed: float = CLOUD_SPEED
    """How much faster clusters are made than on a cloud."""
    profile: PlacementProfile = DEFAULT_PROFILE
    """The plugins that place replicas."""
    router: bool = False
    """Whether every gateway has a fleet router, and not those alone that ask for one by `spec.router`."""
    mutual_tls: bool = False
    """Whether gateways of clusters accept fleet gateways only, by their certificate."""


class Plane:
    """`async with Plane(settings) as plane:` runs one."""

    def __init__(
        self,
        settings: PlaneSettings,
        clock: Clock | None = None,
        *,
        report: Callable[[str], None] = lambda _text: None,
        engines: EngineFactory | None = None,
        machine: tuple[ClusterName, EngineFactory] | None = None,
    ) -> None:
        """`report` gets a line for each part that starts. `engines` run the pods; by default simulated ones.

        `machine` names a cluster whose pods are run by engines of its own.
        """
        self._machine = machine
        self._report = report
        self._engines = engines or LocalEngines(speed=settings.engine_speed)
        self._settings = settings
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self.api_url = ""
        self.gateway_url = ""
        self.kubeconfig = settings.data / "kubeconfig"
        self.recent_traffic = RecentTraffic()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _engines_of(self, cluster: ClusterName) -> EngineFactory:
        return self._machine[1] if self._machine is not None and self._machine[0] == cluster else self._engines

    @property
    def store(self) -> SqliteStore:
        return self._controller.plane

    @property
    def routers(self) -> dict[str, str]:
        """The side door of each fleet router by its gateway's listener; the default gateway's is `fleet`."""
        return self._routers.urls

    def counted_tokens(self, now: float) -> tuple[dict[str, int], float]:
        """By service, of callers with keys at a fleet router, and for how many seconds they were counted."""
        sums: Counter[str] = Counter()
        for service, _, tokens in self._routers.tokens():
            sums[service] += int(tokens)
        return dict(sums), now - self._counted_since

    def overview(self) -> Overview:
        """The status of every cluster, deployment and service."""
        store = self._controller.plane
        return overview(
            clusters=store.list(GROUP, "InferenceCluster"),
            deployments=store.list(GROUP, "ModelDeployment"),
            replicas=store.list(GROUP, "ModelReplica"),
            services=store.list(GROUP, "ModelService"),
            caches=store.list(GROUP, "ModelCache"),
        )

    def apply(self, documents: Sequence[Document]) -> tuple[ObjectRef, ...]:
        """Create or replace every object, or none of them."""
        refs = apply_documents(self._database, documents)
        self._database.sync()
        return refs

    async def _start(self) -> None:
        data = self._settings.data
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        # It has keys and tokens, and may be in a repository.
        (data / ".gitignore").write_text("*\n")
        self._stack.enter_context(_lock(data / "lock"))
        lift_file_limit()
        port = self._settings.gateway_port or free_port(HOST)
        _require_free("gateway", port)
        _require_free("API", self._settings.api_port)
        self._database = self._stack.enter_context(Database(data / "plane.db", clock=self._clock))
        ensure_namespaces(self._database.store("plane"))
        ensure_kinds(self._database.store("plane"), self._clock.now())
        self._report(f"store       {data / 'plane.db'}")
        if self._database.lost is not None:
            self._report(f"store       {self._database.lost}")
        resolver = HostResolver(self._clock)
        lists = ProviderLists(self._clock)
        self._stack.callback(resolver.close)
        self._stack.callback(lists.close)
        self._controller = PlaneController(
            self._database,
            self._clock,
            admitted=admitted,
            profile=self._settings.profile,
            resolve=resolver,
            list_models=lists,
        )
        lifecycle = Lifecycle(self._controller.plane, self._clock)
        envoy = EnvoyProcess(data / "envoy")
        await envoy.start()
        self._stack.push_async_callback(envoy.stop)
        self._report(f"Envoy       process {envoy.pid}")
        self.gateway_url = f"http://{HOST}:{port}"
        traffic = Traffic(self._controller.plane, envoy, self._clock, address=(HOST, port))
        self.clusters = Clusters(
            self._controller,
            self._clock,
            self._engines_of,
            replace(self._settings.cluster, volumes=self._settings.cluster.volumes or data / "volumes"),
            gateway_view_changed=traffic.gateway_view_changed,
            cloud_speed=self._settings.cloud_speed,
        )
        self._stack.push_async_callback(self.clusters.stop)
        self._stack.push_async_callback(envoy.drain)  # before the engines stop: requests in flight are answered
        traffic.set_view_source(self.clusters.gateway_view)
        self._counted_since = self._clock.now()
        self._routers = GatewayRouters(HOST, data, always=self._settings.router, report=self._report)
        if self._settings.mutual_tls:
            hop = HopIdentity(self._clock.now())
            traffic.set_hop(hop)
            self._routers.hop = hop.router
        self._stack.push_async_callback(self._routers.stop)
        traffic.set_routers(self._routers)
        for name, loop in (
            ("plane", self._controller.loop),
            ("traffic", traffic.loop),
            ("clusters", self.clusters.loop),
            ("providers", self.clusters.providers.loop),
            ("lifecycle", lifecycle.loop),
            ("events", EventExpiry(self._controller.plane, self._clock).loop),
        ):
            self._background(asyncio.create_task(loop.run(), name=name))
        self._background(asyncio.create_task(traffic.watch(), name="restart Envoy"))
        self._background(asyncio.create_task(traffic.rotate_logs(), name="rotate Envoy's log"))
        requests = AccessLogReader(envoy.access_log)
        self._stack.callback(requests.close)
        self._requests = RequestCounter(self._controller.plane, requests)
        meter = TrafficMeter(self._controller.plane, self._requests, self._clock, self.recent_traffic)
        self._background(asyncio.create_task(meter.run(), name="measure traffic"))
        await self._serve_api()

    def _background(self, task: asyncio.Task[None]) -> None:
        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def _serve_api(self) -> None:
        token = secrets.token_urlsafe(32)
        context, certificate = server_context(self._settings.data, now=self._clock.now())
        metrics = PlaneMetrics(
            self._controller.plane, FleetPage(self._clock.now(), serving=certificate), self._requests, self._routers
        )
        others = {PREFIX: Simulation(self.clusters).answer, METRICS_PATH: metrics.answer}
        server = ApiServer(self._controller.plane, token=token, clock=self._clock, others=others)
        runner = server.runner
        await runner.setup()
        self._stack.push_async_callback(server.close)
        site = web.TCPSite(runner, HOST, self._settings.api_port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            raise UnavailableError(
                f"the API cannot listen on {HOST}:{self._settings.api_port}: {_why(error)}"
            ) from error
        self.api_url = f"https://{HOST}:{runner.addresses[0][1]}"
        write_kubeconfig(self.kubeconfig, server=self.api_url, token=token, certificate=certificate)
        write_token(self._settings.data / "api.token", token)


def _why(error: OSError) -> str:
    """The system's message: asyncio's repeats the address."""
    return os.strerror(error.errno) if error.errno else str(error)


def _require_free(who: str, port: int) -> None:
    """Checked before anything starts: Envoy would only report that it refused its configuration."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UnavailableError(f"the {who} cannot listen on {HOST}:{port}: {error.strerror}") from error


def _lock(path: Path) -> IO[str]:
    """Held while the plane runs: one data folder belongs to one plane."""
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        holder = handle.read().strip() or "unknown"
        handle.close()
        raise UnavailableError(f"a plane already runs with the data folder {path.parent} (process {holder})") from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
