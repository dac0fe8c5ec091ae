"""The sidecar before simulated engines that copy caches, and before small servers that note what they are sent."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from modelplane.epp.sidecar.disaggregation import Allowlist, Connector
from modelplane.epp.sidecar.sidecar import RoutingSidecar, SidecarSettings
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from modelplane.sim.engine.config import KvTransfer
from modelplane.sim.engine.kv_transfer import EngineRegistry

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "tell me " * 200}], "max_tokens": 5}


@asynccontextmanager
async def sidecar_to(decoder: str, allowed=(), **settings):
    sidecar = RoutingSidecar(SidecarSettings(decoder, allows=Allowlist(allowed).allows, **settings))
    host, port = await sidecar.start("127.0.0.1")
    try:
        yield f"http://{host}:{port}"
    finally:
        await sidecar.stop(grace_s=0)


class Server:
    """Responds as configured, and records the requests."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, dict[str, str], object]] = []
        self.called = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        text = await request.content.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.called.set()
        self.seen.append((request.raw_path, headers, json.loads(text) if text else None))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(body, list):
            response = web.StreamResponse(status=status, headers={"Content-Type": "text/event-stream", "X-From": "me"})
            await response.prepare(request)
            for event in body:
                await response.write(f"data: {json.dumps(event)}\n\n".encode())
            await response.write_eof()
            return response
        return web.json_response(body, status=status, headers={"X-From": "me"})

    @property
    def bodies(self) -> list[object]:
        return [body for _, _, body in self.seen]

    @asynccontextmanager
    async def listening(self):
        connections = web.Server(self.handle, access_log=None)
        listener = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        try:
            yield "{}:{}".format(*listener.sockets[0].getsockname())
        finally:
            listener.close()
            await connections.shutdown(0.1)
            await listener.wait_closed()


def play(scenario, *servers, **settings) -> object:
    """Runs `scenario(url, addresses)`: the sidecar stands before the last server, and may call the others."""

    async def run():
        async with AsyncExitStack() as stack:
            addresses = [await stack.enter_async_context(server.listening()) for server in servers]
            url = await stack.enter_async_context(sidecar_to(addresses[-1], addresses[:-1], **settings))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return await scenario(session, url, addresses)

    return asyncio.run(run())


async def send(session, url, prefiller="", path="/v1/chat/completions", body=CHAT, **headers):
    sent = {**headers, **({"x-prefiller-host-port": prefiller} if prefiller else {})}
    async with session.post(URL(url + path, encoded=True), json=body, headers=sent) as response:
        return response.status, await response.read()


def test_two_engines_share_the_work_of_one_request():
    async def run():
        exchange, engines = EngineRegistry(), []
        async with AsyncExitStack() as stack:
            for pod, role in (("prefill-0", "kv_producer"), ("decode-0", "kv_consumer")):
                config = EngineConfig(
                    cluster="east",
                    namespace="ns",
                    pod=pod,
                    models=("demo",),
                    speed=1000,
                    kv_transfer=KvTransfer(role=role, lease_s=30_000),
                )
                engine = SimulatedEngine(config, exchange=exchange)
                engines.append(str(await engine.start("127.0.0.1")))
                stack.push_async_callback(engine.stop, grace_s=0)
            url = await stack.enter_async_context(sidecar_to(engines[1], engines[:1]))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            whole = await send(session, url, engines[0])
            streamed = await send(session, url, engines[0], body={**CHAT, "stream": True})
            alone = await send(session, url)
            pages = []
            for engine in engines:
                async with session.get(f"http://{engine}/metrics") as response:
                    pages.append(await response.text())
            return whole, streamed, alone, pages

    whole, streamed, alone, (prefilled, decoded) = asyncio.run(run())
    assert [status for status, _ in (whole, streamed, alone)] == [200, 200, 200]
    assert json.loads(whole[1])["usage"]["completion_tokens"] == 5
    assert streamed[1].rstrip().endswith(b"data: [DONE]")
    assert count(prefilled, "vllm:request_success_total") == 2
    assert count(decoded, "vllm:request_success_total") == 3
    assert count(decoded, "vllm:external_prefix_cache_hits_total") > 0
    assert count(prefilled, "vllm:external_prefix_cache_hits_total") == 0


