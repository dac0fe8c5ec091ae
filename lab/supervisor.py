"""Runs the lab's processes: starts them in the order that readiness allows, restarts what dies, leaves nothing behind.

A program is started once those it comes `after` are ready, and is ready when its probe says so. One that ends without
being told to is started again after a pause that grows: the lab's kill tests rely on it, and a program that never comes
up shows as a bring-up that fails with the end of its log.

Nothing outlives the supervisor. Each process is the leader of a session of its own and carries a parent-death signal;
where the machine allows it all of them live in a PID namespace whose first process is the supervisor (`namespace`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Probe = Callable[[], Awaitable[bool]]

_POLL_S = 0.1
_GRACE_S = 4.0
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 30.0
_TAIL_LINES = 12


class ProgramError(Exception):
    """A program did not become ready; the sentence ends with the end of its log."""


class Phase(Enum):
    """What is known of a program."""

    WAITING = "waiting"  # for those it comes after
    STARTING = "starting"  # the probe has not said yes
    READY = "ready"
    ENDED = "ended"  # it will be started again after a pause
    HELD = "held"  # it was told to stop and will not be started


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how to tell that it serves."""

    name: str
    command: tuple[str, ...]
    ready: Probe
    environment: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    ready_within_s: float = 300.0


@dataclass(slots=True)
class Run:
    """One program under supervision."""

    program: Program
    phase: Phase = Phase.WAITING
    process: asyncio.subprocess.Process | None = None
    restarts: int = 0
    started: float = 0.0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.returncode is None else None


class Supervisor:
    """Owns the processes. `stop` ends all of them and may be called at any time, more than once."""

    def __init__(self, logs: Path) -> None:
        """Each program's output goes to a file of its own in `logs`."""
        self._logs = logs
        self.runs: dict[str, Run] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    async def start(self, program: Program) -> None:
        """Returns when it is ready; raises ProgramError when it does not become so in time."""
        run = self.runs.setdefault(program.name, Run(program))
        run.program = program
        for name in program.after:
            await self.wait_ready(name)
        self._keep(run)
        try:
            async with asyncio.timeout(program.ready_within_s):
                await run.ready.wait()
        except TimeoutError:
            raise ProgramError(f"{program.name} was not ready in time:\n{self.tail(program.name)}") from None

    async def wait_ready(self, name: str) -> None:
        """Of a program that some other task starts, maybe later."""
        await self._run(name).ready.wait()

    async def run_once(self, name: str, command: tuple[str, ...], environment: Mapping[str, str]) -> int:
        """Run a command to its end, its output in the log of that name; answers its exit status."""
        return await (await self._execute(name, command, environment)).wait()

    async def _execute(
        self, name: str, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        with (self._logs / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *_bound_to_us(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def _keep(self, run: Run) -> None:
        name = run.program.name
        if name not in self._keepers or self._keepers[name].done():
            self._keepers[name] = asyncio.create_task(self._keep_running(run), name=f"keep {name}")

    async def _keep_running(self, run: Run) -> None:
        failures = 0
        while not self._stopping:
            await self._run_once(run)
            if run.phase is Phase.HELD:
                return
            failures = 0 if time.monotonic() - run.started > _STEADY_S else failures + 1
            run.restarts += 1
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])

    async def _run_once(self, run: Run) -> None:
        await self._spawn(run)
        probing = asyncio.create_task(_probe(run))
        try:
            if run.process is not None:
                await run.process.wait()
        finally:
            probing.cancel()
            run.ready.clear()
            if run.phase is not Phase.HELD:
                run.phase = Phase.ENDED

    async def _spawn(self, run: Run) -> None:
        program = run.program
        run.process = await self._execute(program.name, program.command, program.environment)
        run.phase, run.started = Phase.STARTING, time.monotonic()

    def _run(self, name: str) -> Run:
        if name not in self.runs:
            # One that another task will start; its program is filled in then.
            self.runs[name] = Run(Program(name, (), _never))
        return self.runs[name]

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a program; it is started again when it ends."""
        _signal(self.runs[name], number)

    async def hold(self, name: str) -> None:
        """Stop a program and leave it stopped until `resume`."""
        run = self.runs[name]
        run.phase = Phase.HELD
        await _end(run)

    async def forget(self, name: str) -> None:
        """Stop a program for good."""
        await self.hold(name)
        keeper = self._keepers.pop(name, None)
        if keeper is not None:
            await asyncio.gather(keeper, return_exceptions=True)
        del self.runs[name]

    async def resume(self, name: str) -> None:
        run = self.runs[name]
        if run.phase is Phase.HELD:
            run.phase = Phase.WAITING
            await self.start(run.program)

    async def stop(self, *, grace_s: float = _GRACE_S) -> None:
        self._stopping = True
        for run in self.runs.values():
            run.phase = Phase.HELD
        await asyncio.gather(*(_end(run, grace_s) for run in self.runs.values()))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)

    def tail(self, name: str) -> str:
        """The end of a program's log."""
        try:
            lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(line[:300] for line in lines[-_TAIL_LINES:])


async def _never() -> bool:
    return False


async def _probe(run: Run) -> None:
    while not await run.program.ready():  # noqa: ASYNC110 - what is waited for is in another process
        await asyncio.sleep(_POLL_S)
    if run.phase is Phase.STARTING:
        run.phase = Phase.READY
        run.ready.set()


def _bound_to_us(command: tuple[str, ...]) -> tuple[str, ...]:
    """The kernel ends it when the supervisor is gone, even by SIGKILL."""
    wrapper = shutil.which("setpriv")
    return (wrapper, "--pdeathsig", "KILL", *command) if wrapper else command


def _signal(run: Run, number: int) -> None:
    if (pid := run.pid) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


async def _end(run: Run, grace_s: float = _GRACE_S) -> None:
    """Ask, wait a little, insist."""
    if run.process is None or run.pid is None:
        return
    _signal(run, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            await run.process.wait()
    except TimeoutError:
        _signal(run, signal.SIGKILL)
        await run.process.wait()
