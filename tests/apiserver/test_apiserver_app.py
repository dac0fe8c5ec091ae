"""Who is answered at all, and what becomes of requests that are wrong as such."""

import asyncio
import io
import logging

import pytest

from modelplane.apiserver.lifecycle import ensure_namespaces

TOKEN = "a-token"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
SERVICE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelService",
    "metadata": {"name": "chat"},
    "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "qwen"}}}]},
}
SERVICES = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelservices"


def test_an_object_is_created_read_listed_replaced_and_deleted(over_http):
    async def story(client):
        status, created = await client.ask("POST", SERVICES, SERVICE)
        assert (status, created["metadata"]["namespace"], created["metadata"]["generation"]) == (201, "default", 1)
        assert (await client.ask("GET", f"{SERVICES}/chat")) == (200, created)
        status, listed = await client.ask("GET", "/apis/modelplane.ai/v1alpha1/modelservices")
        assert (status, listed["kind"], listed["items"]) == (200, "ModelServiceList", [created])
        changed = {**created, "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "llama"}}}]}}
        status, replaced = await client.ask("PUT", f"{SERVICES}/chat", changed)
        assert (status, replaced["metadata"]["generation"]) == (200, 2)
        status, answer = await client.ask("PUT", f"{SERVICES}/chat", changed)
        assert (status, answer["reason"]) == (409, "Conflict")
        assert (await client.ask("DELETE", f"{SERVICES}/chat"))[0] == 200
        assert (await client.ask("GET", f"{SERVICES}/chat"))[0] == 404

    over_http(story)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "says"),
    [
        ("GET", f"{SERVICES}/nope", None, 404, 'modelservices.modelplane.ai "nope" not found'),
        ("POST", SERVICES, {**SERVICE, "kind": "ModelCache"}, 422, "must be ModelService"),
        ("POST", SERVICES, {**SERVICE, "metadata": {"name": "a", "namespace": "b"}}, 400, "namespace"),
        ("POST", SERVICES, {key: SERVICE[key] for key in ("apiVersion", "kind", "metadata")}, 422, "spec"),
        ("POST", SERVICES, "{", 400, "unrecognized"),
        ("POST", SERVICES, "[" * 100_000, 400, "unrecognized"),
        ("POST", "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways", {}, 405, "does not allow"),
        ("PUT", SERVICES, SERVICE, 400, "name must be provided"),
        ("OPTIONS", SERVICES, None, 405, "does not allow"),
    ],
)
def test_a_failure_is_a_status_with_a_reason_and_changes_nothing(over_http, method, path, body, code, says):
    async def story(client):
        before = len(client.store)
        status, answer = await client.ask(method, path, body)
        assert (status, answer["kind"], answer["code"]) == (code, "Status", code)
        assert says in answer["message"]
        assert len(client.store) == before

    over_http(story)


@pytest.mark.parametrize(
    "path", ["/nope", "/apis/modelplane.ai/v1/modelservices", "/apis/nope.io", f"{SERVICES}/a/b/c", "/openapi/v3/x"]
)
def test_an_unknown_path_is_not_found(over_http, path):
    async def story(client):
        assert (await client.ask("GET", path)) == (404, "404 page not found\n")

    over_http(story)


def test_a_body_over_the_limit_is_refused(over_http):
    async def story(client):
        async with client.session.post(SERVICES, headers=AUTH, data=io.BytesIO(b" " * (3 * 1024 * 1024 + 1))) as answer:
            assert (answer.status, (await answer.json())["kind"]) == (413, "Status")

    over_http(story)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer ä"}, 401),
        ({"Authorization": f"Bearer {TOKEN}junk"}, 401),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"Authorization": f"Bearer {TOKEN} {TOKEN}"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": TOKEN}, 401),
        ({**AUTH, "Host": "evil.example.com"}, 403),
        ({**AUTH, "Host": "127.0.0.1.evil.example.com:80"}, 403),
        ({**AUTH, "Origin": "http://evil.example.com"}, 403),
        ({**AUTH, "Origin": "null"}, 403),
        (AUTH, 200),
    ],
)
def test_only_who_has_the_token_and_comes_from_here_is_served(over_http, headers, code):
    async def story(client):
        status, answer = await client.ask("GET", SERVICES, headers=headers)
        assert (status, answer["kind"]) == (code, "ModelServiceList" if code == 200 else "Status")

    over_http(story)


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer \xff",
        b"Authorization: Bearer a-token\xff",
        b"Authorization: \xff\xfe\x80",
        b"Authorization: Bearer \xed\xa0\x80",
        b"Authorization: Bearer \xc3",
    ],
)
def test_a_token_of_any_bytes_is_refused_without_a_trace_in_the_log(over_http, caplog, header):
    async def story(client):
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"GET {SERVICES} HTTP/1.1\r\nHost: {url.authority}\r\nConnection: close\r\n".encode())
        writer.write(header + b"\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 401 "), answer[:200]
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]

    over_http(story)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_token(over_http, path):
    async def story(client):
        assert (await client.ask("GET", path, headers={})) == (200, "ok")

    over_http(story)


def test_a_defect_is_answered_and_logged_and_the_server_lives_on(over_http, caplog):
    async def story(client):
        client.store.get = None
        status, answer = await client.ask("GET", f"{SERVICES}/a")
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "failed" in caplog.text
        assert (await client.ask("GET", SERVICES))[0] == 200

    over_http(story)


def test_the_namespaces_that_are_always_there_are_made_once(over_http):
    async def story(client):
        revision = client.store.revision
        ensure_namespaces(client.store)
        assert client.store.revision == revision
        _, listed = await client.ask("GET", "/api/v1/namespaces")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["default", "modelplane-system"]

    over_http(story)