def count(page: str, series: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(series))


def test_nixl_legs_and_headers():
    prefill = Server((200, {"kv_transfer_params": {"remote_host": "p", "remote_port": 1}}))
    decode = Server((200, {"id": "x"}))

    async def scenario(session, url, addresses):
        return await send(session, url, addresses[0], **{"x-request-id": "r", "Authorization": "Bearer t"})

    assert play(scenario, prefill, decode) == (200, b'{"id": "x"}')
    assert decode.bodies == [{**CHAT, "kv_transfer_params": {"remote_host": "p", "remote_port": 1}}]
    assert (prefill.bodies[0]["max_tokens"], prefill.bodies[0]["stream"]) == (1, False)
    for _, headers, _ in (*prefill.seen, *decode.seen):
        assert "x-prefiller-host-port" not in headers
        assert (headers["x-request-id"], headers["authorization"]) == ("r", "Bearer t")


def test_what_is_not_worth_it_goes_to_the_local_server_as_it_is():
    prefill, decode = Server((200, {})), Server((201, {"a": 1}))

    async def scenario(session, url, addresses):
        found = [
            await send(session, url),
            await send(session, url, addresses[0], path="/v1/embeddings?x=%2F", body={"i": 1}),
        ]
        async with session.get(f"{url}/metrics", headers={"x-data-parallel-host-port": "1.1.1.1:1"}) as response:
            found.append((response.status, response.headers["X-From"]))
        return found

    assert play(scenario, prefill, decode) == [(201, b'{"a": 1}'), (201, b'{"a": 1}'), (201, "me")]
    assert [(path, body) for path, _, body in decode.seen] == [
        ("/v1/chat/completions", CHAT),
        ("/v1/embeddings?x=%2F", {"i": 1}),
        ("/metrics", None),
    ]
    assert prefill.seen == []
    assert not any(
        name.startswith(("x-prefiller", "x-data-parallel")) for _, headers, _ in decode.seen for name in headers
    )


def test_servers_that_are_not_listed_are_never_called():
    target, decode = Server((200, {})), Server((200, {}))

    async def run():
        async with target.listening() as hidden, decode.listening() as local, aiohttp.ClientSession() as session:
            host, port = hidden.split(":")
            for allowed in ((), (f"{host}:{int(port) + 1}",)):
                async with sidecar_to(local, allowed) as url:
                    status, body = await send(session, url, hidden)
                    assert (status, hidden in body.decode()) == (403, True)

    asyncio.run(run())
    assert (target.seen, decode.seen) == ([], [])


@pytest.mark.parametrize(
    ("answers", "settings", "expected", "calls"),
    [
        ([(503, {"e": 1})], {}, (503, 0), 1),
        ([(503, {"e": 1}), (200, {})], {"retries": 1, "retry_after_s": 0.0}, (200, 1), 2),
        ([(503, {"e": 1})], {"retries": 2, "retry_after_s": 0.0}, (503, 0), 3),
        ([(500, {"e": 1})], {"retries": 2, "retry_after_s": 0.0}, (500, 0), 1),
        ([(503, {"e": 1})], {"decode_fallback": True}, (200, 1), 1),
        ([(400, {"e": 1})], {"decode_fallback": True}, (400, 0), 1),
    ],
    ids=[
        "returned to the client",
        "tried again",
        "no more than `retries`",
        "not worth a try",
        "decode alone",
        "bad request",
    ],
)
def test_a_prefill_that_fails(answers, settings, expected, calls):
    prefill, decode = Server(*answers), Server((200, {"ok": 1}))

    async def scenario(session, url, addresses):
        return (await send(session, url, addresses[0]))[0]

    found = play(scenario, prefill, decode, **settings)
    assert (found, len(decode.seen), len(prefill.seen)) == (*expected, calls)


