"""The result of one message of an exchange: replies, a request to pick an endpoint, or the end."""

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
    """Set if the request is refused already: the director counts it and returns this."""


class ExchangeStep(msgspec.Struct, frozen=True):
    """The result of one message, or of one decision."""

    replies: tuple[bytes, ...] = ()
    pick_request: PickRequest | None = None
    broken: str = ""
    """Envoy broke the protocol: the call ends with this sentence."""
    over: bool = False
    """The call ends, after the replies."""


NOTHING: Final = ExchangeStep()


class Rename(msgspec.Struct, frozen=True):
    """The request is rewritten to another model: the new body, and both names for the response."""

    body: bytes
    requested: str
    served: str
