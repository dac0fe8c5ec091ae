"""The picker's side door: metrics, health, and its state.

    /metrics        for Prometheus, made in parts between which requests are answered
    /healthz        200 while the process answers
    /readyz         200 while the picker can decide, else 503 and why
    /debug/state    the picker's state, in the form that `modelplane picker explain --state` reads

The state has endpoints and their loads, and no prompt. It is served only if it is enabled, since it names every server
of the pool.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

from modelplane.epp.server.observe.families import CONTENT_TYPE
from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address


class MetricsPage(Protocol):
    """Whose numbers are shown."""

    def parts(self) -> Iterator[bytes]:
        """In Prometheus' text format, each part made when it is asked for."""


_REST = 9.0
State = Callable[[], Mapping[str, object]]
Problem = Callable[[], str]
Refresh = Callable[[], Awaitable[None]]
"""Gets what the page is made of."""


class PacedPage:
    """A page that takes no more than a tenth of the event loop, however often and by however many it is asked for.

    It is made in turns with everything else on the loop, by one caller for all that wait, and kept for nine times as
    long as it took.
    """

    __slots__ = ("_body", "_clock", "_due_s", "_lock", "_page", "_refresh")

    def __init__(
        self, page: MetricsPage, clock: Callable[[], float] = time.monotonic, refresh: Refresh | None = None
    ) -> None:
        self._page = page
        self._refresh = refresh
        self._clock = clock
        self._lock = asyncio.Lock()
        self._body = b""
        self._due_s = clock()

    async def body(self) -> bytes:
        async with self._lock:
            started_s = self._clock()
            if started_s >= self._due_s:
                self._body = await self._made()
                now_s = self._clock()
                self._due_s = now_s + _REST * (now_s - started_s)
            return self._body

    async def _made(self) -> bytes:
        if self._refresh is not None:
            await self._refresh()
        parts: list[bytes] = []
        for part in self._page.parts():
            parts.append(part)
            await asyncio.sleep(0)
        return b"".join(parts)


class AdminServer:
    """`problem` returns why the picker is not ready; empty: it is. Without `state`, there is no /debug/state.

    With `refresh` the page is of several processes, and has what the kernel says of them itself.
    """

    def __init__(
        self,
        page: MetricsPage,
        address: tuple[str, int],
        *,
        problem: Problem = str,
        state: State | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        self._page = PacedPage(page, refresh=refresh)
        self._registry = CollectorRegistry()
        if refresh is None:
            ProcessCollector(registry=self._registry)
        for standard in (PlatformCollector, GCCollector):
            standard(registry=self._registry)
        self._problem = problem
        self._state = state
        self._runner: web.AppRunner | None = None
        self._host, self.port = address
        """A port of 0 is found when it starts."""

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._ready)
        if self._state is not None:
            application.router.add_get("/debug/state", self._dump)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        if self._host == ANY_ADDRESS:
            await web.SockSite(self._runner, listen_any_address(self.port)).start()
        else:
            await web.TCPSite(self._runner, self._host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        body = await self._page.body()
        return web.Response(body=body + generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        problem = self._problem()
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")

    async def _dump(self, _: web.Request) -> web.Response:
        body = msgspec.json.encode(self._state() if self._state is not None else {})
        return web.Response(body=body, content_type="application/json")