@pytest.mark.parametrize(("decode_fallback", "expected"), [(False, 502), (True, 200)])
def test_a_prefill_server_that_is_not_there(decode_fallback, expected):
    async def run():
        decode = Server((200, {"ok": 1}))
        async with Server((200, {})).listening() as gone:
            pass
        async with AsyncExitStack() as stack:
            local = await stack.enter_async_context(decode.listening())
            url = await stack.enter_async_context(sidecar_to(local, [gone], decode_fallback=decode_fallback))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return (await send(session, url, gone))[0]

    assert asyncio.run(run()) == expected


def test_a_local_server_that_is_not_there():
    async def run():
        async with Server((200, {})).listening() as gone:
            pass
        async with sidecar_to(gone) as url, aiohttp.ClientSession() as session:
            return await send(session, url)

    status, body = asyncio.run(run())
    assert (status, json.loads(body)["error"]["message"]) == (502, "the local server did not respond")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("reason", "prefills", "decodes"), [("cache_threshold", 1, 2), ("stop", 0, 1)], ids=["cold", "cached"]
)
def test_shared_storage_tries_the_decoder_first(streamed, reason, prefills, decodes):
    first = {"choices": [{"finish_reason": reason}], "n": 1}
    second = {"choices": [{"finish_reason": "stop"}], "n": 2}
    shown = [[event] if streamed else event for event in (first, second)]
    prefill, decode = Server((200, {})), Server((200, shown[0]), (200, shown[1]))

    async def scenario(session, url, addresses):
        return await send(session, url, addresses[0], body={**CHAT, "cache_hit_threshold": 0.5})

    status, body = play(scenario, prefill, decode, connector=Connector.SHARED_STORAGE)
    answered = json.loads(body.removeprefix(b"data:"))
    assert (status, answered["n"], len(prefill.seen), len(decode.seen)) == (200, decodes, prefills, decodes)
    assert [body["cache_hit_threshold"] for body in decode.bodies] == [0.5, 0][:decodes]


def test_shared_storage_without_a_threshold():
    prefill, decode = Server((200, {})), Server((200, {}))

    async def scenario(session, url, addresses):
        await send(session, url, addresses[0])

    play(scenario, prefill, decode, connector=Connector.SHARED_STORAGE)
    assert (len(prefill.seen), decode.bodies) == (1, [CHAT])


@pytest.mark.parametrize("status", [200, 500])
def test_sglang_sends_both_requests_at_once(status):
    prefill, decode = Server((status, {})), Server((200, {"ok": 1}))

    async def scenario(session, url, addresses):
        found = await send(session, url, addresses[0])
        async with asyncio.timeout(30):
            await prefill.called.wait()
        return found[0]

    assert play(scenario, prefill, decode, connector=Connector.SGLANG, room=lambda: 77, bootstrap_port=9000) == 200
    expected = {**CHAT, "bootstrap_host": "127.0.0.1", "bootstrap_port": 9000, "bootstrap_room": 77}
    assert (prefill.bodies, decode.bodies) == ([expected], [expected])


def test_events_are_passed_on_as_they_come():
    class Slow(Server):
        async def handle(self, request):
            await request.content.read()
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: 1\n\n")
            await self.go.wait()
            await response.write(b"data: 2\n\n")
            return response

    slow = Slow()

    async def scenario(session, url, _addresses):
        slow.go = asyncio.Event()
        async with session.post(f"{url}/v1/chat/completions", json=CHAT) as response:
            first = await response.content.readany()
            slow.go.set()
            return first, await response.content.read()

    assert play(scenario, slow) == (b"data: 1\n\n", b"data: 2\n\n")


def test_a_client_that_leaves_ends_its_request_at_the_local_server():
    class Endless(Server):
        async def handle(self, request):
            await request.content.read()
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(b"more ")
                    await asyncio.sleep(0.01)
            finally:
                self.left.set()

    endless = Endless()

    async def scenario(session, url, _addresses):
        endless.left = asyncio.Event()
        response = await session.post(f"{url}/v1/chat/completions", json=CHAT)
        await response.content.readany()
        response.close()
        async with asyncio.timeout(30):
            await endless.left.wait()

    play(scenario, endless)


