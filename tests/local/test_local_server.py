"""The plane's API over real HTTP."""

import asyncio
import io
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from modelplane.api.errors import InvalidObject
from modelplane.local.server.app import make_app
from modelplane.local.server.resources import find_target
from modelplane.local.store import Database
from modelplane.reconcile.clock import SystemClock

TOKEN = "a-token"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
SERVICE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelService",
    "metadata": {"name": "chat"},
    "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "qwen"}}}]},
}
SERVICES = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelservices"


def admit(manifest, _before):
    if "spec" not in manifest:
        raise InvalidObject("spec: is required")
    return manifest


@asynccontextmanager
async def serving():
    store = Database(None, clock=SystemClock()).store("plane")
    runner = web.AppRunner(make_app(store, token=TOKEN, admit=admit))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}") as client:
            yield client, store
    finally:
        await runner.cleanup()


def over_http(story):
    async def main():
        async with serving() as (client, store):
            await story(client, store)

    asyncio.run(main())


async def ask(client, method, path, *, headers=AUTH, **options):
    async with client.request(method, path, headers=headers, **options) as response:
        return response.status, await response.json()


def test_an_object_is_created_read_listed_replaced_and_deleted():
    async def story(client, store):
        status, created = await ask(client, "POST", SERVICES, json=SERVICE)
        assert (status, created["metadata"]["namespace"], created["metadata"]["generation"]) == (201, "default", 1)
        assert (await ask(client, "GET", f"{SERVICES}/chat")) == (200, created)
        status, listed = await ask(client, "GET", "/apis/modelplane.ai/v1alpha1/modelservices")
        assert (status, listed["kind"], listed["items"]) == (200, "ModelServiceList", [created])
        changed = {**created, "spec": {"endpoints": []}}
        status, replaced = await ask(client, "PUT", f"{SERVICES}/chat", json=changed)
        assert (status, replaced["metadata"]["generation"]) == (200, 2)
        status, answer = await ask(client, "PUT", f"{SERVICES}/chat", json=changed)
        assert (status, answer["reason"]) == (409, "Conflict")
        assert (await ask(client, "DELETE", f"{SERVICES}/chat"))[0] == 200
        assert len(store) == 0

    over_http(story)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "says"),
    [
        ("GET", f"{SERVICES}/nope", None, 404, 'modelservices "nope" not found'),
        ("GET", "/apis/modelplane.ai/v1/modelservices", None, 404, "could not find"),
        ("POST", SERVICES, {**SERVICE, "kind": "ModelCache"}, 422, "apiVersion and kind must be"),
        ("POST", SERVICES, {**SERVICE, "metadata": {"name": "a", "namespace": "b"}}, 422, "metadata.namespace: 'b'"),
        ("POST", SERVICES, {key: SERVICE[key] for key in ("apiVersion", "kind", "metadata")}, 422, "spec: is required"),
        ("PATCH", f"{SERVICES}/chat", SERVICE, 405, "PATCH is not served here"),
        ("POST", "/api/v1/namespaces/default/events", {}, 405, "written by the plane itself"),
    ],
)
def test_a_failure_is_a_status_that_says_why_and_changes_nothing(method, path, body, code, says):
    async def story(client, store):
        status, answer = await ask(client, method, path, json=body)
        assert (status, answer["kind"], answer["code"]) == (code, "Status", code)
        assert says in answer["message"]
        assert len(store) == 0

    over_http(story)


def test_a_body_that_is_no_json_is_refused():
    async def story(client, _store):
        status, answer = await ask(client, "POST", SERVICES, data=b"{")
        assert (status, answer["reason"]) == (422, "Invalid")
        status, answer = await ask(client, "POST", SERVICES, data=io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))
        assert status == 413

    over_http(story)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**AUTH, "Host": "evil.example.com"}, 403),
        ({**AUTH, "Origin": "http://evil.example.com"}, 403),
        (AUTH, 200),
    ],
)
def test_only_who_has_the_token_and_comes_from_here_is_served(headers, code):
    async def story(client, _store):
        status, answer = await ask(client, "GET", SERVICES, headers=headers)
        assert (status, answer["kind"]) == (code, "ModelServiceList" if code == 200 else "Status")

    over_http(story)


def test_health_needs_no_token():
    async def story(client, _store):
        async with client.get("/healthz") as response:
            assert (response.status, await response.text()) == (200, "ok")

    over_http(story)


def test_discovery_lists_what_is_served():
    async def story(client, _store):
        _, groups = await ask(client, "GET", "/apis")
        assert [group["name"] for group in groups["groups"]] == [
            "gateway.envoyproxy.io",
            "gateway.networking.k8s.io",
            "infrastructure.modelplane.ai",
            "modelplane.ai",
        ]
        _, found = await ask(client, "GET", "/apis/modelplane.ai/v1alpha1")
        assert {entry["name"]: entry["shortNames"] for entry in found["resources"] if "/" not in entry["name"]} == {
            "inferenceclasses": ["icl"],
            "inferenceclusters": ["ic"],
            "inferencegateways": ["ig"],
            "modelcaches": ["mc"],
            "modeldeployments": ["md"],
            "modelendpoints": ["me"],
            "modelreplicas": ["mr"],
            "modelservices": ["ms"],
        }

    over_http(story)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/namespaces", ("namespaces", None, None, "")),
        ("/api/v1/namespaces/default", ("namespaces", None, "default", "")),
        ("/api/v1/namespaces/default/secrets", ("secrets", "default", None, "")),
        ("/api/v1/secrets", ("secrets", None, None, "")),
        ("/apis/modelplane.ai/v1alpha1/inferenceclusters/east/status", ("inferenceclusters", None, "east", "status")),
        ("/apis/modelplane.ai/v1alpha1/namespaces/a/modelservices/b", ("modelservices", "a", "b", "")),
        ("/apis/modelplane.ai/v1alpha1/modelservices/b", None),
        ("/apis/modelplane.ai/v1alpha1/namespaces/a/inferenceclusters", None),
        ("/apis/modelplane.ai/v1alpha1/inferenceclusters/a/b/c", None),
        ("/api/v1", None),
        ("/other", None),
    ],
)
def test_paths(path, expected):
    found = find_target(path)
    assert (found and (found.resource.plural, found.namespace, found.name, found.subresource)) == expected
