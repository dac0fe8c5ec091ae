"""Gateways of clusters that accept fleet gateways only, in a whole plane."""

import asyncio
import ssl

import aiohttp
import pytest

from modelplane.api.objects import GROUP, text_at
from modelplane.cli.manifests import read_documents
from modelplane.plane.hop_identity import SERVER_NAME, HopIdentity
from modelplane.plane.plane import Plane, PlaneSettings
from tests.plane.test_plane_router import CHAT, EXAMPLES, served


def test_keys_are_not_shown():
    hop = HopIdentity(1_700_000_000.0)
    assert "PRIVATE KEY" in hop.server.key
    assert "PRIVATE" not in f"{hop.server} {hop.fleet} {hop._made}"


async def refused(session, url, **tls):
    try:
        async with session.post(f"{url}/v1/chat/completions", json=CHAT, **tls) as response:
            return f"answered {response.status}"
    except (aiohttp.ClientError, ConnectionError):
        return "refused"


async def journey(folder):
    settings = PlaneSettings(data=folder, router=True, mutual_tls=True, engine_speed=50)
    async with Plane(settings) as plane, aiohttp.ClientSession() as session:
        plane.apply(read_documents([EXAMPLES / "quickstart"]))
        headers = await served(session, plane)
        assert headers["x-modelplane-served-by"].startswith("default/qwen3-8b-")
        # The static plan takes the same hop.
        await plane._routers._routers["fleet"].server.stop()
        body = {**CHAT, "model": "qwen3-8b"}
        async with session.post(f"{plane.gateway_url}/default/chat/v1/chat/completions", json=body) as response:
            assert (response.status, "x-modelplane-served-by" in response.headers) == (200, False)
        clusters = plane.store.list(GROUP, "InferenceCluster")
        address = next(filter(None, (text_at(each, "status", "gateway", "address") for each in clusters)))
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        assert await refused(session, f"http://{address}") == "refused"
        assert await refused(session, f"https://{address}", ssl=anyone, server_hostname=SERVER_NAME) == "refused"
        known = plane._routers.hop
        shown = {"ssl": known.context, "server_hostname": known.server_name}
        assert await refused(session, f"https://{address}", **shown) == "answered 404"


@pytest.mark.slow
def test_clusters_let_in_fleet_gateways_and_nobody_else(tmp_path):
    asyncio.run(journey(tmp_path))
