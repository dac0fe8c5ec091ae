"""The command line's side of the lab: start its process and wait for it, ask it, end it and whatever it left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.namespace import enter_command, find_isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.components import Set
    from lab.places import Places

_START_WITHIN_S = 600.0
_STOP_WITHIN_S = 30.0
_POLL_S = 0.2
_ASK_TIMEOUT_S = 600.0
_START_TIME_FIELD = 19  # of /proc/PID/stat after the name


class LabError(Exception):
    """The lab did not start, or there is none."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the pid file says: the process that holds the lab, when it began, and one inside its namespaces."""

    pid: int
    began: str
    inside: int


def start(
    places: Places,
    fleet: Path,
    say: Callable[[str], None],
    *,
    tied: bool = False,
    options: frozenset[Set] = frozenset(),
) -> None:
    """Returns when the lab is up. One that is `tied` ends with the process that started it."""
    if running(places) is not None:
        raise LabError("the lab is running already: `make lab-status`, or `make lab-down` first")
    isolation = find_isolation()
    say(f"isolation: {isolation.note}")
    shutil.rmtree(places.state, ignore_errors=True)
    places.state.mkdir(parents=True)
    log = places.state / "lab.log"
    bound = ("setpriv", "--pdeathsig", "KILL") if tied else ()
    network = ("--own-network",) if isolation.own_network else ()
    chosen = tuple(word for each in sorted(options, key=_set_name) for word in ("--with", each.value))
    command = (*bound, *isolation.prefix, sys.executable, "-m", "lab", "supervise", str(fleet), *network, *chosen)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    known = Known(process.pid, _began(process.pid) or "", process.pid)
    _write(places, known)
    _follow(places, process, log, say)
    _write(places, Known(known.pid, known.began, _innermost(process.pid)))


def _set_name(option: Set) -> str:
    return option.value


def _follow(places: Places, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None]) -> None:
    """Repeat what the lab says until it is up."""
    shown = 0
    deadline = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < deadline:
        lines = log.read_text(errors="replace").splitlines()
        for line in lines[shown:]:
            say(line)
        shown = len(lines)
        if process.poll() is not None:
            raise LabError(f"the lab ended while it came up (exit status {process.returncode}); logs: {places.state}")
        if (state := ask(places, "status")) is not None and state.get("up_after_s"):
            return
        time.sleep(_POLL_S)
    stop(places, say)
    raise LabError(f"the lab did not come up within {_START_WITHIN_S:.0f} s; logs: {places.state}")


def ask(places: Places, do: str, **given: str) -> dict[str, object] | None:
    """One question; None where nobody answers."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as line:
        line.settimeout(_ASK_TIMEOUT_S)
        try:
            line.connect(str(places.control_socket))
            line.sendall(json.dumps({"do": do, **given}).encode() + b"\n")
            answer = line.makefile("rb").readline()
        except OSError:
            return None
    return dict(json.loads(answer)) if answer else None


def running(places: Places) -> Known | None:
    """The lab of these places, if its process is alive and is the one that was started."""
    try:
        known = Known(**json.loads(places.pid_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return known if _began(known.pid) == known.began else None


def stop(places: Places, say: Callable[[str], None]) -> bool:
    """Ask, wait, insist. Answers whether there was anything to stop."""
    known = running(places)
    if known is None:
        places.pid_file.unlink(missing_ok=True)
        return False
    ask(places, "stop")
    if not _gone(known, _STOP_WITHIN_S):
        say("the lab does not end by itself; killing it")
        with contextlib.suppress(ProcessLookupError):
            os.kill(known.pid, signal.SIGKILL)
        _gone(known, _STOP_WITHIN_S)
    places.pid_file.unlink(missing_ok=True)
    return True


def inside(places: Places, command: Sequence[str]) -> tuple[str, ...]:
    """The command line that runs a command where the lab's addresses are."""
    known = running(places)
    if known is None:
        raise LabError("the lab is not running: `make lab` starts it")
    state = ask(places, "status") or {}
    return (*enter_command(known.inside), *command) if state.get("own_network") else tuple(command)


def _gone(known: Known, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(known.pid, os.WNOHANG)
        if _began(known.pid) != known.began:
            return True
        time.sleep(_POLL_S)
    return False


def _write(places: Places, known: Known) -> None:
    content = {"pid": known.pid, "began": known.began, "inside": known.inside}
    places.pid_file.write_text(json.dumps(content))


def _began(pid: int) -> str | None:
    """When a process started: with its id it names it for good, ids alone are used again. None for one that ended."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if facts[0] == "Z" else facts[_START_TIME_FIELD]


def _innermost(pid: int) -> int:
    """The process that unshare forked: the first one inside the namespaces."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return pid
    return int(children[0]) if children else pid
