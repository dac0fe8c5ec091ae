"""The fleet routers of the embedded plane: one for each gateway that asks for one, in the plane's own process.

A router knows the services of its gateway and no others, and its callers with what they may do. Envoy checks their keys
and names them. Usage is written to `usage/GATEWAY.jsonl` in the data folder, and `routers.json` there has the address
of each router's side door, for the commands that read decisions.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from modelplane.compose.service_plan import ServicePlan
from modelplane.envoy.view import RouterAddress
from modelplane.plane.fleet_gateways import ServedGateway
from modelplane.router.served_models import HopContext
from modelplane.router.server import RouterServer, RouterSettings
from modelplane.router.usage_file import UsageFile

ADDRESSES: Final = "routers.json"
_DRAIN_S: Final = 1.0


class RunningRouter:
    """One router, its gateway and its usage."""

    def __init__(self, host: str, file: UsageFile, hop: HopContext | None = None) -> None:
        settings = RouterSettings(host=host, port=0, health_port=-1, admin_port=0, drain_s=_DRAIN_S)
        self.server = RouterServer(settings, write_usage=file.write, hop=hop)
        self.server.director.callers.restore(file.spent())
        self._file = file
        self._host = host

    @property
    def address(self) -> RouterAddress:
        return RouterAddress(self._host, self.server.port)

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.server.admin_port}"

    async def stop(self) -> None:
        await self.server.stop()
        self._file.close()


class GatewayRouters:
    """Started as gateways ask for them, all stopped by `stop`."""

    def __init__(self, host: str, data: Path, *, always: bool, report: Callable[[str], None]) -> None:
        """`always`: every gateway has one, whether or not it asks."""
        self._host = host
        self._data = data
        self._always = always
        self._report = report
        self.hop: HopContext | None = None
        """How routers call the gateways of clusters, where that takes a certificate."""
        self._routers: dict[str, RunningRouter] = {}
        self._doors: dict[str, ServedGateway] = {}

    @property
    def urls(self) -> dict[str, str]:
        """The side door of each router by its gateway."""
        return {listener: router.url for listener, router in sorted(self._routers.items())}

    def tokens(self) -> Iterator[tuple[str, str, float]]:
        """Service, direction and tokens, of every router."""
        return chain.from_iterable(router.server.director.usage.tokens() for router in self._routers.values())

    async def sync(self, doors: Iterable[ServedGateway], plans: Sequence[ServicePlan]) -> dict[str, RouterAddress]:
        """Where the router of each gateway is, by listener: those that are missing are started."""
        wanted = {door.listener: door for door in doors if self._always or door.has_router}
        self._doors = wanted
        for listener in wanted.keys() - self._routers.keys():
            await self._start(listener, plans)
        self.update(plans)
        return {listener: self._address(listener) for listener in wanted}

    async def retire(self) -> None:
        """Stop the routers of gateways that have none any more: after Envoy was told."""
        for listener in self._routers.keys() - self._doors.keys():
            await self._routers.pop(listener).stop()
            self._write_addresses()

    def update(self, plans: Sequence[ServicePlan]) -> None:
        """The services are these: known to the routers before Envoy is programmed."""
        for listener, door in self._doors.items():
            router = self._routers.get(listener)
            if router is not None:
                router.server.director.callers.replace(door.caller_document)
                router.server.replace(door.plans(plans))

    async def stop(self) -> None:
        self._doors = {}
        await self.retire()

    def _address(self, listener: str) -> RouterAddress:
        found = self._routers[listener].address
        return RouterAddress(found.host, found.port, required=self._doors[listener].caller_document.restricts)

    async def _start(self, listener: str, plans: Sequence[ServicePlan]) -> None:
        router = RunningRouter(self._host, UsageFile(self._data / "usage" / f"{listener}.jsonl"), self.hop)
        router.server.replace(self._doors[listener].plans(plans))
        await router.server.start()
        self._routers[listener] = router
        self._write_addresses()
        self._report(f"router      {router.url} of gateway {listener}")

    def _write_addresses(self) -> None:
        (self._data / ADDRESSES).write_text(json.dumps(self.urls))
