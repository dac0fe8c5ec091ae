"""Which models providers have, by their own lists."""

import asyncio

import pytest
from aiohttp import web

from modelplane.api.models import ListedModels
from modelplane.api.objects import GROUP
from modelplane.apiserver.store.database import Database
from modelplane.plane.provider_models import REFRESH_S, ListRequest, ProviderModels, listed_models
from modelplane.plane.service_plans import ServicePlans
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock

API = "modelplane.ai/v1alpha1"
URL = "https://api.example/v1/models"


@pytest.mark.parametrize(
    ("names", "model", "kept"),
    [
        ([], "a", ListedModels(url=URL, total=0)),
        (["b", "a", "b", ""], None, ListedModels(url=URL, total=2, names=("a", "b"))),
        (["a", "b", "x" * 300], "b", ListedModels(url=URL, total=2, names=("b", "a"))),
        (["a"], "c", ListedModels(url=URL, total=1, names=("a",))),
    ],
)
def test_names_that_are_kept(names, model, kept):
    assert listed_models(names, ListRequest(URL, model=model)) == kept


def test_of_a_long_list_the_wanted_model_is_kept():
    found = listed_models([f"m{number:04}" for number in range(1000)], ListRequest(URL, model="m0999"))
    assert (found.total, len(found.names), found.names[0]) == (1000, 256, "m0999")


class Provider:
    """Lists its models to whoever has the key."""

    def __init__(self):
        self.names = ["acme/large-3", "acme/small-1"]
        self.status = 200
        self.asked = 0

    async def answer(self, request):
        self.asked += 1
        if request.headers.get("Authorization") != "Bearer s3cret" or self.status != 200:
            return web.json_response({}, status=self.status if self.status != 200 else 401)
        return web.json_response({"data": [{"id": name, "object": "model"} for name in self.names]})

    async def start(self):
        app = web.Application()
        app.router.add_get("/openai/v1/models", self.answer)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.port = self.runner.addresses[0][1]


def objects(port, model="acme/large-3"):
    credential = {"method": "APIKey", "apiKey": {"secretRef": {"name": "key", "key": "token"}}}
    spec = {"origin": f"http://localhost:{port}", "api": {"prefix": "/openai/v1"}, "credential": credential}
    labels = {"vendor": "acme"}
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t"}]}
    group = {"name": "hosted", "selector": {"matchLabels": labels}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "key", "namespace": "chat"},
            "data": {"token": KEY},
        },
        {
            "apiVersion": API,
            "kind": "ModelEndpoint",
            "metadata": {"name": "acme", "namespace": "chat", "labels": labels},
            "spec": {**spec, "model": model},
            "status": ready,
        },
        {
            "apiVersion": API,
            "kind": "ModelService",
            "metadata": {"name": "helper", "namespace": "chat"},
            "spec": {"endpoints": [group]},
        },
    ]


KEY = "czNjcmV0"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "chat"}}
GATEWAY = {
    "apiVersion": API,
    "kind": "InferenceGateway",
    "metadata": {"name": "default"},
    "spec": {"outbound": {"allow": ["localhost"]}},
}
ACME = ObjectRef(GROUP, "ModelEndpoint", "chat", "acme")


def with_provider(scenario):
    async def main():
        clock, provider = VirtualClock(), Provider()
        await provider.start()
        try:
            await scenario(Database(None, clock=clock).store("plane"), clock, provider)
        finally:
            await provider.runner.cleanup()

    asyncio.run(main())


def test_the_list_decides_whether_a_provider_gets_requests():
    async def scenario(store, clock, provider):
        for item in (GATEWAY, *objects(provider.port)):
            store.create(item)
        lists, plans = ProviderModels(store, clock), ServicePlans(store)
        await lists.refresh()
        (endpoint,) = plans.current[0].endpoints
        assert (endpoint.ready, endpoint.models) == (True, ("acme/large-3", "acme/small-1"))
        await lists.refresh()
        assert provider.asked == 1
        provider.names = ["acme/small-1"]
        clock.advance(REFRESH_S)
        await lists.refresh()
        (endpoint,) = plans.current[0].endpoints
        assert (endpoint.ready, endpoint.weight, endpoint.reason) == (False, 0, "ModelNotListed")
        assert endpoint.message == f"http://localhost:{provider.port} lists 1 models, and not acme/large-3"
        provider.status = 500
        clock.advance(REFRESH_S)
        await lists.refresh()
        assert not plans.current[0].endpoints[0].ready
        found = store.get(ACME)
        store.replace({**found, "spec": {**found["spec"], "origin": "https://other.example"}})
        assert plans.current[0].endpoints[0].ready

    with_provider(scenario)


def test_the_outbound_rule_holds_for_the_list():
    async def scenario(store, clock, provider):
        for item in objects(provider.port):
            store.create(item)
        await ProviderModels(store, clock).refresh()
        assert provider.asked == 0
        assert "models" not in store.get(ACME)["status"]

    with_provider(scenario)
