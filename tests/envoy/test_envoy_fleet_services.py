"""Services by their plans, through a real Envoy: providers beside replicas, fallback, deadlines, keys, errors."""

import asyncio
import io
import json
import ssl
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import openai
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, PlanTimeouts, ServicePlan
from modelplane.envoy import GatewayView, free_port, render
from modelplane.envoy.view import CallerKey, TlsCertificate
from tests.support.waiting import ENOUGH_S

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
CREDENTIALS = {"team-a/acme": "Bearer sek%ret", "team-a/bcme": "raw"}


class Upstream:
    """A server that says what it got, and fails as it is told."""

    def __init__(self, name):
        self.name, self.seen, self.fail = name, [], None

    async def answer(self, request):
        body = await request.read()
        self.seen.append((request.method, request.path_qs, dict(request.headers), body))
        if self.fail is not None:
            found = await self.fail(request)
            if found is not None:
                return found
        return web.json_response({"by": self.name}, headers={"x-served-by": self.name})

    @asynccontextmanager
    async def serve(self):
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            await runner.cleanup()


def fails_with(status):
    async def fail(_request):
        return web.json_response({"error": {"message": "no"}}, status=status)

    return fail


SHEDS = fails_with(429)


async def hang(_request):
    await asyncio.sleep(30)


async def break_off(request):
    request.transport.abort()
    await asyncio.sleep(0)


def replica(name, port, weight=1, **fields):
    return PlanEndpoint(
        f"team-a/{name}", "main", weight, False, HOST, port, None, replica=f"team-a/{name}", cluster="east", **fields
    )


def provider(name, port, weight=1, **fields):
    named = {"address": "localhost", "addresses": (HOST,), "host": f"api.{name}.example", **fields}
    return PlanEndpoint(f"team-a/{name}", "hosted", weight, False, port=port, **named)


def plan(*tiers, idle_s=60.0, request_s=300.0, **fields):
    made = tuple(PlanTier(number, tuple(tier)) for number, tier in enumerate(tiers))
    return ServicePlan("team-a", "demo", tiers=made, timeouts=PlanTimeouts(request_s, idle_s), **fields)


def config(port, *plans, **fields):
    view = GatewayView(name="fleet", host=HOST, port=port, plans=plans, credentials=CREDENTIALS, **fields)
    return render([view])


@asynccontextmanager
async def upstreams(*names):
    made = [Upstream(name) for name in names]
    async with made[0].serve():
        if len(made) == 1:
            yield made
        else:
            async with made[1].serve():
                if len(made) == 2:
                    yield made
                else:
                    async with made[2].serve():
                        yield made


async def ask(world, port, path="/team-a/demo/v1/chat/completions", *, model="demo", send=None):
    url = f"http://{HOST}:{port}{path}"
    async with world.session.post(url, json={"model": model}, headers=send) as answer:
        body = await answer.read()
        return answer.status, answer.headers, body


async def share(world, port, times):
    found = [await ask(world, port) for _ in range(times)]
    assert {status for status, _, _ in found} == {200}
    return Counter(headers["x-served-by"] for _, headers, _ in found)


def test_seventy_twenty_ten_with_a_provider_of_another_host_path_and_key(play):
    """The mission's example: weighted spillover to a provider beside fleet endpoints."""

    async def scenario(world):
        async with upstreams("us", "eu", "acme") as (us, eu, acme):
            port = free_port()
            hosted = provider("acme", acme.port, 1, prefix="/openai/v1", credential=CredentialRef("s", "k"))
            await world.envoy.start(config(port, plan([replica("us", us.port, 7), replica("eu", eu.port, 2), hosted])))
            assert await share(world, port, 40) == {"us": 28, "eu": 8, "acme": 4}
            await ask(world, port, "/team-a/demo/v1/chat/completions?x=1", send={"authorization": "Bearer mine"})
            method, path, headers, _ = acme.seen[0]
            assert (method, path) == ("POST", "/openai/v1/chat/completions")
            kept = {name.lower() for name in headers}
            assert {"host", "authorization", "content-type"} <= kept
            assert (headers["Host"], headers["Authorization"]) == ("api.acme.example", "Bearer sek%ret")
            internal = ("x-envoy", "x-forwarded", "x-modelplane", "modelplane")
            assert [name for name in kept if name.startswith(internal)] == []
            assert {each[2]["modelplane-replica"] for each in us.seen} == {"team-a/us"}
            assert all("mine" not in each[2].get("Authorization", "") for each in us.seen + eu.seen + acme.seen)

    play(scenario)


