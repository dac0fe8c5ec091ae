"""Messages of Envoy's external processing (`envoy.service.ext_proc.v3`): the part that a picker reads and writes.

Hand-written, because the request path takes microseconds: replies are constant except for the endpoint, so they are
built once and cached, and of Envoy's messages only headers, bodies and two metadata keys are read. Unknown fields are
skipped, as the format requires.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from modelplane.epp.server.processing_request import ProcessingPhase, ProcessingRequest
from modelplane.epp.transport.wire import WireError, fields, first_field, nested, number, varint, whole

METHOD: Final = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
SUBSET_NAMESPACE: Final = b"envoy.lb.subset_hint"
LB_NAMESPACE: Final = b"envoy.lb"


_OBSERVABILITY: Final = 10
_BODY_TAG: Final = 0x0A
_FEW_BYTES: Final = 16
_LARGE_BYTES: Final = 16_384
_BODY_PHASES: Final = {0x22: ProcessingPhase.REQUEST_BODY, 0x2A: ProcessingPhase.RESPONSE_BODY}
"""By the first byte of a message."""
_THE_END: Final = b"\x10\x01"
_MOST_SHORT: Final = 256
_SHORT: dict[bytes, ProcessingRequest] = {}
"""Decoded short messages: each request has one that only ends its body."""


def read(message: bytes) -> ProcessingRequest:
    """A ProcessingRequest, not to be changed. Bytes that are none raise WireError."""
    found = _SHORT.get(message) if len(message) <= _FEW_BYTES else None
    if found is None:
        found = _read(message)
        if len(message) <= _FEW_BYTES and len(_SHORT) < _MOST_SHORT:
            _SHORT[message] = found
    return found


def _read(message: bytes) -> ProcessingRequest:
    found = ProcessingRequest()
    place = _read_large_body(found, message) if len(message) >= _LARGE_BYTES else 0
    for field, value in fields(message[place:] if place else message):
        reader = _READERS.get(field)
        if reader is None:
            if field == _OBSERVABILITY:
                found.observed = bool(value)
        elif isinstance(value, bytes):
            reader(found, value)
    return found


def _read_large_body(found: ProcessingRequest, message: bytes) -> int:
    """A body at the beginning of a message, copied once and not with everything around it; where it ends, else 0."""
    phase = _BODY_PHASES.get(message[0])
    if phase is None:
        return 0
    length, place = varint(message, 1)
    last = place + length
    if last > len(message) or length < 1 or message[place] != _BODY_TAG:
        return 0
    length, place = varint(message, place + 1)
    end = place + length
    if end > last:
        return 0
    found.phase, found.body = phase, message[place:end]
    _read_body(found, message[end:last])
    return last


@lru_cache(maxsize=64)
def _read_modes(data: bytes) -> tuple[int, int]:
    modes = {field: value for field, value in fields(data) if isinstance(value, int)}
    return modes.get(1, 0), modes.get(2, 0)


def _read_protocol(found: ProcessingRequest, data: bytes) -> None:
    found.request_mode, found.response_mode = _read_modes(data)


def _read_context(found: ProcessingRequest, data: bytes) -> None:
    found.metadata += data


def _read_attributes(found: ProcessingRequest, data: bytes) -> None:
    found.attributes += nested(1, data)


def _read_request_headers(found: ProcessingRequest, data: bytes) -> None:
    found.phase = ProcessingPhase.REQUEST_HEADERS
    _read_headers(found, data)


def _read_response_headers(found: ProcessingRequest, data: bytes) -> None:
    found.phase = ProcessingPhase.RESPONSE_HEADERS
    _read_headers(found, data)


def _read_headers(found: ProcessingRequest, data: bytes) -> None:
    for field, value in fields(data):
        if field == 1 and isinstance(value, bytes):
            found.headers = read_headers(value)
        elif field == 3 and isinstance(value, int):  # noqa: PLR2004  the field's number
            found.ends = bool(value)


def _read_request_body(found: ProcessingRequest, data: bytes) -> None:
    found.phase = ProcessingPhase.REQUEST_BODY
    _read_body(found, data)


def _read_response_body(found: ProcessingRequest, data: bytes) -> None:
    found.phase = ProcessingPhase.RESPONSE_BODY
    _read_body(found, data)


def _read_body(found: ProcessingRequest, data: bytes) -> None:
    for field, value in fields(data):
        if isinstance(value, bytes):
            if field == 1:
                found.body = value
        elif field in {2, 3} and value:
            found.ends = True


def _read_request_trailers(found: ProcessingRequest, _data: bytes) -> None:
    found.phase, found.ends = ProcessingPhase.REQUEST_TRAILERS, True


def _read_response_trailers(found: ProcessingRequest, _data: bytes) -> None:
    found.phase, found.ends = ProcessingPhase.RESPONSE_TRAILERS, True


_READERS: Final[dict[int, Callable[[ProcessingRequest, bytes], None]]] = {
    2: _read_request_headers,
    3: _read_response_headers,
    4: _read_request_body,
    5: _read_response_body,
    6: _read_request_trailers,
    7: _read_response_trailers,
    8: _read_context,
    9: _read_attributes,
    11: _read_protocol,
}
"""By the number of the field."""

_ONE_BYTE: Final = 0x80
_MOST_KNOWN: Final = 4096
_KNOWN: Final[dict[bytes, tuple[str, str]]] = {}
"""Decoded headers by their bytes: most headers equal those of the previous request."""


_REQUEST_ID: Final = b"\x0a\x0cx-request-id\x1a\x24"
_REQUEST_ID_BYTES: Final = len(_REQUEST_ID) + 36
"""The header that is unique to each request: caching it would only evict others."""
_LENGTH_NAME: Final = b"\x0econtent-length"
_TAGS_BYTES: Final = 3
"""The bytes of an entry before its name: its tag and length, and the name's tag."""
_MOST_BEGINNINGS: Final = 1024
_BEGINNINGS: Final[dict[bytes, dict[str, str]]] = {}
"""Decoded headers before content-length: headers that differ between requests come last."""


