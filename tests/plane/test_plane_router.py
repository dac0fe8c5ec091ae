"""The embedded plane with the fleet router at its front door."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from modelplane.cli import main
from modelplane.cli.manifests import read_documents
from modelplane.plane.plane import Plane, PlaneSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHAT = {"model": "default/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


async def served(session, plane):
    """The first answer by the model's name; until then endpoints come up."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.post(f"{plane.gateway_url}/v1/chat/completions", json=CHAT) as response:
                    if response.status == 200:
                        return response.headers
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)


async def talk(folder, capsys):
    """The command streams what the engine says, by the model's name that the router lists."""
    assert await asyncio.to_thread(main, ["chat", "chat", "-m", "hi", "--max-tokens", "4", "--data", str(folder)]) == 0
    assert capsys.readouterr().out.strip()


async def journey(folder, capsys):
    settings = PlaneSettings(data=folder, router=True, engine_speed=50)
    async with Plane(settings) as plane, aiohttp.ClientSession() as session:
        plane.apply(read_documents([EXAMPLES / "quickstart"]))
        headers = await served(session, plane)
        async with session.get(f"{plane.gateway_url}/v1/models") as response:
            assert [each["id"] for each in (await response.json())["data"]] == ["default/chat"]
        async with session.get(f"{plane.routers['fleet']}/requests/{headers['x-request-id']}") as response:
            shown = await response.json()
        assert shown["service"] == "default/chat"
        assert shown["attempts"][-1]["endpoint"] == headers["x-modelplane-served-by"]
        await talk(folder, capsys)


@pytest.mark.slow
def test_a_service_answers_by_its_model_and_the_router_says_why(tmp_path, capsys):
    asyncio.run(journey(tmp_path, capsys))