def test_a_client_cannot_choose_a_replica_or_claim_to_be_a_caller(play):
    async def scenario(world):
        async with upstreams("us") as (us,):
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)])))
            sent = {"modelplane-replica": "other/one", "x-modelplane-caller": "root"}
            assert (await ask(world, port, send=sent))[0] == 200
            headers = us.seen[0][2]
            assert headers["modelplane-replica"] == "team-a/us"
            assert "x-modelplane-caller" not in headers

    play(scenario)


def test_an_address_by_number_gets_its_own_host_and_path(play):
    """An IP as the host silently stopped the rewrites of a predecessor."""

    async def scenario(world):
        async with upstreams("acme") as (acme,):
            port = free_port()
            host = f"{HOST}:{acme.port}"
            hosted = provider("acme", acme.port, address=HOST, host=host, prefix="/v4")
            await world.envoy.start(config(port, plan([hosted])))
            assert (await ask(world, port))[0] == 200
            assert (acme.seen[0][1], acme.seen[0][2]["Host"]) == ("/v4/chat/completions", host)

    play(scenario)


@pytest.mark.parametrize(
    "failure", [fails_with(503), SHEDS, fails_with(502), break_off], ids=["503", "429", "502", "reset"]
)
def test_what_one_endpoint_does_not_serve_another_does(play, failure):
    async def scenario(world):
        async with upstreams("us", "acme") as (us, acme):
            us.fail = failure
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)], [provider("acme", acme.port)])))
            assert await share(world, port, 8) == {"acme": 8}
            # After some failures in a row it is left alone; one that sheds load is not.
            assert len(us.seen) == (8 if failure is SHEDS else 3)
            us.fail = None
            assert await share(world, port, 2) == {"us" if failure is SHEDS else "acme": 2}

    play(scenario)


@pytest.mark.submission
def test_it_returns_to_the_preferred_tier_after_a_while(play):
    async def scenario(world):
        async with upstreams("us", "acme") as (us, acme):
            us.fail = fails_with(503)
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)], [provider("acme", acme.port)])))
            assert await share(world, port, 6) == {"acme": 6}
            us.fail = None
            for _ in range(40):
                await asyncio.sleep(0.25)
                if (await share(world, port, 1))["us"]:
                    break
            assert await share(world, port, 4) == {"us": 4}

    play(scenario)


def test_an_engine_that_fails_every_request_loses_its_share_and_its_error_is_passed_on(play):
    """A cluster that failed every request kept its share."""

    async def scenario(world):
        async with upstreams("us", "eu") as (us, eu):
            us.fail = fails_with(500)
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port), replica("eu", eu.port)])))
            # The fifth ejects it, as soon as Envoy's main thread runs; what its others send meanwhile still arrives.
            found = []
            async with asyncio.timeout(ENOUGH_S):
                while found[-20:] != [200] * 20:
                    found.append((await ask(world, port))[0])
            assert 5 <= found.count(500) == len(us.seen)

    play(scenario)


def test_the_only_endpoint_is_never_ejected(play):
    async def scenario(world):
        async with upstreams("us") as (us,):
            us.fail = fails_with(500)
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)])))
            assert {(await ask(world, port))[0] for _ in range(8)} == {500}
            us.fail = None
            assert await share(world, port, 2) == {"us": 2}

    play(scenario)