def read_headers(data: bytes) -> dict[str, str]:
    """A HeaderMap. Values of one name are joined by a comma; they are bytes to HTTP, and one character each here."""
    first = max(0, data.find(_LENGTH_NAME) - _TAGS_BYTES)
    known = _BEGINNINGS.get(data[:first])
    if known is not None:
        headers = known.copy()
    else:
        headers = {}
        if _read_entries(data, 0, first, headers) != first:
            # The match is inside an entry.
            headers, first = {}, 0
        if len(_BEGINNINGS) >= _MOST_BEGINNINGS:
            _BEGINNINGS.clear()
        _BEGINNINGS[data[:first]] = headers.copy()
    if _read_entries(data, first, len(data), headers) != len(data):
        raise WireError("headers end in the middle of one")
    headers.pop("", None)
    return headers


def _read_entries(data: bytes, place: int, stop: int, headers: dict[str, str]) -> int:
    """Entries from a place on, up to another; where the last of them ends."""
    while place < stop - 1:
        # Right for an entry whose length has one byte, and no entry that is known has another.
        end = place + 2 + data[place + 1]
        known = _KNOWN.get(data[place:end])
        if known is None:
            if data.startswith(_REQUEST_ID, place + 2) and data[place + 1] == _REQUEST_ID_BYTES and end <= stop:
                name, content = "x-request-id", data[place + 2 + len(_REQUEST_ID) : end].decode("latin-1")
            else:
                name, content, end = _read_header(data, place)
                _remember(data[place:end], name, content)
        else:
            name, content = known
        if name in headers:
            content = f"{headers[name]},{content}"
        headers[name] = content
        place = end
    return place


def _remember(entry: bytes, name: str, content: str) -> None:
    if name and len(entry) < _ONE_BYTE:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[entry] = (name, content)


