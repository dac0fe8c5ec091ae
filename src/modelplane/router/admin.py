"""The router's side door.

/requests/ID    why a request went where it went
/requests       the latest of them (`?limit=N`)
/endpoints      every endpoint with its health and what is in flight
/metrics        for Prometheus
/healthz        200 while the process answers
/readyz         200 while the router can decide, else 503 and why
"""

from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address
from modelplane.router.director import RouterDirector
from modelplane.views.services import EndpointShown

_MOST: Final = 500


class RouterAdmin:
    """Serves between `start` and `stop`."""

    def __init__(self, director: RouterDirector, address: tuple[str, int], clock: Callable[[], float]) -> None:
        self._director = director
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._host, self.port = address

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/requests", self._latest)
        application.router.add_get("/requests/{id}", self._request)
        application.router.add_get("/endpoints", self._endpoints)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._ready)
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

    async def _request(self, request: web.Request) -> web.Response:
        found = self._director.ring.find(request.match_info["id"], self._clock())
        if found is None:
            return _json({"error": "the router does not know this request, or no longer"}, 404)
        return _json(found)

    async def _latest(self, request: web.Request) -> web.Response:
        limit = request.query.get("limit", "20")
        most = min(_MOST, int(limit)) if limit.isdecimal() and len(limit) < 6 else 20  # noqa: PLR2004  digits
        return _json({"requests": self._director.ring.latest(most, self._clock())})

    async def _endpoints(self, _: web.Request) -> web.Response:
        return _json({"endpoints": shown_endpoints(self._director, self._clock())})

    async def _metrics(self, _: web.Request) -> web.Response:
        director = self._director
        lines = (*director.usage.lines(), *director.endpoint_metrics.lines(director.catalog.endpoints.keys()))
        return web.Response(text="\n".join(lines) + "\n")

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        problem = "the plans have not been read yet" if not self._director.catalog.known else ""
        problem = "the router is stopping" if self._director.stopping else problem
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


def shown_endpoints(director: RouterDirector, now_s: float) -> list[EndpointShown]:
    services: dict[str, list[str]] = {}
    for service in director.catalog.services.values():
        for member in service.members.values():
            services.setdefault(member.plan.key, []).append(service.key)
    return [
        EndpointShown(
            key,
            tuple(sorted(services.get(key, ()))),
            endpoint.health.state(now_s).value,
            "" if endpoint.health.admits(now_s) else endpoint.health.describe(now_s),
            endpoint.candidate.requests_in_flight,
            endpoint.plan.ready,
        )
        for key, endpoint in sorted(director.catalog.endpoints.items())
    ]


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")
