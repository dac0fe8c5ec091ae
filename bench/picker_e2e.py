"""Our picker, ours on grpc.aio, and the inference extension's Go picker behind the same Envoy, side by side.

Every contestant gets the same Envoy (one worker), endpoints, configuration, prompts and arrivals, one after the other
in each of several rounds; a figure is the median of its rounds. Two kinds of endpoints: an Envoy that answers at once,
so that what is added shows, and our simulated engines with the timing of an H200. Both show a page of metrics as long
as vLLM's (33 kB), and every picker reads them at its own pace.

CPU is that of the picker's process, from the kernel's accounts. `lean` shows the picker requests, and of responses only
that they end; `requests` shows it their headers, too; `both ways` every byte, as the inference extension's chart sets
its Envoy. What ours may cost is judged in lean mode. The Go picker is measured in all of them, mode by mode.
Without it, the rows that compare with it are left out. Where `make compiled` has been run, the compiled picker is
measured beside the plain one in lean mode; its rows end in `.compiled`, and no other row is of it.

    python bench/picker_e2e.py [--rounds N] [--best] [--paced [--only NAME]] [--keep FILE]

It prints the tables, and what has a limit.
"""

import argparse
import asyncio
import contextlib
import math
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.accounts import cpu_s, resident_mib
from load.client import ClientError, Sample, closed_loop, open_loop, post
from load.front import Running, Way, addresses, front, instant_pool
from load.pickers import Which, find_go_picker, is_compiled_there, picker
from load.pool import MODEL, engine_pool, vllm_page
from load.prompts import large_chats, short_chats
from load.saturate import saturate

_LIMITS: Final = Path(__file__).resolve().with_name("limits_picker.json")
_SEED: Final = 11
_RATE: Final = 500
_ENDPOINTS: Final = 10
_STREAM_RATE: Final = 50
_STREAM_TOKENS: Final = 32
_SECONDS: Final = 4.0
_SETTLE_S: Final = 2.0
"""Until a picker has found its endpoints."""
_IDLE_S: Final = 8.0
_AGES: Final = 4
_AS_COMPILED: Final = ".compiled"
"""The end of rows whose limit is that of the same row of the plain picker."""
Row = dict[str, object]
T = TypeVar("T")


class Contestant(msgspec.Struct, frozen=True):
    name: str
    which: Which | None
    way: Way


ALONE: Final = Contestant("Envoy alone", None, Way.ROUND_ROBIN)
LEAN: Final = Contestant("ours, lean", Which.OWN, Way.LEAN)
COMPILED: Final = Contestant("ours compiled, lean", Which.COMPILED, Way.LEAN)
GO_LEAN: Final = Contestant("Go, lean", Which.GO, Way.LEAN)
OURS: Final = Contestant("ours, requests", Which.OWN, Way.REQUESTS)
OURS_BOTH: Final = Contestant("ours, both ways", Which.OWN, Way.BOTH_WAYS)
GRPC: Final = Contestant("ours on grpc.aio, lean", Which.GRPC, Way.LEAN)
GO: Final = Contestant("Go, requests", Which.GO, Way.REQUESTS)
GO_BOTH: Final = Contestant("Go, both ways", Which.GO, Way.BOTH_WAYS)


class Figure(msgspec.Struct, frozen=True):
    """One load on one contestant. `cores` and `us` are of the picker, or of Envoy where there is none."""

    rate: float
    us: float
    cores: float
    envoy_us: float
    p50_ms: float
    p95_ms: float
    resident_mib: float


_UNKNOWN: Final = Figure(*([math.nan] * 7))


class Chain(msgspec.Struct, frozen=True):
    """What is running while it is measured."""

    folder: Path
    proxy: Running
    pid: int


def contestants() -> tuple[Contestant, ...]:
    go = (GO_LEAN, GO, GO_BOTH) if find_go_picker() else ()
    compiled = (COMPILED,) if is_compiled_there() else ()
    return (ALONE, LEAN, *compiled, OURS, OURS_BOTH, GRPC, *go)


