"""The way of a request through the plane: the fleet's gateway, a cluster's edge, a pod. All real, on loopback."""

import asyncio
import io
from collections import Counter

import openai
import pytest
from aiohttp import web
from yarl import URL

from modelplane.envoy import GatewayView, free_port, render
from modelplane.sim.engine import Address
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"


class Chain:
    """Two clusters with a replica each behind one service. What changes is said by calling `config` again."""

    def __init__(self, build):
        self._build = build
        self.port, self.east, self.west = free_port(), free_port(), free_port()
        self.url = f"http://{HOST}:{self.port}/team-a/demo"

    def config(self, *, east=(), west=(), weights=None):
        weights = weights or (int(bool(east)), int(bool(west)))
        replicas = {"r-east": (self.east, weights[0]), "r-west": (self.west, weights[1])}
        return render(
            [
                self._build.fleet(self.port, replicas),
                self._build.edge("edge-east", self.east, {"r-east": tuple(east)}),
                self._build.edge("edge-west", self.west, {"r-west": tuple(west)}),
            ]
        )


@pytest.fixture(name="chain")
def make_chain(build):
    return Chain(build)


async def served(world, url, times):
    answers = [await world.chat(url) for _ in range(times)]
    assert {answer.status for answer in answers} == {200}
    return Counter(answer.served_by.partition("/")[0] for answer in answers)


def test_weights_decide_who_answers(play, chain):
    async def scenario(world):
        pods = {"east": [(await world.engine("east"))[1]], "west": [(await world.engine("west"))[1]]}
        await world.envoy.start(chain.config(**pods))
        even = await served(world, chain.url, 100)
        # Both are likely to have a share; fewer than 15 of 100 happens once in 10^13 runs.
        assert min(even["east"], even["west"]) > 15
        for weights, cluster in (((1, 0), "east"), ((0, 1), "west")):
            await world.envoy.apply(chain.config(**pods, weights=weights))
            assert await served(world, chain.url, 20) == {cluster: 20}

    play(scenario)


