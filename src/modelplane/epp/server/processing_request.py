"""Envoy's ProcessingRequest."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec

_NO_HEADERS: Final[Mapping[str, str]] = {}


class ProcessingPhase(IntEnum):
    """The kind of a message: the number of its field in ProcessingRequest."""

    NOTHING = 0
    REQUEST_HEADERS = 2
    RESPONSE_HEADERS = 3
    REQUEST_BODY = 4
    RESPONSE_BODY = 5
    REQUEST_TRAILERS = 6
    RESPONSE_TRAILERS = 7


class BodyMode(IntEnum):
    """How Envoy hands over bodies."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX = 4
    GRPC = 5


class ProcessingRequest(msgspec.Struct):
    """One ProcessingRequest."""

    phase: ProcessingPhase = ProcessingPhase.NOTHING
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes = b""
    ends: bool = False
    metadata: bytes = b""
    """The metadata context, unread."""
    attributes: bytes = b""
    """What the filter was told to send of the exchange, unread, in the form of the metadata context."""
    request_mode: int = -1
    """Negative: absent."""
    response_mode: int = -1
    observed: bool = False
    """Envoy waits for no reply to it."""
