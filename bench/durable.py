"""Writes a second that survive a power cut, with one fsync for all that wait, beside one for each and none.

Writers take turns in one event loop, as requests of the embedded API do, each on an object of its own; a write is done
when it is acknowledged. The three ways take turns on one file: a disk that is slow for a while is slow for all of them.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.apiserver.group_commit import GroupCommit
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef

_WRITERS = (1, 8, 64)
_ROUNDS = 3
_SECONDS = 0.7
_WRITES_LEAST = 1000
Acknowledge = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Load:
    """What writers did together."""

    writes: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    waits_ms: list[float] = field(default_factory=list)

    @property
    def rate(self) -> int:
        return round(self.writes / self.seconds)

    @property
    def p99_ms(self) -> float:
        return round(statistics.quantiles(self.waits_ms, n=100)[98], 2)

    @property
    def cpu_us(self) -> int:
        return round(self.cpu_s / self.writes * 1e6)


def rows() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("MODELPLANE_BENCH_DATA")) as folder:
        return [row for writers in _WRITERS for row in asyncio.run(_compared(Path(folder), writers))]


async def _compared(folder: Path, writers: int) -> list[dict[str, object]]:
    database = Database(folder / f"{writers}.db", clock=SystemClock())
    store = database.store("plane")
    for number in range(writers):
        store.create(_object(number, "0"))
    group = GroupCommit(database)
    ways: dict[str, Acknowledge] = {"none": _at_once, "each": _alone(database), "group": group.flush}
    loads = {name: Load() for name in ways}
    for _ in range(_ROUNDS):
        for name, acknowledge in ways.items():
            await _run(database, acknowledge, writers, loads[name])
    database.close()
    return [_row(writers, loads)]


async def _at_once() -> None:
    await asyncio.sleep(0)


def _alone(database: Database) -> Acknowledge:
    """As `synchronous = FULL` does: the loop waits with the one who writes."""

    async def acknowledge() -> None:
        database.sync()
        await asyncio.sleep(0)

    return acknowledge


async def _run(database: Database, acknowledge: Acknowledge, writers: int, load: Load) -> None:
    started, cpu_s = time.perf_counter(), time.process_time()
    ends = started + _SECONDS
    counts = await asyncio.gather(
        *(_write(database, number, acknowledge, ends, load.waits_ms) for number in range(writers))
    )
    load.writes += sum(counts)
    load.seconds += time.perf_counter() - started
    load.cpu_s += time.process_time() - cpu_s


async def _write(database: Database, number: int, acknowledge: Acknowledge, ends: float, waits_ms: list[float]) -> int:
    store = database.store("plane")
    ref = ObjectRef("", "ConfigMap", "default", f"writer-{number}")
    count = 0
    while (now := time.perf_counter()) < ends:
        known = store.get(ref)
        if known is None:
            raise SystemExit(f"bench set durable: {ref} is gone")
        store.replace({**known, "data": {"value": f"{count}"}})
        await acknowledge()
        waits_ms.append((time.perf_counter() - now) * 1000)
        count += 1
    return count


def _object(number: int, value: str) -> dict[str, object]:
    metadata = {"name": f"writer-{number}", "namespace": "default", "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def _row(writers: int, loads: dict[str, Load]) -> dict[str, object]:
    """One writer alone waits for its fsync, so that only several have a limit."""
    group, limit = loads["group"], _WRITES_LEAST if writers > 1 else 0
    others = ", ".join(
        f"{words} {loads[name].rate}/s, p99 {loads[name].p99_ms} ms, {loads[name].cpu_us} µs of CPU"
        for name, words in (("none", "without an fsync"), ("each", "an fsync each"))
    )
    return {
        "id": f"durable-writes.{writers}",
        "value": group.rate,
        "unit": "/s",
        "limit": limit,
        "ok": group.rate >= limit,
        "better": "higher",
        "p99_ms": group.p99_ms,
        "cpu_us": group.cpu_us,
        "baseline": {"what": others, "value": loads["each"].rate, "unit": "/s with an fsync each"},
    }
