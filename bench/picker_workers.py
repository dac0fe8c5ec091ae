"""What more workers bring: requests a second, CPU and the quality of picks of one picker with 1, 2, 4 and 8 workers.

Two ways to load it. Through a real Envoy with many threads, as in production; and straight from clients that speak
ext_proc, so that the ratio is the picker's alone (`--picker-only` leaves Envoy out). Clients are processes of their
own, enough of them not to be the limit: a figure with a star is of a run in which Envoy or a client was busy all the
time, so the picker may be able to do more. The pool is an Envoy that answers at once and shows a page as long as
vLLM's.

Ratios need processors: about two for each worker, and three more. The prefix hit rate is of virtual time
(`picker_routing.py`), the same on every machine.

    python bench/picker_workers.py [--picker-only] [--workers 1,2,4] [--seconds 8] [--no-quality]
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.accounts import cpu_s
from load.client import closed_loop, post
from load.extproc_client import exchange, pick_until
from load.front import Way, addresses, front, instant_pool
from load.pickers import CONFIG, Which, picker
from load.pool import MODEL, vllm_page
from load.prompts import short_chats
from load.shapes import PUBLISHED

_ENDPOINTS: Final = 10
_PROMPTS: Final = 400
_WARM_S: Final = 3.0
_START_S: Final = 90.0
"""For client processes to start, at most."""
_BUSY: Final = 0.9
_CONNECTIONS: Final = 4
"""Of each client process to the picker."""
_STREAMS: Final = 8
_TARGETS: Final = {2: 1.8, 4: 3.0}
_SHAPE_S: Final = 60
_SKIPPED_S: Final = 15
_CORES: Final = len(os.sched_getaffinity(0))


class LoadPlan(msgspec.Struct, frozen=True):
    """What one client process does."""

    port: int
    seed: int
    connections: int
    from_s: float
    until_s: float
    speaks_ext_proc: bool


class Figure(msgspec.Struct, frozen=True):
    """One load on one picker, in requests a second, µs and cores."""

    rate: float
    us: float
    main: float
    busiest_worker: float
    clients: float
    """Of the busiest client process."""
    envoy: float
    """Of its threads that there are cores for."""

    @property
    def is_bound(self) -> bool:
        return self.clients > _BUSY or self.envoy > _BUSY


async def _load_as(plan: LoadPlan) -> int:
    """In a client process: requests that ended in time."""
    bodies = list(itertools.islice(short_chats(MODEL, seed=plan.seed), _PROMPTS))
    loop = asyncio.get_running_loop()
    if plan.speaks_ext_proc:
        requests = itertools.cycle([exchange(body) for body in bodies])
        return await pick_until(
            plan.port, requests, connections=plan.connections, streams=_STREAMS, from_s=plan.from_s,
            until_s=plan.until_s,
        )  # fmt: skip
    count = 0

    def questions() -> Iterator[bytes]:
        """Each is taken when the one before on its connection was answered."""
        nonlocal count
        for question in itertools.cycle([post(body) for body in bodies]):
            count += plan.from_s <= loop.time() < plan.until_s
            yield question

    await closed_loop(plan.port, questions(), connections=plan.connections, seconds=plan.until_s - loop.time())
    return count


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(entry.name))
    return found


async def _client() -> asyncio.subprocess.Process:
    """One that waits for its plan."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "--client", stdin=pipe, stdout=pipe)
    if process.stdout is not None:
        await asyncio.wait_for(process.stdout.readline(), _START_S)
    return process


def _serve_as_client() -> None:
    print("ready", flush=True)
    print(asyncio.run(_load_as(msgspec.json.decode(sys.stdin.buffer.readline(), type=LoadPlan))))


