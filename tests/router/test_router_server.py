"""The router as a process runs it: plans from a folder, probes, models of replicas, the side door, an orderly end."""

import asyncio
from functools import wraps

import aiohttp
from aiohttp import web

from modelplane.compose.service_plan import plan_document
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.probes import Prober
from modelplane.router.served_models import ServedModels
from modelplane.router.server import RouterServer, RouterSettings
from tests.router.conftest import Front, endpoint, plan, provider
from tests.support.waiting import until

HOST = "127.0.0.1"


def run(test):
    """Runs an async test on a loop of its own."""

    @wraps(test)
    def on_a_loop(**given):
        asyncio.run(test(**given))

    return on_a_loop


def settings(**more):
    return RouterSettings(host=HOST, port=0, health_port=0, admin_port=0, drain_s=0.1, probes=False, **more)


async def get(port, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://{HOST}:{port}{path}") as response:
        return response.status, await response.text()


@run
async def test_it_serves_what_the_folder_has(tmp_path):
    router = RouterServer(settings(plans=tmp_path, summaries=tmp_path / "loads.yaml"))
    (tmp_path / "chat.json").write_bytes(plan_document(plan([endpoint("a")])))
    (tmp_path / "callers.json").write_bytes(b'{"callers": [{"name": "ada"}], "checksKeys": true}')
    (tmp_path / "loads.yaml").write_text(
        "endpoints:\n- {name: a, namespace: team, address: 10.0.0.1, port: 80, "
        "attributes: {modelplane.ai/saturation: 1}}\n"
    )
    await router.start()
    try:
        assert list(router.catalog.services) == ["team/chat"]
        assert router.director.callers.are_limited
        assert router.catalog.endpoints["team/a"].candidate.attributes == {"modelplane.ai/saturation": 1}
        assert router.port > 0 < router.health_port
        assert await get(router.admin_port, "/readyz") == (200, "ok\n")
    finally:
        await router.stop()
        await router.stop()


@run
async def test_the_side_door_explains_requests():
    router = RouterServer(settings())
    await router.start()
    try:
        assert (await get(router.admin_port, "/readyz"))[0] == 503
        router.replace([plan([endpoint("a"), provider("p", ready=False, weight=0)])])
        door = Front()
        door.director = router.director
        door.send(headers={"x-request-id": "r"})
        status, text = await get(router.admin_port, "/requests/r")
        assert (status, '"endpoint":"team/a"' in text) == (200, True)
        assert (await get(router.admin_port, "/requests/unknown"))[0] == 404
        assert '"id":"r"' in (await get(router.admin_port, "/requests?limit=3"))[1]
        assert '"inFlight":1' in (await get(router.admin_port, "/endpoints"))[1]
        assert (await get(router.admin_port, "/healthz"))[0] == 200
        assert "modelplane_router_requests_total" in (await get(router.admin_port, "/metrics"))[1]
    finally:
        await router.stop()


async def serve(answer):
    application = web.Application()
    application.router.add_get("/v1/models", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    return runner, runner.addresses[0][1]


@run
async def test_replicas_are_asked_for_their_models_and_probed():
    seen = []

    async def answer(request):
        seen.append(request.headers["modelplane-replica"])
        return web.json_response({"data": [{"id": "engine"}, {"id": "legal"}]})

    runner, port = await serve(answer)
    catalog = ServiceCatalog()
    here = {"address": HOST, "port": port, "model": None}
    catalog.replace([plan([endpoint("a", **here), provider("p", **here), endpoint("b", address=HOST, port=1)])])
    models = ServedModels(catalog)
    async with aiohttp.ClientSession() as session:
        await models.refresh(session, 100.0)
        await models.refresh(session, 101.0)
        assert (catalog.endpoints["team/a"].served, seen) == (("engine", "legal"), ["team/a"])
        await models.refresh(session, 116.0)
    assert seen == ["team/a"] * 2
    prober = Prober(catalog, clock=lambda: 5.0)
    await prober.probe_all()
    assert {key: each.health.admits(5.0) for key, each in catalog.endpoints.items()} == {
        "team/a": True,
        "team/p": True,
        "team/b": False,
    }
    await runner.cleanup()


@run
async def test_a_provider_by_name_is_probed_where_it_was_checked_and_nowhere_else():
    async def answer(_request):
        return web.json_response({})

    runner, port = await serve(answer)
    catalog = ServiceCatalog()
    here = {"address": "localhost", "port": port}  # a name that leads to a server, were it resolved here
    members = [
        provider("one", **here, addresses=(HOST,)),
        provider("some", **here, addresses=("127.0.0.9", HOST)),
        provider("gone", address="localhost", port=1, addresses=(HOST,)),
        provider("unknown", address="localhost", port=1),
    ]
    catalog.replace([plan(members)])
    prober = Prober(catalog, clock=lambda: 5.0)
    await prober.probe_all()
    found = {key: each.health.admits(5.0) for key, each in catalog.endpoints.items()}
    assert found == {"team/one": True, "team/some": True, "team/gone": False, "team/unknown": True}
    await prober.stop()
    await runner.cleanup()


async def models_of(answer):
    """What is known of a replica that lists its models so."""
    runner, port = await serve(answer)
    catalog = ServiceCatalog()
    catalog.replace([plan([endpoint("a", address=HOST, port=port, model=None)])])
    async with aiohttp.ClientSession() as session:
        await ServedModels(catalog).refresh(session, 100.0)
    await runner.cleanup()
    return catalog.endpoints["team/a"].served


@run
async def test_a_list_of_models_may_come_in_pieces():
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"data": [{"id": "engine"},', b'{"id": "legal"}]}'):
            await response.write(piece)
            await asyncio.sleep(0.05)
        return response

    assert await models_of(answer) == ("engine", "legal")


@run
async def test_lists_of_models_that_are_too_much_are_none():
    async def endless(_request):
        return web.Response(body=b'{"data": [' + b" " * (2 << 20) + b"]}")

    async def deep(_request):
        return web.Response(body=b'{"other": ' + b"[" * 100_000)

    assert [await models_of(endless), await models_of(deep)] == [(), ()]


@run
async def test_a_request_that_reached_nobody_has_all_addresses_probed_at_once():
    router = RouterServer(RouterSettings(host=HOST, port=0, health_port=-1, admin_port=-1, drain_s=0.1))
    router.replace([plan([endpoint("a", address=HOST, port=1)])])
    router._prober._interval_s = 3600.0  # so that nothing else probes
    await router.start()
    try:
        assert router.catalog.endpoints["team/a"].health.why == ""
        router.director.on_refused()
        await until(lambda: router.catalog.endpoints["team/a"].health.why)
    finally:
        await router.stop()


@run
async def test_an_address_that_closes_is_left_out_before_a_request_is_lost_there():
    async def hold(reader, writer):
        held.append(writer)
        await reader.read()
        writer.close()

    held = []
    server = await asyncio.start_server(hold, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    catalog = ServiceCatalog()
    catalog.replace([plan([endpoint("a", address=HOST, port=port)])])
    health = catalog.endpoints["team/a"].health
    prober = Prober(catalog, asyncio.get_running_loop().time, interval_s=3600.0)
    await prober.start()
    try:
        prober.soon()
        await until(lambda: held)
        server.close()
        held[0].close()
        await until(lambda: health.why)
        assert health.describe(asyncio.get_running_loop().time()).endswith("after a failed health check")
    finally:
        await prober.stop()
        await server.wait_closed()
    assert prober._held == {}


@run
async def test_tasks_end_with_it():
    before = asyncio.all_tasks()
    router = RouterServer(RouterSettings(host=HOST, port=0, health_port=-1, admin_port=-1, drain_s=0.1))
    await router.start()
    await router.stop()
    assert asyncio.all_tasks() == before
