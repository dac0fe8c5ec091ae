"""Progress: one JSON object a line, and the last one in a file."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from modelplane.hydrate.errors import HydrateError

_WINDOW_S = 20.0


class HydrationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the loader says of itself. `bytes` counts what is on the volume, from earlier attempts too."""

    phase: str
    bytes: int
    total: int
    rate: int
    """Bytes a second, over the last 20 seconds."""
    eta: int | None = None
    """Seconds to the end, where the rate tells."""
    files: int = 0
    files_total: int = 0
    fetched: int = 0
    """Bytes that this run fetched."""
    key: str | None = None
    revision: str | None = None
    reason: str | None = None
    message: str | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The clocks, as arguments."""

    monotonic: Callable[[], float] = time.monotonic
    timestamp: Callable[[], str] = lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class HydrationProgress:
    """Counts from many threads; reports from one."""

    def __init__(self, write: Callable[[str], None], status_file: Path | None = None, now: Now | None = None) -> None:
        self._write = write
        self._status_file = status_file
        self._now = now or Now()
        self._lock = threading.Lock()
        self._bytes = self._fetched = self._total = self._files = self._files_total = 0
        self._seen: deque[tuple[float, int]] = deque()
        self.phase = "Resolving"
        self.key: str | None = None
        self.revision: str | None = None
        self._failure: HydrateError | None = None

    def failed_for_now(self, error: HydrateError) -> None:
        """What is tried again. Lines say so until the next byte."""
        self._failure = error

    def expect(self, *, files: int, total: int) -> None:
        with self._lock:
            self._bytes = self._files = 0
            self._failure = None
            self._files_total, self._total = files, total

    def have(self, count: int) -> None:
        """Bytes that are on the volume already; negative for those that have to be fetched again."""
        with self._lock:
            self._bytes += count

    def fetched(self, count: int) -> None:
        with self._lock:
            self._bytes += count
            self._fetched += count
            self._failure = None

    def file_done(self) -> None:
        with self._lock:
            self._files += 1

    @property
    def fetched_bytes(self) -> int:
        return self._fetched

    def report(self, phase: str | None = None, *, reason: str | None = None, message: str | None = None) -> None:
        self.phase = phase or self.phase
        line = msgspec.json.encode(self._status(reason, message)).decode()
        self._write(line)
        if self._status_file is not None:
            _replace(self._status_file, line)

    def _status(self, reason: str | None, message: str | None) -> HydrationStatus:
        rate = self._rate()
        left = max(0, self._total - self._bytes)
        failure = self._failure
        if failure is not None and self.phase != "Complete" and message is None:
            reason, message = failure.reason.value, str(failure)
        return HydrationStatus(
            phase=self.phase,
            bytes=self._bytes,
            total=self._total,
            rate=rate,
            eta=left // rate if rate and self.phase == "Fetching" else None,
            files=self._files,
            files_total=self._files_total,
            fetched=self._fetched,
            key=self.key,
            revision=self.revision,
            reason=reason,
            message=message,
            time=self._now.timestamp(),
        )

    def _rate(self) -> int:
        now_s = self._now.monotonic()
        self._seen.append((now_s, self._fetched))
        while self._seen[0][0] < now_s - _WINDOW_S and len(self._seen) > 2:  # noqa: PLR2004  two points give a rate
            self._seen.popleft()
        since, before = self._seen[0]
        return int((self._fetched - before) / (now_s - since)) if now_s > since else 0


def _replace(path: Path, line: str) -> None:
    """At once where the folder allows; a pod's termination log is a mounted file, and is written in place."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(f"{line}\n", encoding="utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        path.write_text(f"{line}\n", encoding="utf-8")