@contextlib.asynccontextmanager
async def _chain(who: Contestant, folder: Path, pool: tuple[str, ...]) -> AsyncIterator[Chain]:
    async with contextlib.AsyncExitStack() as stack:
        port, pid = await stack.enter_async_context(picker(who.which, folder, pool)) if who.which else (0, 0)
        await asyncio.sleep(_SETTLE_S)
        proxy = await stack.enter_async_context(front(folder, who.way, pool, port))
        yield Chain(folder, proxy, pid or proxy.pid)


async def _paced(chain: Chain, rate: float, seconds: float, *, stream: bool, tokens: int) -> Figure:
    questions = map(post, short_chats(MODEL, seed=_SEED, stream=stream, max_tokens=tokens))
    return await _watched(chain, open_loop(chain.proxy.port, questions, rate=rate, seconds=seconds, seed=_SEED))


async def _watched(chain: Chain, load: Awaitable[list[Sample]]) -> Figure:
    before, began = (cpu_s(chain.pid), cpu_s(chain.proxy.pid)), time.perf_counter()
    samples = await load
    return _figure(chain, len(samples), time.perf_counter() - began, before, [each.total_s for each in samples])


def _figure(chain: Chain, count: int, seconds: float, before: tuple[float, float], times: list[float]) -> Figure:
    spent, envoy = cpu_s(chain.pid) - before[0], cpu_s(chain.proxy.pid) - before[1]
    ranked = [each * 1e3 for each in statistics.quantiles(times, n=20)] if times else [0.0] * 19
    return Figure(
        rate=count / seconds,
        us=spent / count * 1e6,
        cores=spent / seconds,
        envoy_us=envoy / count * 1e6,
        p50_ms=ranked[9],
        p95_ms=ranked[18],
        resident_mib=resident_mib(chain.pid),
    )


async def _full(chain: Chain, *, large: bool, seconds: float = _SECONDS) -> Figure:
    bodies = large_chats(MODEL, seed=_SEED) if large else short_chats(MODEL, seed=_SEED)
    before = cpu_s(chain.pid), cpu_s(chain.proxy.pid)
    connections, kept = (8, 40) if large else (32, 400)
    taken = await saturate(chain.folder, chain.proxy.port, bodies, connections=connections, seconds=seconds, kept=kept)
    return _figure(chain, taken.requests, taken.seconds, before, [])


async def _instant_round(who: Contestant, folder: Path, pool: tuple[str, ...]) -> dict[str, Figure]:
    async with _chain(who, folder, pool) as chain:
        await _paced(chain, _RATE, 1.5, stream=False, tokens=100)
        return {
            "500 QPS": await _paced(chain, _RATE, _SECONDS, stream=False, tokens=100),
            "saturated": await _full(chain, large=False),
            "220 kB": await _full(chain, large=True),
        }


async def _paced_round(who: Contestant, folder: Path, pool: tuple[str, ...]) -> dict[str, Figure]:
    async with _chain(who, folder, pool) as chain:
        await _paced(chain, _RATE, 1.5, stream=False, tokens=100)
        return {"500 QPS": await _paced(chain, _RATE, 2 * _SECONDS, stream=False, tokens=100)}


async def _engine_round(who: Contestant, folder: Path, pool: tuple[str, ...]) -> dict[str, Figure]:
    async with _chain(who, folder, pool) as chain:
        await _paced(chain, _STREAM_RATE, 1.5, stream=False, tokens=100)
        return {
            "500 QPS, engines": await _paced(chain, _RATE, _SECONDS, stream=False, tokens=100),
            "32 events": await _paced(chain, _STREAM_RATE, _SECONDS, stream=True, tokens=_STREAM_TOKENS),
        }


async def _idle(who: Contestant, folder: Path, pool: tuple[str, ...]) -> Figure:
    async with _chain(who, folder, pool) as chain:
        await asyncio.sleep(4.0)
        before, began = cpu_s(chain.pid), time.perf_counter()
        await asyncio.sleep(_IDLE_S)
        cores = (cpu_s(chain.pid) - before) / (time.perf_counter() - began)
        return Figure(0, 0, cores, 0, 0, 0, resident_mib(chain.pid))


