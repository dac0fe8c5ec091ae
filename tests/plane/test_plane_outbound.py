"""ModelEndpoints on hosts of the platform's own network, through a real Envoy."""

import asyncio
import tempfile
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from modelplane.api.objects import GROUP
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile import resolver
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of
from tests.support.own_network import DnsServer, EveryAddress, in_own_network

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


PUBLIC, OTHER, PUBLIC6, PRIVATE, METADATA = "93.184.215.14", "8.8.8.8", "2606:4700::1111", "10.0.0.5", "169.254.169.254"
SAID = "; InferenceGateway default may allow it in spec.outbound.allow"


async def answers(session, url, count):
    """What requests are answered by: the address where they arrived, or a status."""
    found = set()
    for _ in range(count):
        try:
            async with session.get(url) as response:
                found.add(await response.text() if response.status == 200 else str(response.status))
        except aiohttp.ClientConnectionError:
            found.add("the gateway does not listen yet")
    return sorted(found)


def names_over_time():
    """A provider by name, and where its requests arrive while the name changes."""
    resolver.LIFETIME_S = 0.0

    async def story(dns, folder):
        steps = []
        async with Plane(PlaneSettings(data=folder)) as plane, aiohttp.ClientSession() as session:
            place = ObjectRef(GROUP, "ModelEndpoint", "default", "up")

            def requests(count=8):
                return answers(session, f"{plane.gateway_url}/default/chat/v1/models", count)

            def status():
                found = plane.store.get(place)
                condition = condition_of(found, "RouteReady")
                return condition.get("reason"), condition.get("message", ""), found["status"].get("addresses", [])

            async def step(title, answer, reason, host="api.example"):
                """The name has another answer, and the endpoint is reconciled until it has the reason."""
                dns.now(host, answer)
                for turn in range(300):
                    current = plane.store.get(place)
                    labels = {**current["metadata"]["labels"], "turn": str(turn)}
                    spec = {**current["spec"], "url": f"http://{host}:8080"}
                    metadata = {**current["metadata"], "labels": labels}
                    plane.store.replace({**current, "metadata": metadata, "spec": spec})
                    await asyncio.sleep(0.1)
                    wanted = [each for each in answer or () if each in (PUBLIC, OTHER, PUBLIC6)]
                    if status()[0] == reason and (status()[2] == wanted or not wanted):
                        break
                await eventually(served, True)
                steps.append((title, *status(), await requests()))

            async def served():
                """Whether the gateway does what the status says."""
                reason, _, addresses = status()
                found = await requests(1)
                return (
                    found[0] in addresses
                    if reason in ("RouteConfigured", "OutboundPartlyRefused")
                    else found == ["503"]
                )

            for manifest in (GATEWAY, SERVICE, endpoint("http://api.example:8080")):
                plane.store.create(manifest)
            await step("public", [PUBLIC], "RouteConfigured")
            dns.now("api.example", [METADATA])
            steps.append(("rebound, not reconciled yet", await requests(50)))
            await step("rebound", [METADATA], "OutboundRefused")
            await step("two", [OTHER, PRIVATE], "OutboundPartlyRefused")
            await step("silent", None, "RouteConfigured")
            await step("IPv6", [PUBLIC6], "RouteConfigured", "six.example")
            await step("nowhere", [], "HostNotFound", "none.example")
        return steps

    with DnsServer({}) as dns, EveryAddress() as everywhere, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(story(dns, Path(folder) / "plane")), sorted(set(everywhere.called))


@pytest.mark.e2e
@pytest.mark.submission
def test_requests_go_to_addresses_that_were_checked_whatever_the_name_does():
    steps, called = in_own_network(names_over_time)
    metadata = f"spec.url: api.example resolves to {METADATA}, a metadata service address"
    private = f"spec.url: api.example resolves to {PRIVATE}, a private address, which gets no requests"
    before = "spec.url: api.example does not resolve; requests go to the addresses of before"
    assert steps == [
        ["public", "RouteConfigured", "", [PUBLIC], [PUBLIC]],
        ["rebound, not reconciled yet", [PUBLIC]],
        ["rebound", "OutboundRefused", metadata + SAID, [], ["503"]],
        ["two", "OutboundPartlyRefused", private + SAID, [OTHER], [OTHER]],
        ["silent", "RouteConfigured", before, [OTHER], [OTHER]],
        ["IPv6", "RouteConfigured", "", [PUBLIC6], [PUBLIC6]],
        ["nowhere", "HostNotFound", "spec.url: none.example does not resolve", [], ["503"]],
    ]
    assert called == sorted([PUBLIC, OTHER, PUBLIC6])
