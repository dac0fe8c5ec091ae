"""Services as the published API of 0.5 writes them, on the embedded plane, through a real Envoy and real clients."""

import asyncio
import json

import aiohttp
import openai
import pytest
import yaml
from aiohttp import web

from modelplane.api.objects import GROUP
from modelplane.cli import main
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile.store import ObjectRef
from tests.support.waiting import until

MANIFESTS = """
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {outbound: {allow: [localhost]}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: eu-door}
spec:
  clusterName: fra-a
  auth: {method: APIKey, apiKey: {secretSelector: {matchLabels: {org.example/keys: eu}}}}
  serviceSelector: {matchLabels: {org.example/region: eu}}
---
apiVersion: v1
kind: Secret
metadata: {name: eu-keys, namespace: modelplane-system, labels: {org.example/keys: eu}}
stringData: {alice: key-a}
---
apiVersion: v1
kind: Secret
metadata: {name: acme-key, namespace: chat}
data: {token: czNjcmV0}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelEndpoint
metadata: {name: hosted-backup, namespace: chat, labels: {org.example/vendor: acme-llm}}
spec:
  origin: http://localhost:PORT
  api: {schema: OpenAI, prefix: /openai/v1}
  model: acme/large-3
  credential: {method: APIKey, apiKey: {secretRef: {name: acme-key, key: token}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: helper, namespace: chat, labels: {org.example/region: eu}}
spec:
  aliases: [helper-large]
  timeouts: {request: 10m, idle: 45s}
  endpoints:
  - {name: main, priority: 0, weight: 97, selector: {matchLabels: {modelplane.ai/deployment: helper-a}}}
  - {name: backup, priority: 1, selector: {matchLabels: {org.example/vendor: acme-llm}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: elsewhere, namespace: chat}
spec:
  endpoints:
  - {name: backup, selector: {matchLabels: {org.example/vendor: acme-llm}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: quiet, namespace: chat, labels: {org.example/region: eu}}
spec:
  endpoints:
  - {name: main, selector: {matchLabels: {modelplane.ai/deployment: nobody}}}
"""
COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "acme/large-3",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}
MESSAGES = [{"role": "user", "content": "hello"}]


class Provider:
    """Answers every request, and remembers whom it was sent to."""

    def __init__(self):
        self.asked = []
        self.models = []

    async def answer(self, request):
        if request.method == "GET":
            assert request.headers["Authorization"] == "Bearer s3cret"
            return web.json_response({"data": [{"id": "acme/large-3"}]})
        self.asked.append((request.path, request.headers.get("Authorization"), request.headers.get("Host")))
        self.models.append((await request.json())["model"])
        return web.json_response(COMPLETION)

    async def start(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.port = self.runner.addresses[0][1]


def status_of(plane, kind, namespace, name):
    return (plane.store.get(ObjectRef(GROUP, kind, namespace, name)) or {}).get("status", {})


async def check_names(client):
    """By name and by alias; 404 for what this door does not serve, and 503 for what exists and is not ready."""
    assert [model.id async for model in client.models.list()] == ["chat/helper", "chat/quiet", "helper-large"]
    made = await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
    assert made.choices[0].message.content == "hello"
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="chat/elsewhere", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.InternalServerError) as unready:
        await client.chat.completions.create(model="chat/quiet", messages=MESSAGES)
    assert (unready.value.status_code, unready.value.code) == (503, "service_unavailable")
    assert int(unready.value.response.headers["retry-after"]) > 0


