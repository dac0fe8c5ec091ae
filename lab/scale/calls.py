"""The function server's account of its calls: for whom, when, what each cost, and what asked for it.

Crossplane calls for a composite when something about it changed, and when the ttl of its last answer is over. A call
that comes sooner after the one before than the ttl was caused by a change; the others were asked for by the clock.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from modelplane.crossplane.calls import RESYNC_S

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_JITTER = 0.15
"""Crossplane spreads the ttl by a tenth; the rest is for a queue on a busy machine."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call."""

    at_s: float
    kind: str
    subject: str
    work_ms: float
    request_bytes: int
    response_bytes: int
    outcome: str
    caused: bool


@dataclass(slots=True)
class Account:
    """Reads the log of a server as it grows."""

    log: Path
    entries: list[Entry] = field(default_factory=list)
    _offset: int = 0
    _rest: bytes = b""
    _last: dict[str, float] = field(default_factory=dict)

    def read(self) -> list[Entry]:
        """The calls since the last time."""
        with self.log.open("rb") as stream:
            stream.seek(self._offset)
            content = stream.read()
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        fresh = [self._entry(said) for line in lines if b'"Answered"' in line and (said := _decoded(line))]
        self.entries += fresh
        return fresh

    def _entry(self, said: dict[str, object]) -> Entry:
        at_s = float(str(said["ts"]))
        subject = str(said["object"])
        before = self._last.get(subject)
        self._last[subject] = at_s
        return Entry(
            at_s=at_s,
            kind=subject.partition("/")[0],
            subject=subject,
            work_ms=float(str(said["work_ms"])),
            request_bytes=int(str(said["request_bytes"])),
            response_bytes=int(str(said["response_bytes"])),
            outcome=str(said["outcome"]),
            caused=before is None or at_s - before < RESYNC_S * (1 - _JITTER),
        )


def starts(log: Path) -> int:
    """How often the server began to serve."""
    return sum(_reason(line) == "Serving" for line in log.read_bytes().splitlines())


def _decoded(line: bytes) -> dict[str, object]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _reason(line: bytes) -> object:
    return _decoded(line).get("reason")


@dataclass(frozen=True, slots=True)
class Cost:
    """Calls of one kind over a while."""

    calls: int
    work_p50_ms: float
    work_p99_ms: float
    request_bytes: int
    response_bytes: int
    """The largest of each."""


ALL = "all"


def costs(entries: Iterable[Entry]) -> dict[str, Cost]:
    """By kind, and of all calls together."""
    by_kind: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry)
    if by_kind:
        by_kind[ALL] = [entry for some in by_kind.values() for entry in some]
    return {kind: _cost(some) for kind, some in sorted(by_kind.items())}


def _cost(entries: list[Entry]) -> Cost:
    work = sorted(entry.work_ms for entry in entries)
    return Cost(
        calls=len(entries),
        work_p50_ms=round(percentile(work, 50), 2),
        work_p99_ms=round(percentile(work, 99), 2),
        request_bytes=max(entry.request_bytes for entry in entries),
        response_bytes=max(entry.response_bytes for entry in entries),
    )


def percentile(values: list[float], percent: int) -> float:
    """Of sorted values; 0 where there are none."""
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else 0.0


def by_kind(entries: Iterable[Entry]) -> dict[str, int]:
    return dict(sorted(Counter(entry.kind for entry in entries).items()))
