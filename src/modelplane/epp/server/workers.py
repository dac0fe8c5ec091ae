"""The processes of a picker with several workers: each is started, read from, and started again when it ends.

A worker has two Unix sockets to this process: one for messages (`worker_messages`), one for the connections that it is
to serve. Both are inherited, so there is no path and no port that others could reach. A worker that ends is started
again, at once if it lived for a while, else after a pause that doubles.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Final, Protocol

import msgspec

from modelplane.api.errors import ModelplaneError
from modelplane.epp.datalayer.frames import framed, read_frame
from modelplane.epp.server.observe.families import Family
from modelplane.epp.server.observe.worker_pages import family_of
from modelplane.epp.server.worker_messages import (
    MOST_FRAME,
    FromWorker,
    ToWorker,
    WorkerSetup,
    encode,
    from_worker_decoder,
)
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_MODULE: Final = "modelplane.epp.server.worker"
_SILENT_S: Final = 3.0
_MOST_UNSENT: Final = 1 << 20
_STEADY_S: Final = 10.0
_PAUSE_S: Final = 0.1
_MOST_PAUSE_S: Final = 5.0
_GONE_S: Final = 5.0
"""For a process to end after its socket did, and after it should have been drained."""
_CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


class WorkerFailed(ModelplaneError):  # noqa: N818  named like its siblings
    """A worker ended before it was ready."""


class WorkerLink:
    """One worker process, and what it last sent."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, connections: socket.socket) -> None:
        self.number = number
        self.process = process
        self._connections = connections
        self._connections.setblocking(False)
        self._writer: asyncio.StreamWriter | None = None
        self._status: FromWorker[msgspec.Raw] | None = None
        self._read_s = 0.0
        self._handed_over = 0
        self._families: list[Family] = []
        self.started = asyncio.Event()
        self.paged = asyncio.Event()
        """Set when its page is whole, or will never be."""
        self.config: bytes | None = None
        self.identity: object = None
        """What it was sent last."""

    @property
    def serves(self) -> bool:
        """Whether connections may be handed over to it."""
        return self._status is not None and asyncio.get_running_loop().time() - self._read_s < _SILENT_S

    @property
    def connections(self) -> int:
        """Those that it has, and those on their way."""
        known = self._status
        return self._handed_over if known is None else known.connections + self._handed_over - known.adopted

    @property
    def is_behind(self) -> bool:
        """Whether it does not read what it is sent."""
        return self._writer is None or self._writer.transport.get_write_buffer_size() > _MOST_UNSENT

    def send(self, message: msgspec.Struct) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(framed(encode(message)))

    def request_page(self) -> None:
        self.paged.clear()
        self.send(ToWorker[msgspec.Raw](wants_page=True))

    def hand_over(self, connection: socket.socket) -> bool:
        """Whether the connection is the worker's from here on."""
        try:
            socket.send_fds(self._connections, [b"+"], [connection.fileno()])
        except OSError:
            return False
        self._handed_over += 1
        return True

    async def read(self, channel: socket.socket, setup: WorkerSetup, listener: "WorkerListener") -> None:
        """Until the process is gone."""
        reader, self._writer = await asyncio.open_connection(sock=channel)
        self.config, self.identity = setup.config, setup.identity
        self.send(setup)
        try:
            while True:
                self._take(from_worker_decoder.decode(await read_frame(reader, MOST_FRAME)), listener)
        except (OSError, EOFError):
            return
        finally:
            self.paged.set()
            self._status = None
            self._writer.close()
            self._connections.close()

    def _take(self, message: FromWorker[msgspec.Raw], listener: "WorkerListener") -> None:
        self._status, self._read_s = message, asyncio.get_running_loop().time()
        if message.family is not None:
            self._families.append(family_of(message.family))
        elif message.is_page_end:
            families, self._families = self._families, []
            listener.paged(self, families)
            self.paged.set()
        else:
            listener.received(self, message)
        self.started.set()


class WorkerListener(Protocol):
    """Is called as workers come, speak and go."""

    def joined(self, worker: WorkerLink, /) -> None: ...

    def received(self, worker: WorkerLink, message: FromWorker[msgspec.Raw], /) -> None: ...

    def paged(self, worker: WorkerLink, families: list[Family], /) -> None: ...

    def left(self, worker: WorkerLink, /) -> None: ...


