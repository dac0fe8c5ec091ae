"""Messages on a stream: the length of each in 4 bytes, big endian, and the message."""

import asyncio
from typing import Final

_LENGTH: Final = 4


class FrameTooLong(Exception):  # noqa: N818  named like the other refusals of a peer's bytes
    """A peer announced more than is read."""


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(_LENGTH) + message


async def read_frame(reader: asyncio.StreamReader, most_bytes: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH))
    if length > most_bytes:
        raise FrameTooLong(f"a frame of {length} bytes")
    return await reader.readexactly(length)