def _read_header(data: bytes, place: int) -> tuple[str, str, int]:
    """The entry at a place, however it is written, and where the next one begins; a nameless one for other fields."""
    (field, entry), end = first_field(data, place)
    if field != 1 or not isinstance(entry, bytes):
        return "", "", end
    parts = {part: value for part, value in fields(entry) if isinstance(value, bytes)}
    content = parts.get(3) or parts.get(2, b"")
    return parts.get(1, b"").decode("latin-1").lower(), content.decode("latin-1"), end


# Metadata: google.protobuf.Struct by namespace.


@lru_cache(maxsize=1024)
def read_metadata(metadata: bytes, namespace: bytes, key: bytes) -> object:
    """A value of the metadata context or of the attributes, a string, number, truth value, list or dict; else None."""
    found: object = None
    for group in _entries(metadata, namespace):
        for value in _entries(group, key):
            found = _value(value, 0)
    return found


def _entries(data: bytes, wanted: bytes) -> list[bytes]:
    """Values of a key in a map, which is field 1 of both Metadata and Struct."""
    found = []
    for field, entry in fields(data):
        if field == 1 and isinstance(entry, bytes):
            parts = {number: value for number, value in fields(entry) if isinstance(value, bytes)}
            if parts.get(1, b"") == wanted:
                found.append(parts.get(2, b""))
    return found


_MOST_DEPTH: Final = 8
_DOUBLE_BYTES: Final = 8


def _value(data: bytes, depth: int) -> object:
    """A google.protobuf.Value."""
    found: object = None
    for field, value in fields(data):
        match field, value:
            case 2, bytes():
                found = struct.unpack("<d", value)[0] if len(value) == _DOUBLE_BYTES else None
            case 3, bytes():
                found = value.decode("utf-8", "replace")
            case 4, int():
                found = bool(value)
            case 5, bytes() if depth < _MOST_DEPTH:
                found = _struct(value, depth + 1)
            case 6, bytes() if depth < _MOST_DEPTH:
                found = [
                    _value(item, depth + 1) for number, item in fields(value) if isinstance(item, bytes) and number == 1
                ]
            case _:
                found = None
    return found


