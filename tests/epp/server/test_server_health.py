"""The health service of both servers, called by the gRPC project's client."""

import contextlib

import grpc
import pytest

from modelplane.epp.server.health import CHECK, WATCH, HealthService
from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.wire import nested

SERVING, NOT_SERVING, UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def question(name):
    return nested(1, name.encode()) if name else b""


@contextlib.asynccontextmanager
async def probing(make_server, health):
    server = make_server(health.methods, Settings())
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


@pytest.mark.parametrize("ready", [True, False])
def test_probes(make_server, run, ready):
    names = ["", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor", "inference-extension", "liveness"]

    async def scenario():
        async with probing(make_server, HealthService(lambda: ready)) as channel:
            return [await channel.unary_unary(CHECK)(question(name)) for name in names]

    assert run(scenario()) == [SERVING if ready else NOT_SERVING] * 4 + [SERVING]


@pytest.mark.parametrize(
    ("message", "code"),
    [(question("another"), grpc.StatusCode.NOT_FOUND), (b"\xff", grpc.StatusCode.INVALID_ARGUMENT)],
)
def test_questions_without_an_answer(make_server, run, message, code):
    async def scenario():
        async with probing(make_server, HealthService(lambda: True)) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(CHECK)(message)
            return refused.value.code()

    assert run(scenario()) is code


def test_watching(make_server, run):
    state = [True]
    health = HealthService(lambda: state[0])

    async def scenario():
        async with probing(make_server, health) as channel:
            watch = channel.unary_stream(WATCH)(question("readiness"))
            steps = [await watch.read()]
            health.refresh()
            state[0] = False
            health.refresh()
            steps.append(await watch.read())
            health.close()
            steps.append(await watch.code())
            return steps

    assert run(scenario()) == [SERVING, NOT_SERVING, grpc.StatusCode.UNAVAILABLE]


def test_watching_an_unknown_name(make_server, run):
    async def scenario():
        async with probing(make_server, HealthService(lambda: True)) as channel:
            watch = channel.unary_stream(WATCH)(question("another"))
            steps = await watch.read()
            watch.cancel()
            return steps

    assert run(scenario()) == UNKNOWN