async def check_services(plane, provider):
    def served():
        found = status_of(plane, "ModelService", "chat", "helper")
        return found if found.get("routes") == {"total": 2, "ready": 2} else None

    shown = await until(served)
    assert shown["model"] == "chat/helper"
    (tier,) = shown["tiers"]
    assert tier == {
        "priority": 1,
        "sharePercent": 100,
        "matched": 1,
        "ready": 1,
        "endpoints": [{"name": "hosted-backup", "group": "backup", "sharePermille": 1000}],
    }
    listed = await until(lambda: status_of(plane, "ModelEndpoint", "chat", "hosted-backup").get("models"))
    url = f"http://localhost:{provider.port}/openai/v1/models"
    assert listed == {"url": url, "total": 1, "names": ["acme/large-3"]}
    door = status_of(plane, "InferenceGateway", "", "eu-door")
    assert door["callers"] == 1
    base = door["endpoints"]["openAI"]
    async with openai.AsyncOpenAI(base_url=base, api_key="key-a", max_retries=0) as client:
        await check_names(client)
    async with openai.AsyncOpenAI(base_url=base, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
    assert provider.asked == [("/openai/v1/chat/completions", "Bearer s3cret", f"localhost:{provider.port}")]
    assert provider.models == ["acme/large-3"]
    # The other door asks for no keys and serves every service, by both ways in.
    async with openai.AsyncOpenAI(base_url=f"{plane.gateway_url}/chat/elsewhere/v1", api_key="x") as client:
        made = await client.chat.completions.create(model="anything", messages=MESSAGES)
        assert made.choices[0].message.content == "hello"
    assert {path for path, _, _ in provider.asked} == {"/openai/v1/chat/completions"}


LIMITS = [
    {"name": "alice", "services": ["chat/helper", "chat/quiet"], "requestsPerMinute": 1000},
    {"name": "bob", "services": ["chat/quiet"]},
    {"name": "carol", "requestsPerMinute": 1},
]


async def check_router(plane, provider, data):
    """The same door with a router: the same answers, and what only a router does."""
    provider.models.clear()
    store, door = plane.store, ObjectRef(GROUP, "InferenceGateway", "", "eu-door")
    found = store.get(door)
    auth = {**found["spec"]["auth"], "callers": LIMITS}
    store.replace({**found, "spec": {**found["spec"], "auth": auth, "router": {}}})
    secret = store.get(ObjectRef("", "Secret", "modelplane-system", "eu-keys"))
    store.replace({**secret, "stringData": {"alice": "key-a", "bob": "key-b", "carol": "key-c"}})
    base = status_of(plane, "InferenceGateway", "", "eu-door")["endpoints"]["openAI"]

    async def is_routed():
        async with openai.AsyncOpenAI(base_url=base, api_key="key-a", max_retries=0) as client:
            made = await client.chat.completions.with_raw_response.create(model="chat/helper", messages=MESSAGES)
            return "x-modelplane-served-by" in made.headers

    while not await is_routed():  # noqa: ASYNC110  Envoy says nothing when it has a new listener
        await asyncio.sleep(0.2)
    provider.models.clear()
    async with openai.AsyncOpenAI(base_url=base, api_key="key-a", max_retries=0) as client:
        await check_names(client)
        await client.chat.completions.create(model="helper-large", messages=MESSAGES)
        elsewhere = {"x-modelplane-residency": "fleet"}
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="chat/helper", messages=MESSAGES, extra_headers=elsewhere)
    assert provider.models == ["acme/large-3", "acme/large-3"]
    async with openai.AsyncOpenAI(base_url=base, api_key="key-b", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["chat/quiet"]
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
    async with openai.AsyncOpenAI(base_url=base, api_key="key-c", max_retries=0) as client:
        await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
        assert int(limited.value.response.headers["retry-after"]) > 0
    async with aiohttp.ClientSession() as session, session.get(base.replace("/v1", "/healthz")) as response:
        assert response.status == 200
    lines = (data / "usage" / "fleet.eu-door.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {(each["caller"], each["service"], each["endpoint"], each["status"]) for each in records} >= {
        ("alice", "chat/helper", "chat/hosted-backup", 200),
        ("alice", "chat/quiet", "", 503),
        ("bob", "chat/helper", "", 403),
        ("carol", "chat/helper", "", 429),
    }
    assert "key-" not in "".join(lines)


async def check_without_router(plane):
    """A router that is gone takes nothing with it, but what only it can hold fails closed."""
    await plane._routers._routers["fleet.eu-door"].server.stop()
    base = status_of(plane, "InferenceGateway", "", "eu-door")["endpoints"]["openAI"]
    async with openai.AsyncOpenAI(base_url=base, api_key="key-b", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError) as closed:
            await client.chat.completions.create(model="chat/helper", messages=MESSAGES)
    assert closed.value.status_code == 503


async def check_command(data, capsys):
    words = ["service", "helper", "-n", "chat", "--data", str(data)]
    assert await asyncio.to_thread(main, words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert (shown[0], shown[-1].split()) == (
        "model     chat/helper",
        ["1", "100.0%", "hosted-backup", "backup", "Healthy", "0"],
    )
    assert await asyncio.to_thread(main, ["service", "nobody", "--data", str(data)]) == 1
    assert 'modelservices.modelplane.ai "nobody" not found' in capsys.readouterr().err


@pytest.mark.timeout(240)
def test_manifests_of_the_published_api_run_unmodified(tmp_path, capsys):
    async def scenario():
        provider = Provider()
        await provider.start()
        try:
            async with Plane(PlaneSettings(data=tmp_path / "plane")) as plane:
                for item in yaml.safe_load_all(MANIFESTS.replace("PORT", str(provider.port))):
                    plane.store.create(item)
                await check_services(plane, provider)
                await check_router(plane, provider, tmp_path / "plane")
                await check_command(tmp_path / "plane", capsys)
                await check_without_router(plane)
        finally:
            await provider.runner.cleanup()

    asyncio.run(scenario())
