"""Ports of 127.0.0.1 at hosts of their own: engines that share a machine look as if each had its own address."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

EVENTS_PORT: Final = 5557
REPLAY_PORT: Final = 5558


@contextlib.asynccontextmanager
async def relays(sockets: Mapping[str, tuple[int, int]]) -> AsyncIterator[None]:
    """By host: what is behind its `EVENTS_PORT` and `REPLAY_PORT`."""
    async with contextlib.AsyncExitStack() as stack:
        for host, ports in sockets.items():
            for listened, behind in zip((EVENTS_PORT, REPLAY_PORT), ports, strict=True):
                server = await asyncio.start_server(_relay_to(behind), host, listened)
                stack.push_async_callback(_close, server)
        yield


def _relay_to(port: int):  # type: ignore[no-untyped-def]  # noqa: ANN202  a callback of streams
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()

    return relay


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
