"""Reads the usage of a response from a byte stream with arbitrary chunks.

A streamed response is read line by line; an incomplete line waits for its rest. OpenAI's APIs send all usage in one
event, Anthropic's send the prompt at the beginning and the output at the end, so later numbers are merged with earlier
ones field by field. Invalid numbers are ignored: no response of an engine can fail the picker.
"""

from typing import Final

import msgspec

from modelplane.epp.scheduling.response_usage import ResponseUsage

_LONGEST_LINE: Final = 1 << 20
_LONGEST_BODY: Final = 8 << 20
_DATA: Final = b"data:"
_USAGE: Final = b'"usage"'
_LARGEST: Final = 1 << 53
_ABSENT: Final = msgspec.Raw()


class _Holder(msgspec.Struct):
    """The positions of usage: top level, in a completed response, or in a message start."""

    usage: msgspec.Raw = _ABSENT
    response: msgspec.Raw = _ABSENT
    message: msgspec.Raw = _ABSENT


_HOLDER: Final = msgspec.json.Decoder(_Holder)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY: Final = msgspec.json.Decoder()
_PROMPT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_CACHED: Final = ("cache_read_input_tokens",)
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")


def read_usage(document: bytes) -> ResponseUsage:
    """The usage of one JSON document: an event or a whole body."""
    holder = _decode_holder(document)
    if holder is None:
        return ResponseUsage()
    for raw in (holder.response, holder.message):
        inner = None if raw is _ABSENT else _decode_holder(bytes(raw))
        if inner is not None and inner.usage is not _ABSENT:
            return _numbers(bytes(inner.usage))
    return ResponseUsage() if holder.usage is _ABSENT else _numbers(bytes(holder.usage))


def _decode_holder(document: bytes) -> _Holder | None:
    try:
        return _HOLDER.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _numbers(raw: bytes) -> ResponseUsage:
    fields = _read_fields(raw)
    cached = _first(fields, _CACHED)
    for name in _DETAILS:
        if cached < 0 and name in fields:
            cached = _first(_read_fields(bytes(fields[name])), ("cached_tokens",))
    return ResponseUsage(_first(fields, _PROMPT), _first(fields, _OUTPUT), cached)


def _read_fields(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _FIELDS.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def _first(fields: dict[str, msgspec.Raw], names: tuple[str, ...]) -> int:
    for name in names:
        if name in fields:
            text = bytes(fields[name])
            if text.isdigit() and int(text[:20]) < _LARGEST:
                return int(text)
    return -1


def join(earlier: ResponseUsage, later: ResponseUsage) -> ResponseUsage:
    """The fields of both; the later number if both have one."""
    pairs = zip(msgspec.structs.astuple(later), msgspec.structs.astuple(earlier), strict=True)
    return ResponseUsage(*(new if new >= 0 else old for new, old in pairs))


class UsageReader:
    """Reads one response."""

    __slots__ = ("_held", "_lost", "_streaming", "usage")

    def __init__(self, *, streaming: bool) -> None:
        self.usage = ResponseUsage()
        self._streaming = streaming
        self._held = bytearray()
        self._lost = False
        """Too long to buffer: the line, or the body, is dropped."""

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        if self._streaming:
            self._feed_lines(piece)
        elif not self._lost:
            self._held += piece
            if len(self._held) > _LONGEST_BODY:
                self._lost = True
                self._held.clear()

    def end(self) -> ResponseUsage:
        """Nothing more comes."""
        if self._held and not self._lost:
            if self._streaming:
                self._line(bytes(self._held))
            else:
                self.usage = join(self.usage, read_usage(bytes(self._held)))
        self._held.clear()
        return self.usage

    def _feed_lines(self, piece: bytes) -> None:
        end = piece.rfind(b"\n") + 1
        if not end:
            self._hold(piece)
            return
        lines = bytes(self._held) + piece[:end]
        lost, self._lost = self._lost, False
        self._held.clear()
        if lost:
            lines = lines[lines.index(b"\n") :]
        self._hold(piece[end:])
        # Most events are tokens; one search over all of them is cheaper than one search each.
        if _USAGE in lines:
            for line in lines.split(b"\n"):
                self._line(line)

    def _hold(self, piece: bytes) -> None:
        if self._lost:
            return
        self._held += piece
        if len(self._held) > _LONGEST_LINE:
            self._lost = True
            self._held.clear()

    def _line(self, line: bytes) -> None:
        if line.startswith(_DATA) and _USAGE in line:
            self.usage = join(self.usage, read_usage(line[len(_DATA) :].strip()))


class ModelRenamer:
    """Replaces the name of the serving model in a response by the requested name.

    A name that is cut between two pieces is found too: bytes that may be the beginning of one wait for the next piece.
    """

    __slots__ = ("_held", "_new", "_old")

    def __init__(self, served: str, requested: str) -> None:
        name = msgspec.json.encode(served)
        self._old = (b'"model":' + name, b'"model": ' + name)
        new = msgspec.json.encode(requested)
        self._new = (b'"model":' + new, b'"model": ' + new)
        self._held = b""

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        """The bytes to pass on."""
        data = self._held + piece
        for old, new in zip(self._old, self._new, strict=True):
            data = data.replace(old, new)
        keep = 0 if ends else self._beginning(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def _beginning(self, data: bytes) -> int:
        """How many of the last bytes may begin a name."""
        for size in range(min(len(data), max(map(len, self._old)) - 1), 0, -1):
            tail = data[-size:]
            if any(old.startswith(tail) for old in self._old):
                return size
        return 0
