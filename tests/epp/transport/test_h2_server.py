"""The server's links: what becomes of them when their peers go."""

import socket

from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.frames import PREFACE, FrameType, frame
from modelplane.epp.transport.h2.server import H2Server
from tests.support.waiting import until


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
