"""What one message of an exchange leads to: replies, a request to pick an endpoint, or the end."""

from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane.epp.scheduling.decisions import Decision


class PickRequest(msgspec.Struct, frozen=True):
    """A request to pick an endpoint."""

    headers: Mapping[str, str]
    body: bytes
    whole: bool
    """Whether `body` is the request's body: not where Envoy keeps it to itself, or may have cut it."""
    subset: tuple[str, ...] | None
    refused: Decision | None = None
    """Set where the request is refused already: the director counts it and answers this."""


class ExchangeStep(msgspec.Struct, frozen=True):
    """What one message, or one decision, leads to."""

    replies: tuple[bytes, ...] = ()
    pick_request: PickRequest | None = None
    broken: str = ""
    """Envoy broke the protocol: the call ends with this sentence."""
    over: bool = False
    """The call ends, after the replies."""


NOTHING: Final = ExchangeStep()


class Rename(msgspec.Struct, frozen=True):
    """Another model serves than was asked for: the body to send on, and both names for the response."""

    body: bytes
    asked: str
    served: str
