"""Metrics are fetched from every address of a name, or not at all."""

import asyncio

import pytest
from aiohttp import web

from modelplane.crossplane.traffic_metrics import MetricsUnreadable
from modelplane.crossplane.traffic_targets import TrafficTargets

HOST = "127.0.0.1"


async def served(handler):
    application = web.Application()
    application.router.add_get("/metrics", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    return runner, runner.addresses[0][1]


@pytest.mark.parametrize("status", [503, 302])
def test_a_target_that_does_not_answer_measures_nothing(status):
    async def refuse(_request):
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async def main():
        runner, port = await served(refuse)
        async with TrafficTargets([f"http://{HOST}:{port}/metrics"]) as targets:
            with pytest.raises(MetricsUnreadable, match=f"status {status}"):
                await targets.fetch()
            await runner.cleanup()
            with pytest.raises(MetricsUnreadable, match="Connect"):
                await targets.fetch()

    asyncio.run(main())


def test_a_target_is_called_by_its_name_and_at_its_address():
    async def host(request):
        return web.Response(text=request.headers["Host"])

    async def main():
        runner, port = await served(host)
        async with TrafficTargets([f"http://localhost:{port}/metrics?match[]=x"]) as targets:
            found = await targets.fetch()
        await runner.cleanup()
        assert found == {f"http://{HOST}:{port}/metrics?match[]=x": f"localhost:{port}"}

    asyncio.run(main())