async def _ages(who: Contestant, folder: Path, pool: tuple[str, ...]) -> list[Figure]:
    """One picker that is shown prompt after prompt that it has never seen: the cost of each part of its life."""
    questions = map(post, short_chats(MODEL, seed=_SEED))
    found = []
    async with _chain(who, folder, pool) as chain:
        await closed_loop(chain.proxy.port, questions, connections=16, seconds=1.0)
        for _ in range(_AGES):
            load = closed_loop(chain.proxy.port, questions, connections=16, seconds=_SECONDS)
            found.append(await _watched(chain, load))
    return found


class Results(msgspec.Struct):
    """By load, then by contestant; `rounds` are what `loads` are made of, by contestant, then by load."""

    loads: dict[str, dict[str, Figure]]
    idle: dict[str, dict[str, Figure]]
    ages: dict[str, list[Figure]]
    rounds: list[dict[str, dict[str, Figure]]]


async def measure(rounds: int, *, best: bool = False) -> Results:
    with tempfile.TemporaryDirectory() as name:
        folder, small, many = Path(name), addresses(_ENDPOINTS), addresses(100)
        found: list[dict[str, dict[str, Figure]]] = []
        async with instant_pool(folder, small, vllm_page()):
            found += [await _each(_instant_round, folder, small) for _ in range(rounds)]
            idle = {"10 endpoints": await _each(_idle, folder, small, lasting=True)}
            ages = await _each(_ages, folder, small, lasting=True)
        async with instant_pool(folder, many, vllm_page()):
            idle["100 endpoints"] = await _each(_idle, folder, many, lasting=True)
        async with engine_pool(small):
            found += [await _each(_engine_round, folder, small) for _ in range(rounds)]
    return Results(_merged(found, best=best), idle, ages, found)


async def measure_paced(rounds: int, *, best: bool = False, only: Sequence[str] = ()) -> Results:
    """Nothing but what is judged by cost and latency: 500 requests a second, in minutes instead of a quarter hour."""
    with tempfile.TemporaryDirectory() as name:
        folder, small = Path(name), addresses(_ENDPOINTS)
        async with instant_pool(folder, small, vllm_page()):
            found = [await _each(_paced_round, folder, small, only=only) for _ in range(rounds)]
    return Results(_merged(found, best=best), {}, {}, found)


async def _each(
    load: Callable[[Contestant, Path, tuple[str, ...]], Awaitable[T]],
    folder: Path,
    pool: tuple[str, ...],
    *,
    lasting: bool = False,
    only: Sequence[str] = (),
) -> dict[str, T]:
    """The same on one contestant after the other; what has nothing to do with modes, in one of them only."""
    found = {}
    for who in contestants():
        if (not lasting or who in {LEAN, GO_LEAN}) and (not only or who.name in only):
            with contextlib.suppress(_TooMuchError):
                found[who.name] = await _tried(load, who, folder, pool)
    return found


class _TooMuchError(Exception):
    """A contestant that could not take a load, twice."""


async def _tried(
    load: Callable[[Contestant, Path, tuple[str, ...]], Awaitable[T]],
    who: Contestant,
    folder: Path,
    pool: tuple[str, ...],
) -> T:
    for _ in range(2):
        try:
            return await load(who, folder, pool)
        except (ClientError, RuntimeError) as error:
            print(f"{who.name} failed: {error}", file=sys.stderr)
    raise _TooMuchError


def _merged(rounds: Sequence[Mapping[str, Mapping[str, Figure]]], *, best: bool) -> dict[str, dict[str, Figure]]:
    """From rounds of contestants of loads to loads of contestants."""
    seen: dict[str, dict[str, list[Figure]]] = {}
    for figures in rounds:
        for who, loads in figures.items():
            for load, figure in loads.items():
                seen.setdefault(load, {}).setdefault(who, []).append(figure)
    merge = _best if best else _median
    return {load: {who: merge(all_) for who, all_ in found.items()} for load, found in seen.items()}


def _median(figures: Sequence[Figure]) -> Figure:
    fields = Figure.__struct_fields__
    return Figure(*(statistics.median([getattr(figure, field) for figure in figures]) for field in fields))


