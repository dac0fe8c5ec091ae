"""The picker's side door: metrics, health, and its state.

    /metrics        for Prometheus
    /healthz        200 while the process answers
    /readyz         200 while the picker can decide, else 503 and why
    /debug/state    the picker's state, in the form that `modelplane picker explain --state` reads

The state has endpoints and their loads, and no prompt. It is served only if it is enabled, since it names every server
of the pool.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

from modelplane.epp.server.observe.families import CONTENT_TYPE
from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address


class MetricsPage(Protocol):
    """Whose numbers are shown."""

    def text(self) -> bytes:
        """In Prometheus' text format."""


State = Callable[[], Mapping[str, object]]
Problem = Callable[[], str]


class AdminServer:
    """`problem` returns why the picker is not ready; empty: it is. Without `state`, there is no /debug/state."""

    def __init__(
        self,
        page: MetricsPage,
        address: tuple[str, int],
        *,
        problem: Problem = str,
        state: State | None = None,
    ) -> None:
        self._page = page
        self._registry = CollectorRegistry()
        for standard in (ProcessCollector, PlatformCollector, GCCollector):
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
        body = self._page.text() + generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        problem = self._problem()
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")

    async def _dump(self, _: web.Request) -> web.Response:
        body = msgspec.json.encode(self._state() if self._state is not None else {})
        return web.Response(body=body, content_type="application/json")