async def _measure(pid: int, port: int, clients: int, seconds: float, envoys: Mapping[int, int]) -> Figure:
    """`envoys` have their threads by their pids; without them clients call the picker itself."""
    processes = await asyncio.gather(*(_client() for _ in range(clients)))
    workers, loads = children_of(pid), [process.pid for process in processes]
    from_s = time.monotonic() + _WARM_S
    connections = _CONNECTIONS if not envoys else max(8, 128 // clients)
    for at, process in enumerate(processes):
        plan = LoadPlan(port, 11 + at, connections, from_s, from_s + seconds, not envoys)
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(plan) + b"\n")
    await asyncio.sleep(from_s - time.monotonic())
    watched = [pid, *workers, *loads, *envoys]
    before = {each: cpu_s(each) for each in watched}
    await asyncio.sleep(seconds)
    spent = {each: (cpu_s(each) - before[each]) / seconds for each in watched}
    counts = [int((await process.communicate())[0] or 0) for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a client failed")
    rate = sum(counts) / seconds
    return Figure(
        rate=rate,
        us=(spent[pid] + sum(spent[each] for each in workers)) / rate * 1e6,
        main=spent[pid] if workers else 0.0,
        busiest_worker=max(spent[each] for each in workers) if workers else spent[pid],
        clients=max(spent[each] for each in loads),
        envoy=max((spent[each] / threads for each, threads in envoys.items()), default=0.0),
    )


@contextlib.asynccontextmanager
async def _picker(folder: Path, pool: tuple[str, ...], workers: int) -> AsyncIterator[tuple[int, int]]:
    async with picker(Which.OWN, folder, pool, CONFIG, flags=("--workers", str(workers))) as (port, pid):
        # Until all workers are there and it has scraped its endpoints: connections move to a worker that comes later.
        await asyncio.sleep(2.0 if workers == 1 else 6.0)
        yield port, pid


class Results(msgspec.Struct):
    """By the number of workers."""

    alone: dict[int, Figure] = {}
    behind_envoy: dict[int, Figure] = {}


async def measure(counts: Sequence[int], seconds: float, clients: int, *, with_envoy: bool) -> Results:
    found = Results()
    threads = max(2, min(16, _CORES))
    with tempfile.TemporaryDirectory() as name:
        folder, pool = Path(name), addresses(_ENDPOINTS)
        async with instant_pool(folder, pool, vllm_page(), threads=threads) as pool_pid:
            for count in counts:
                print(f"{count} workers …", file=sys.stderr, flush=True)
                async with _picker(folder, pool, count) as (port, pid):
                    found.alone[count] = await _measure(pid, port, clients, seconds, {})
                    if with_envoy:
                        async with front(folder, Way.LEAN, pool, port, threads=threads) as proxy:
                            envoys = {proxy.pid: threads, pool_pid: threads}
                            found.behind_envoy[count] = await _measure(pid, proxy.port, clients, seconds, envoys)
    return found


def hit_rate(workers: int) -> float:
    """Of the groups with a common prefix, in virtual time."""
    from picker_routing import play

    shape = next(shape for shape in PUBLISHED if shape.prefixes and shape.name != "long")
    short = msgspec.structs.replace(shape, seconds=_SHAPE_S, skipped_s=_SKIPPED_S)
    policy = "1 picker" if workers == 1 else f"{workers} workers"
    ((outcome, _),) = play(short, ((policy, 0.1),), (23,))
    return outcome.hit_rate


def _cells(figure: Figure | None, first: Figure | None) -> list[str]:
    if figure is None or first is None:
        return ["-"] * 4
    star = "*" if figure.is_bound else ""
    ratio = f"{figure.rate / first.rate:.2f}{star}"
    return [f"{figure.rate:,.0f}{star}", ratio, f"{figure.us:,.0f}", f"{figure.busiest_worker:.2f}"]


def print_table(results: Results, hits: Mapping[int, float]) -> None:
    heads = ["workers"]
    for way in ("ext_proc clients", "through Envoy"):
        heads += [f"{way}: requests/s", "of one worker's", "CPU a request, µs", "busiest worker, cores"]
    heads += ["main process, cores", "prefix hit rate"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    first = min(results.alone)
    for count, figure in results.alone.items():
        cells = [str(count), *_cells(figure, results.alone[first])]
        cells += _cells(results.behind_envoy.get(count), results.behind_envoy.get(first))
        cells += [f"{figure.main:.2f}", f"{hits[count]:.1%}" if count in hits else "-"]
        print("| " + " | ".join(cells) + " |")
    ratios = {count: figure.rate / results.alone[first].rate for count, figure in results.alone.items()}
    for count, target in _TARGETS.items():
        if first == 1 and count in ratios:
            verdict = "ok" if ratios[count] >= target else "MISSED"
            print(f"\n{count} workers: {ratios[count]:.2f} times one; at least {target}: {verdict}")
    print(f"\n{_CORES} processors. A star: Envoy or a client was the limit.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picker-only", action="store_true", help="no Envoy between clients and picker")
    parser.add_argument("--workers", default="1,2,4,8" if _CORES >= 16 else "1,2,4")  # noqa: PLR2004  see above
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement (default: 8)")
    parser.add_argument("--clients", type=int, default=max(2, _CORES * 3 // 8), help="processes")
    parser.add_argument("--no-quality", action="store_true", help="no prefix hit rates")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.client:
        _serve_as_client()
        return
    counts = [int(each) for each in chosen.workers.split(",")]
    results = asyncio.run(measure(counts, chosen.seconds, chosen.clients, with_envoy=not chosen.picker_only))
    hits: dict[int, Future[float]] = {}
    # After the measurements, which need the processors.
    with ProcessPoolExecutor() as pool:
        if not chosen.no_quality:
            hits = {count: pool.submit(hit_rate, count) for count in counts if count in {1, 2, 4, 8}}
        print_table(results, {count: future.result() for count, future in hits.items()})


if __name__ == "__main__":
    main()
