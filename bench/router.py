"""The fleet router's figures, each beside something that was measured in the same run.

latency     the whole path (gateway, router, cluster gateway, picker, engine) over one Envoy alone, at 200 requests/s,
            and the router's CPU a request
failover    one of two clusters is killed and restored while 200 requests/s are sent: requests that were lost, and how
            long a dead cluster was still chosen after its first failure
cpu         the router's CPU a request from Envoy's messages to its replies, without the transport
busy        the same with the transport, of a router that has as many requests as it takes
locality    the share of prompts that find their prefix, with the router over three clusters, one big pool, and
            weights alone, in a simulation of their caches

python bench/router.py [latency|failover|cpu|busy|locality] [--seconds N]
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import Final

import msgspec
from load.accounts import cpu_s
from load.client import Sample, open_loop, post
from load.front import Running, Way, addresses, free_port, front, instant_pool
from load.front_calls import FrontMessages, keep_busy
from load.pickers import Which, is_compiled_there, picker
from load.prompts import short_chats

from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan, plan_document
from modelplane.envoy import EnvoyProcess, GatewayView, render
from modelplane.envoy.view import RouterAddress
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server.compiled import describe_build
from modelplane.epp.server.exchange import Budget
from modelplane.epp.transport.wire import nested, whole
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.director import RouterDirector
from modelplane.router.front_values import FrontRequest, FrontResponse, RoutedTo
from modelplane.router.processor import FrontProcessor
from modelplane.router.profile import load_profile, make_scheduler
from modelplane.router.stalls import Stalls

HOST: Final = "127.0.0.1"
RATE: Final = 200.0
_ROOT: Final = Path(__file__).resolve().parents[1]
_COMPILED: Final = _ROOT / "build" / "compiled"
_MODEL: Final = "bench/chat"
Row = dict[str, object]


class PathFigure(msgspec.Struct, frozen=True):
    """Latencies of one way, and what the router used a request; 0 without one."""

    p50_ms: float
    p95_ms: float
    cpu_us: float = 0.0


def plan_of(*ports: int) -> ServicePlan:
    endpoints = tuple(
        PlanEndpoint(f"bench/e{at}", "main", 1, False, HOST, port, None, replica=f"bench/e{at}", cluster=f"c{at}",
                     model="meta")
        for at, port in enumerate(ports)
    )  # fmt: skip
    return ServicePlan("bench", "chat", tiers=(PlanTier(0, endpoints),))


@contextlib.asynccontextmanager
async def router_process(
    folder: Path, plan: ServicePlan, *, compiled: bool = False
) -> AsyncIterator[tuple[int, int, int]]:
    """A router by itself: its port, its admin port and its process."""
    plans = folder / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "chat.json").write_bytes(plan_document(plan))
    port, admin = free_port(), free_port()
    environment = dict(os.environ) | ({"PYTHONPATH": str(_COMPILED)} if compiled else {})
    words = [sys.executable, "-m", "modelplane", "router", "--plans", str(plans), "--host", HOST]
    words += f"--secure-serving false --grpc-port {port} --grpc-health-port 0 --admin-port {admin}".split()
    with (folder / f"router-{port}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        await _until_open(port)
        yield port, admin, process.pid
    finally:
        process.kill()
        await process.wait()


async def _until_open(port: int, patience_s: float = 90.0) -> None:
    async with asyncio.timeout(patience_s):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                return
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def fleet_gateway(folder: Path, plan: ServicePlan, router_port: int) -> AsyncIterator[int]:
    port = free_port()
    view = GatewayView(name="fleet", host=HOST, port=port, plans=(plan,), router=RouterAddress(HOST, router_port))
    envoy = EnvoyProcess(folder)
    await envoy.start(render([view]))
    try:
        yield port
    finally:
        await envoy.stop()


def questions(model: str) -> Iterator[bytes]:
    return cycle([post(body) for _, body in zip(range(500), short_chats(model, seed=3), strict=False)])


def figure(samples: list[Sample], used_s: float = 0.0) -> PathFigure:
    times = sorted(each.total_s * 1000.0 for each in samples)
    cuts = statistics.quantiles(times, n=20)
    return PathFigure(statistics.median(times), cuts[18], used_s / len(samples) * 1e6)


async def latency(seconds: float, *, compiled: bool, rate: float = RATE) -> tuple[PathFigure, PathFigure]:
    """One Envoy alone, then the whole path, in turn and on the same endpoints."""
    with tempfile.TemporaryDirectory() as name:
        folder, pool = Path(name), addresses(4)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(instant_pool(folder, pool, ""))
            alone = await stack.enter_async_context(front(folder, Way.ROUND_ROBIN, pool))
            which = Which.COMPILED if compiled else Which.OWN
            picker_port, _ = await stack.enter_async_context(picker(which, folder, pool))
            cluster: Running = await stack.enter_async_context(front(folder, Way.LEAN, pool, picker_port))
            plan = plan_of(cluster.port)
            started = router_process(folder, plan, compiled=compiled)
            router_port, _, pid = await stack.enter_async_context(started)
            port = await stack.enter_async_context(fleet_gateway(_folder(folder / "fleet"), plan, router_port))
            found: list[tuple[PathFigure, PathFigure]] = []
            for seed in range(3):
                first = await open_loop(alone.port, questions("meta"), rate=rate, seconds=seconds / 3, seed=seed)
                before_s = cpu_s(pid)
                second = await open_loop(port, questions(_MODEL), rate=rate, seconds=seconds / 3, seed=seed)
                found.append((figure(first), figure(second, cpu_s(pid) - before_s)))
    return tuple(_median([each[at] for each in found]) for at in (0, 1))  # type: ignore[return-value]  # two of them


def _median(found: list[PathFigure]) -> PathFigure:
    return PathFigure(*(statistics.median(column) for column in zip(*map(msgspec.structs.astuple, found), strict=True)))


async def failover(seconds: float, rate: float = RATE, *, compiled: bool = False) -> Row:
    """Requests lost, and for how long a dead cluster was chosen after its first failure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ports = (free_port(), free_port())
        plan = plan_of(*ports)
        async with contextlib.AsyncExitStack() as stack:
            steady = instant_pool(_folder(folder / "b"), (f"{HOST}:{ports[1]}",), "")
            await stack.enter_async_context(steady)
            started = router_process(folder, plan, compiled=compiled)
            router_port, admin, _ = await stack.enter_async_context(started)
            port = await stack.enter_async_context(fleet_gateway(_folder(folder / "fleet"), plan, router_port))
            killer = asyncio.create_task(_kill_and_restore(_folder(folder / "a"), ports[0], seconds))
            await asyncio.sleep(1.0)
            samples = await open_loop(port, questions(_MODEL), rate=rate, seconds=seconds, seed=5)
            kills = await killer
            lost = sum(not each.answer.startswith(b"HTTP/1.1 200") for each in samples)
            return {"requests": len(samples), "lost": lost, "kills": kills, "admin": admin}


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