class WorkerProcesses:
    """So many workers, kept running between `start` and `stop`."""

    def __init__(self, count: int, setup: Callable[[int], WorkerSetup], listener: WorkerListener) -> None:
        self._count = count
        self._setup = setup
        self._listener = listener
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._has_started = False
        self.links: dict[int, WorkerLink] = {}
        """Those that run, by number."""
        self.restarts = dict.fromkeys(range(count), 0)

    async def start(self) -> None:
        """Returns when all serve; WorkerFailed where one ends before."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(number)) for number in range(self._count)]
        ready = loop.create_task(self._all_started())
        await asyncio.wait([ready, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self.stop(0.0)
            raise next(error for task in self._tasks if (error := task.exception()) is not None)
        self._has_started = True

    async def stop(self, drain_s: float) -> None:
        """Each drains; what is left after that is killed."""
        self._stopping.set()
        for link in self.links.values():
            with suppress(ProcessLookupError):
                link.process.terminate()
        if not self._tasks:
            return
        try:
            await asyncio.wait(self._tasks, timeout=drain_s + _GONE_S)
        finally:
            for link in list(self.links.values()):
                with suppress(ProcessLookupError):
                    link.process.kill()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def starting(self) -> list[int]:
        """The numbers of those that do not serve yet."""
        return [at for at in range(self._count) if at not in self.links or not self.links[at].started.is_set()]

    async def _all_started(self) -> None:
        while waiting := self.starting():
            links = [self.links[number] for number in waiting if number in self.links]
            await asyncio.gather(*(link.started.wait() for link in links), asyncio.sleep(0.01))

    async def _keep(self, number: int) -> None:
        pause_s = _PAUSE_S
        while not self._stopping.is_set():
            began_s = asyncio.get_running_loop().time()
            end = await self._life(number)
            if self._stopping.is_set():
                return
            if not self._has_started:
                raise WorkerFailed(f"worker {number} {end} before it was ready")
            is_steady = asyncio.get_running_loop().time() - began_s > _STEADY_S
            pause_s = _PAUSE_S if is_steady else min(2 * pause_s, _MOST_PAUSE_S)
            _LOG.error("worker %d %s: it is started again", number, end, extra=because(LogReason.WORKER_RESTARTED))
            self.restarts[number] += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0 if is_steady else pause_s):
                    await self._stopping.wait()

    async def _life(self, number: int) -> str:
        """How it ended."""
        try:
            code, pid = await self._run_once(number)
        except Exception as error:  # noqa: BLE001  whatever is wrong with one worker, it is started again
            _LOG.exception("worker %d failed", number, extra=because(LogReason.WORKER_FAILED))
            return f"failed ({type(error).__name__})"
        return f"(pid {pid}) ended with code {code}"

    async def _run_once(self, number: int) -> tuple[int, int]:
        """One life of a worker: its exit code, and its pid."""
        channel, theirs = socket.socketpair()
        connections, their_connections = socket.socketpair()
        with theirs, their_connections:
            handed = theirs.fileno(), their_connections.fileno()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _MODULE, *map(str, handed)),
                pass_fds=handed,
                stdin=asyncio.subprocess.DEVNULL,
                # A Ctrl-C of a terminal is for the main process, which decides when all end.
                start_new_session=True,
            )
        if self._stopping.is_set():
            process.terminate()
        link = self.links[number] = WorkerLink(number, process, connections)
        self._listener.joined(link)
        try:
            await link.read(channel, self._setup(number), self._listener)
        finally:
            del self.links[number]
            self._listener.left(link)
            code = await _gone(process)
        return code, process.pid


async def _gone(process: asyncio.subprocess.Process) -> int:
    """The exit code. A process that closed its socket has nothing left to do."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_GONE_S):
            return await process.wait()
    process.kill()
    return await process.wait()


def processors(quota: Path = _CPU_QUOTA) -> int:
    """How many this process may use: by its affinity, and by the CPU limit of its container."""
    count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        most, period = quota.read_text().split()
        if most != "max":
            count = min(count, max(1, ceil(int(most) / int(period))))
    return count
