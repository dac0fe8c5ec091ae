"""A network namespace beside the lab's own, for a program that insists on ports which another program has.

A pair of virtual links joins it to the lab's: from inside, everything of the lab is reached at `outside`, pods and
gateways at their own addresses; from outside, and from other annexes, what runs inside is reached at `inside`. The
namespace lives as long as the process that holds it open.
"""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.namespace import enter_command
from lab.supervisor import Program

if TYPE_CHECKING:
    from lab.client import Access
    from lab.cluster import Cluster
    from lab.supervisor import Probe, Supervisor

_NETWORK = "10.243"
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True, slots=True)
class Annex:
    """One that is open. `number` tells it from others."""

    number: int
    holder: int

    @property
    def outside(self) -> str:
        return f"{_NETWORK}.{self.number}.1"

    @property
    def inside(self) -> str:
        return f"{_NETWORK}.{self.number}.2"

    def enter(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command line that runs a command inside."""
        return (*enter_command(self.holder), *command)

    def access(self, cluster: Cluster, access: Access) -> Access:
        """The same access from inside: another address, the same name in the certificate."""
        return replace(access, server=f"https://{self.outside}:{cluster.ports.api}", server_name="localhost")


async def open_annex(supervisor: Supervisor, name: str, number: int) -> Annex:
    """Returns when both ends are up. Only root of the lab's own network can do that."""
    holder = f"annex-{name}"
    await supervisor.start(Program(holder, ("unshare", "--net", "sleep", "infinity"), _apart(supervisor, holder)))
    annex = Annex(number, supervisor.runs[holder].pid or 0)
    await asyncio.to_thread(_join, annex)
    return annex


def _join(annex: Annex) -> None:
    link = f"annex{annex.number}"
    _FORWARDING.write_text("1")  # from one annex to another
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(annex.holder))
    _run("ip", "address", "add", f"{annex.outside}/30", "dev", link)
    _run("ip", "link", "set", link, "up")
    for arguments in (
        ("link", "set", "lo", "up"),
        ("address", "add", f"{annex.inside}/30", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("route", "add", "default", "via", annex.outside),
    ):
        _run(*annex.enter(("ip", *arguments)))


def _apart(supervisor: Supervisor, holder: str) -> Probe:
    async def probe() -> bool:
        pid = supervisor.runs[holder].pid
        return pid is not None and _network("self") != _network(str(pid))

    return probe


def _network(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