async def _kill_and_restore(folder: Path, port: int, seconds: float) -> int:
    """A cluster that lives for 4 s and is dead for 4 s, in turn."""
    ends_s, kills = time.monotonic() + seconds, 0
    while time.monotonic() < ends_s:
        async with instant_pool(folder, (f"{HOST}:{port}",), "") as pid:
            await asyncio.sleep(4.0)
            os.kill(pid, signal.SIGKILL)
        kills += 1
        await asyncio.sleep(4.0)
    return kills


class _Call:
    """A call whose replies go nowhere."""

    def send(self, *_messages: bytes) -> None: ...

    def finish(self, *_why: object) -> None: ...

    def mark_idle(self) -> None: ...


def cpu(requests: int = 3000) -> float:
    """Microseconds of CPU a request, from Envoy's messages to the replies, over four endpoints."""
    catalog = ServiceCatalog()
    director = RouterDirector(
        catalog, make_scheduler(load_profile()), clock=time.monotonic, wall_clock=lambda: "2026-01-01T00:00:00Z",
        chance=random.Random(1).random,  # noqa: S311  not a secret
    )  # fmt: skip
    catalog.replace([plan_of(1, 2, 3, 4)])
    budget, stalls = Budget(1 << 30), Stalls()
    bodies = [body for _, body in zip(range(500), short_chats(_MODEL, seed=3), strict=False)]
    answered = nested(3, nested(1, _header(":status", "200")))

    heads = [_headers(number) for number in range(requests + 500)]
    sent = [nested(4, nested(1, body) + whole(2, 1)) for body in bodies]

    def serve(number: int) -> None:
        found = FrontProcessor(_Call(), director, time.monotonic, 1 << 20, budget, stalls)
        found.message(heads[number])
        found.message(sent[number % 500])
        found.message(answered)
        found.closed()

    for number in range(500):
        serve(number)
    began_s = time.process_time()
    for number in range(500, 500 + requests):
        serve(number)
    return (time.process_time() - began_s) / requests * 1e6


