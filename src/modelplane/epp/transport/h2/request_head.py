"""Decodes the headers of a request: a gRPC call, or why it is none.

Blocks of one peer are nearly all equal, so results are cached by the block's value.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from modelplane.epp.transport.h2.hpack import Block

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_NEEDED: Final = (b":method", b":scheme", b":path")
_OF_A_CONNECTION: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_LENGTH_DIGITS: Final = 15


class RequestHead(msgspec.Struct, frozen=True):
    """A request's headers, judged."""

    path: str = ""
    timeout_s: float = -1.0
    """Negative: none."""
    length: int = -1
    """The content-length; negative: absent."""
    malformed: str = ""
    """The rule of HTTP that it breaks."""
    refused: int = 0
    """The HTTP status for a request that is well formed and no gRPC."""


@lru_cache(maxsize=1024)
def read_request_head(block: Block) -> RequestHead:
    """Read the headers that begin a stream."""
    malformed = _malformed(block)
    if malformed:
        return RequestHead(malformed=malformed)
    headers = dict(block)
    length = _length(headers.get(b"content-length", b""))
    if headers[b":method"] != b"POST":
        return RequestHead(refused=405, length=length)
    if not headers.get(b"content-type", b"").startswith(b"application/grpc"):
        return RequestHead(refused=415, length=length)
    timeout_s, wrong = _timeout(headers.get(b"grpc-timeout"))
    if wrong:
        return RequestHead(refused=400, length=length)
    return RequestHead(headers[b":path"].decode("latin-1"), timeout_s, length)


def trailers_malformed(block: Block) -> str:
    """The problem of trailers: they have no pseudo-headers."""
    if any(name.startswith(b":") for name, _ in block):
        return "a pseudo-header in trailers"
    return _bad_fields(block)


def _malformed(block: Block) -> str:
    pseudo = [name for name, _ in block if name.startswith(b":")]
    if any(name.startswith(b":") for name, _ in block[len(pseudo) :]):
        return "a pseudo-header after a header"
    if len(set(pseudo)) != len(pseudo):
        return "a pseudo-header twice"
    unknown = [name for name in pseudo if name not in _PSEUDO]
    if unknown:
        return f"the pseudo-header {unknown[0].decode('latin-1')}"
    lacking = [name for name in _NEEDED if not dict(block).get(name)]
    if lacking:
        return f"no {lacking[0].decode()}"
    return _bad_fields(block[len(pseudo) :]) or _bad_values(block[: len(pseudo)]) or _bad_length(block)


def _bad_fields(fields: Block) -> str:
    for name, value in fields:
        if not _NAME.fullmatch(name):
            return "a header name with characters that names do not have"
        if name in _OF_A_CONNECTION:
            return f"the header {name.decode()}, which HTTP/2 does not have"
        if name == b"te" and value != b"trailers":
            return "a te header other than trailers"
    return _bad_values(fields)


def _bad_values(fields: Block) -> str:
    for name, value in fields:
        if _BAD_VALUE.search(value):
            return f"characters in {name.decode('latin-1')} that values do not have"
    return ""


def _bad_length(block: Block) -> str:
    lengths = {value for name, value in block if name == b"content-length"}
    if len(lengths) > 1 or any(not value.isdigit() or len(value) > _MOST_LENGTH_DIGITS for value in lengths):
        return "a content-length that is not one number"
    return ""


def _length(value: bytes) -> int:
    return int(value) if value else -1


def _timeout(value: bytes | None) -> tuple[float, bool]:
    if value is None:
        return -1.0, False
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        return -1.0, True
    return int(found[1]) * _UNIT_S[found[2]], False
