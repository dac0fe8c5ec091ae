"""Clients that users bring, through a real Envoy and a real router: each API's own, on endpoints of both schemas."""

import asyncio
import importlib
import json

import openai
import pytest
from aiohttp import web

from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan
from modelplane.envoy import EnvoyProcess, GatewayView, free_port, render
from modelplane.envoy.view import RouterAddress
from modelplane.router.server import RouterServer, RouterSettings
from tests.envoy.conftest import HOST
from tests.support.loops import end_loop

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICES = ("team-a/open", "team-a/claude")
MESSAGES = [{"role": "user", "content": "hi"}]
WORDS = ("hel", "lo")
CHUNKS = [
    *({"id": "c", "choices": [{"index": 0, "delta": {"content": word}}]} for word in WORDS),
    {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
EVENTS = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "usage": {"input_tokens": 3, "output_tokens": 0},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in WORDS),
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


async def complete(request):
    """A server of OpenAI's API."""
    body = await request.json()
    assert body["model"] == "gpt"
    if body.get("stream"):
        return await _streamed(request, [f"data: {json.dumps(each)}" for each in CHUNKS] + ["data: [DONE]"])
    choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    made = {"id": "c", "object": "chat.completion", "created": 0, "model": "gpt", "choices": [choice], "usage": usage}
    return web.json_response(made)


async def message(request):
    """A server of Anthropic's API."""
    body = await request.json()
    assert body["model"] == "claude"
    if body.get("stream"):
        lines = [f"event: {each['type']}\ndata: {json.dumps(each)}" for each in EVENTS]
        return await _streamed(request, lines)
    content = [{"type": "text", "text": "hello"}]
    made = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": content}
    ending = {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2}}
    return web.json_response({**made, **ending})


async def _streamed(request, lines):
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for line in lines:
        await response.write(f"{line}\n\n".encode())
    return response


class Fleet:
    """A server of each API, each behind a service, a router and an Envoy."""

    async def start(self, folder):
        application = web.Application()
        application.router.add_post("/v1/chat/completions", complete)
        application.router.add_post("/v1/messages", message)
        self.runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, HOST, 0).start()
        port = self.runner.addresses[0][1]
        settings = RouterSettings(host=HOST, port=0, health_port=-1, admin_port=-1, probes=False, drain_s=0.1)
        self.router = RouterServer(settings)
        plans = (_plan("open", "OpenAI", "gpt", port), _plan("claude", "Anthropic", "claude", port))
        self.router.replace(plans)
        await self.router.start()
        self.envoy = EnvoyProcess(folder)
        router = RouterAddress(HOST, self.router.port)
        view = GatewayView(name="fleet", host=HOST, port=free_port(HOST), plans=plans, router=router)
        await self.envoy.start(render([view]))
        self.url = f"http://{HOST}:{view.port}"

    async def stop(self):
        await self.envoy.stop()
        await self.router.stop()
        await self.runner.cleanup()


def _plan(name, schema, model, port):
    key = f"team-a/{name}"
    endpoint = PlanEndpoint(key, "main", 1, False, HOST, port, None, schema=schema, model=model, replica=key)
    return ServicePlan("team-a", name, tiers=(PlanTier(0, (endpoint,)),))


async def with_openai(url, model):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        made = await client.chat.completions.create(model=model, messages=MESSAGES)
        stream = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True)
        pieces = [each.choices[0].delta.content async for each in stream if each.choices]
        return made.choices[0].message.content, [each for each in pieces if each]


async def with_anthropic(url, model):
    anthropic = importlib.import_module("anthropic")
    async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="x", max_retries=0) as client:
        made = await client.messages.create(model=model, messages=MESSAGES, max_tokens=8)
        async with client.messages.stream(model=model, messages=MESSAGES, max_tokens=8) as stream:
            pieces = [piece async for piece in stream.text_stream]
        return made.content[0].text, pieces


async def with_litellm(url, model):
    """As an OpenAI-compatible server, by its own name for those."""
    litellm = importlib.import_module("litellm")
    given = {"model": f"openai/{model}", "messages": MESSAGES, "api_base": f"{url}/v1", "api_key": "x"}
    made = await litellm.acompletion(**given, num_retries=0)
    stream = await litellm.acompletion(**given, stream=True)
    pieces = [each.choices[0].delta.content async for each in stream]
    return made.choices[0].message.content, [each for each in pieces if each]


CLIENTS = {"openai": with_openai, "anthropic": with_anthropic, "litellm": with_litellm}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    loop, made = asyncio.new_event_loop(), Fleet()
    loop.run_until_complete(made.start(tmp_path_factory.mktemp("envoy")))
    made.loop = loop
    yield made
    loop.run_until_complete(made.stop())
    end_loop(loop)


@pytest.mark.filterwarnings("default:.*ReadOnly:UserWarning")  # pydantic's on LiteLLM's own types
@pytest.mark.filterwarnings("default::DeprecationWarning:litellm")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_served_by_endpoints_of_both_schemas(fleet, name, monkeypatch):
    # Else LiteLLM fetches a list of prices when it is imported.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    pytest.importorskip(name)
    found = [fleet.loop.run_until_complete(CLIENTS[name](fleet.url, model)) for model in SERVICES]
    assert found == [("hello", list(WORDS))] * 2