def test_the_client_of_its_users_works_through_both_hops(play, chain):
    async def scenario(world):
        await world.envoy.start(chain.config(east=[(await world.engine("east"))[1]]))
        async with openai.AsyncOpenAI(base_url=f"{chain.url}/v1", api_key="unused", max_retries=0) as api:
            messages = [{"role": "user", "content": "hello"}]
            answer = await api.chat.completions.create(model="demo", messages=messages)
            stream = await api.chat.completions.create(model="demo", messages=messages, stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(pieces) == answer.choices[0].message.content
            with pytest.raises(openai.NotFoundError) as caught:
                await api.chat.completions.create(model="nope", messages=messages)
            assert caught.value.code == "model_not_found"

    play(scenario)


async def stream_lines(world, url, **fields):
    body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": True, **fields}
    async with world.session.post(f"{url}/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        return [line async for line in answer.content if line.strip()]


class Halting:
    """A pod that continues its response when the test says so."""

    def __init__(self):
        self.go_on = asyncio.Event()

    async def answer(self, request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await self.go_on.wait()
        await response.write(b"data: second\n\n")
        return response


def test_chunks_come_one_by_one(play, chain):
    """A gateway that held the first one back would wait for it forever."""

    async def scenario(world):
        pod = Halting()
        runner = web.ServerRunner(web.Server(pod.answer))
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        try:
            await world.envoy.start(chain.config(east=[Address(*runner.addresses[0])]))
            async with asyncio.timeout(50), world.session.get(f"{chain.url}/v1/stream") as answer:
                assert await answer.content.readline() == b"data: first\n"
                pod.go_on.set()
                assert (await answer.content.read()).strip() == b"data: second"
        finally:
            pod.go_on.set()
            await runner.cleanup()

    play(scenario)


def test_the_replica_header_of_a_client_is_overwritten(play, chain):
    async def scenario(world):
        pods = {"east": [(await world.engine("east"))[1]], "west": [(await world.engine("west"))[1]]}
        await world.envoy.start(chain.config(**pods, weights=(1, 0)))
        spoofed = {"modelplane-replica": "team-a/r-west", "x-modelplane-gateway": "edge-west"}
        answer = await world.chat(chain.url, send=spoofed)
        assert (answer.status, answer.served_by) == (200, "east/demo-0")

    play(scenario)


@pytest.mark.parametrize("addresses", [1, 2], ids=["one", "two"])
def test_the_replica_header_of_a_client_is_removed_towards_an_endpoint_outside(play, build, addresses):
    """The endpoint of another tenant is the edge itself: without the fleet's header it does not respond."""

    async def scenario(world):
        _, pod = await world.engine("west")
        port, edge = free_port(), free_port()
        refs = [
            {
                "group": "gateway.envoyproxy.io",
                "kind": "Backend",
                "name": f"outside-{number}",
                "filters": [build.headers(remove=["modelplane-replica"])],
            }
            for number in range(addresses)
        ]
        rule = {"matches": [build.prefix("/team-b/steal")], "filters": [build.rewrite("/")], "backendRefs": refs}
        fleet = GatewayView(
            name="fleet",
            host=HOST,
            port=port,
            routes=(build.route("steal", rule),),
            backends=tuple(build.backend(ref["name"], {"ip": {"address": HOST, "port": edge}}) for ref in refs),
        )
        await world.envoy.start(render([fleet, build.edge("edge-west", edge, {"r-west": (pod,)})]))
        sent = {"modelplane-replica": "team-a/r-west"}
        assert (await world.get(f"http://{HOST}:{edge}/v1/models", **sent)).status == 200
        assert (await world.get(f"http://{HOST}:{port}/team-b/steal/v1/models", **sent)).status == 404

    play(scenario)


def test_a_pod_that_is_gone_is_an_answer_and_no_wait(play, chain):
    async def scenario(world):
        engine, pod = await world.engine("east")
        await world.envoy.start(chain.config(east=[pod]))
        assert (await world.chat(chain.url)).status == 200
        await engine.stop()
        async with asyncio.timeout(30):
            answer = await world.chat(chain.url)
        assert answer.status == 503
        assert (answer.error["type"], answer.error["code"]) == ("server_error", "service_unavailable")
        assert "connect" in answer.error["message"]

    play(scenario)


def test_another_pod_of_the_replica_takes_over_for_one_that_is_gone(play, chain):
    async def scenario(world):
        (first, one), (_, two) = await world.engine("east"), await world.engine("east")
        await world.envoy.start(chain.config(east=[one, two]))
        await first.stop()
        answers = [await world.chat(chain.url) for _ in range(20)]
        assert Counter((answer.status, answer.served_by) for answer in answers) == {(200, "east/demo-1"): 20}

    play(scenario)


class Survivor:
    """One replica of a service on west, and many on east, which is dark."""

    def __init__(self, build, *, shares=(1, 1), dark=6):
        self.url = f"http://{HOST}:{(port := free_port())}/team-a/demo"
        east, self._west = free_port(), free_port()
        replicas = {f"r-east-{number}": (east, shares[0]) for number in range(dark)}
        self._fleet = build.fleet(port, replicas | {"r-west": (self._west, shares[1])})
        self._edge = build.edge

    def config(self, *pods):
        return render([self._fleet, self._edge("edge-west", self._west, {"r-west": pods})])


@pytest.mark.parametrize("shares", [(1, 1), (50, 1)], ids=str)
def test_the_one_replica_left_serves_everything_however_many_others_are_dark(play, build, shares):
    """Failed members fail at once, so LEAST_REQUEST selects them again and again."""

    async def scenario(world):
        survivor = Survivor(build, shares=shares)
        await world.envoy.start(survivor.config((await world.engine("west", speed=20))[1]))
        answers = await asyncio.gather(*(world.chat(survivor.url) for _ in range(40)))
        assert Counter((answer.status, answer.served_by) for answer in answers) == {(200, "west/demo-0"): 40}

    play(scenario)


def test_the_one_pod_left_serves_everything_its_neighbours_refuse(play, chain):
    async def scenario(world):
        pods = [Address(HOST, free_port()) for _ in range(6)]
        await world.envoy.start(chain.config(east=[*pods, (await world.engine("east", speed=20))[1]]))
        answers = await asyncio.gather(*(world.chat(chain.url) for _ in range(40)))
        assert Counter(answer.status for answer in answers) == {200: 40}

    play(scenario)


def test_a_request_of_megabytes_is_sent_again_too(play, build):
    async def scenario(world):
        survivor = Survivor(build)
        await world.envoy.start(survivor.config((await world.engine("west"))[1]))
        content = b'{"model": "demo", "prompt": "%s", "max_tokens": 1}' % (b" " * 3_000_000)
        kind = {"Content-Type": "application/json"}
        for _ in range(5):
            body = io.BytesIO(content)
            async with world.session.post(f"{survivor.url}/v1/completions", data=body, headers=kind) as answer:
                # Its engine finds that too long, which it can only say having been asked.
                assert (answer.status, answer.headers.get("x-served-by")) == (400, "west/demo-0")

    play(scenario)


def test_an_unknown_path_has_openais_error(play, chain):
    async def scenario(world):
        await world.envoy.start(chain.config(weights=(1, 0)))
        nobody = await world.chat(chain.url)
        assert (nobody.status, nobody.error["code"]) == (503, "service_unavailable")
        assert nobody.error["message"] == "No backend of team-a/r-east is ready to answer."
        await world.envoy.apply(chain.config(weights=(0, 0)))
        assert (await world.chat(chain.url)).error["message"] == "No backend of team-a/demo is ready to answer."
        unknown = await world.get(f"http://{HOST}:{chain.port}/team-a/demolition/v1/models?key=secret")
        assert (unknown.status, unknown.error) == (
            404,
            {
                "message": "No model service at GET /team-a/demolition/v1/models.",
                "type": "invalid_request_error",
                "param": None,
                "code": "unknown_url",
            },
        )

    play(scenario)


def test_a_stream_outlives_the_removal_of_its_whole_route(play, chain):
    async def scenario(world):
        engine, pod = await world.engine("east", speed=1)
        await world.envoy.start(chain.config(east=[pod], weights=(1, 0)))
        stream = asyncio.create_task(stream_lines(world, chain.url, max_tokens=300, ignore_eos=True))
        await until(lambda: engine._service.core.load == 1)
        await world.envoy.apply(chain.config(weights=(0, 1)))
        assert not stream.done()
        await engine.stop(grace_s=45)
        lines = await stream
        assert len(lines) == 1 + 300 + 1 + 1
        assert lines[-1] == b"data: [DONE]\n"

    play(scenario)


def test_a_client_that_leaves_frees_the_engine_behind_two_hops(play, chain):
    async def scenario(world):
        _, pod = await world.engine("east", speed=1)
        await world.envoy.start(chain.config(east=[pod]))
        body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}], "stream": True, "ignore_eos": True}
        async with world.session.post(f"{chain.url}/v1/chat/completions", json=body) as answer:
            await answer.content.readline()

        async def aborted():
            return b'finished_reason="abort"} 1' in (await world.get(f"http://{pod}/metrics")).body

        await until(aborted)

    play(scenario)


