"""Calls by the gRPC project's own client, to the small server and to the reference alike."""

import asyncio
import contextlib

import grpc
import pytest

from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.tls import ServerIdentity
from tests.support.waiting import until

ECHO = "/test.Echo/Talk"


@contextlib.asynccontextmanager
async def serving(make_server, methods, settings):
    server = make_server(methods, settings)
    port = await server.start()
    try:
        yield f"{settings.host}:{port}"
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def talking(make_server, methods, settings=None):
    async with serving(make_server, methods, settings or Settings()) as address:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            yield channel.stream_stream(ECHO)


async def exchange(call, *messages):
    async def sent():
        for message in messages:
            yield message

    return [message async for message in call(sent())]


async def status_of(call, *messages, **options):
    async def sent():
        for message in messages:
            yield message

    try:
        async for _ in call(sent(), **options):
            pass
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def test_messages_come_back_in_order(make_server, methods, log, run):
    async def scenario():
        async with talking(make_server, methods) as call:
            return await exchange(call, b"a", b"", b"b" * 70_000, b"thrice", b"z")

    assert run(scenario()) == [b"a", b"", b"b" * 70_000, b"one", b"two", b"three", b"z"]
    assert log == ["opened", "closed"]


def test_an_answer_may_come_later(make_server, methods, run):
    async def scenario():
        async with talking(make_server, methods) as call:
            talk = call()
            await talk.write(b"later")
            answer = await talk.read()
            await talk.done_writing()
            return answer, await talk.read()

    assert run(scenario()) == (b"waited", grpc.aio.EOF)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([b"a"], (grpc.StatusCode.OK, "")),
        ([], (grpc.StatusCode.OK, "")),
        ([b"a", b"end"], (grpc.StatusCode.OK, "")),
        ([b"refuse"], (grpc.StatusCode.RESOURCE_EXHAUSTED, "no room: 100 % full\n")),
        ([b"a", b"refuse"], (grpc.StatusCode.RESOURCE_EXHAUSTED, "no room: 100 % full\n")),
        ([b"fail"], (grpc.StatusCode.INTERNAL, "the server failed to serve this call")),
    ],
    ids=["closed", "empty", "ended by the server", "refused at once", "refused after an answer", "failed"],
)
def test_how_calls_end(make_server, methods, run, messages, expected):
    async def scenario():
        async with talking(make_server, methods) as call:
            ended = await status_of(call, *messages)
            assert await exchange(call, b"still") == [b"still"]
            return ended

    assert run(scenario()) == expected


def test_a_path_that_is_not_served(make_server, methods, run):
    async def scenario():
        async with (
            serving(make_server, methods, Settings()) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            return await status_of(channel.stream_stream("/test.Echo/Nothing"))

    assert run(scenario())[0] is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_that_is_too_large(make_server, methods, run):
    async def scenario():
        async with talking(make_server, methods, Settings(message_bytes=1000)) as call:
            fits = await exchange(call, b"a" * 1000)
            return fits, (await status_of(call, b"a" * 1001))[0]

    assert run(scenario()) == ([b"a" * 1000], grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_compressed_messages_are_refused_by_the_small_server(methods, run):
    async def scenario():
        async with talking(H2Server, methods) as call:
            return await status_of(call, b"a" * 1000, compression=grpc.Compression.Gzip)

    assert run(scenario()) == (grpc.StatusCode.UNIMPLEMENTED, "compressed messages are not accepted")


def test_a_caller_that_gives_up(make_server, methods, log, run):
    async def scenario():
        async with talking(make_server, methods) as call:
            talk = call()
            await talk.write(b"a")
            await talk.read()
            talk.cancel()
            await until(lambda: "cancelled" in log)

    run(scenario())
    assert log == ["opened", "cancelled"]


def test_idle_calls_get_later_messages_and_their_end(make_server, methods, log, run):
    async def scenario():
        async with talking(make_server, methods) as call:
            first, second = call(), call()
            heard = []
            for talk in (first, second, first):
                await talk.write(b"rest")
                heard.append(await talk.read())
            await first.write(b"")
            heard.append(await first.read())
            first.cancel()
            await second.done_writing()
            heard.append(await second.read())
            await until(lambda: len(log) == 4)
            return heard

    assert run(scenario()) == [b"rest", b"rest", b"rest", b"", grpc.aio.EOF]
    assert sorted(log) == ["cancelled", "closed", "opened", "opened"]


def test_a_call_beyond_its_deadline(make_server, methods, log, run):
    async def scenario():
        async with talking(make_server, methods) as call:
            talk = call(timeout=1.0)
            await talk.write(b"silent")
            code = await talk.code()
            await until(lambda: "cancelled" in log)
            return code

    assert run(scenario()) is grpc.StatusCode.DEADLINE_EXCEEDED


def test_many_calls_at_once_with_more_than_the_windows_hold(make_server, methods, run):
    """The client's windows are 64 kB at first: most of this has to wait for updates."""

    async def scenario():
        async with talking(make_server, methods) as call:
            return await asyncio.gather(*(exchange(call, b"many 300", b"x" * 200_000) for _ in range(20)))

    answers = run(scenario())
    assert [[len(message) for message in answer] for answer in answers] == [[1000] * 300 + [200_000]] * 20


def test_stopping_lets_calls_end_and_takes_no_new_ones(make_server, methods, log, run):
    async def scenario():
        server = make_server(methods, Settings())
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_stream(ECHO)
            talk = call()
            await talk.write(b"a")
            assert await talk.read() == b"a"
            stopping = asyncio.create_task(server.stop(30))
            await asyncio.sleep(0.1)
            await talk.write(b"b")
            assert await talk.read() == b"b"
            assert (await status_of(call, b"c"))[0] is grpc.StatusCode.UNAVAILABLE
            await talk.done_writing()
            assert await talk.read() is grpc.aio.EOF
            await stopping
            return await talk.code()

    assert run(scenario()) is grpc.StatusCode.OK
    assert log == ["opened", "closed"]


def test_stopping_cuts_what_does_not_end(make_server, methods, log, run):
    async def scenario():
        server = make_server(methods, Settings())
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            talk = channel.stream_stream(ECHO)()
            await talk.write(b"a")
            await talk.read()
            await server.stop(0.05)
            code = await talk.code()
            await until(lambda: "cancelled" in log)
            return code

    assert run(scenario()) in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert log == ["opened", "cancelled"]


def test_tls(make_server, methods, identity, run):
    async def scenario():
        credentials = grpc.ssl_channel_credentials(identity.certificate)
        async with (
            serving(make_server, methods, Settings(host="localhost", identity=identity)) as address,
            grpc.aio.secure_channel(address, credentials) as channel,
        ):
            return await exchange(channel.stream_stream(ECHO), b"a", b"b" * 500_000)

    assert run(scenario()) == [b"a", b"b" * 500_000]


@pytest.mark.parametrize("known", [True, False])
def test_clients_that_must_show_a_certificate(make_server, methods, identity, client_identity, run, known):
    async def scenario():
        strict = ServerIdentity(identity.certificate, identity.key, clients=client_identity.certificate)
        credentials = grpc.ssl_channel_credentials(
            identity.certificate, *((client_identity.key, client_identity.certificate) if known else ())
        )
        async with (
            serving(make_server, methods, Settings(host="localhost", identity=strict)) as address,
            grpc.aio.secure_channel(address, credentials) as channel,
        ):
            return (await status_of(channel.stream_stream(ECHO), b"a"))[0]

    assert run(scenario()) is (grpc.StatusCode.OK if known else grpc.StatusCode.UNAVAILABLE)
