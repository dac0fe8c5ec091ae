import asyncio

import pytest

from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.probes import is_healthy


async def probed(answer, *, path="/ready", timeout_s=30.0):
    asked, closed = [], asyncio.Event()

    async def serve(reader, writer):
        asked.append(await reader.readline())
        writer.write(answer)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        running = Running("127.0.0.1", server.sockets[0].getsockname()[1])
        found = await is_healthy(running, path, timeout_s=timeout_s)
        await closed.wait()
    return asked, found, running


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 204\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1\r\n", False),
        (b"nonsense with words\r\n", False),
        (b"\r\n", False),
    ],
)
def test_a_status_of_200_to_399_is_a_success(answer, healthy):
    asked, found, _ = asyncio.run(probed(answer))
    assert (asked, found) == ([b"GET /ready HTTP/1.1\r\n"], healthy)


def test_silence_and_a_closed_port_are_failures():
    async def main():
        _, silent, running = await probed(b"", timeout_s=0.2)
        return silent, await is_healthy(running, timeout_s=30.0)

    assert asyncio.run(main()) == (False, False)
