"""HTTP trailers, which the usual clients and servers drop: a server that returns them, and a request that has them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

SENT, RETURNED = "x-kit-sent", "x-kit-returned"
"""Trailers: of the request, and of the response."""
_VALUE = "last"


class TrailerResponse(NamedTuple):
    status: str
    reached: Mapping[str, str]
    """The trailers that the server received."""
    trailers: Mapping[str, str]


@asynccontextmanager
async def trailer_server() -> AsyncIterator[str]:
    """The address of a server whose responses say which trailers it got, and end with one of their own."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
        await reader.readuntil(b"\r\n\r\n")
        _, trailers = await _chunked(reader)
        body = json.dumps(trailers).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n" + _written(body, RETURNED))
        await writer.drain()
    writer.close()


async def send_chunked(
    port: int, path: str, body: bytes, headers: Mapping[str, str], *, trailer: str = ""
) -> TrailerResponse:
    """Send a request in chunks, with a trailer if one is named, to a local port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"POST {path} HTTP/1.1", "host: kit", "content-type: application/json", "connection: close"]
    lines += ["transfer-encoding: chunked", *(f"{name}: {text}" for name, text in headers.items())]
    try:
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + _written(body, trailer))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = head.partition("\r\n")[0].partition(" ")[2]
        if "transfer-encoding: chunked" not in head:
            return TrailerResponse(status, {}, {})
        content, trailers = await _chunked(reader)
        return TrailerResponse(status, json.loads(content), trailers)
    finally:
        writer.close()


def _written(body: bytes, trailer: str) -> bytes:
    last = f"{trailer}: {_VALUE}\r\n" if trailer else ""
    return b"%x\r\n%b\r\n0\r\n" % (len(body), body) + f"{last}\r\n".encode()


async def _chunked(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, str]]:
    """A body in chunks, and its trailers."""
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    trailers = {}
    while line := (await reader.readline()).strip():
        name, _, text = line.decode().partition(":")
        trailers[name.lower()] = text.strip()
    return body, trailers