def test_a_dark_endpoint_loses_no_request(play):
    async def scenario(world):
        async with upstreams("us", "eu") as (us, eu):
            port = free_port()
            dark = replica("dark", free_port())
            await world.envoy.start(config(port, plan([replica("us", us.port), dark, replica("eu", eu.port)])))
            found = await asyncio.gather(*(ask(world, port) for _ in range(60)))
            assert Counter(status for status, _, _ in found) == {200: 60}

    play(scenario)


def test_silence_before_the_first_byte_leads_elsewhere_and_after_it_ends_the_stream(play):
    async def stall(request):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await asyncio.sleep(30)
        return response

    async def scenario(world):
        async with upstreams("us", "eu") as (us, eu):
            us.fail = hang
            port = free_port()
            tiers = [replica("us", us.port)], [replica("eu", eu.port)]
            await world.envoy.start(config(port, plan(*tiers, idle_s=0.5)))
            loop = asyncio.get_running_loop()
            began = loop.time()
            status, headers, _ = await ask(world, port)
            assert (status, headers["x-served-by"]) == (200, "eu")
            assert 0.4 < loop.time() - began < 30
            us.fail = stall
            began = loop.time()
            with pytest.raises(Exception):  # noqa: B017, PT011  however the client names a cut stream
                await ask(world, port)
            assert 0.4 < loop.time() - began < 30

    play(scenario)


def test_no_request_takes_longer_than_its_limit(play):
    async def scenario(world):
        async with upstreams("us") as (us,):
            us.fail = hang
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)], request_s=0.5, idle_s=0)))
            status, _, body = await ask(world, port)
            assert (status, json.loads(body)["error"]["code"]) == (504, "timeout")

    play(scenario)


def test_a_service_is_called_by_its_model_and_its_aliases(play):
    async def scenario(world):
        async with upstreams("us", "other") as (us, other):
            port = free_port()
            aliases = ("demo-alias", "Qwen/Qwen3-8B")
            second = replace(plan([replica("other", other.port)]), name="second", aliases=aliases)
            await world.envoy.start(config(port, plan([replica("us", us.port)], aliases=("demo-alias",)), second))
            base = f"http://{HOST}:{port}"
            async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="unused", max_retries=0) as api:
                assert [model.id async for model in api.models.list()] == [
                    *("Qwen/Qwen3-8B", "demo-alias", "team-a/demo", "team-a/second")
                ]
            for model, by in (
                *(("team-a/demo", "us"), ("team-a/second", "other"), ("demo-alias", "us"), ("Qwen/Qwen3-8B", "other")),
            ):
                status, headers, _ = await ask(world, port, "/v1/chat/completions", model=model)
                assert (status, headers["x-served-by"]) == (200, by)
            assert us.seen[0][1] == "/v1/chat/completions"
            status, _, _ = await ask(world, port, "/anthropic/v1/messages", model="team-a/demo")
            assert (status, us.seen[-1][1]) == (200, "/v1/messages")
            status, _, _ = await ask(world, port, "/team-a/demo/anthropic/v1/messages")
            assert (status, us.seen[-1][1]) == (200, "/v1/messages")

    play(scenario)


def test_a_long_body_is_read_for_its_model(play):
    async def scenario(world):
        async with upstreams("us") as (us,):
            port = free_port()
            await world.envoy.start(config(port, plan([replica("us", us.port)])))
            url = f"http://{HOST}:{port}/v1/chat/completions"
            body = {"messages": [{"role": "user", "content": "x" * (3 << 20)}], "model": "team-a/demo"}
            sent = {"content-type": "application/json"}
            async with world.session.post(url, data=io.BytesIO(json.dumps(body).encode()), headers=sent) as answer:
                assert answer.status == 200
            assert len(us.seen[0][3]) > 3 << 20

    play(scenario)


