"""ModelEndpoints on hosts of the platform's own network, through a real Envoy."""

import asyncio

import aiohttp
from aiohttp import web

from modelplane.api.objects import GROUP
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of

API = "modelplane.ai/v1alpha1"
GATEWAY = {"apiVersion": API, "kind": "InferenceGateway", "metadata": {"name": "default"}, "spec": {}}
SERVICE = {
    "apiVersion": API,
    "kind": "ModelService",
    "metadata": {"name": "chat", "namespace": "default"},
    "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "up"}}, "weight": 1, "priority": 0}]},
}


def endpoint(url, **spec):
    metadata = {"name": "up", "namespace": "default", "labels": {"app": "up"}}
    return {"apiVersion": API, "kind": "ModelEndpoint", "metadata": metadata, "spec": {"url": url, **spec}}


def reason(plane):
    found = plane.store.get(ObjectRef(GROUP, "ModelEndpoint", "default", "up"))
    return condition_of(found, "RouteReady").get("reason")


async def eventually(check, expected, seconds=60.0):
    deadline = asyncio.get_running_loop().time() + seconds
    while (found := await check()) != expected:
        assert asyncio.get_running_loop().time() < deadline, f"{found} instead of {expected}"
        await asyncio.sleep(0.1)


def test_a_host_of_the_platform_is_reached_only_where_the_platform_team_allows_it(tmp_path):
    async def secret(_request):
        return web.Response(text="INTERNAL")

    async def story():
        upstream = web.AppRunner(web.Application())
        upstream.app.router.add_get("/{path:.*}", secret)
        await upstream.setup()
        await web.TCPSite(upstream, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{upstream.addresses[0][1]}"
        async with Plane(PlaneSettings(data=tmp_path / "plane")) as plane, aiohttp.ClientSession() as session:

            async def answered():
                try:
                    async with session.get(f"{plane.gateway_url}/default/chat/v1/models") as response:
                        return response.status, await response.text() if response.status == 200 else ""
                except aiohttp.ClientConnectionError:
                    return 0, "the gateway does not listen yet"

            async def told():
                return reason(plane)

            for manifest in (GATEWAY, SERVICE, endpoint(url)):
                plane.store.create(manifest)
            await eventually(told, "OutboundRefused")
            await eventually(answered, (503, ""))
            # Whoever claims to be a replica of the fleet needs the word of that replica.
            current = plane.store.get(ObjectRef(GROUP, "ModelEndpoint", "default", "up"))
            plane.store.replace({**current, "spec": {"url": url, "replica": {"name": "r", "clusterName": "c"}}})
            await eventually(told, "Invalid")
            assert (await answered())[0] == 503
            current = plane.store.get(ObjectRef(GROUP, "ModelEndpoint", "default", "up"))
            plane.store.replace({**current, "spec": {"url": url}})
            gateway = plane.store.get(ObjectRef(GROUP, "InferenceGateway", "", "default"))
            plane.store.replace({**gateway, "spec": {"outbound": {"allow": ["127.0.0.0/8"]}}})
            await eventually(answered, (200, "INTERNAL"))
        await upstream.cleanup()

    asyncio.run(story())
