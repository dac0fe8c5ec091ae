"""HTTP/2 on the wire: numbers of RFC 9113 and how frames are written."""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
LARGEST_WINDOW: Final = 0x7FFFFFFF
FIRST_WINDOW: Final = 65_535
LEAST_FRAME_BYTES: Final = 16_384
MOST_FRAME_BYTES: Final = 16_777_215
LAST_STREAM: Final = 0x7FFFFFFF

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20

PING_BYTES: Final = 8
RESET_BYTES: Final = 4
WINDOW_BYTES: Final = 4
PRIORITY_BYTES: Final = 5
SETTING_BYTES: Final = 6
GOAWAY_BYTES: Final = 8

_FRAME: Final = struct.Struct(">HBBBI")
_SETTING: Final = struct.Struct(">HI")
_NUMBER: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">BI")


class FrameType(IntEnum):
    """Frame types."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Setting(IntEnum):
    """Settings that are read or written here."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Error codes."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class H2ConnectionError(Exception):
    """A connection error of RFC 9113: the connection is closed."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class H2StreamError(Exception):
    """A stream error of RFC 9113: other streams continue."""

    def __init__(self, stream: int, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.stream = stream
        self.code = code


def head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """The nine bytes before a payload."""
    return _FRAME.pack(length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head(kind, flags, stream, len(payload)) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def reset(stream: int, code: int) -> bytes:
    return frame(FrameType.RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: int, sentence: str = "") -> bytes:
    return frame(FrameType.GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + sentence.encode()[:200])


def message(payload: bytes) -> bytes:
    """A gRPC message with its prefix, not compressed."""
    return _PREFIX.pack(0, len(payload)) + payload


read_head: Final[Callable[[bytes, int], tuple[int, int, int, int, int]]] = _FRAME.unpack_from
"""The length's upper two bytes and its last, the type, flags and stream of the frame at a place."""


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    return list(_SETTING.iter_unpack(payload))


SETTINGS_ACK: Final = frame(FrameType.SETTINGS, ACK, 0)
