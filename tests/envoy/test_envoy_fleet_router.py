"""The two hops of a gateway with a router, through a real Envoy and a real router."""

import asyncio
import json
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, PlanTimeouts, ServicePlan
from modelplane.envoy import EnvoyProcess, GatewayView, free_port, render
from modelplane.envoy.view import RouterAddress
from modelplane.router.server import RouterServer, RouterSettings
from tests.envoy.conftest import HOST
from tests.support.loops import end_loop

NAMESPACE = "team-a"


class Upstream:
    """A server that remembers what it got, and answers as it is told."""

    def __init__(self):
        self.seen = []
        self.status = 200
        self.hangs = False
        self.port = 0

    async def start(self):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self):
        await self._runner.cleanup()

    async def _answer(self, request):
        body = await request.json() if request.can_read_body else {}
        self.seen.append((request.path_qs, dict(request.headers), body))
        if self.hangs:
            await asyncio.sleep(30)
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        if not body.get("stream"):
            message = {"role": "assistant", "content": "hello"}
            usage = {"prompt_tokens": 3, "completion_tokens": 1}
            return web.json_response({"id": "c", "choices": [{"message": message}], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for word in ("hel", "lo"):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": word}}]}
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


class Door:
    """Two upstreams, a router and an Envoy."""

    def __init__(self, folder):
        self.envoy = EnvoyProcess(folder)
        self.upstreams = {"a": Upstream(), "b": Upstream()}
        settings = RouterSettings(host=HOST, port=0, health_port=-1, admin_port=0, probes=False, drain_s=0.1)
        self.lines = []
        self.router = RouterServer(settings, write_usage=self.lines.append)

    async def start(self):
        for each in self.upstreams.values():
            await each.start()
        replica = PlanEndpoint(
            f"{NAMESPACE}/a", "main", 1, False, HOST, self.upstreams["a"].port, None, replica=f"{NAMESPACE}/a-1",
            model="engine",
        )  # fmt: skip
        provider = PlanEndpoint(
            f"{NAMESPACE}/b", "main", 1, False, HOST, self.upstreams["b"].port, "api.example", prefix="/openai/v1",
            model="engine", credential=CredentialRef("s", "k"),
        )  # fmt: skip
        plan = ServicePlan(
            NAMESPACE, "chat", tiers=(PlanTier(0, (replica, provider)),), timeouts=PlanTimeouts(idle_s=1.0)
        )
        self.router.replace([plan])
        await self.router.start()
        self.view = GatewayView(
            name="fleet",
            host=HOST,
            port=free_port(HOST),
            plans=(plan,),
            credentials={f"{NAMESPACE}/b": "Bearer provider"},
            router=RouterAddress(HOST, self.router.port),
        )
        await self.envoy.start(render([self.view]))
        self.url = f"http://{HOST}:{self.view.port}"
        self.session = aiohttp.ClientSession()

    async def program(self, *, required):
        """The same with a router that must answer, or need not."""
        address = RouterAddress(HOST, self.router.port, required=required)
        await self.envoy.apply(render([replace(self.view, router=address)]))

    async def plan(self, plan):
        self.router.replace([plan])
        await self.envoy.apply(render([replace(self.view, plans=(plan,))]))

    async def stop(self):
        await self.session.close()
        await self.envoy.stop()
        await self.router.stop()
        for each in self.upstreams.values():
            await each.stop()

    async def post(self, path, headers=None, **body):
        given = {"model": f"{NAMESPACE}/chat", "messages": [{"role": "user", "content": "hi"}], **body}
        async with self.session.post(self.url + path, json=given, headers=headers) as response:
            return response.status, response.headers, await response.text()


@pytest.fixture(scope="module")
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    end_loop(loop)


@pytest.fixture(scope="module")
def door(loop, tmp_path_factory):
    made = Door(tmp_path_factory.mktemp("envoy"))
    loop.run_until_complete(made.start())
    yield made
    loop.run_until_complete(made.stop())


CHAT = "/v1/chat/completions"


@pytest.mark.submission
@pytest.mark.slow
def test_the_router_decides_in_a_real_envoy(door, loop):
    """One test, for one Envoy: it takes a second to start."""
    loop.run_until_complete(_requests(door))
    loop.run_until_complete(_slow_client(door))
    loop.run_until_complete(_translation(door))
    loop.run_until_complete(_turned_away(door))
    loop.run_until_complete(_clients_set_no_retries(door))
    loop.run_until_complete(_deadline(door))
    loop.run_until_complete(_failures(door))
    loop.run_until_complete(_dark_tier(door))
    loop.run_until_complete(_dark_tier_of_many(door))
    loop.run_until_complete(_router_that_is_silent(door))
    loop.run_until_complete(_without_router(door))


async def _requests(door):
    spoofed = {"x-modelplane-endpoint": f"{NAMESPACE}/x", "modelplane-replica": "x/y", "authorization": "Bearer k"}
    status, headers, _ = await door.post(CHAT, spoofed)
    assert status == 200
    assert headers["x-modelplane-served-by"] in {f"{NAMESPACE}/a", f"{NAMESPACE}/b"}
    for number in range(3):
        await door.post(f"/{NAMESPACE}/chat{CHAT}", stream=True, metadata={"n": number})
    assert [len(each.seen) for each in door.upstreams.values()] == [2, 2]
    replica, provider = (each.seen for each in door.upstreams.values())
    assert {(path, body["model"]) for path, _, body in replica} == {(CHAT, "engine")}
    assert {got["modelplane-replica"] for _, got, _ in replica} == {f"{NAMESPACE}/a-1"}
    assert {(path, body["model"]) for path, _, body in provider} == {("/openai/v1/chat/completions", "engine")}
    assert {(got["Host"], got["Authorization"]) for _, got, _ in provider} == {("api.example", "Bearer provider")}
    internal = {"x-modelplane-endpoint", "x-envoy-original-path", "x-envoy-attempt-count"}
    for _, got, _ in (*replica, *provider):
        assert not {name.lower() for name in got} & internal
    assert "Authorization" not in {name for _, got, _ in replica for name in got}
    assert not {"modelplane-replica", "x-modelplane-caller"} & {name for _, got, _ in provider for name in got}
    status, headers, text = await door.post(CHAT, model="nobody")
    assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")
    assert "x-modelplane-unserved" not in headers
    status, _, text = await door.post(CHAT, {"x-modelplane-residency": "fleet"})
    assert (status, json.loads(text)["error"]["code"]) == (403, "residency")
    async with door.session.get(f"{door.url}/v1/models") as response:
        assert [each["id"] for each in (await response.json())["data"]] == [f"{NAMESPACE}/chat"]
    async with door.session.get(f"{door.url}/_endpoints/{NAMESPACE}/chat/a/v1/models") as response:
        assert response.status == 404


async def _slow_client(door):
    """A client that takes longer for its body than the gateway waits for the router; endpoints get the length."""
    for each in door.upstreams.values():
        each.seen = []
    body = json.dumps({"model": f"{NAMESPACE}/chat", "messages": []}).encode()

    async def pieces():
        yield body[:10]
        await asyncio.sleep(1.3)
        yield body[10:]

    given = {"content-type": "application/json"}
    async with door.session.post(door.url + CHAT, data=pieces(), headers=given) as response:
        assert (response.status, "x-modelplane-served-by" in response.headers) == (200, True)
    [(_, headers, got)] = [each for upstream in door.upstreams.values() for each in upstream.seen]
    assert (got["model"], headers.get("Content-Length")) == ("engine", str(len(json.dumps(got, separators=(",", ":")))))


async def _router_that_is_silent(door):
    """A router that reads a request and stalls, or ends: the request goes on whole, by the static plan."""
    text = "long " * 60_000
    for ends in (False, True):
        server = await asyncio.start_server(_reader_of(len(text), ends=ends), HOST, 0)
        address = RouterAddress(HOST, server.sockets[0].getsockname()[1])
        await door.envoy.apply(render([replace(door.view, router=address)]))
        for each in door.upstreams.values():
            each.seen = []
        status, headers, _ = await door.post(CHAT, messages=[{"role": "user", "content": text}])
        assert (status, "x-modelplane-served-by" in headers) == (200, False)
        [(_, _, got)] = [each for upstream in door.upstreams.values() for each in upstream.seen]
        assert got["messages"][0]["content"] == text
        server.close()
    await door.envoy.apply(render([door.view]))


def _reader_of(size, *, ends):
    """Takes so many bytes, then closes the connection or stays silent."""

    async def serve(reader, writer):
        left = size
        while left > 0 and (data := await reader.read(1 << 16)):
            left -= len(data)
        if not ends:
            await reader.read()
        writer.close()

    return serve


async def _translation(door):
    status, headers, text = await door.post("/anthropic/v1/messages", max_tokens=5)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(text)["content"] == [{"type": "text", "text": "hello"}]
    status, headers, text = await door.post("/v1/messages", max_tokens=5, stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert [line[7:] for line in text.split("\n") if line.startswith("event: ")] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def _turned_away(door):
    """429 and silence lead to another endpoint, 500 to the client: an engine worked on it."""
    door.upstreams["a"].status = 429
    found = [await door.post(CHAT) for _ in range(4)]
    assert {(status, headers["x-modelplane-served-by"]) for status, headers, _ in found} == {(200, f"{NAMESPACE}/b")}
    door.upstreams["a"].status, door.upstreams["a"].hangs = 200, True
    found = [await door.post(CHAT) for _ in range(2)]
    assert {(status, headers["x-modelplane-served-by"]) for status, headers, _ in found} == {(200, f"{NAMESPACE}/b")}
    door.upstreams["a"].hangs = False


async def _clients_set_no_retries(door):
    """The policy is the plan's, whatever a client writes into Envoy's own headers."""
    for each in door.upstreams.values():
        each.status, each.seen = 500, []
    wishes = {"x-envoy-retry-on": "5xx", "x-envoy-max-retries": "9", "x-envoy-upstream-rq-timeout-ms": "1"}
    status, _, _ = await door.post(CHAT, wishes)
    assert (status, sum(len(each.seen) for each in door.upstreams.values())) == (500, 1)
    for each in door.upstreams.values():
        each.status = 200


async def _deadline(door):
    """All attempts share the time of their request: the second ends by what is left of it, not by the idle time."""
    usual = door.view.plans[0]
    await door.plan(replace(usual, timeouts=PlanTimeouts(request_s=1.6, idle_s=1.0)))
    for each in door.upstreams.values():
        each.hangs = True
    status, _, _ = await door.post(CHAT, {"x-request-id": "late"})
    attempts = door.router.director.ring.find("late", 0.0).attempts
    assert (status, len(attempts), attempts[-1].status) == (504, 2, 504)
    for each in door.upstreams.values():
        each.hangs = False
    await door.plan(usual)


async def _failures(door):
    """A dead endpoint costs no request, and is told apart from one that answers badly."""
    await door.upstreams["a"].stop()
    for number in range(8):
        status, headers, _ = await door.post(CHAT, {"x-request-id": f"dead-{number}"}, n=1)
        assert (status, headers["x-modelplane-served-by"]) == (200, f"{NAMESPACE}/b")
    asked = [door.router.director.ring.find(f"dead-{number}", 0.0) for number in range(8)]
    retried = [each for each in asked if len(each.attempts) > 1]
    assert len(retried) == 1
    assert [(each.endpoint, each.status) for each in retried[0].attempts] == [
        (f"{NAMESPACE}/a", 503),
        (f"{NAMESPACE}/b", 200),
    ]
    await door.upstreams["a"].start()
    for _ in range(40):
        await asyncio.sleep(0.1)
        status, headers, _ = await door.post(CHAT)
        assert status == 200
        if headers["x-modelplane-served-by"] == f"{NAMESPACE}/a":
            break
    else:
        raise AssertionError("the endpoint did not return")


async def _dark_tier(door):
    """Both endpoints of the first tier go dark, and no probe says so: the second tier serves the first request."""
    usual = door.view.plans[0]
    replica, provider = usual.tiers[0].endpoints
    other = replace(replica, key=f"{NAMESPACE}/c", replica=f"{NAMESPACE}/c-1", port=free_port(HOST))
    await door.plan(replace(usual, tiers=(PlanTier(0, (replica, other)), PlanTier(1, (provider,)))))
    await door.upstreams["a"].stop()
    status, headers, _ = await door.post(CHAT, {"x-request-id": "dark"})
    assert (status, headers["x-modelplane-served-by"]) == (200, provider.key)
    attempts = door.router.director.ring.find("dark", 0.0).attempts
    assert {each.endpoint for each in attempts[:2]} == {replica.key, other.key}
    assert [each.status for each in attempts] == [503, 503, 200]
    await door.upstreams["a"].start()
    await door.plan(usual)


async def _dark_tier_of_many(door):
    """A request has four attempts. The last is for the second tier, however many of the first are dark."""
    usual = door.view.plans[0]
    replica, provider = usual.tiers[0].endpoints
    dark = tuple(
        replace(replica, key=f"{NAMESPACE}/d{at}", replica=f"{NAMESPACE}/d{at}", port=free_port(HOST))
        for at in range(5)
    )
    await door.plan(replace(usual, tiers=(PlanTier(0, dark), PlanTier(1, (provider,)))))
    status, headers, _ = await door.post(CHAT, {"x-request-id": "many"})
    assert (status, headers["x-modelplane-served-by"]) == (200, provider.key)
    attempts = door.router.director.ring.find("many", 0.0).attempts
    assert [each.status for each in attempts] == [503, 503, 503, 200]
    await door.plan(usual)


async def _without_router(door):
    await door.router.stop()
    status, headers, _ = await door.post(f"/{NAMESPACE}/chat{CHAT}")
    assert status == 200
    assert "x-modelplane-served-by" not in headers
    status, headers, _ = await door.post(CHAT)
    assert (status, "x-modelplane-served-by" in headers) == (200, False)
    status, headers, text = await door.post(CHAT, {"x-modelplane-residency": "fleet"})
    assert (status, json.loads(text)["error"]["code"]) == (503, "service_unavailable")
    assert headers["retry-after"] == "2"
    await door.program(required=True)
    status, _, text = await door.post(CHAT)
    assert (status, json.loads(text)["error"]["code"]) == (503, "service_unavailable")