def test_errors_are_in_the_shape_of_the_clients_api(play):
    """Nothing ready is 503 with Retry-After and never 404; 404 is for what nobody declares."""

    async def scenario(world):
        port = free_port()
        away = replace(replica("us", 9), ready=False, weight=0, reason="ImagePullFailed")
        await world.envoy.start(config(port, plan([away])))
        sentence = "No endpoint of team-a/demo is ready to answer. us: ImagePullFailed."
        unready = {"message": sentence, "type": "server_error", "param": None, "code": "service_unavailable"}
        for path, model in (("/team-a/demo/v1/chat/completions", "x"), ("/v1/chat/completions", "team-a/demo")):
            status, headers, body = await ask(world, port, path, model=model)
            assert (status, headers["retry-after"], json.loads(body)) == (503, "2", {"error": unready})
        status, headers, body = await ask(world, port, "/anthropic/v1/messages", model="team-a/demo")
        assert (status, headers["retry-after"]) == (503, "2")
        assert json.loads(body) == {"type": "error", "error": {"type": "overloaded_error", "message": sentence}}
        status, _, body = await ask(world, port, "/v1/chat/completions", model="team-a/none")
        missing = {"message": "The model team-a/none does not exist.", "type": "invalid_request_error", "param": None}
        assert (status, json.loads(body)) == (404, {"error": {**missing, "code": "model_not_found"}})
        status, _, body = await ask(world, port, "/team-a/none/v1/chat/completions")
        assert (status, json.loads(body)["error"]["code"]) == (404, "unknown_url")

    play(scenario)


def test_nothing_left_after_ejection_is_503_with_retry_after(play):
    async def scenario(world):
        port = free_port()
        dark = [replica("a", free_port()), replica("b", free_port())]
        await world.envoy.start(config(port, plan(dark)))
        for _ in range(6):
            status, headers, body = await ask(world, port)
            assert (status, headers["retry-after"]) == (503, "2")
            assert json.loads(body)["error"]["code"] == "service_unavailable"

    play(scenario)


def test_callers_prove_who_they_are_and_their_keys_go_no_further(play):
    async def scenario(world):
        async with upstreams("us") as (us,):
            port = free_port()
            callers = (CallerKey("alice", "key-a"), CallerKey("bob", "key-b"))
            await world.envoy.start(config(port, plan([replica("us", us.port)]), callers=callers))
            for sent in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}, {"x-modelplane-caller": "bob"}):
                status, _, body = await ask(world, port, send=sent)
                assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
            assert us.seen == []
            for sent, who in (({"authorization": "Bearer key-a"}, "alice"), ({"x-api-key": "key-b"}, "bob")):
                assert (await ask(world, port, send={**sent, "x-modelplane-caller": "root"}))[0] == 200
                headers = us.seen[-1][2]
                assert headers["x-modelplane-caller"] == who
                assert not {"authorization", "x-api-key"} & {name.lower() for name in headers}
            async with world.session.get(f"http://{HOST}:{port}/healthz") as answer:
                assert answer.status == 200
            # Keys are changed without a restart.
            await world.envoy.apply(config(port, plan([replica("us", us.port)]), callers=(CallerKey("bob", "key-c"),)))
            assert (await ask(world, port, send={"x-api-key": "key-b"}))[0] == 401
            assert (await ask(world, port, send={"x-api-key": "key-c"}))[0] == 200

    play(scenario)


def certificate_of(name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return TlsCertificate(made.public_bytes(pem).decode(), plain.decode())


def test_the_name_that_a_client_asks_for_chooses_the_certificate(play):
    async def shown(port, name):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname=name)
        found = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.close()
        await writer.wait_closed()
        return found.subject.rfc4514_string()

    async def scenario(world):
        port = free_port()
        identities = (certificate_of("a.example"), certificate_of("b.example"))
        await world.envoy.start(config(port, plan(), identities=identities))
        found = [await shown(port, name) for name in ("a.example", "b.example", "c.example")]
        assert found == ["CN=a.example", "CN=b.example", "CN=a.example"]

    play(scenario)
