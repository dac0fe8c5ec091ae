"""The process that is the lab: brings everything up, answers questions on a socket, ends everything when it ends.

Requests on the socket are one JSON object a line, `{"do": ..., ...}`; so is the answer. It is reached by path, so that
a command outside the network namespace can ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cert_manager, hub, kserve, workload
from lab import control as control_plane
from lab.build import binary, module_folders
from lab.chart_sources import SOURCES as CHARTS
from lab.client import Api, ApiError, WaitedTooLongError
from lab.cluster import ADMIN, LOOPBACK, Cluster, new_cluster
from lab.components import COMPONENTS, CROSSPLANE, KWOK, LWS, PROVIDER_HELM, PROVIDER_KUBERNETES, SOURCES, Module, Set
from lab.engines import Engines
from lab.envoy_gateway import EnvoyGateway
from lab.fleet import Site, read_fleet
from lab.function_servers import HOSTS, FunctionServers, Servers
from lab.gateway import Gateway
from lab.install import InstallError, install, no_gateway, prepare, serve
from lab.manifests import Sources
from lab.namespace import lay_network, name_hosts
from lab.pickers import Pickers
from lab.registry import Registry
from lab.schedulers import SCHEDULERS, schedulers_of
from lab.supervisor import ProgramError, Supervisor
from lab.upgrade import serve_first, serve_next, upgrade

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from lab.places import Places

CONTROL = "control"
_USER_TICKS = 11  # of /proc/PID/stat after the name; the system's follow
_CONTROL_PORT = 21_000
_GATEWAY_ANNEX = 2
_FLEET_RANGE, _FLEET_GATEWAY = "10.244.255.0/24", "10.244.255.1"
_MANIFEST_MODULES = (KWOK, LWS, CROSSPLANE, PROVIDER_KUBERNETES, *SOURCES)
_CHART_MODULES = (PROVIDER_HELM, *(source.origin for source in CHARTS if isinstance(source.origin, Module)))


Traffic = Gateway | Pickers | EnvoyGateway


@dataclass(slots=True)
class Daemon:
    """One lab. `run` lasts as long as it."""

    places: Places
    fleet: Path
    own_network: bool
    options: frozenset[Set] = frozenset()
    began: float = field(default_factory=time.monotonic)
    said: str = "starting"
    failed: str = ""
    up_after_s: float | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    supervisor: Supervisor = field(init=False)
    registry: Registry = field(default_factory=Registry)
    runtime: control_plane.Runtime | None = None
    control: control_plane.Control | None = None
    servers: FunctionServers | None = None
    clusters: list[Cluster] = field(default_factory=list)
    engines: list[Engines] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Logs have a place from the start."""
        self.places.logs.mkdir(parents=True, exist_ok=True)
        self.supervisor = Supervisor(self.places.logs)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ending.set)
        server = await asyncio.start_unix_server(self._serve, self.places.control_socket)
        work = asyncio.create_task(self._live())
        ended = asyncio.create_task(self.ending.wait())
        try:
            await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (error := work.exception()) is not None:
                self.failed = _sentence(error)
                self.say(f"failed: {self.failed}")
        finally:
            work.cancel()
            ended.cancel()
            await asyncio.gather(work, ended, return_exceptions=True)
            await self.supervisor.stop()
            await self.registry.stop()
            server.close()
        return 1 if self.failed else 0

    def say(self, line: str) -> None:
        self.said = line
        print(f"{time.monotonic() - self.began:6.1f} s  {line}", flush=True)

    async def _live(self) -> None:
        """Bring up, then follow pods and packages for ever."""
        sites = read_fleet(self.fleet)
        if self.own_network:
            lay_network([_FLEET_RANGE, *(site.pod_range for site in sites)])
            name_hosts(self.places.state / "hosts", {**HOSTS, **hub.HOSTS})
        modules = (*_MANIFEST_MODULES, *(_CHART_MODULES if Set.CHARTS in self.options else ()))
        sources = Sources(module_folders(modules), self.places.cache)
        self.clusters = [self._cluster(CONTROL, _CONTROL_PORT), *(self._cluster(s.name, s.base_port) for s in sites)]
        self.runtime = control_plane.Runtime(self.clusters[0])
        async with asyncio.TaskGroup() as group:
            controlled = group.create_task(
                control_plane.bring_up(
                    self.supervisor,
                    self.clusters[0],
                    self.registry,
                    sources,
                    self.say,
                    own_network=self.own_network,
                )
            )
            named = [site.scheduler for site in sites]
            for site, cluster in zip(sites, self.clusters[1:], strict=True):
                chosen = schedulers_of(site.scheduler, named, self.options)
                group.create_task(self._workload(site, cluster, sources, chosen))
        self.control = replace(controlled.result(), has_gateway_class=Set.GATEWAY in self.options)
        if Set.CHARTS in self.options:
            self.control = await control_plane.add_charts(self.supervisor, self.control, sources, self.say)
        if Set.GATEWAY in self.options:
            async with asyncio.TaskGroup() as group:
                for cluster in self.clusters:
                    group.create_task(cert_manager.bring_up(self.supervisor, cluster, sources))
        self.servers = FunctionServers(self.supervisor, self.control, self.runtime)
        self.up_after_s = time.monotonic() - self.began
        self.say("up")
        if self.own_network:
            self.engines = [Engines(cluster) for cluster in self.clusters[1:]]
        played: list[Engines | Traffic] = [*self.engines]
        played += self._traffic(sites, sources) if self.own_network else []
        async with asyncio.TaskGroup() as group:
            for part in (self.runtime, *played):
                group.create_task(part.run())

    def _traffic(self, sites: Sequence[Site], sources: Sources) -> list[Traffic]:
        """What requests pass on their way: a gateway in each cluster, pickers in those with workloads."""
        control, *workloads = self.clusters
        fleet: Traffic = Gateway(self.supervisor, control, _FLEET_GATEWAY)
        if Set.GATEWAY in self.options:
            fleet = EnvoyGateway(self.supervisor, control, sources, _GATEWAY_ANNEX)
        if Set.AI_GATEWAY in self.options:
            numbers = enumerate(workloads, _GATEWAY_ANNEX + 1)
            gateways: list[Traffic] = [
                EnvoyGateway(self.supervisor, cluster, sources, number, pools=True) for number, cluster in numbers
            ]
        else:
            pairs = zip(workloads, sites, strict=True)
            gateways = [Gateway(self.supervisor, cluster, site.gateway) for cluster, site in pairs]
        return [fleet, *gateways, *(Pickers(self.supervisor, cluster) for cluster in workloads)]

    def _cluster(self, name: str, port: int) -> Cluster:
        programs = {part.name: binary(self.places, part) for part in COMPONENTS}
        # Annexes reach it by an address that is not loopback; nobody else can, in a network of its own.
        host = "0.0.0.0" if self.own_network else LOOPBACK  # noqa: S104 - see above
        return new_cluster(name, port, self.places.state / name, lambda program: programs[program], host=host)

    async def _workload(self, site: Site, cluster: Cluster, sources: Sources, schedulers: Iterable[Set]) -> None:
        await workload.bring_up(
            self.supervisor, cluster, site.pools, pod_range=site.pod_range, sources=sources, say=self.say
        )
        async with Api(cluster.access(*ADMIN)) as api:
            for each in schedulers:
                await SCHEDULERS[each](self.supervisor, cluster, api, sources)
                self.say(f"{cluster.name}: {each.value} serves")
            if Set.KSERVE in self.options:
                await kserve.bring_up(self.supervisor, cluster, api, sources)
                self.say(f"{cluster.name}: KServe serves")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            asked = json.loads(await reader.readline())
            try:
                answer = await self._answer(asked)
            except (KeyError, ValueError, OSError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()

    async def _answer(self, asked: dict[str, str]) -> dict[str, object]:
        doings: dict[str, Callable[[dict[str, str]], Awaitable[dict[str, object]]]] = {
            "status": self._status,
            "stop": self._stop,
            "kill": self._kill,
            "hold": self._hold,
            "resume": self._resume,
            "install": self._install,
            "prepare": self._prepare,
            "serve": self._serve_function,
            "functions": self._functions,
            "valve": self._valve,
            "upgrade": self._upgrade,
            "hub": self._hub,
            "agent": self._agent,
            "next": self._next,
            "first": self._first,
        }
        return await doings[asked["do"]](asked)

    async def _status(self, _: dict[str, str]) -> dict[str, object]:
        return {
            "said": self.said,
            "failed": self.failed,
            "up_after_s": self.up_after_s,
            "own_network": self.own_network,
            "options": sorted(option.value for option in self.options),
            "clusters": {cluster.name: str(cluster.kubeconfig) for cluster in self.clusters},
            "engines": sum(len(each) for each in self.engines),
            "programs": [
                {
                    "name": name,
                    "phase": run.phase.value,
                    "pid": run.pid,
                    "restarts": run.restarts,
                    "rss_mib": _resident_mib(run.pid),
                    "cpu_s": _processor_s(run.pid),
                }
                for name, run in self.supervisor.runs.items()
            ],
        }

    async def _stop(self, _: dict[str, str]) -> dict[str, object]:
        self.ending.set()
        return {}

    async def _kill(self, asked: dict[str, str]) -> dict[str, object]:
        self.supervisor.kill(asked["name"])
        return {}

    async def _hold(self, asked: dict[str, str]) -> dict[str, object]:
        await self.supervisor.hold(asked["name"])
        return {}

    async def _install(self, asked: dict[str, str]) -> dict[str, object]:
        if self.control is None or self.runtime is None:
            return {"error": "the lab is not up"}
        folder = self.places.state / "packages"
        try:
            await install(self.supervisor, self.control, self.runtime, folder, self.say, mode=asked["mode"])
        except (InstallError, ProgramError, WaitedTooLongError, ApiError) as error:
            return {"error": str(error)}
        return {}

    async def _prepare(self, _: dict[str, str]) -> dict[str, object]:
        if self.control is None or self.runtime is None:
            return {"error": "the lab is not up"}
        await prepare(self.control, self.runtime)
        return {"flags": list(no_gateway(self.control))}

    async def _serve_function(self, asked: dict[str, str]) -> dict[str, object]:
        if self.control is None:
            return {"error": "the lab is not up"}
        try:
            await serve(self.supervisor, self.control, self.say, mode=asked["mode"])
        except (InstallError, ProgramError, WaitedTooLongError, ApiError) as error:
            return {"error": str(error)}
        return {}

    async def _functions(self, asked: dict[str, str]) -> dict[str, object]:
        if self.servers is None:
            return {"error": "nothing is installed"}
        try:
            await self.servers.use(Servers(asked["servers"]), asked["mode"])
        except ProgramError as error:
            return {"error": str(error)}
        return {}

    async def _valve(self, asked: dict[str, str]) -> dict[str, object]:
        if self.servers is not None:
            self.servers.turn_valve(is_open=asked["state"] == "open")
        return {}

    async def _upgrade(self, asked: dict[str, str]) -> dict[str, object]:
        if self.control is None or self.runtime is None:
            return {"error": "the lab is not up"}
        try:
            return await upgrade(self.supervisor, self.control, self.runtime, self.say, mode=asked["mode"])
        except (InstallError, ProgramError, WaitedTooLongError, ApiError) as error:
            return {"error": str(error)}

    async def _hub(self, _: dict[str, str]) -> dict[str, object]:
        if self.control is None or not self.own_network:
            return {"error": "the lab is not up, or has no hosts file of its own"}
        try:
            await hub.start_hub(self.supervisor, self.control)
        except (InstallError, ProgramError, ApiError) as error:
            return {"error": str(error)}
        return {}

    async def _agent(self, asked: dict[str, str]) -> dict[str, object]:
        (cluster,) = [each for each in self.clusters if each.name == asked["cluster"]]
        try:
            return {"program": await hub.start_agent(self.supervisor, cluster)}
        except (InstallError, ProgramError, ApiError) as error:
            return {"error": str(error)}

    async def _next(self, asked: dict[str, str]) -> dict[str, object]:
        if self.control is None or self.runtime is None:
            return {"error": "the lab is not up"}
        await serve_next(self.supervisor, self.control, self.runtime, mode=asked["mode"])
        return {}

    async def _first(self, _: dict[str, str]) -> dict[str, object]:
        if self.runtime is None:
            return {"error": "the lab is not up"}
        await serve_first(self.supervisor, self.runtime)
        return {}

    async def _resume(self, asked: dict[str, str]) -> dict[str, object]:
        await self.supervisor.resume(asked["name"])
        return {}


def _sentence(error: BaseException) -> str:
    """The first real error inside the groups that concurrent work wraps around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _processor_s(pid: int | None) -> float:
    """What it has used since it started."""
    if pid is None:
        return 0.0
    try:
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(facts[_USER_TICKS]) + int(facts[_USER_TICKS + 1])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int | None) -> int:
    if pid is None:
        return 0
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
