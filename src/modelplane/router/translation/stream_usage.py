"""The usage of a stream whose client did not want it: requested on the way, and taken out again.

OpenAI's servers tell what a stream used only where `stream_options.include_usage` is set, in a chunk of its own. Limits
and budgets need it; a client that did not may stumble over a chunk without choices.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane.router.messages import Headers
from modelplane.router.translation.values import TranslationError, decode_object, object_at

_EVENTS: Final = "text/event-stream"
_DATA: Final = b"data:"
_USAGE: Final = b'"usage"'
_LONGEST: Final = 1 << 20


def with_usage(body: bytes) -> bytes | None:
    """The body that requests it; None where it is no stream, does so already, or cannot be read."""
    try:
        given = decode_object(body)
        options = object_at(given, "stream_options")
    except TranslationError:
        return None
    if given.get("stream") is not True or options.get("include_usage") is True:
        return None
    return msgspec.json.encode({**given, "stream_options": {**options, "include_usage": True}})


class HidesUsage:
    """Leaves the chunk with the usage out of a stream (a `BodyTranslator`). Everything else passes as it is."""

    def __init__(self) -> None:
        self._streams = False
        self._held = b""

    def begin(self, status: int, headers: Mapping[str, str], /) -> Headers:
        del status
        self._streams = headers.get("content-type", "").startswith(_EVENTS)
        return ()

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        if not self._streams:
            return piece
        text = self._held + piece
        whole = len(text) if ends or len(text) > _LONGEST else text.rfind(b"\n") + 1
        self._held = text[whole:]
        lines = text[:whole]
        if _USAGE not in lines:
            return lines
        # The empty line that ends the event stays, and is an event without data, which is none.
        return b"".join(each for each in lines.splitlines(keepends=True) if not _is_usage(each))


def _is_usage(line: bytes) -> bool:
    if not line.startswith(_DATA) or _USAGE not in line:
        return False
    try:
        found = decode_object(line[len(_DATA) :].strip())
    except TranslationError:
        return False
    return found.get("choices") == [] and isinstance(found.get("usage"), dict)