def _best(figures: Sequence[Figure]) -> Figure:
    """The least of everything, and the highest rate: what the others had least to do with."""
    least = Figure(*(min(getattr(figure, field) for figure in figures) for field in Figure.__struct_fields__))
    return msgspec.structs.replace(least, rate=max(figure.rate for figure in figures))


def rows(rounds: int = 1) -> list[Row]:
    """What has a limit, one figure a row."""
    return judged(asyncio.run(measure(rounds)))


def judged(results: Results) -> list[Row]:
    limits = msgspec.json.decode(_LIMITS.read_bytes(), type=dict[str, Limit])
    return [
        _row(name, value, limits[name.removesuffix(_AS_COMPILED)], baseline)
        for name, value, baseline in _figures(results)
    ]


class Limit(msgspec.Struct, frozen=True):
    limit: float
    unit: str
    better: str = "lower"


def _row(name: str, value: float, limit: Limit, baseline: Row) -> Row:
    ok = value >= limit.limit if limit.better == "higher" else value <= limit.limit
    row: Row = {"id": name, "value": round(value, 4), "unit": limit.unit, "limit": limit.limit, "ok": ok}
    return row | {"baseline": baseline} | ({"better": "higher"} if limit.better == "higher" else {})


def _figures(results: Results) -> Iterator[tuple[str, float, Row]]:
    yield from _loaded(results, LEAN)
    yield from _lasting(results)
    measured = results.loads["500 QPS"]
    if COMPILED.name in measured:
        yield from _named(_loaded(results, COMPILED))
        if GO_LEAN.name in measured:
            yield from _named(_against(results, COMPILED, GO_LEAN))
    for mine, peer in ((LEAN, GO_LEAN), (OURS, GO), (OURS_BOTH, GO_BOTH)):
        if peer.name in measured:
            yield from _against(results, mine, peer)
    idle = results.idle["10 endpoints"]
    if GO_LEAN.name in idle:
        share = idle[LEAN.name].cores / idle[GO_LEAN.name].cores
        yield "e2e.go.idle", share, _beside(GO_LEAN.name, idle[GO_LEAN.name].cores, "cores")


def _named(figures: Iterator[tuple[str, float, Row]]) -> Iterator[tuple[str, float, Row]]:
    for name, value, baseline in figures:
        yield f"{name}{_AS_COMPILED}", value, baseline


def _loaded(results: Results, who: Contestant) -> Iterator[tuple[str, float, Row]]:
    loads = {name: figures[who.name] for name, figures in results.loads.items()}
    alone = {name: figures[ALONE.name] for name, figures in results.loads.items()}
    slower = {name: figures.get(GRPC.name, _UNKNOWN) for name, figures in results.loads.items()}
    for name, load in (("e2e.cores_at_500_qps", "500 QPS"), ("e2e.cores_at_500_qps.engines", "500 QPS, engines")):
        # By requests and not by seconds: a machine that is too slow for the rate must not look cheap.
        yield name, loads[load].us * _RATE / 1e6, _beside("grpc.aio", slower[load].us * _RATE / 1e6, "cores")
    added = loads["500 QPS"].p95_ms - alone["500 QPS"].p95_ms
    yield "e2e.added_p95_at_500_qps", added, _beside("Envoy alone, p95", alone["500 QPS"].p95_ms, "ms")
    per_core = 1e6 / loads["saturated"].us
    yield "e2e.rate.per_picker_core", per_core, _beside("grpc.aio", 1e6 / slower["saturated"].us, "requests/s")
    yield "e2e.rate.220_kB", loads["220 kB"].rate, _beside("Envoy alone", alone["220 kB"].rate, "requests/s")


def _lasting(results: Results) -> Iterator[tuple[str, float, Row]]:
    loads = [figures[LEAN.name] for figures in results.loads.values()]
    idle, ages = {count: figures[LEAN.name] for count, figures in results.idle.items()}, results.ages[LEAN.name]
    yield "e2e.idle.100_endpoints", idle["100 endpoints"].cores, _beside("10", idle["10 endpoints"].cores, "cores")
    most = max(figure.resident_mib for figure in (*loads, *idle.values(), *ages))
    yield "e2e.memory", most, _beside("idle with 10 endpoints", idle["10 endpoints"].resident_mib, "MiB")
    yield "e2e.age", ages[-1].us / ages[0].us, _beside("a request of the first part", ages[0].us, "µs")


