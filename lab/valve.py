"""A valve between a client and a server on loopback: while it is shut, nothing that the server says arrives.

Connections stay open meanwhile and requests still reach the server, as over a network that lost one direction. To open
it cuts them all, so that clients connect anew.
"""

from __future__ import annotations

import asyncio
import contextlib

from lab.cluster import LOOPBACK

_CHUNK = 65_536


class Valve:
    """Forwards each connection on its port to the target's."""

    def __init__(self, port: int, target: int) -> None:
        """Nothing listens before `start`."""
        self.port, self._target = port, target
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._forwarding: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, LOOPBACK, self.port)

    async def stop(self) -> None:
        """Ends every connection too."""
        if self._server is not None:
            self._server.close()
            self.open()
            await asyncio.gather(*self._forwarding, return_exceptions=True)

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        for writer in tuple(self._writers):
            writer.close()
        self._open.set()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection(LOOPBACK, self._target)
        except OSError:
            writer.close()
            return
        ends = {writer, requests}
        self._writers |= ends
        pumps = {
            asyncio.create_task(_pump(reader, requests, None)),
            asyncio.create_task(_pump(answers, writer, self._open)),
        }
        self._forwarding |= pumps
        try:
            await asyncio.gather(*pumps)
        finally:
            self._writers -= ends
            self._forwarding -= pumps


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event | None) -> None:
    """Until either end closes; then both are closed."""
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            if gate is not None:
                await gate.wait()
            writer.write(chunk)
            await writer.drain()
