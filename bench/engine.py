"""What simulated engines cost the machine that runs them.

Figures are CPU time of this process, not wall time, so that a busy machine does not decide them. Requests travel over
real sockets; the client's share is measured beside it (a bare server with the same client) and is not subtracted.
"""

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import aiohttp
from aiohttp import web

from modelplane.sim.engine import LLAMA_8B_H200, EngineConfig, SimulatedEngine
from modelplane.sim.engine.engine_loop import EngineLoop
from modelplane.sim.engine.kv_events import KvEventLog
from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Sequence as EngineSequence
from modelplane.sim.engine.sequence import SequenceParams
from modelplane.sim.engine.stats import EngineStats
from modelplane.sim.engine.steps import BatchLimits

_HOST = "127.0.0.1"
_ENGINES = 300
_PROMPT = "Why does decode wait for memory and prefill for compute, and what does a batch change about it? " * 4


def rows() -> list[dict[str, object]]:
    """The figures of the engines."""
    per_sequence, per_turn = _step_cost()
    idle = asyncio.run(_idle())
    bare = asyncio.run(_with_bare_server(_requests))
    whole = asyncio.run(_with_engine(_requests))
    streamed = asyncio.run(_with_engine(_streams))
    steady = asyncio.run(_busy_fleet())
    server: Mapping[str, object] = {"what": "the same client and a server that echoes", "value": bare, "unit": "µs"}
    none: Mapping[str, object] = {"what": "none: no other way to do it here", "value": None, "unit": ""}
    return [
        _row("engine.step.per_sequence", per_sequence, "µs", 5, none),
        _row("engine.step.alone", per_turn, "µs", 30, none),
        _row("engine.idle.start", idle["start_ms"], "ms", 2, none),
        _row("engine.idle.memory", idle["kib"], "KiB", 32, none),
        _row("engine.idle.cpu_of_300", idle["cpu_percent"], "%", 1, none),
        _row("engine.request.whole", whole, "µs", 1_000, server),
        _row("engine.token.streamed", streamed, "µs", 10, none),
        _row("engine.fleet_of_300.cpu_per_token", steady["us_per_token"], "µs", 60, none),
        _row("engine.fleet_of_300.cpu", steady["cpu_percent"], "%", 120, none),
        _row("engine.fleet_of_300.pace", steady["pace"], "ratio to the GPU's", 1.3, none),
    ]


def _row(name: str, value: float, unit: str, limit: float, baseline: Mapping[str, object]) -> dict[str, object]:
    return {
        "id": name,
        "value": round(value, 3),
        "unit": unit,
        "limit": limit,
        "ok": value <= limit,
        "baseline": baseline,
    }


class _Jump:
    """A clock that runs whatever is due next, at once."""

    tick = 0.0

    def __init__(self) -> None:
        self.time = 0.0
        self.due: Callable[[], None] | None = None

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Callable[[], None]) -> "_Jump":
        self.time, self.due = max(self.time, when), callback
        return self

    def cancel(self) -> None:
        self.due = None

    def run(self) -> int:
        turns = 0
        while (due := self.due) is not None:
            self.due = None
            due()
            turns += 1
        return turns


def _step_cost() -> tuple[float, float]:
    """CPU of a decode step for each running sequence at 256 of them, and of a step with one."""
    few, many = min(_decode_us(1) for _ in range(3)), min(_decode_us(256) for _ in range(3))
    return many / 256, few


def _decode_us(count: int) -> float:
    limits = BatchLimits(max_num_seqs=256, max_num_batched_tokens=8192, block_size=16, blocks=50_000)
    log = KvEventLog(enabled=False, wall_clock=time.time)
    scheduler, clock = BatchScheduler(LLAMA_8B_H200, limits, log, EngineStats(32_768)), _Jump()
    batch = EngineLoop(scheduler, clock, log.publish)
    for number in range(count):
        params = SequenceParams(
            key=str(number), prompt=[number] * 100, answer=list(range(500)), reason="length", each=True
        )
        batch.submit(EngineSequence(params, lambda: None))
    started = time.process_time()
    turns = clock.run()
    return (time.process_time() - started) / turns * 1e6