def _against(results: Results, mine: Contestant, peer: Contestant) -> Iterator[tuple[str, float, Row]]:
    loads = results.loads
    ends = {Way.LEAN: "", Way.REQUESTS: ".requests"}.get(mine.way, ".both_ways")

    def pair(load: str) -> tuple[Figure, Figure]:
        return loads[load][mine.name], loads[load][peer.name]

    ours, theirs = pair("500 QPS")
    yield f"e2e.go.cheaper{ends}", theirs.us / ours.us, _beside(peer.name, theirs.us, "µs a request")
    base = loads["500 QPS"][ALONE.name].p95_ms
    share = (ours.p95_ms - base) / (theirs.p95_ms - base)
    yield f"e2e.go.added_p95{ends}", share, _beside(peer.name, theirs.p95_ms - base, "ms")
    ours, theirs = pair("saturated")
    yield f"e2e.go.throughput{ends}", ours.rate / theirs.rate, _beside(peer.name, theirs.rate, "requests/s")
    ours, theirs = pair("220 kB")
    yield f"e2e.go.throughput_220_kB{ends}", ours.rate / theirs.rate, _beside(peer.name, theirs.rate, "requests/s")
    ours, theirs = pair("32 events")
    yield f"e2e.go.cheaper_stream{ends}", theirs.us / ours.us, _beside(peer.name, theirs.us, "µs a request")


def _beside(what: str, value: float, unit: str) -> Row:
    return {"what": what, "value": None if math.isnan(value) else round(value, 3), "unit": unit}


def _print_tables(results: Results) -> None:
    for load, found in results.loads.items():
        print(
            f"\n### {load}\n\n| | requests/s | CPU a request, µs | cores | Envoy, µs | p50, ms | p95, ms | RSS, MiB |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for who, each in found.items():
            times = f"{each.p50_ms:.2f} | {each.p95_ms:.2f}" if each.p50_ms else "|"
            print(
                f"| {who} | {each.rate:,.0f} | {each.us:,.0f} | {each.cores:.3f} | {each.envoy_us:,.0f} | {times} "
                f"| {each.resident_mib:.0f} |"
            )
    for count, found in results.idle.items():
        print(f"\n### Idle, {count}\n\n| | cores | RSS, MiB |\n|---|---|---|")
        for who, each in found.items():
            print(f"| {who} | {each.cores:.4f} | {each.resident_mib:.0f} |")
    if results.ages:
        _print_ages(results)


def _print_ages(results: Results) -> None:
    print(f"\n### With age: CPU a request in {_AGES} parts of {_SECONDS:g} s, µs; RSS at the end\n")
    for who, ages in results.ages.items():
        parts = ", ".join(f"{each.us:,.0f} ({each.rate * _SECONDS:,.0f} requests)" for each in ages)
        print(f"- {who}: {parts}; {ages[-1].resident_mib:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--best", action="store_true", help="of the rounds, not their median: on a busy machine")
    parser.add_argument("--paced", action="store_true", help="only 500 requests a second, judged by no limit")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="with --paced: one of the contestants"
    )
    parser.add_argument("--keep", type=Path, help="a file for everything that was measured")
    chosen = parser.parse_args()
    if find_go_picker() is None:
        print("The Go picker is not there: `python -m lab build picker` builds it.")
    if chosen.paced:
        results = asyncio.run(measure_paced(chosen.rounds, best=chosen.best, only=chosen.only))
    else:
        results = asyncio.run(measure(chosen.rounds, best=chosen.best))
    if chosen.keep:
        chosen.keep.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    _print_tables(results)
    if chosen.paced:
        return
    print("\n### Limits\n\n| figure | value | limit | unit | |\n|---|---|---|---|---|")
    for row in judged(results):
        print(f"| {row['id']} | {row['value']} | {row['limit']} | {row['unit']} | {'ok' if row['ok'] else 'MISSED'} |")


if __name__ == "__main__":
    main()
