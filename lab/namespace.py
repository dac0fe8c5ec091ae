"""A world of its own for the lab's processes, as far as the machine allows one.

A network namespace keeps ports private (several of the programs listen on all interfaces and have no flag against it)
and lets simulated engines listen on the addresses of pods. A PID namespace makes the kernel end everything when its
first process, our supervisor, ends. Without either the lab still runs, on the machine's own loopback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FLAGS = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_TRY_S = 20


@dataclass(frozen=True, slots=True)
class Isolation:
    """How to start something inside, and what a reader should know about it."""

    prefix: tuple[str, ...]
    own_network: bool
    note: str


def find_isolation() -> Isolation:
    """The strongest that works here, found by trying."""
    unshare = shutil.which("unshare")
    if unshare is not None:
        for users in ((), ("--user", "--map-root-user")):
            prefix = (unshare, *users, *_FLAGS)
            if (users or os.geteuid() == 0) and _works((*prefix, "ip", "link", "set", "lo", "up")):
                return Isolation(prefix, own_network=True, note="network and PID namespaces of its own")
    note = "no namespaces here: ports are the machine's own, and simulated engines cannot listen on pod addresses"
    return Isolation((), own_network=False, note=note)


def _works(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_TRY_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def enter_command(pid: int) -> tuple[str, ...]:
    """A prefix that runs a command in the namespaces of the process with this id."""
    nsenter = shutil.which("nsenter") or "nsenter"
    users = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    return (nsenter, "--target", str(pid), *users, "--net")


def lay_network(pod_ranges: Iterable[str]) -> None:
    """Inside: loopback up, and every pod address local, so that servers may listen on it and clients reach it."""
    _ip("link", "set", "lo", "up")
    for each in pod_ranges:
        _ip("route", "add", "local", each, "dev", "lo")


def name_hosts(file: Path, names: Mapping[str, Iterable[str]]) -> None:
    """Inside: these names beside those of the machine, each with its addresses. Nobody outside sees them."""
    hosts = Path("/etc/hosts")
    lines = [f"{address} {name}" for name, addresses in names.items() for address in addresses]
    file.write_text("\n".join([hosts.read_text().rstrip(), *lines]) + "\n")
    subprocess.run(["mount", "--bind", str(file), str(hosts)], check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
