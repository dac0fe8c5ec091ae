"""The picker behind a real Envoy: every mode, what endpoints and clients see, and how it goes wrong."""

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import ClassVar

import aiohttp
import pytest
from aiohttp import web

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server.server import PickerServer, PickerSettings
from modelplane.epp.transport.grpc_aio import GrpcAioServer
from modelplane.epp.transport.h2.server import H2Server
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from tests.support.extproc_envoy import EnvoyPlan, Mode, envoy
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

ALL_MODES = [Mode.HEADERS, Mode.BUFFERED, Mode.DUPLEX, Mode.DUPLEX_BOTH_WAYS]
EVENTS = [b'data: {"usage":{"prompt_tok', b'ens":3,"completion_tokens":4}}\n\n', b"data: [DONE]\n\n"]
CHAT = "/v1/chat/completions"
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def chat(content="hello", **fields):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": content}], **fields}).encode()


class Backend:
    """An endpoint that remembers what it was sent, and answers by piece."""

    def __init__(self):
        self.requests = []
        self.pause_s = 0.0
        self.status = 200
        self.hold = None
        """An event to wait for before answering."""
        self.reached = asyncio.Event()

    async def handle(self, request):
        self.requests.append(SimpleNamespace(method=request.method, headers=request.headers, body=await request.read()))
        self.reached.set()
        if self.hold is not None:
            await self.hold.wait()
        response = web.StreamResponse(status=self.status, headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in EVENTS:
            await asyncio.sleep(self.pause_s)
            await response.write(event)
        await response.write_eof()
        return response


class Ends:
    """An observer that writes down how requests end, and reads bodies where a test wants that."""

    def __init__(self):
        self.ended_as = []

    def record_steps(self, _request, _chance):
        return None

    def decided(self, *_told, model=""):
        del model

    def ended(self, request, _decision, served, *, model=""):
        del model
        self.ended_as.append((request.api.name, served.status, served.endpoint.name, served.usage))

    def evicted(self, _request):
        pass

    def waited(self, *_told, model=""):
        del model

    def rewrote(self, *_told, **_more):
        pass

    def opened(self):
        pass

    def closed(self, *_told):
        pass


@contextlib.asynccontextmanager
async def backends(count):
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            backend = Backend()
            application = web.Application(client_max_size=1 << 30)
            application.router.add_route("*", "/{path:.*}", backend.handle)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            backend.address = f"127.0.0.1:{runner.addresses[0][1]}"
            found.append(backend)
        yield found


class Stage:
    """Everything that runs in one test."""

    def __init__(self, backends, picker, proxy, client, ends):
        self.backends = backends
        self.picker = picker
        self.proxy = proxy
        self.client = client
        self.ends = ends

    async def send(self, body=None, *, path=CHAT, method="POST", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.request(method, self.proxy.url + path, data=body, headers=named) as answer:
            return answer.status, answer.headers.copy(), await answer.read()

    async def until_ended(self, count):
        await until(lambda: len(self.ends.ended_as) >= count)
        return self.ends.ended_as


@contextlib.asynccontextmanager
async def stage(folder, mode=Mode.DUPLEX, *, count=1, config="", make_server=H2Server, settings=None, **plan):
    async with backends(count) as found:
        pool = StaticEndpoints([Endpoint(f"ns/{place}", each.address) for place, each in enumerate(found)])
        ends = Ends()
        base = {"host": "127.0.0.1", "port": 0, "health_port": -1, "drain_s": 5.0}
        picker = PickerServer(
            pool, load(config), PickerSettings(**(base | (settings or {}))), make_server=make_server, observer=ends
        )
        await picker.start()
        chosen = EnvoyPlan(mode=mode, picker_port=picker.port, upstreams=tuple(each.address for each in found), **plan)
        try:
            async with envoy(chosen, folder) as proxy, aiohttp.ClientSession() as client:
                yield Stage(found, picker, proxy, client, ends)
        finally:
            await picker.stop()


@pytest.mark.parametrize("make_server", [H2Server, GrpcAioServer], ids=["own", "grpc.aio"])
@pytest.mark.parametrize("mode", ALL_MODES)
def test_requests_reach_their_endpoint_in_every_mode(tmp_path, run, mode, make_server):
    async def scenario():
        async with stage(tmp_path, mode, make_server=make_server) as here:
            (backend,) = here.backends
            small, large = chat(), chat("x" * 220_000)
            answers = [await here.send(small), await here.send(large), await here.send(method="GET", path="/v1/models")]
            assert [(status, body) for status, _, body in answers] == [(200, b"".join(EVENTS))] * 3
            assert [each.body for each in backend.requests] == [small, large, b""]
            assert {each.headers["x-gateway-destination-endpoint"] for each in backend.requests} == {backend.address}
            return await here.until_ended(3)

    ended = run(scenario())
    assert [(api, status, name) for api, status, name, _ in ended] == [
        ("CHAT", 200, "ns/0"),
        ("CHAT", 200, "ns/0"),
        ("OTHER", 200, "ns/0"),
    ]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_no_client_chooses_its_endpoint(tmp_path, run, mode):
    forged = {
        "x_gateway_destination_endpoint": "203.0.113.1:1",
        "x_prefiller_host_port": "203.0.113.1:1",
        "x_data_parallel_host_port": "203.0.113.1:1",
        "x_gateway_destination_endpoint_served": "203.0.113.1:1",
    }

    async def scenario():
        async with stage(tmp_path, mode) as here:
            status, headers, _ = await here.send(chat(), x_kept="yes", **forged)
            assert status == 200
            assert not [name for name in headers if name.lower().startswith(("x-went", "x-gateway", "x-llm-d"))]
            return here.backends[0]

    backend = run(scenario())
    (seen,) = backend.requests
    assert seen.headers["x-gateway-destination-endpoint"] == backend.address
    assert seen.headers["x-kept"] == "yes"
    gone = [name for name in forged if name.replace("_", "-") in seen.headers]
    assert gone == ["x_gateway_destination_endpoint"]


@pytest.mark.parametrize("mode", [Mode.BUFFERED, Mode.DUPLEX])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"junk", 400, "invalid_request"),
        (b'{"messages":[]}', 400, "invalid_request"),
        (chat("x" * 5000), 413, "too_large"),
    ],
    ids=["no JSON", "no model", "too large"],
)
def test_errors_that_clients_get(tmp_path, run, mode, body, status, code):
    async def scenario():
        async with stage(tmp_path, mode, settings={"body_bytes": 4000}) as here:
            found, headers, answer = await here.send(body)
            assert here.backends[0].requests == []
            return found, headers["content-type"], json.loads(answer)["error"]["code"]

    assert run(scenario()) == (status, "application/json", code)


