"""The server's links: what becomes of them when their peers go."""

import asyncio
import socket

import grpc

from modelplane.epp.transport.calls import NO_PORT, Settings
from modelplane.epp.transport.h2.frames import PREFACE, FrameType, frame
from modelplane.epp.transport.h2.server import H2Server
from tests.support.waiting import until

ECHO = "/test.Echo/Talk"


def test_a_peer_that_resets_is_gone(run):
    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        with socket.create_connection(("127.0.0.1", await server.start())) as peer:
            peer.sendall(PREFACE + frame(FrameType.SETTINGS, 0, 0))
            await until(lambda: server._links)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await until(lambda: not server._links)
        await server.stop(5.0)

    run(scenario())


def test_connections_that_another_accepted_are_served_and_released(methods, run):
    """A server without a port. A client whose connection is released opens another for its next call."""

    async def scenario():
        server, loop = H2Server(methods, Settings(port=NO_PORT)), asyncio.get_running_loop()
        assert await server.start() == NO_PORT
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)

            async def accept():
                connection, _ = await loop.sock_accept(listening)
                await server.adopt(connection)

            async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.getsockname()[1]}") as channel:
                counts = []
                for _ in range(2):
                    accepting = asyncio.create_task(accept())
                    echoed = await (call := channel.stream_stream(ECHO)(iter([b"hello"]))).read()
                    await call.code()
                    await accepting
                    counts.append((echoed, server.connections))
                    server.release_connection()
                    counts.append(server.connections)
                    await until(lambda: not server._links)
                server.release_connection()
        await server.stop(5.0)
        return counts

    assert run(scenario()) == [(b"hello", 1), 0, (b"hello", 1), 0]