async def busy(seconds: float, *, compiled: bool) -> Row:
    """CPU a request of a router process that has as many requests as it takes, and how many those are."""
    with tempfile.TemporaryDirectory() as name:
        async with router_process(Path(name), plan_of(1, 2, 3, 4), compiled=compiled) as (port, _, pid):
            await keep_busy(port, _front_calls(), calls=8, seconds=1.0)
            before_s = cpu_s(pid)
            served = await keep_busy(port, _front_calls(), calls=8, seconds=seconds)
            used_s = cpu_s(pid) - before_s
    return {"us_a_request": used_s / served * 1e6, "requests_a_second": served / seconds}


def _front_calls() -> Iterator[FrontMessages]:
    bodies = [body for _, body in zip(range(500), short_chats(_MODEL, seed=3), strict=False)]
    answered = nested(3, nested(1, _header(":status", "200")))
    for number in count():
        yield _headers(number), nested(4, nested(1, bodies[number % 500]) + whole(2, 1)), answered


def _headers(number: int) -> bytes:
    given = {
        ":method": "POST",
        ":path": "/v1/chat/completions",
        ":authority": "fleet",
        "content-type": "application/json",
        "user-agent": "OpenAI/Python 2.0",
        "x-envoy-attempt-count": "1",
        "x-request-id": f"0f000000-0000-4000-8000-{number:012d}",
    }
    return nested(2, nested(1, b"".join(_header(*each) for each in given.items()))) + nested(11, whole(1, 2))


def _header(name: str, value: str) -> bytes:
    return nested(1, nested(1, name.encode()) + nested(3, value.encode()))


class _Caches:
    """Caches of whole clusters: so many documents each, the least recently used one leaves."""

    def __init__(self, names: list[str], documents: int) -> None:
        self._held: dict[str, OrderedDict[int, None]] = {name: OrderedDict() for name in names}
        self._most = documents

    def serve(self, name: str, document: int) -> bool:
        """Whether the document was there; it is afterwards."""
        held = self._held[name]
        hit = document in held
        held[document] = None
        held.move_to_end(document)
        if len(held) > self._most:
            held.popitem(last=False)
        return hit


