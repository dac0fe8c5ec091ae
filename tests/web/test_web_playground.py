"""The playground: a named service is called through its own address, and what it answers is passed on as it comes."""

import asyncio
import json

import pytest

from tests.support.dashboard_client import dashboard
from tests.support.dashboard_fleet import service
from tests.support.streaming_gateway import CHUNK, Gateway


def said(**more):
    return {"namespace": "default", "service": "chat", "messages": [{"role": "user", "content": "hi"}], **more}


def objects(url):
    return [service("chat", "a", [], address=f"{url}/default/chat")]


def body(model, **more):
    messages = [{"role": "user", "content": "hi"}]
    options = {"max_tokens": 1024, "stream": True, "stream_options": {"include_usage": True}}
    return {"model": model, "messages": messages, **options, **more}


LISTS = ("GET", "/default/chat/v1/models", None, None)
CHATS = [
    ("the engine's own name", ("m",), {}, [LISTS, body("m")]),
    ("the service's name, where it is listed", ("m", "default/chat"), {}, [LISTS, body("default/chat")]),
    ("nothing is listed", (), {}, [LISTS, body("default/chat")]),
    ("a given name is not looked up", ("m",), {"model": "n"}, [body("n")]),
    ("options", ("m",), {"model": "n", "maxTokens": 5, "temperature": 0.5}, [body("n", max_tokens=5, temperature=0.5)]),
]


@pytest.mark.parametrize(("listed", "given", "expected"), [case[1:] for case in CHATS], ids=[case[0] for case in CHATS])
def test_what_a_service_gets(listed, given, expected):
    async def main():
        async with Gateway(listed) as gateway, dashboard(objects(gateway.url)) as client:
            gateway.go_on.set()
            status, text, headers = await client.post("/api/chat", said(**given))
            return gateway.seen, status, text, headers["Content-Type"]

    seen, *answer = asyncio.run(main())
    assert seen == [
        each if isinstance(each, tuple) else ("POST", "/default/chat/v1/chat/completions", None, each)
        for each in expected
    ]
    assert answer == [200, f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n", "text/event-stream"]


def test_a_piece_is_passed_on_before_the_next_is_there():
    async def main():
        async with (
            Gateway() as gateway,
            dashboard(objects(gateway.url)) as client,
            client._session.post(f"{client.origin}/api/chat", json=said()) as answer,
        ):
            first = await answer.content.readline()
            waited = not gateway.go_on.is_set()
            gateway.go_on.set()
            return first, waited, answer.headers["X-Modelplane-Model"], await answer.text()

    first, waited, model, rest = asyncio.run(main())
    assert (json.loads(first[6:]), waited, model) == (CHUNK, True, "m")
    assert rest == "\ndata: [DONE]\n\n"


def test_a_key_is_passed_on_and_a_refusal_comes_back():
    async def main():
        async with Gateway(status=503) as gateway, dashboard(objects(gateway.url)) as client:
            found = await client.post("/api/chat", said(key="k"))
            return [each[2] for each in gateway.seen], found[:2]

    keys, found = asyncio.run(main())
    assert keys == ["Bearer k", "Bearer k"]
    assert found == (503, '{"error": {"message": "no room"}}')


WRONG = [
    ("another service", said(service="x"), 404, "ModelService default/x does not exist"),
    ("an address", said(address="http://evil"), 400, "the body: Object contains unknown field `address`"),
    ("no messages", {"namespace": "default", "service": "chat"}, 400,
     "the body: Object missing required field `messages`"),
    ("a key of two lines", said(key="a\r\nHost: evil"), 400, "key: must be printable ASCII"),
    ("a body that is too large", said(model="x" * (1 << 20)), 400, "the body has more than 1048576 bytes"),
    ("a wrong type", said(maxTokens="many"), 400, "the body: Expected `int`, got `str` - at `$.maxTokens`"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "status", "error"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_named(given, status, error):
    async def main():
        async with dashboard(objects("http://127.0.0.1:1")) as client:
            return await client.post("/api/chat", given)

    found = asyncio.run(main())
    assert (found[0], json.loads(found[1])) == (status, {"error": error})


def test_a_body_that_comes_in_pieces_is_read_whole():
    async def main():
        async with Gateway() as gateway, dashboard(objects(gateway.url)) as client:
            gateway.go_on.set()

            async def pieces():
                text = json.dumps(said(model="n")).encode()
                for start in range(0, len(text), 20):
                    yield text[start : start + 20]
                    await asyncio.sleep(0.01)

            kind = {"Content-Type": "application/json"}
            async with client._session.post(f"{client.origin}/api/chat", data=pieces(), headers=kind) as answer:
                return answer.status, gateway.seen[-1][3]["model"]

    assert asyncio.run(main()) == (200, "n")


def test_a_form_of_another_page_is_refused():
    async def main():
        async with dashboard(objects("http://127.0.0.1:1")) as client:
            plain = {"Content-Type": "text/plain"}
            async with client._session.post(
                f"{client.origin}/api/chat", data=json.dumps(said()), headers=plain
            ) as form:
                refused = form.status, await form.json()
            other = await client.post("/api/chat", said(), Origin="http://127.0.0.1:1")
            return refused, other[0]

    assert asyncio.run(main()) == ((400, {"error": "Content-Type: must be application/json"}), 403)


def test_a_gateway_that_does_not_answer_is_named():
    async def main():
        async with dashboard(objects("http://127.0.0.1:1")) as client:
            found = await client.post("/api/chat", said())
            return found[0], json.loads(found[1])["error"], await client.get("/api/models?namespace=default&name=chat")

    status, error, models = asyncio.run(main())
    assert (status, models[0]) == (502, 502)
    assert error.startswith("http://127.0.0.1:1/default/chat/v1/models is unreachable: ")


def test_requests_to_paste_have_the_name_that_is_listed():
    async def main():
        async with Gateway(("tiny",)) as gateway, dashboard(objects(gateway.url)) as client:
            return gateway.url, await client.get("/api/models?namespace=default&name=chat")

    url, (status, found) = asyncio.run(main())
    assert (status, found["models"], found["model"]) == (200, ["tiny"], "tiny")
    assert [each["title"] for each in found["snippets"]] == ["curl", "Python"]
    assert found["snippets"][0]["lines"][0] == f"curl -N {url}/default/chat/v1/chat/completions \\"
    assert '    model="tiny",' in found["snippets"][1]["lines"]
