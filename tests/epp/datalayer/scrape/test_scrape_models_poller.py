"""The names that servers answer to, and pages over TLS."""

import asyncio
import ssl
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from modelplane.epp.datalayer.scrape import ModelsPoller
from modelplane.epp.datalayer.scrape.connections import ScrapeConnection
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget, models_of
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.transport.tls import self_signed, server_context
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from tests.support.waiting import until


@asynccontextmanager
async def answering(answer, tls=None):
    application = web.Application()
    application.router.add_get("/v1/models", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def watching(endpoint, **options):
    watcher = ModelsPoller(every_s=0.01, **options)
    watcher.watch([endpoint])
    await watcher.start()
    try:
        yield watcher
    finally:
        await watcher.stop()


def test_a_real_engine():
    async def main():
        engine = SimulatedEngine(EngineConfig(cluster="east", namespace="team", pod="p", models=("demo", "alias")))
        address = await engine.start("127.0.0.1")
        endpoint = Endpoint("team/p", f"{address.host}:{address.port}", metrics=EndpointMetrics(waiting=3))
        async with watching(endpoint):
            await until(lambda: endpoint.metrics.models)
        assert endpoint.metrics == EndpointMetrics(waiting=3, models=frozenset({"demo", "alias"}))
        await engine.stop(grace_s=0)

    asyncio.run(main())


@pytest.mark.parametrize("bad", ["{", "[]", '{"data": [{"name": 1}]}', '{"data": {}}', None])
def test_names_are_kept_while_a_server_talks_nonsense(bad):
    says = {"text": '{"data": [{"id": "a"}, {"id": "b", "root": "x"}]}'}

    async def answer(_):
        return web.Response(text=says["text"]) if says["text"] is not None else web.Response(status=500)

    async def main():
        async with answering(answer) as port:
            endpoint = Endpoint("team/p", f"127.0.0.1:{port}")
            async with watching(endpoint) as watcher:
                await until(lambda: endpoint.metrics.models == {"a", "b"})
                says["text"] = bad
                await until(lambda: watcher.failures >= 2)
                assert endpoint.metrics.models == {"a", "b"}
                says["text"] = '{"data": []}'
                await until(lambda: not endpoint.metrics.models)

    asyncio.run(main())


def test_new_endpoints_are_polled_at_once():
    async def answer(_):
        return web.json_response({"data": [{"id": "a"}]})

    async def main():
        async with answering(answer) as port:
            watcher = ModelsPoller(every_s=3600)
            await watcher.start()
            await asyncio.sleep(0.01)
            endpoint = Endpoint("team/p", f"127.0.0.1:{port}")
            watcher.watch([endpoint, Endpoint("team/odd", "nonsense")])
            await until(lambda: endpoint.metrics.models)
            await watcher.stop()

    asyncio.run(main())


def test_pages_over_tls():
    async def answer(_):
        return web.Response(text="x")

    async def ask(target):
        found = asyncio.get_running_loop().create_future()
        connection = ScrapeConnection(target, timeout_s=30)
        connection.fetch(lambda page, problem: found.set_result((page, problem)))
        result = await found
        connection.close()
        await asyncio.sleep(0.05)
        return result

    async def main():
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        served = server_context(self_signed(time.time()))
        served.set_alpn_protocols(["http/1.1"])
        async with answering(answer, served) as port:
            assert await ask(ScrapeTarget("127.0.0.1", port, "/v1/models", trusting)) == (b"x", "")
            page, problem = await ask(ScrapeTarget("127.0.0.1", port, "/v1/models", ssl.create_default_context()))
            assert page is None
            assert "CERTIFICATE_VERIFY_FAILED" in problem

    asyncio.run(main())


def test_where_the_models_are():
    assert models_of(Endpoint("x", "[fd00::1]:8000", {"metricsPort": "9"})) == ScrapeTarget(
        "fd00::1", 8000, "/v1/models"
    )
