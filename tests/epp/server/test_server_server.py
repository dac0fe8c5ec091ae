"""The picker as a server, spoken to by the gRPC project's client: calls, readiness, reloading, an orderly end."""

import asyncio
import contextlib
import json
import ssl

import grpc
import pytest

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.health import CHECK
from modelplane.epp.server.messages import METHOD
from modelplane.epp.server.server import PickerServer, PickerSettings
from tests.support.extproc_protos import load as load_protos
from tests.support.waiting import until

PROTOS = load_protos()
REQUEST, RESPONSE = PROTOS["ProcessingRequest"], PROTOS["ProcessingResponse"]
BODY = json.dumps({"model": "m", "messages": []}).encode()
DESTINATION = "x-gateway-destination-endpoint"
LISTED = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
"""


def headers(mode=0):
    request = REQUEST()
    for name, value in ((":method", "POST"), (":path", "/v1/chat/completions")):
        request.request_headers.headers.headers.add(key=name, raw_value=value.encode())
    request.protocol_config.SetInParent()
    request.protocol_config.request_body_mode = mode
    return request


def body():
    request = REQUEST()
    request.request_body.body, request.request_body.end_of_stream = BODY, True
    return request


class Unread(StaticEndpoints):
    known = False


@contextlib.asynccontextmanager
async def picking(make_server, source=None, config="", **settings):
    pool = source or StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80"), Endpoint("ns/b", "10.0.0.2:80")])
    chosen = PickerSettings(host="127.0.0.1", port=0, health_port=0, drain_s=10.0, **settings)
    picker = PickerServer(pool, load(config), chosen, make_server=make_server)
    await picker.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{picker.port}") as channel:
        call = channel.stream_stream(
            METHOD, request_serializer=REQUEST.SerializeToString, response_deserializer=RESPONSE.FromString
        )
        try:
            yield picker, call
        finally:
            await picker.stop()


def destination(reply):
    return reply.dynamic_metadata["envoy.lb"][DESTINATION]


async def pick(call):
    talk = call()
    await talk.write(headers())
    reply = await talk.read()
    await talk.done_writing()
    assert await talk.read() is grpc.aio.EOF
    return reply


def test_a_pick(make_server, run):
    async def scenario():
        async with picking(make_server) as (_, call):
            return await pick(call)

    assert destination(run(scenario())) in {"10.0.0.1:80", "10.0.0.2:80"}


def test_a_pick_in_full_duplex(make_server, run):
    async def scenario():
        async with picking(make_server) as (_, call):
            talk = call()
            await talk.write(headers(4))
            await talk.write(body())
            replies = [await talk.read(), await talk.read()]
            await talk.done_writing()
            return replies

    first, second = run(scenario())
    assert first.HasField("request_headers")
    assert second.request_body.response.body_mutation.streamed_response.body == BODY


async def ready(picker, service=b""):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{picker.health_port}") as channel:
        return await channel.unary_unary(CHECK)(service)


@pytest.mark.parametrize(("source", "expected"), [(Unread(), b"\x08\x02"), (StaticEndpoints(), b"\x08\x01")])
def test_a_picker_is_ready_once_its_pool_was_read_even_if_it_is_empty(make_server, run, source, expected):
    async def scenario():
        async with picking(make_server, source) as (picker, _):
            return await ready(picker)

    assert run(scenario()) == expected


def test_requests_of_a_drain_end_and_later_ones_are_refused(make_server, run):
    async def scenario():
        async with picking(make_server) as (picker, call):
            # A response shows that everything sent before it has arrived.
            reading = call()
            await reading.write(headers(4))
            running = call()
            await running.write(headers())
            await running.read()
            stopping = asyncio.create_task(picker.stop())
            await asyncio.sleep(0.05)
            assert not stopping.done()
            await reading.write(body())
            refused = await reading.read()
            await running.done_writing()
            assert await running.read() is grpc.aio.EOF
            await stopping
            return refused

    assert run(scenario()).immediate_response.status.code == 503


def test_a_new_configuration_is_taken_and_a_wrong_one_is_not(make_server, run, tmp_path, caplog):
    file = tmp_path / "config.yaml"
    file.write_text("")

    async def endpoints_listed(call):
        return destination(await pick(call)).count(",") + 1

    async def scenario():
        async with picking(make_server, config_file=file, config_poll_s=0.02) as (_, call):
            assert await endpoints_listed(call) == 1
            file.write_text("plugins: nonsense")
            await until(lambda: "kept the previous configuration" in caplog.text)
            assert await endpoints_listed(call) == 1
            file.write_text(LISTED)

            async def both():
                return await endpoints_listed(call) == 2

            await until(both)

    run(scenario())


def test_tls_by_certificate(make_server, run, identity):
    async def scenario():
        settings = PickerSettings(host="localhost", port=0, health_port=-1, identity=identity, drain_s=1.0)
        picker = PickerServer(
            StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")]), load(""), settings, make_server=make_server
        )
        await picker.start()
        credentials = grpc.ssl_channel_credentials(identity.certificate)
        async with grpc.aio.secure_channel(f"localhost:{picker.port}", credentials) as channel:
            call = channel.stream_stream(
                METHOD, request_serializer=REQUEST.SerializeToString, response_deserializer=RESPONSE.FromString
            )
            reply = await pick(call)
        await picker.stop()
        return destination(reply)

    assert run(scenario()) == "10.0.0.1:80"


def test_a_renewed_certificate_is_served(run, identity, client_identity, tmp_path):
    async def presented(port):
        return await asyncio.to_thread(ssl.get_server_certificate, ("localhost", port))

    async def scenario():
        (tmp_path / "tls.crt").write_bytes(identity.certificate)
        (tmp_path / "tls.key").write_bytes(identity.key)
        settings = PickerSettings(
            host="localhost", port=0, health_port=-1, identity=identity, identity_folder=tmp_path, identity_poll_s=0.02,
            drain_s=1.0,
        )  # fmt: skip
        picker = PickerServer(StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")]), load(""), settings)
        await picker.start()
        try:
            assert await presented(picker.port) in identity.certificate.decode()
            (tmp_path / "tls.key").write_bytes(b"not a key")
            await asyncio.sleep(0.1)
            assert await presented(picker.port) in identity.certificate.decode()
            (tmp_path / "tls.crt").write_bytes(client_identity.certificate)
            (tmp_path / "tls.key").write_bytes(client_identity.key)
            for _ in range(200):
                if await presented(picker.port) in client_identity.certificate.decode():
                    return True
                await asyncio.sleep(0.02)
            return False
        finally:
            await picker.stop()

    assert run(scenario())
