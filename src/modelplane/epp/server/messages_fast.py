"""The messages of a request that came whole at once, as most do in full duplex: read without decoding each of them.

Its gain: design/0011-http2.md.
"""

from collections.abc import Sequence
from typing import Final

from modelplane.epp.server.messages import read
from modelplane.epp.server.processing_request import ProcessingPhase, ProcessingRequest
from modelplane.epp.transport.wire import WireError

_HEADERS_TAG: Final = 0x12
_BODY_TAG: Final = 0x22
_INNER_TAG: Final = 0x0A
_ONE_BYTE: Final = 0x80
_LEAST_BYTES: Final = 6
_MOST_TAIL: Final = 512
_BODY: Final = ProcessingPhase.REQUEST_BODY
_THE_END: Final = b"\x10\x01"
_AND_AN_END: Final = 3
_MOST_TAILS: Final = 256
_TAILS: Final[dict[bytes, ProcessingRequest]] = {}
"""Decoded fields after the headers or after a body chunk in their message."""
_ENDS: Final[set[bytes]] = set()
"""Decoded messages that only end a body."""


def read_whole(received: Sequence[bytes]) -> tuple[bytes, bytes, ProcessingRequest] | None:
    """A request that arrived whole: its header map, undecoded, its body, and the other fields of its headers message.

    Two messages or three: headers that do not end the stream; the whole body; and the end of the stream, if not in the
    body. None for other messages, or for another encoding than Envoy's: `read` decodes all of them.
    """
    head, body = _inside(received[0], _HEADERS_TAG), _inside(received[1], _BODY_TAG)
    if head is None or head[1] or head[2].observed or body is None or body[2].observed:
        return None
    if len(received) < _AND_AN_END:
        is_whole = body[1] == _THE_END
    else:
        is_whole = not body[1] and (received[2] in _ENDS or _is_end(received[2]))
    return (head[0], body[0], head[2]) if is_whole else None


def _is_end(message: bytes) -> bool:
    parsed = _try_read(message)
    if parsed is None or parsed.phase is not _BODY or not parsed.ends or parsed.body or parsed.observed:
        return False
    if len(_ENDS) < _MOST_TAILS:
        _ENDS.add(message)
    return True


def _try_read(message: bytes) -> ProcessingRequest | None:
    if len(message) > _MOST_TAIL:
        return None
    try:
        return read(message)
    except WireError:
        return None


def _inside(message: bytes, tag: int) -> tuple[bytes, bytes, ProcessingRequest] | None:
    """Of a nested field: the inner one, the rest of the outer one, and the rest after that."""
    if len(message) < _LEAST_BYTES or message[0] != tag:
        return None
    length, place = message[1], 2
    if length >= _ONE_BYTE:
        length, place = length & 0x7F | message[2] << 7, 3
    last = place + length
    if message[place - 1] >= _ONE_BYTE or last > len(message) or length < _LEAST_BYTES or message[place] != _INNER_TAG:
        return None
    length, place = message[place + 1], place + 2
    if length >= _ONE_BYTE:
        length, place = length & 0x7F | message[place] << 7, place + 1
    end = place + length
    if message[place - 1] >= _ONE_BYTE or end > last:
        return None
    tail = message[last:]
    parsed = _TAILS.get(tail) or _read_tail(tail)
    return None if parsed is None else (message[place:end], message[end:last], parsed)


def _read_tail(tail: bytes) -> ProcessingRequest | None:
    parsed = _try_read(tail)
    if parsed is None or parsed.phase:
        return None
    if len(_TAILS) < _MOST_TAILS:
        _TAILS[tail] = parsed
    return parsed