def locality(requests: int = 6000, documents: int = 240, room: int = 60, seed: int = 1) -> dict[str, float]:
    """Hit rates: by the router over three clusters, in one pool of their size, and by weights alone."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    popularity = [1.0 / (rank + 1) ** 0.7 for rank in range(documents)]
    asked = chance.choices(range(documents), popularity, k=requests)
    names = [f"bench/e{at}" for at in range(3)]
    return {
        "router": _hits(asked, _by_router(chance), _Caches(names, room)),
        "pool": _hits(asked, lambda _document: "pool", _Caches(["pool"], 3 * room)),
        "weights": _hits(asked, lambda _document: chance.choice(names), _Caches(names, room)),
    }


def _hits(asked: list[int], choose: Callable[[int], str], caches: _Caches) -> float:
    return sum(caches.serve(choose(document), document) for document in asked) / len(asked)


def _by_router(chance: random.Random) -> Callable[[int], str]:
    catalog = ServiceCatalog()
    # The router's index has to forget as the caches do: a document is some 2,000 tokens, 32 blocks.
    director = RouterDirector(
        catalog, make_scheduler(load_profile()), clock=time.monotonic, wall_clock=lambda: "2026-01-01T00:00:00Z",
        chance=chance.random,
    )  # fmt: skip
    catalog.replace([plan_of(1, 2, 3)])

    def choose(document: int) -> str:
        text = f"document {document} " + "about a subject of its own " * 300
        body = {"model": _MODEL, "messages": [{"role": "system", "content": text}, {"role": "user", "content": "?"}]}
        headers = {":method": "POST", ":path": "/v1/chat/completions"}
        routed = director.decide(FrontRequest(headers, json.dumps(body).encode()))
        if not isinstance(routed, RoutedTo):
            raise TypeError("the router refused")
        director.ended(routed, FrontResponse(200, 0.0, False, ResponseUsage(), False))
        return routed.member.plan.key

    return choose


def _row(name: str, value: float, unit: str, limit: float, baseline: Row) -> Row:
    shown = round(value, 3)
    return {"id": name, "value": shown, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}


def rows(seconds: float = 15.0) -> list[Row]:
    """All figures."""
    compiled = is_compiled_there()
    alone, whole = asyncio.run(latency(seconds, compiled=compiled))
    base = {"id": "one Envoy alone, p50", "value": round(alone.p50_ms, 3), "unit": "ms"}
    lost = asyncio.run(failover(max(24.0, seconds), compiled=compiled))
    found = locality()
    build = "compiled" if compiled else "plain"
    return [
        _row("router.added_p50", whole.p50_ms - alone.p50_ms, "ms", 3.0, base),
        _row(
            "router.added_p95",
            whole.p95_ms - alone.p95_ms,
            "ms",
            6.0,
            base | {"id": "one Envoy alone, p95", "value": round(alone.p95_ms, 3)},
        ),
        _row(f"router.cpu_{build}", whole.cpu_us, "µs", 150.0, base),
        _row(
            "router.lost",
            float(str(lost["lost"])),
            "requests",
            0.0,
            {"id": "requests sent", "value": lost["requests"], "unit": ""},
        ),
        _row(
            "router.misses_over_one_pool",
            found["pool"] - found["router"],
            "share",
            0.1 * found["pool"],
            {"id": "hit rate of weights alone", "value": round(found["weights"], 3), "unit": ""},
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("latency", "failover", "cpu", "busy", "locality"))
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second")
    parser.add_argument("--compiled", action="store_true")
    chosen = parser.parse_args()
    if chosen.what == "locality":
        print(json.dumps(locality()))
    elif chosen.what == "cpu":
        print(json.dumps({"us_a_request": cpu(), "build": describe_build()}))
    elif chosen.what == "busy":
        print(json.dumps(asyncio.run(busy(chosen.seconds, compiled=chosen.compiled))))
    elif chosen.what == "failover":
        print(json.dumps(asyncio.run(failover(chosen.seconds, chosen.rate, compiled=chosen.compiled))))
    else:
        alone, whole = asyncio.run(latency(chosen.seconds, compiled=chosen.compiled, rate=chosen.rate))
        print(json.dumps({"alone": msgspec.to_builtins(alone), "whole": msgspec.to_builtins(whole)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