def _struct(data: bytes, depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for field, entry in fields(data):
        if field == 1 and isinstance(entry, bytes):
            parts = {number: value for number, value in fields(entry) if isinstance(value, bytes)}
            found[parts.get(1, b"").decode("utf-8", "replace")] = _value(parts.get(2, b""), depth)
    return found


# Replies: ProcessingResponse.

REPLY_FIELDS: Final = {
    ProcessingPhase.REQUEST_HEADERS: 1,
    ProcessingPhase.RESPONSE_HEADERS: 2,
    ProcessingPhase.REQUEST_BODY: 3,
    ProcessingPhase.RESPONSE_BODY: 4,
    ProcessingPhase.REQUEST_TRAILERS: 5,
    ProcessingPhase.RESPONSE_TRAILERS: 6,
}
_IMMEDIATE: Final = 7
_DYNAMIC_METADATA: Final = 8
_OVERWRITE: Final = 2
_Headers = tuple[tuple[str, str], ...]

_LEAST_OF_TWO: Final = 130
_MOST_OF_TWO: Final = 16_370
"""Sizes of a body for which all lengths around it have two bytes."""
_BODY_TAGS: Final = {ProcessingPhase.REQUEST_BODY: b"\x1a", ProcessingPhase.RESPONSE_BODY: b"\x22"}
_BODY_HEAD: Final = struct.Struct("<BHBHBHBHBH").pack
"""Tags and lengths before a body, each length of two bytes."""

UNCHANGED: Final = {phase: nested(field, b"") for phase, field in REPLY_FIELDS.items()}
"""The reply that lets something pass as it is."""


def header_mutation(set_headers: _Headers, remove_headers: tuple[str, ...]) -> bytes:
    """A HeaderMutation: headers that replace those of their name, and names to remove."""
    options = [
        nested(1, nested(1, nested(1, name.encode()) + nested(3, value.encode())) + whole(3, _OVERWRITE))
        for name, value in set_headers
    ]
    return b"".join([*options, *(nested(2, name.encode()) for name in remove_headers)])


def _struct_of(key: bytes, value: bytes) -> bytes:
    return nested(1, nested(1, key) + nested(2, value))


def _sent_on(destinations: str, set_headers: _Headers, remove_headers: tuple[str, ...]) -> tuple[bytes, bytes]:
    """The mutation of headers and the dynamic metadata that send a request to its endpoint."""
    key = "x-gateway-destination-endpoint"
    mutation = header_mutation(((key, destinations), *set_headers), remove_headers)
    inner = nested(5, _struct_of(key.encode(), nested(3, destinations.encode())))
    return mutation, nested(_DYNAMIC_METADATA, _struct_of(LB_NAMESPACE, inner))


@lru_cache(maxsize=4096)
def mutate_request(
    phase: ProcessingPhase, destinations: str, set_headers: _Headers = (), remove_headers: tuple[str, ...] = ()
) -> bytes:
    """Sends a request to the first of its destinations, by the reply to its headers or to its buffered body.

    The route is selected again with the new headers.
    """
    mutation, metadata = _sent_on(destinations, set_headers, remove_headers)
    common = nested(2, mutation) + whole(5, 1)
    return nested(REPLY_FIELDS[phase], nested(1, common)) + metadata


def mutate_request_and_body(
    destinations: str, set_headers: _Headers, remove_headers: tuple[str, ...], body: bytes
) -> bytes:
    """The reply to a buffered body that is replaced."""
    mutation, metadata = _sent_on(destinations, set_headers, remove_headers)
    mutation += header_mutation((("content-length", str(len(body))),), ())
    common = nested(2, mutation) + nested(3, nested(1, body)) + whole(5, 1)
    return nested(REPLY_FIELDS[ProcessingPhase.REQUEST_BODY], nested(1, common)) + metadata


def _two(length: int) -> int:
    """A varint of two bytes, which come in this order in a little-endian number."""
    return length & 0x7F | 0x80 | length >> 7 << 8


def stream_body(phase: ProcessingPhase, body: bytes, *, ends: bool) -> bytes:
    """A piece of a body in full duplex."""
    tail = _THE_END if ends else b""
    size = len(body) + len(tail)
    if _LEAST_OF_TWO <= size < _MOST_OF_TWO:
        # Four messages inside each other, of which only the innermost has more than one field.
        head = _BODY_HEAD(
            _BODY_TAGS[phase][0], _two(size + 12), 0x0A, _two(size + 9), 0x1A, _two(size + 6), 0x1A, _two(size + 3),
            0x0A, _two(len(body)),
        )  # fmt: skip
        return head + body + tail
    head = b"\x0a" + number(len(body)) if body else b""
    for tag in (b"\x1a", b"\x1a", b"\x0a", _BODY_TAGS[phase]):
        head = tag + number(len(head) + size) + head
    return head + body + tail


def replace_body(phase: ProcessingPhase, body: bytes) -> bytes:
    """The reply to a piece of a body, or to a buffered one, that is replaced."""
    return nested(REPLY_FIELDS[phase], nested(1, nested(3, nested(1, body))))


@lru_cache(maxsize=256)
def mutate_response(set_headers: _Headers = (), remove_headers: tuple[str, ...] = ()) -> bytes:
    """The reply to the headers of a response."""
    common = nested(2, header_mutation(set_headers, remove_headers))
    return nested(REPLY_FIELDS[ProcessingPhase.RESPONSE_HEADERS], nested(1, common))


def immediate_response(status: int, set_headers: _Headers, body: bytes, details: str) -> bytes:
    """Answers the client instead of an endpoint."""
    parts = [nested(1, whole(1, status)), nested(2, header_mutation(set_headers, ())), nested(3, body)]
    return nested(_IMMEDIATE, b"".join([*parts, nested(5, details.encode())]))
