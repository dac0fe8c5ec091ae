"""The valve of the lab: what a server says is held back while it is shut, and connections are cut when it opens."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from lab.valve import Valve
from modelplane.envoy.ports import free_port


@asynccontextmanager
async def an_echo(said):
    async def answer(reader, writer):
        while line := await reader.readline():
            said.append(line)
            writer.write(line.upper())
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def within(seconds, awaited):
    async with asyncio.timeout(seconds):
        return await awaited


def test_requests_pass_and_answers_wait_until_the_connection_is_cut():
    async def story():
        said = []
        async with an_echo(said) as target:
            valve = Valve(free_port(), target)
            await valve.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", valve.port)
            writer.write(b"one\n")
            assert await within(5, reader.readline()) == b"ONE\n"
            valve.shut()
            writer.write(b"two\n")
            with pytest.raises(TimeoutError):
                await within(0.2, reader.readline())
            assert said == [b"one\n", b"two\n"]
            valve.open()
            await within(5, reader.read())
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", valve.port)
            writer.write(b"three\n")
            assert await within(5, reader.readline()) == b"THREE\n"
            writer.close()
            await valve.stop()

    asyncio.run(story())