def test_an_empty_pool_answers_503_with_its_reason(tmp_path, run):
    async def scenario():
        async with stage(tmp_path) as here:
            here.picker.source.replace([])
            return await here.send(chat())

    status, headers, body = run(scenario())
    assert (status, headers["x-llm-d-request-dropped-reason"], headers["retry-after"]) == (
        503,
        "rejected-no-endpoints",
        "1",
    )
    assert json.loads(body)["error"]["type"] == "server_error"


@pytest.mark.parametrize("form", ["text", "list"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_subset_is_kept_also_by_requests_without_a_body(tmp_path, run, form, method):
    async def scenario():
        async with backends(3) as found:
            pool = StaticEndpoints([Endpoint(f"ns/{place}", each.address) for place, each in enumerate(found)])
            picker = PickerServer(pool, load(""), PickerSettings(host="127.0.0.1", port=0, health_port=-1))
            await picker.start()
            allowed = found[1].address
            plan = EnvoyPlan(picker_port=picker.port, subset=allowed if form == "text" else [allowed])
            async with envoy(plan, tmp_path) as proxy, aiohttp.ClientSession() as client:
                for _ in range(6):
                    body = chat() if method == "POST" else None
                    async with client.request(method, f"{proxy.url}{CHAT}", data=body) as answer:
                        assert answer.status == 200
            await picker.stop()
            return [len(each.requests) for each in found]

    assert run(scenario()) == [0, 6, 0]


@pytest.mark.parametrize("subset", [[], ["203.0.113.1:1"]])
def test_a_subset_without_a_ready_endpoint_answers_503(tmp_path, run, subset):
    async def scenario():
        async with stage(tmp_path, subset=subset) as here:
            return (await here.send(chat()))[0]

    assert run(scenario()) == 503


def test_the_serving_endpoint_is_returned(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, count=2, report_served=True) as here:
            for _ in range(4):
                await here.send(chat(), test_epp_endpoint_selection=here.backends[1].address)
            _, headers, _ = await here.send(chat(), test_epp_endpoint_selection="x")
            return headers["x-conformance-test-served-endpoint"], await here.until_ended(5), here.backends[0].address

    told, ended, first = run(scenario())
    assert told == first
    assert {name for _, _, name, _ in ended} == {"ns/0"}


@pytest.mark.parametrize(
    ("mode", "fail_open", "expected"),
    [
        (Mode.HEADERS, False, 500),
        (Mode.HEADERS, True, 200),
        (Mode.BUFFERED, True, 200),
        (Mode.DUPLEX, False, 500),
        (Mode.DUPLEX, True, 500),
    ],
)
def test_a_picker_that_is_away(tmp_path, run, mode, fail_open, expected):
    """Open, Envoy sends a request to the endpoint that its header names, which here the client gives.

    Envoy 1.40 always fails closed in full duplex: it no longer has the body that it would have to send.
    """

    async def scenario():
        async with stage(tmp_path, mode, fail_open=fail_open) as here:
            await here.picker.stop()
            return (await here.send(chat(), x_gateway_destination_endpoint=here.backends[0].address))[0]

    assert run(scenario()) == expected


def test_usage_is_read_across_pieces_where_bodies_pass(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, Mode.DUPLEX_BOTH_WAYS) as here:
            here.backends[0].pause_s = 0.05
            await here.send(chat(stream=True))
            return await here.until_ended(1)

    assert run(scenario()) == [("CHAT", 200, "ns/0", ResponseUsage(3, 4, -1))]


def test_events_arrive_one_by_one(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, Mode.DUPLEX_BOTH_WAYS) as here:
            here.backends[0].pause_s = 0.1
            async with here.client.post(here.proxy.url + CHAT, data=chat(stream=True)) as answer:
                return [piece async for piece in answer.content.iter_any()]

    assert run(scenario()) == EVENTS


@pytest.mark.parametrize("shows_response", [True, False])
def test_requests_in_flight_are_counted_to_the_end_of_the_exchange(tmp_path, run, shows_response):
    async def scenario():
        async with stage(tmp_path, shows_response=shows_response) as here:
            here.backends[0].pause_s = 0.1
            sending = asyncio.create_task(here.send(chat()))
            seen = set()
            while not sending.done():
                seen.add(here.picker.source.current[0].requests_in_flight)
                await asyncio.sleep(0.01)
            await here.until_ended(1)
            return seen, here.picker.source.current[0].requests_in_flight

    seen, after = run(scenario())
    assert 1 in seen
    assert after == 0


@pytest.mark.parametrize("shows_response", [True, False])
def test_a_client_that_goes_away_ends_its_request(tmp_path, run, shows_response):
    async def scenario():
        async with stage(tmp_path, shows_response=shows_response) as here:
            here.backends[0].pause_s = 10.0
            sending = asyncio.create_task(here.send(chat()))
            await until(lambda: here.picker.source.current[0].requests_in_flight == 1)
            sending.cancel()
            await here.until_ended(1)
            return here.picker.source.current[0].requests_in_flight

    assert run(scenario()) == 0


def test_a_rewritten_model_responds_under_the_requested_name(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, Mode.DUPLEX_BOTH_WAYS) as here:
            pieces = [b'{"model":"tu', b'ned","choices":[]}']

            async def answer(request):
                here.backends[0].requests.append(SimpleNamespace(body=await request.read()))
                response = web.StreamResponse(headers={"content-type": "application/json"})
                await response.prepare(request)
                for piece in pieces:
                    await response.write(piece)
                    await asyncio.sleep(0.05)
                return response

            application = web.Application()
            application.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            here.picker.source.replace([Endpoint("ns/x", f"127.0.0.1:{runner.addresses[0][1]}")])
            _, _, body = await here.send(chat(), x_llm_d_model_name_rewrite="tuned")
            await runner.cleanup()
            return json.loads(here.backends[0].requests[0].body)["model"], body

    assert run(scenario()) == ("tuned", b'{"model":"m","choices":[]}')


def test_over_tls(tmp_path, run, identity):
    async def scenario():
        async with stage(tmp_path, settings={"identity": identity}, tls=True) as here:
            return [(await here.send(chat("x" * size)))[0] for size in (10, 200_000)]

    assert run(scenario()) == [200, 200]


def test_a_new_configuration_under_load_drops_no_request(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, count=2) as here:

            async def client():
                return [(await here.send(chat("y" * 3000)))[0] for _ in range(15)]

            async def reloads():
                for _ in range(10):
                    here.picker.reload(load(""))
                    await asyncio.sleep(0.01)

            *found, _ = await asyncio.gather(*(client() for _ in range(8)), reloads())
            return found

    assert run(scenario()) == [[200] * 15] * 8


def test_many_requests_at_once(tmp_path, run):
    async def scenario():
        async with stage(tmp_path, count=3) as here:
            answers = await asyncio.gather(*(here.send(chat("z" * size)) for size in range(0, 60_000, 1000)))
            await here.until_ended(60)
            bodies = sorted(len(each.body) for backend in here.backends for each in backend.requests)
            return {status for status, _, _ in answers}, bodies

    statuses, bodies = run(scenario())
    assert statuses == {200}
    assert bodies == sorted(len(chat("z" * size)) for size in range(0, 60_000, 1000))


def test_simulated_engines_answer_through_it(tmp_path, run):
    async def scenario():
        engines = [
            SimulatedEngine(EngineConfig(cluster="c", namespace="ns", pod=f"m-{number}", models=("m",), speed=1000))
            for number in range(2)
        ]
        addresses = [await engine.start("127.0.0.1") for engine in engines]
        pool = StaticEndpoints([Endpoint(f"ns/{a.port}", f"127.0.0.1:{a.port}") for a in addresses])
        picker = PickerServer(pool, load(""), PickerSettings(host="127.0.0.1", port=0, health_port=-1, drain_s=1.0))
        await picker.start()
        async with envoy(EnvoyPlan(picker_port=picker.port), tmp_path) as proxy, aiohttp.ClientSession() as client:
            async with client.post(proxy.url + CHAT, data=chat(max_tokens=5)) as answer:
                whole = await answer.json()
            async with client.post(proxy.url + CHAT, data=chat(max_tokens=5, stream=True)) as answer:
                streamed = await answer.read()
        await picker.stop()
        for engine in engines:
            await engine.stop()
        return whole["usage"]["completion_tokens"], streamed.count(b"data:")

    tokens, events = run(scenario())
    assert tokens == 5
    assert events >= 6


def test_a_session_stays_at_the_endpoint_of_its_token(tmp_path, run):
    config = HEAD + "plugins: [{type: session-affinity-filter}, {type: random-picker}]\n"

    async def scenario():
        async with stage(tmp_path, count=4, config=config) as here:
            _, headers, _ = await here.send(chat())
            token = headers["x-session-token"]
            for _ in range(12):
                _, headers, _ = await here.send(chat(), x_session_token=token)
                assert headers["x-session-token"] == token
            return sorted(len(backend.requests) for backend in here.backends)

    assert run(scenario()) == [0, 0, 0, 13]


class Objectives:
    priorities: ClassVar = {"batch": -1, "urgent": 5}

    def rewrite(self, _model, _chance):
        return None


def test_a_sheddable_request_makes_room(tmp_path, run):
    config = HEAD + (
        "featureGates: [flowControl]\n"
        "plugins: [{type: random-picker}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]\n"
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]\n"
        "flowControl: {enableEviction: true, saturationDetector: {pluginRef: concurrency-detector}}\n"
    )

    async def scenario():
        async with stage(tmp_path, config=config) as here:
            here.picker.director.reader.rules = Objectives()
            (backend,) = here.backends
            backend.hold = asyncio.Event()
            batch = asyncio.create_task(here.send(chat(), x_llm_d_inference_objective="batch"))
            await backend.reached.wait()
            urgent = asyncio.create_task(here.send(chat(), x_llm_d_inference_objective="urgent"))
            evicted = await batch
            backend.hold.set()
            served = await urgent
            return evicted[0], evicted[1]["x-llm-d-request-dropped-reason"], served[0], await here.until_ended(2)

    status, reason, served, ends = run(scenario())
    assert (status, reason, served) == (429, "evicted", 200)
    assert [end[1] for end in ends] == [429, 200]
