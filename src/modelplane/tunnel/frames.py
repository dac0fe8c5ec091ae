"""The wire of a tunnel: messages of a WebSocket, each one frame of one stream.

    type     1 byte
    stream   4 bytes, chosen by the hub
    payload  at most 64 KiB

A stream is one HTTP request. The hub sends HEAD, BODY and END, the agent answers with the same; WINDOW gives credit
back, and RESET ends a stream in the middle, with the reason. Credit counts bytes of BODY.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from modelplane.api.errors import ModelplaneError

MAX_PAYLOAD = 64 * 1024
MAX_FRAME = MAX_PAYLOAD + 5
MAX_MESSAGE = MAX_FRAME + 1
"""As the WebSocket counts: it refuses a message of this size."""
WINDOW_BYTES = 256 * 1024
"""What may be under way in one direction of a stream."""
MAX_STREAMS = 256
_HEADER = struct.Struct("!BI")
_CREDIT = struct.Struct("!I")


class TunnelError(ModelplaneError):
    """The other end does not keep to the protocol, or is gone."""


class TunnelFrameType(IntEnum):
    HEAD = 1
    BODY = 2
    END = 3
    RESET = 4
    WINDOW = 5


class TunnelFrame(msgspec.Struct, frozen=True):
    type: TunnelFrameType
    stream: int
    payload: bytes = b""

    @property
    def credit(self) -> int:
        """Of a WINDOW."""
        if len(self.payload) != _CREDIT.size:
            raise TunnelError("a WINDOW frame without a number")
        return int(_CREDIT.unpack(self.payload)[0])


class TunnelRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    """With the query, as it was sent."""
    headers: tuple[tuple[str, str], ...] = ()


class TunnelResponse(msgspec.Struct, frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...] = ()


def window(stream: int, credit: int) -> TunnelFrame:
    return TunnelFrame(TunnelFrameType.WINDOW, stream, _CREDIT.pack(credit))


def encode_frame(frame: TunnelFrame) -> bytes:
    if len(frame.payload) > MAX_PAYLOAD:
        raise TunnelError(f"a frame of {len(frame.payload)} bytes; {MAX_PAYLOAD} are the most")
    return _HEADER.pack(frame.type, frame.stream) + frame.payload


def decode_frame(message: bytes) -> TunnelFrame:
    if not _HEADER.size <= len(message) <= MAX_FRAME:
        raise TunnelError(f"a frame of {len(message)} bytes")
    number, stream = _HEADER.unpack_from(message)
    try:
        return TunnelFrame(TunnelFrameType(number), stream, message[_HEADER.size :])
    except ValueError:
        raise TunnelError(f"a frame of type {number}") from None


HOP_BY_HOP = frozenset(
    {"connection", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
"""Headers of one connection, which end with it."""


def end_to_end(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Headers that go on, as plain texts: the library's own are of another type."""
    return tuple((str(name), str(text)) for name, text in headers if name.lower() not in HOP_BY_HOP)
