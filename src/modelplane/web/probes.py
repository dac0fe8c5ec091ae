"""What a kubelet asks of the dashboard's pod, on a port of its own: nothing of the fleet is answered there.

/healthz    200 while the process answers
/readyz     200 once every kind was listed, else 503 and why
"""

from collections.abc import Callable

from aiohttp import web

from modelplane.epp.transport.sockets import listen_at


async def serve_probes(host: str, port: int, missing: Callable[[], str]) -> web.AppRunner:
    """Until `cleanup` of the runner. `missing` says what is not there yet; empty: nothing."""

    async def healthy(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_request: web.Request) -> web.Response:
        problem = missing()
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")

    app = web.Application()
    app.router.add_get("/healthz", healthy)
    app.router.add_get("/readyz", ready)
    return await listening(app, host, port)


async def listening(app: web.Application, host: str, port: int) -> web.AppRunner:
    """The application at a port of the host; no host: of every address."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    for socket in await listen_at(host, port):
        await web.SockSite(runner, socket).start()
    return runner
