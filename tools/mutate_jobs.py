"""Runs work in forked processes, each with a folder, a time limit and a process group of its own."""

import ctypes
import mmap
import os
import resource
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

_MEMORY_BYTES = 4 << 30
"""Of address space beyond what the parent has: a mutant that allocates for ever ends with a MemoryError."""
_PR_SET_PDEATHSIG = 1
"""A process that is forked ends with its parent."""
_CLOCK = struct.Struct("dq")


class Ended(StrEnum):
    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job."""

    job: Any
    ended: Ended
    answer: Any = None
    """What its work returned; how the process ended, if it crashed; the step that it was at, if it timed out."""


class Clock:
    """A deadline that a process sets for itself, and its parent reads."""

    def __init__(self, limit_s: float) -> None:
        self._shared = mmap.mmap(-1, _CLOCK.size)
        self.set(limit_s)

    def set(self, limit_s: float, step: int = 0) -> None:
        """So long from now, for this step of the work."""
        _CLOCK.pack_into(self._shared, 0, time.monotonic() + limit_s, step)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > float(_CLOCK.unpack_from(self._shared)[0])

    @property
    def step(self) -> int:
        return int(_CLOCK.unpack_from(self._shared)[1])

    def close(self) -> None:
        self._shared.close()


@dataclass(frozen=True, slots=True)
class _Child:
    job: Any
    pid: int
    answers: Connection
    clock: Clock
    folder: Path


Work = Callable[[Clock], Any]


class Jobs:
    """As many at a time as there are tokens, which several dispatchers may share."""

    def __init__(self, tokens: Semaphore) -> None:
        self._tokens = tokens
        self._children: dict[Connection, _Child] = {}

    def __len__(self) -> int:
        return len(self._children)

    def start(self, job: object, work: Work, *, limit_s: float, patience_s: float = 0.0) -> bool:
        """Whether there was a token for it."""
        if not self._tokens.acquire(timeout=patience_s):
            return False
        child = _fork(job, work, limit_s)
        self._children[child.answers] = child
        return True

    def ended(self, patience_s: float) -> Iterator[Outcome]:
        """Those that have ended, or are past their limit."""
        ready = wait(list(self._children), patience_s)
        for answers, child in list(self._children.items()):
            if answers in ready:
                yield self._end(child, *_answer(answers))
            elif child.clock.is_over:
                yield self._end(child, Ended.TIMED_OUT, child.clock.step)

    def stop(self) -> None:
        for child in list(self._children.values()):
            self._end(child, Ended.TIMED_OUT, None)

    def _end(self, child: _Child, ended: Ended, answer: object) -> Outcome:
        _kill(child.pid)
        _, status = os.waitpid(child.pid, 0)
        del self._children[child.answers]
        child.answers.close()
        child.clock.close()
        shutil.rmtree(child.folder, ignore_errors=True)
        self._tokens.release()
        return Outcome(child.job, ended, status if ended is Ended.CRASHED else answer)


def _fork(job: object, work: Work, limit_s: float) -> _Child:
    answers, send = Pipe(duplex=False)
    clock = Clock(limit_s)
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    pid = os.fork()
    if pid == 0:
        _run(work, clock, send, folder)
    send.close()
    return _Child(job, pid, answers, clock, folder)


def _run(work: Work, clock: Clock, send: Connection, folder: Path) -> None:
    """Nothing gets out of the process but the answer."""
    status = 1
    try:
        _settle(folder)
        send.send(work(clock))
        status = 0
    finally:
        os._exit(status)


def _settle(folder: Path) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    most = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _answer(answers: Connection) -> tuple[Ended, Any]:
    try:
        return Ended.ANSWERED, answers.recv()
    except EOFError:
        return Ended.CRASHED, None


def _kill(pid: int) -> None:
    """What a test started ends with it."""
    for end, which in ((os.killpg, pid), (os.kill, pid)):
        try:
            end(which, signal.SIGKILL)
        except ProcessLookupError:
            continue