async def keep_asking(world, url, answers, stop):
    """A light load without a pause: whole answers and streams in turn."""
    while not stop.is_set():
        answer = await world.chat(url, stream=len(answers) % 2 == 0)
        answers.append((answer.status, answer.served_by, answer.body.endswith((b"}", b"[DONE]\n\n"))))


def test_no_request_fails_while_weights_and_pods_change(play, chain):
    async def scenario(world):
        (first, one), (_, two) = await world.engine("east", speed=20), await world.engine("west", speed=20)
        pid = (await world.envoy.start(chain.config(east=[one], west=[two]))) and world.envoy.pid
        answers, stop = [], asyncio.Event()
        load = [asyncio.create_task(keep_asking(world, chain.url, answers, stop)) for _ in range(4)]
        for weights in ((9, 1), (1, 0), (0, 1), (1, 1)) * 3:
            await world.envoy.apply(chain.config(east=[one], west=[two], weights=weights))
            await asyncio.sleep(0.03)
        _, three = await world.engine("east", speed=20)
        await world.envoy.apply(chain.config(east=[one, three], west=[two]))
        await asyncio.sleep(0.1)
        await world.envoy.apply(chain.config(east=[three], west=[two]))
        await first.stop()
        await asyncio.sleep(0.1)
        await world.envoy.apply(chain.config(west=[two], weights=(0, 1)))
        await asyncio.sleep(0.1)
        stop.set()
        await asyncio.gather(*load)
        assert world.envoy.pid == pid
        assert len(answers) > 50
        assert Counter((status, whole) for status, _, whole in answers) == {(200, True): len(answers)}
        assert {who for _, who, _ in answers} == {"east/demo-0", "west/demo-1", "east/demo-2"}

    play(scenario)