def test_bodies_have_a_limit_and_need_not_be_json():
    prefill, decode = Server((200, {})), Server((200, {}))

    async def scenario(session, url, addresses):
        large = (await send(session, url, addresses[0], body={"x": "y" * 300}))[0]
        headers = {"x-prefiller-host-port": addresses[0]}
        async with session.post(f"{url}/v1/completions", data=b"[1]", headers=headers) as response:
            return large, response.status

    assert play(scenario, prefill, decode, most_body_bytes=200) == (413, 200)
    assert (prefill.seen, decode.bodies) == ([], [[1]])


def test_a_body_of_any_depth_is_the_local_servers_to_judge(caplog):
    prefill, decode = Server((200, {})), Server((200, {}))

    async def scenario(session, url, addresses):
        headers = {"x-prefiller-host-port": addresses[0]}
        found = []
        for depth in (100, 900, 100_000):
            body = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
            async with session.post(f"{url}/v1/completions", data=body, headers=headers) as response:
                found.append(response.status < 500)
        return found

    decode.handle = prefill.handle = accept
    assert play(scenario, prefill, decode) == [True, True, True]
    assert not caplog.records


async def accept(request):
    await request.content.read()
    return web.json_response({})


def test_bodies_have_a_limit_together():
    class Busy(Server):
        """Answers when it may, and says when it is asked."""

        async def handle(self, request):
            await request.content.read()
            self.reached.set()
            await self.go.wait()
            return web.json_response({})

    busy = Busy()

    async def scenario(session, url, addresses):
        busy.reached, busy.go = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(send(session, url, addresses[0], body={"x": "y" * 150}))
        async with asyncio.timeout(30):
            await busy.reached.wait()
        second = await send(session, url, addresses[0], body={"x": "y" * 150})
        busy.go.set()
        return (await first)[0], second[0], (await send(session, url, addresses[0], body={"x": "y" * 150}))[0]

    decode = Server((200, {}))
    assert play(scenario, busy, decode, most_body_bytes=200, most_held_bytes=300) == (200, 503, 200)
    assert len(decode.seen) == 2


@pytest.mark.parametrize(("decode_fallback", "expected"), [(False, 502), (True, 200)])
def test_a_prefill_response_has_a_limit(decode_fallback, expected):
    prefill, decode = Server((200, {"x": "y" * 300})), Server((200, {}))

    async def scenario(session, url, addresses):
        return (await send(session, url, addresses[0], body={"x": 1}))[0]

    settings = {"most_body_bytes": 200, "decode_fallback": decode_fallback}
    assert play(scenario, prefill, decode, **settings) == expected


def test_a_long_response_of_the_local_server_is_not_held():
    """Where it might say that too little is cached: that would be short."""
    long = {"choices": [{"finish_reason": "stop", "text": "x" * (3 << 20)}]}
    prefill, decode = Server((200, {})), Server((200, long))

    async def scenario(session, url, addresses):
        return await send(session, url, addresses[0], body={**CHAT, "cache_hit_threshold": 0.5})

    status, body = play(scenario, prefill, decode, connector=Connector.SHARED_STORAGE, most_body_bytes=1 << 20)
    assert (status, json.loads(body), prefill.seen) == (200, long, [])


def test_a_rank_has_a_local_server_of_its_own():
    other, decode = Server((200, {"rank": 1})), Server((200, {"rank": 0}))

    async def run():
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(decode.listening())
            second = await stack.enter_async_context(other.listening())
            url = await stack.enter_async_context(sidecar_to(first, ranks={8001: second}))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            named = {"x-data-parallel-host-port": "10.0.0.1:8001"}
            return [(await send(session, url, **headers))[1] for headers in ({}, named)]

    assert asyncio.run(run()) == [b'{"rank": 0}', b'{"rank": 1}']


def test_a_target_that_is_no_path_is_refused():
    decode = Server((200, {}))

    async def scenario(_session, url, _addresses):
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET http://elsewhere.example/metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        response = await reader.read()
        writer.close()
        await writer.wait_closed()
        return response.split(b" ", 2)[1]

    assert (play(scenario, decode), decode.seen) == (b"400", [])
