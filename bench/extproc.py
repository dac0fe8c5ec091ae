"""What the picker costs behind a real Envoy: CPU of its process a request, and the time that it adds.

One run has everything side by side: Envoy alone, Envoy with our server, and Envoy with the same picker on grpc.aio. The
endpoints are another Envoy that answers at once, so that nothing but the proxy and the picker is measured. CPU is read
from the kernel's accounts of the processes; times are ratios to, or differences from, Envoy alone in the same run.
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from modelplane.envoy.ports import free_port
from tests.support.extproc_envoy import EnvoyPlan, Mode, Running, answering, envoy

_ENDPOINTS: Final = 10
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SECONDS: Final = 3.0
_RATE: Final = 500
_ROUNDS: Final = 3
_RANDOM_PICKS: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: random-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
"""
"""Decides nothing: what is left is the protocol."""

Row = dict[str, object]


class Load(msgspec.Struct, frozen=True):
    """One measurement."""

    requests: int
    seconds: float
    picker_us: float
    """CPU of the picker's process a request."""
    envoy_us: float
    p50_ms: float
    p95_ms: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def rows() -> list[Row]:
    """The figures of the server."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure_all(Path(folder)))


async def _measure_all(folder: Path) -> list[Row]:
    small, large = _body(2_000), _body(220_000)
    async with answering(_ENDPOINTS, folder) as upstreams:
        endpoints = _write_endpoints(folder, upstreams)
        alone = await _alone(folder, upstreams, small)
        alone_paced = await _alone(folder, upstreams, small, rate=_RATE)
        own = {mode: await _with(folder, endpoints, mode, small) for mode in _MODES}
        grpc = {mode: await _with(folder, endpoints, mode, small, "--server", "grpc") for mode in _MODES}
        bare = await _with(folder, endpoints, Mode.DUPLEX, small, "--config-text", _RANDOM_PICKS)
        big = await _with(folder, endpoints, Mode.DUPLEX, large, connections=8)
        paced = await _with(folder, endpoints, Mode.DUPLEX, small, rate=_RATE)
        grpc_paced = await _with(folder, endpoints, Mode.DUPLEX, small, "--server", "grpc", rate=_RATE)
        idle = await _idle(folder, upstreams)
    return [
        *_cpu_rows(own, grpc, bare),
        *_rate_rows(own, big, alone),
        *_time_rows(paced, grpc_paced, alone_paced),
        *idle,
    ]


_MODES: Final = (Mode.HEADERS, Mode.BUFFERED, Mode.DUPLEX, Mode.DUPLEX_BOTH_WAYS)
_LIMITS_US: Final = {Mode.HEADERS: 120, Mode.BUFFERED: 180, Mode.DUPLEX: 200, Mode.DUPLEX_BOTH_WAYS: 260}


def _cpu_rows(own: Mapping[Mode, Load], grpc: Mapping[Mode, Load], bare: Load) -> Iterator[Row]:
    for mode in _MODES:
        baseline = {"what": "the same picker on grpc.aio", "value": round(grpc[mode].picker_us, 1), "unit": "µs"}
        yield _row(f"extproc.cpu.{mode.value}", own[mode].picker_us, "µs CPU a request", _LIMITS_US[mode], baseline)
    envoy_alone = {"what": "Envoy's own CPU a request meanwhile", "value": round(bare.envoy_us, 1), "unit": "µs"}
    yield _row("extproc.cpu.protocol_only", bare.picker_us, "µs CPU a request", 100, envoy_alone)
    ratio = grpc[Mode.DUPLEX].picker_us / own[Mode.DUPLEX].picker_us
    what = {"what": "the picker on grpc.aio", "value": 1, "unit": "ratio"}
    yield _row("extproc.cpu.duplex.cheaper_than_grpc_aio", ratio, "times", 3, what, higher=True)


def _rate_rows(own: Mapping[Mode, Load], big: Load, alone: Load) -> Iterator[Row]:
    baseline = {"what": "Envoy alone with the same client", "value": round(alone.rate), "unit": "requests/s"}
    per_core = 1e6 / own[Mode.DUPLEX].picker_us
    yield _row("extproc.rate.per_picker_core", per_core, "requests/s", 5_000, baseline, higher=True)
    yield _row("extproc.rate.220_kB_prompts", big.rate, "requests/s", 500, baseline, higher=True)
    cpu = {"what": "Envoy's CPU a request meanwhile", "value": round(big.envoy_us), "unit": "µs"}
    yield _row("extproc.cpu.220_kB_prompt", big.picker_us, "µs CPU a request", 2_000, cpu)


def _time_rows(paced: Load, grpc: Load, alone: Load) -> Iterator[Row]:
    for name, mine, theirs, base, limit in (
        ("p50", paced.p50_ms, grpc.p50_ms, alone.p50_ms, 1.0),
        ("p95", paced.p95_ms, grpc.p95_ms, alone.p95_ms, 2.0),
    ):
        baseline = {"what": "added by the picker on grpc.aio", "value": round(theirs - base, 3), "unit": "ms"}
        yield _row(f"extproc.added.{name}_at_500_qps", mine - base, "ms over Envoy alone", limit, baseline)
    cores = {"what": "the picker on grpc.aio", "value": round(grpc.picker_us * _RATE / 1e6, 3), "unit": "cores"}
    yield _row("extproc.cores_at_500_qps", paced.picker_us * _RATE / 1e6, "cores", 0.15, cores)


def _row(
    name: str, value: float, unit: str, limit: float, baseline: Mapping[str, object], *, higher: bool = False
) -> Row:
    row: Row = {"id": name, "value": round(value, 3), "unit": unit, "limit": limit, "baseline": baseline}
    row["ok"] = value >= limit if higher else value <= limit
    return row | ({"better": "higher"} if higher else {})


def _body(size: int) -> bytes:
    turns = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": ""}]
    frame = {"model": "m", "messages": turns, "max_tokens": 100, "stream": True}
    turns[1]["content"] = "Why is the sky blue? " * ((size - len(json.dumps(frame))) // 21)
    return json.dumps(frame).encode()


def _write_endpoints(folder: Path, addresses: tuple[str, ...]) -> Path:
    lines = [
        f"- {{name: e{number}, address: {host}, port: {port}}}\n"
        for number, (host, port) in enumerate(address.rsplit(":", 1) for address in addresses)
    ]
    path = folder / "endpoints.yaml"
    path.write_text("endpoints:\n" + "".join(lines))
    return path


@contextlib.asynccontextmanager
async def _picker(endpoints: Path, *flags: str) -> AsyncIterator[tuple[int, int]]:
    """A picker in a process of its own: its port and its process."""
    port = free_port()
    words = [sys.executable, "-m", "modelplane", "picker", "serve", "--endpoints", str(endpoints)]
    words += ["--host", "127.0.0.1", "--grpc-port", str(port), "--grpc-health-port", "0", "--metrics-port", "0"]
    words += ["--secure-serving", "false", "--zap-encoder", "console", *flags]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        if process.stdout is None or not await process.stdout.readline():
            raise RuntimeError("the picker did not start")
        yield port, process.pid
    finally:
        process.kill()
        await process.wait()


async def _with(
    folder: Path, endpoints: Path, mode: Mode, body: bytes, *flags: str, connections: int = 16, rate: float = 0
) -> Load:
    """Requests alone pass through the picker at full speed; at a rate it sees the head and the end of responses too."""
    plan = EnvoyPlan(mode=mode, shows_response=bool(rate) or mode is Mode.DUPLEX_BOTH_WAYS, until_the_end=bool(rate))
    async with (
        _picker(endpoints, "--no-scrape", *flags) as (port, pid),
        envoy(msgspec.structs.replace(plan, picker_port=port), folder) as proxy,
    ):
        return await _loaded(proxy, pid, body, connections, rate)


async def _alone(folder: Path, upstreams: tuple[str, ...], body: bytes, *, rate: float = 0) -> Load:
    async with envoy(EnvoyPlan(mode=Mode.NO_PROCESSOR, upstreams=upstreams), folder) as proxy:
        return await _loaded(proxy, proxy.pid, body, 16, rate)


async def _loaded(proxy: Running, pid: int, body: bytes, connections: int, rate: float) -> Load:
    """The median of some rounds, after one to get warm."""
    await _round(proxy, pid, body, connections, rate, 1.0)
    found = [await _round(proxy, pid, body, connections, rate, _SECONDS) for _ in range(_ROUNDS)]
    return sorted(found, key=lambda load: load.picker_us)[_ROUNDS // 2]


async def _round(proxy: Running, pid: int, body: bytes, connections: int, rate: float, seconds: float) -> Load:
    before = _cpu_s(pid), _cpu_s(proxy.pid), time.perf_counter()
    times = await _drive(proxy.port, body, connections, rate, seconds)
    picker_s, envoy_s, wall_s = _cpu_s(pid) - before[0], _cpu_s(proxy.pid) - before[1], time.perf_counter() - before[2]
    ranked = statistics.quantiles(times, n=20)
    count = len(times)
    return Load(count, wall_s, picker_s / count * 1e6, envoy_s / count * 1e6, ranked[9] * 1e3, ranked[18] * 1e3)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def _idle(folder: Path, upstreams: tuple[str, ...]) -> list[Row]:
    """A pool of a hundred that nobody asks anything, with its metrics pages read."""
    many = _write_endpoints(folder, tuple(upstreams[number % len(upstreams)] for number in range(100)))
    async with _picker(many) as (_, pid):
        await asyncio.sleep(2)
        before = _cpu_s(pid)
        await asyncio.sleep(5)
        spent = (_cpu_s(pid) - before) / 5
        resident = _resident_mib(pid)
    none: Mapping[str, object] = {"what": "none: measured against the figures of the issue", "value": None, "unit": ""}
    return [
        _row("extproc.idle.100_endpoints", spent, "cores", 0.05, none),
        _row("extproc.memory", resident, "MiB resident", 150, none),
    ]


class _Client(asyncio.Protocol):
    """One connection that asks the same question again and again."""

    def __init__(self, question: bytes, ends_s: float, pause_s: float, times: list[float]) -> None:
        self._question = question
        self._ends_s = ends_s
        self._pause_s = pause_s
        self._times = times
        self._loop = asyncio.get_running_loop()
        self.done = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._asked_s = 0.0
        self._due_s = 0.0
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._due_s = self._loop.time()
            self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not _is_whole(self._answer):
            return
        if not self._answer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._answer[:300].decode("latin-1")))
            return
        self._answer = b""
        now_s = self._loop.time()
        self._times.append(now_s - self._asked_s)
        self._due_s += self._pause_s
        if now_s >= self._ends_s:
            self.finish()
        elif self._due_s > now_s and self._pause_s:
            self._loop.call_at(self._due_s, self._ask)
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("Envoy closed the connection"))

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        if self._transport is not None:
            self._transport.close()

    def _ask(self) -> None:
        if self._transport is not None:
            self._asked_s = self._loop.time()
            self._transport.write(self._question)


def _is_whole(answer: bytes) -> bool:
    head, found, rest = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    place = head.find(b"content-length: ")
    if place < 0:
        return rest.endswith(b"0\r\n\r\n")
    return len(rest) >= int(head[place + 16 :].split(b"\r", 1)[0])


async def _drive(port: int, body: bytes, connections: int, rate: float, seconds: float) -> list[float]:
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"user-agent: OpenAI/Python 2.0\r\nauthorization: Bearer token\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    times: list[float] = []
    pause_s = connections / rate if rate else 0.0
    clients = []
    question, ends_s = head.encode() + body, loop.time() + seconds
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: _Client(question, ends_s, pause_s, times), "127.0.0.1", port)
        clients.append(client)
        if rate:
            await asyncio.sleep(pause_s / connections)
    await asyncio.gather(*(client.done for client in clients))
    return times