async def _idle() -> dict[str, float]:
    import tracemalloc

    gc.collect()
    tracemalloc.start()
    started = time.process_time()
    engines = [SimulatedEngine(_config(number)) for number in range(_ENGINES)]
    for engine in engines:
        await engine.start(_HOST)
    start_ms = (time.process_time() - started) / _ENGINES * 1e3
    kib = tracemalloc.get_traced_memory()[0] / _ENGINES / 1024
    tracemalloc.stop()
    before = time.process_time()
    await asyncio.sleep(1.0)
    cpu = (time.process_time() - before) * 100
    await asyncio.gather(*(engine.stop(grace_s=0) for engine in engines))
    return {"start_ms": start_ms, "kib": kib, "cpu_percent": cpu}


def _config(number: int, *, speed: float = 1.0) -> EngineConfig:
    return EngineConfig(cluster="east", namespace="bench", pod=f"demo-{number}", models=("demo",), speed=speed)


_Measure = Callable[[aiohttp.ClientSession, str], Awaitable[float]]


async def _with_engine(measure: _Measure) -> float:
    engine = SimulatedEngine(_config(0, speed=1000.0))
    address = await engine.start(_HOST)
    async with aiohttp.ClientSession() as session:
        found = await measure(session, f"http://{address}/v1/chat/completions")
    await engine.stop(grace_s=0)
    return found


async def _with_bare_server(measure: _Measure) -> float:
    async def echo(request: web.BaseRequest) -> web.Response:
        return web.Response(body=await request.read())

    server = await asyncio.get_running_loop().create_server(web.Server(echo, access_log=None), _HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        found = await measure(session, f"http://{_HOST}:{port}/")
    server.close()
    return found


def _body(number: int, *, tokens: int, stream: bool) -> bytes:
    messages = [{"role": "user", "content": f"{number} {_PROMPT}"}]
    fields = {"model": "demo", "messages": messages, "max_tokens": tokens, "ignore_eos": True, "stream": stream}
    return json.dumps(fields).encode()


async def _requests(session: aiohttp.ClientSession, url: str) -> float:
    """CPU of a request with a hundred tokens each way, client included."""

    async def one(number: int) -> None:
        async with session.post(url, data=_body(number, tokens=100, stream=False)) as answer:
            await answer.read()

    async def load(numbers: Sequence[int]) -> None:
        for number in numbers:
            await one(number)

    await load(range(50))
    started = time.process_time()
    await asyncio.gather(*(load(range(lane * 1000, lane * 1000 + 50)) for lane in range(8)))
    return (time.process_time() - started) / 400 * 1e6


async def _streams(session: aiohttp.ClientSession, url: str) -> float:
    """CPU of a streamed token at a thousand times the GPU's speed, client included."""

    async def one(number: int) -> int:
        async with session.post(url, data=_body(number, tokens=1000, stream=True)) as answer:
            return (await answer.read()).count(b"data: ")

    await one(0)
    started = time.process_time()
    events = sum(await asyncio.gather(*(one(number) for number in range(1, 17))))
    return (time.process_time() - started) / events * 1e6


async def _busy_fleet() -> dict[str, float]:
    """300 engines at the GPU's own speed, each streaming one answer: what that takes, and whether it keeps pace."""
    engines = [SimulatedEngine(_config(number)) for number in range(_ENGINES)]
    addresses = [await engine.start(_HOST) for engine in engines]
    tokens = 500
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(number: int) -> int:
            url = f"http://{addresses[number]}/v1/chat/completions"
            async with session.post(url, data=_body(number, tokens=tokens, stream=True)) as answer:
                events = 0
                async for chunk in answer.content.iter_any():
                    events += chunk.count(b"data: ")
                return events

        wall, cpu = time.perf_counter(), time.process_time()
        events = sum(await asyncio.gather(*map(one, range(_ENGINES))))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await asyncio.gather(*(engine.stop(grace_s=0) for engine in engines))
    on_gpu = tokens * LLAMA_8B_H200.decode_ms(sequences=1, kv_tokens=350) / 1000
    return {"us_per_token": cpu / events * 1e6, "cpu_percent": cpu / wall * 100, "pace": wall / on_gpu}


if __name__ == "__main__":
    for figure in rows():
        print(figure)
