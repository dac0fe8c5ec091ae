"""What retries cost engines that cannot serve, through a real Envoy and the fleet router.

turned-away  every endpoint answers every second request with 503: tries that reach an engine, for each request, once
             the service's reserve of retries is spent. Without a budget it would be 1.9
first-byte   every endpoint breaks off after the first byte of its response: no request may reach a second engine
deadline     every endpoint is silent: how long the slowest request takes, beyond the service's own limit

    python bench/run.py retries             a minute
"""

import asyncio
import json
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from modelplane.compose.service_plan import PlanEndpoint, PlanTier, PlanTimeouts, ServicePlan
from modelplane.envoy import EnvoyProcess, GatewayView, free_port, render
from modelplane.envoy.view import RouterAddress
from modelplane.router.server import RouterServer, RouterSettings

_HOST: Final = "127.0.0.1"
_ENDPOINTS, _RATE, _SECONDS = 4, 100.0, 40.0
_MOST_TRIES, _LATE_S = 1.1, 0.5
_TIMES: Final = PlanTimeouts(request_s=3.0, idle_s=1.0)
_ID: Final = "x-request-id"
Row = dict[str, object]
Post = Callable[[str], Coroutine[None, None, tuple[int, float]]]
"""Sends a request of this name; the status, 0 where the response broke off, and how long it took."""


class Engines:
    """Servers that count the tries of each request, and behave as one way of failing demands."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.way = "turned-away"
        self._chance = random.Random(7)  # noqa: S311  a load's

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.tries[request.headers[_ID]] += 1
        if self.way == "turned-away":
            serves = self._chance.choice((True, False))
            return web.json_response({"id": "c", "choices": []}, status=200 if serves else 503)
        if self.way == "deadline":
            await asyncio.sleep(30.0)
            raise ConnectionResetError
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: {}\n\n")
        if request.transport is not None:
            request.transport.close()
        return response


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-retries-") as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Row]:
    engines = Engines()
    async with _front(folder, engines) as url, aiohttp.ClientSession() as session:
        post = _poster(session, url)
        return [
            await _turned_away(engines, post),
            await _first_byte(engines, post),
            await _deadline(engines, post),
        ]


@asynccontextmanager
async def _front(folder: Path, engines: Engines) -> AsyncIterator[str]:
    async with _servers(engines) as ports:
        endpoints = tuple(
            PlanEndpoint(f"bench/{port}", "main", 1, False, _HOST, port, None, replica=f"bench/{port}", model="m")
            for port in ports
        )
        plan = ServicePlan("bench", "chat", tiers=(PlanTier(0, endpoints),), timeouts=_TIMES)
        settings = RouterSettings(host=_HOST, port=0, health_port=-1, admin_port=0, probes=False, drain_s=0.1)
        router = RouterServer(settings)
        router.replace([plan])
        await router.start()
        envoy = EnvoyProcess(folder)
        port = free_port(_HOST)
        address = RouterAddress(_HOST, router.port)
        await envoy.start(render([GatewayView(name="fleet", host=_HOST, port=port, plans=(plan,), router=address)]))
        try:
            yield f"http://{_HOST}:{port}/v1/chat/completions"
        finally:
            await envoy.stop()
            await router.stop()


@asynccontextmanager
async def _servers(engines: Engines) -> AsyncIterator[list[int]]:
    application = web.Application()
    application.router.add_post("/{path:.*}", engines.answer)
    logging.getLogger("aiohttp.server").disabled = True  # broken connections are what is measured here
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    for _ in range(_ENDPOINTS):
        await web.TCPSite(runner, _HOST, 0).start()
    yield [address[1] for address in runner.addresses]
    await runner.cleanup()


def _poster(session: aiohttp.ClientSession, url: str) -> Post:
    body = {"model": "bench/chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

    async def post(name: str) -> tuple[int, float]:
        started = time.perf_counter()
        status = 0
        try:
            async with session.post(url, data=json.dumps(body), headers={_ID: name}) as response:
                status = response.status
                await response.read()
        except aiohttp.ClientError:
            pass  # A stream that broke off.
        return status, time.perf_counter() - started

    return post


async def _turned_away(engines: Engines, post: Post) -> Row:
    """The second half of the run: the first spends the reserve."""
    engines.way = "turned-away"
    count = int(_RATE * _SECONDS)
    later = count - count // 2
    statuses = Counter(status for status, _ in await _open_loop(post, "away", count))
    tries = sum(engines.tries[f"away-{number}"] for number in range(count // 2, count))
    reached = sum(f"away-{number}" in engines.tries for number in range(count // 2, count))
    value = round(tries / later, 3)
    return {
        "id": "retries.turned-away",
        "value": value,
        "unit": "tries a request",
        "limit": _MOST_TRIES,
        "ok": value <= _MOST_TRIES and reached > 0,
        "baseline": {"what": "requests that reached an engine at all", "value": reached, "unit": f"of {later}"},
        "statuses": {str(status): number for status, number in sorted(statuses.items())},
    }


async def _first_byte(engines: Engines, post: Post) -> Row:
    engines.way = "first-byte"
    await _open_loop(post, "byte", 500)
    found = [engines.tries[f"byte-{number}"] for number in range(500) if f"byte-{number}" in engines.tries]
    again = sum(tries > 1 for tries in found)
    return {
        "id": "retries.first-byte",
        "value": again,
        "unit": "requests that reached a second engine",
        "limit": 0,
        "ok": again == 0 and bool(found),
        "baseline": {"what": "requests whose response had begun", "value": len(found), "unit": "requests"},
    }


async def _deadline(engines: Engines, post: Post) -> Row:
    engines.way = "deadline"
    await asyncio.sleep(12.0)  # endpoints that were ejected are back
    ended = await asyncio.gather(*(post(f"late-{number}") for number in range(4)))
    again = sum(engines.tries[f"late-{number}"] > 1 for number in range(4))
    slowest = max(took for _, took in ended)
    most = _TIMES.request_s + _LATE_S
    return {
        "id": "retries.deadline",
        "value": round(slowest, 2),
        "unit": "s, the slowest request",
        "limit": most,
        "ok": slowest <= most and again > 0,
        "baseline": {"what": "requests that were tried again, of 4", "value": again, "unit": "requests"},
        "statuses": dict(Counter(str(status) for status, _ in ended)),
    }


async def _open_loop(post: Post, name: str, count: int) -> list[tuple[int, float]]:
    started, tasks = time.perf_counter(), []
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / _RATE - time.perf_counter()))
        tasks.append(asyncio.create_task(post(f"{name}-{number}")))
    return await asyncio.gather(*tasks)
