"""Function servers of the installed version: one, two that share the calls, or one whose watches pass a valve.

Crossplane resolves the name of a Function's Service and calls its addresses in turn. The lab has a hosts file for that:
the name stands for two loopback addresses, and a server listens on each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import yaml

from lab.certificates import write_private
from lab.cluster import LOOPBACK
from lab.control import FUNCTION_PORT
from lab.install import function_server
from lab.valve import Valve
from modelplane.crossplane.packaging import FUNCTION

if TYPE_CHECKING:
    from pathlib import Path

    from lab.control import Control, Runtime
    from lab.supervisor import Program, Supervisor

SECOND = "127.0.0.2"
SERVICE = "functions.lab"
HOSTS = {SERVICE: (LOOPBACK, SECOND)}
_NAME, _SECOND_NAME = "function", "function-second"
_VALVE_PORT = FUNCTION_PORT + 4


class Servers(Enum):
    """Which of them answer."""

    ONE = "one"
    TWO = "two"
    VALVED = "valved"


@dataclass(slots=True)
class FunctionServers:
    supervisor: Supervisor
    control: Control
    runtime: Runtime
    _valve: Valve | None = field(default=None)

    async def use(self, servers: Servers, mode: str) -> None:
        """Returns when they are ready and Crossplane is told; those that are not among them have ended."""
        if servers is not Servers.ONE:
            await self.supervisor.start(await self._second(servers, mode))
        if servers is not Servers.VALVED:
            await self.supervisor.resume(_NAME)
        address = {Servers.ONE: LOOPBACK, Servers.TWO: SERVICE, Servers.VALVED: SECOND}[servers]
        self.runtime.endpoints[FUNCTION] = f"{address}:{FUNCTION_PORT}"
        if servers is Servers.ONE and _SECOND_NAME in self.supervisor.runs:
            await self.supervisor.forget(_SECOND_NAME)
        if servers is Servers.VALVED:
            await self.supervisor.hold(_NAME)

    async def _second(self, servers: Servers, mode: str) -> Program:
        folder = self.control.cluster.folder
        kubeconfig = folder / "function.kubeconfig"
        if servers is Servers.VALVED:
            kubeconfig = await self._through_valve(kubeconfig)
        return function_server(folder / FUNCTION, kubeconfig, mode, name=_SECOND_NAME, host=SECOND)

    async def _through_valve(self, kubeconfig: Path) -> Path:
        self._valve = self._valve or Valve(_VALVE_PORT, self.control.cluster.ports.api)
        await self._valve.start()
        config = yaml.safe_load(kubeconfig.read_text())  # noqa: ASYNC240 - one small file
        config["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{_VALVE_PORT}"
        path = kubeconfig.with_name("function-valved.kubeconfig")
        write_private(path, yaml.safe_dump(config).encode())
        return path

    def turn_valve(self, *, is_open: bool) -> None:
        if self._valve is not None:
            (self._valve.open if is_open else self._valve.shut)()