@pytest.mark.parametrize(
    ("hostname", "answered", "not_answered"),
    [
        (
            "models.example",
            ["models.example", "models.example:80", "MODELS.example"],
            ["127.0.0.1", "models-example", "models.example.org", "a.models.example"],
        ),
        ("*.example", ["a.example", "a.b.example:8080"], ["example", "aexample", "a.example.org", ".example"]),
    ],
)
def test_a_gateway_with_a_host_name_answers_to_no_other(play, build, hostname, answered, not_answered):
    async def scenario(world):
        rule = {"backendRefs": [{"name": "pods", "port": 80}]}
        view = GatewayView(
            name="gate",
            host=HOST,
            port=free_port(),
            routes=(build.route("demo", rule),),
            services=(build.service("pods"),),
            slices=build.endpoint_slice("pods", (await world.engine("east"))[1]),
            hostname=hostname,
        )
        await world.envoy.start(render([view]))
        url = f"http://{HOST}:{view.port}/health"
        found = {host: (await world.get(url, Host=host)).status for host in [*answered, *not_answered]}
        assert found == dict.fromkeys(answered, 200) | dict.fromkeys(not_answered, 404)

    play(scenario)


LONG = f"/{'n' * 63}/{'s' * 63}"
SYMBOLS = "/a.b-c_d~e!$&'()*+,;=:@"

# (prefix, replacement, requested path, status)
REWRITES = [
    ("/a/b", "/", "/a/b/v1/models", 200),
    ("/a/b", "/", "/a/b/v1/models?x=1", 200),
    ("/a/b/", "/", "/a/b/v1/models", 200),
    ("/a/b", "/v1", "/a/b/models", 200),
    ("/a/b", "/v1/", "/a/b/models", 200),
    ("/", "/v1", "/models", 200),
    (SYMBOLS, "/", f"{SYMBOLS}/health", 200),
    (LONG, "/", f"{LONG}/health", 200),
    ("/a/b", "/", "/a/c/../b/v1/models", 200),
    ("/a/b", "/", "/a/b", 404),
    ("/a/b", "/", "/a/bc/v1/models", 404),
]


def test_envoy_rewrites_as_gateway_api_defines(play, build):
    def view(number, prefix, to, pod):
        rule = {
            "matches": [build.prefix(prefix)],
            "filters": [build.rewrite(to)],
            "backendRefs": [{"name": "pods", "port": 80}],
        }
        return GatewayView(
            name=f"gate-{number}",
            host=HOST,
            port=free_port(),
            routes=(build.route("demo", rule),),
            services=(build.service("pods"),),
            slices=build.endpoint_slice("pods", pod),
        )

    async def scenario(world):
        _, pod = await world.engine("east")
        views = [view(number, prefix, to, pod) for number, (prefix, to, _, _) in enumerate(REWRITES)]
        await world.envoy.start(render(views))
        urls = [f"http://{HOST}:{view.port}{asked}" for view, (_, _, asked, _) in zip(views, REWRITES, strict=True)]
        found = [(await world.get(URL(url, encoded=True))).status for url in urls]
        assert found == [status for _, _, _, status in REWRITES]

    play(scenario)


async def record_one_request(received):
    """A server that keeps the head of the request it gets; returns it with its port."""

    async def answer(reader, writer):
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, HOST)
    return server, server.sockets[0].getsockname()[1]


def test_headers_are_set_added_and_removed_and_the_backend_has_the_last_word(play, build):
    async def scenario(world):
        received = []
        server, upstream = await record_one_request(received)
        of_rule = build.headers(
            set=[{"name": "one", "value": "rule"}, {"name": "two", "value": "100% %REQ(x)%"}],
            add=[{"name": "three", "value": "second"}],
            remove=["four"],
        )
        reference = {
            "group": "gateway.envoyproxy.io",
            "kind": "Backend",
            "name": "up",
            "filters": [build.headers(set=[{"name": "one", "value": "backend"}])],
        }
        view = GatewayView(
            name="gate",
            host=HOST,
            port=free_port(),
            routes=(build.route("all", {"filters": [of_rule], "backendRefs": [reference]}),),
            backends=(build.backend("up", {"ip": {"address": HOST, "port": upstream}}),),
        )
        async with server:
            await world.envoy.start(render([view]))
            sent = dict.fromkeys(["one", "two", "three", "four", "x-modelplane-gateway"], "client")
            assert (await world.get(f"http://{HOST}:{view.port}/", **sent)).status == 200
        lines = [line.partition(": ") for line in received[0].decode().split("\r\n")[1:]]
        mine = [(name, value) for name, _, value in lines if name in sent]
        assert sorted(mine) == [("one", "backend"), ("three", "client"), ("three", "second"), ("two", "100% %REQ(x)%")]

    play(scenario)
