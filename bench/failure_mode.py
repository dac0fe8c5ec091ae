"""How long a request takes whose pool has lost its picker, through a real Envoy with the product's own configuration.

The pool has no picker (away), its address refuses connections (gone) or closes them (wrong). With FailClose the answer
is 503; with FailOpen Envoy chooses an endpoint itself, which is the baseline. Requests are sent one after the other, so
that what is measured is Envoy and not a queue.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from modelplane.envoy import free_port
from modelplane.sim.engine import Address
from tests.envoy import conftest as build
from tests.envoy.test_envoy_ext_proc import HOST, PickedPool

_REQUESTS = 200
_LIMIT_MS = 100.0
_SERVED, _REFUSED = 200, 503


def rows() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_rows(Path(folder)))


async def _rows(folder: Path) -> list[dict[str, object]]:
    world = build.World(folder)
    try:
        pods = [(await world.engine("east"))[1] for _ in range(2)]
        pools = {fails_open: PickedPool(build, pods, fails_open=fails_open) for fails_open in (False, True)}
        await world.envoy.start(pools[False].config())
        async with _closing() as wrong:
            pickers = {"away": (), "gone": (Address(HOST, free_port()),), "wrong": (wrong,)}
            return [await _row(world, pools, name, given) for name, given in pickers.items()]
    finally:
        await world.close()


@asynccontextmanager
async def _closing() -> AsyncIterator[Address]:
    """A picker that is none."""

    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, HOST, 0)
    async with server:
        yield Address(HOST, server.sockets[0].getsockname()[1])


async def _row(
    world: build.World, pools: dict[bool, PickedPool], name: str, pickers: tuple[Address, ...]
) -> dict[str, object]:
    took_ms: dict[bool, list[float]] = {}
    for fails_open, status in ((False, _REFUSED), (True, _SERVED)):
        await world.envoy.apply(pools[fails_open].config(*pickers))
        took_ms[fails_open] = await _timed(world, pools[fails_open].url, status)
    p99 = _p99(took_ms[False])
    served = {"what": "the same with FailOpen, answered 200", "value": _p99(took_ms[True]), "unit": "ms p99"}
    return {
        "id": f"failure-mode.{name}",
        "value": p99,
        "unit": "ms p99 until 503",
        "limit": _LIMIT_MS,
        "ok": p99 <= _LIMIT_MS,
        "median_ms": round(statistics.median(took_ms[False]), 2),
        "baseline": served,
    }


async def _timed(world: build.World, url: str, status: int) -> list[float]:
    """The first answer is not counted: a new listener may not be open yet."""
    took_ms = []
    for _ in range(_REQUESTS + 1):
        started = time.perf_counter()
        answer = await world.chat(url, messages=[{"role": "user", "content": "hi"}])
        took_ms.append((time.perf_counter() - started) * 1000)
        if answer.status != status:
            raise SystemExit(f"bench set failure_mode: {answer.status} instead of {status}")
    return took_ms[1:]


def _p99(values: list[float]) -> float:
    return round(statistics.quantiles(values, n=100)[98], 2)
