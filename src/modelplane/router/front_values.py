"""What passes between the parts of the router while one request is served."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Protocol

import msgspec

from modelplane.compose.caller_document import Caller
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.router.catalog import Member
from modelplane.router.decisions import Attempt
from modelplane.router.messages import Headers
from modelplane.router.refusals import FrontRefusal
from modelplane.router.retries import RetryTokens
from modelplane.router.routed_request import RoutedRequest


class EndpointReach(Enum):
    """Whom the gateway reached with a request that was sent on."""

    SOMEBODY = auto()
    NOBODY = auto()
    """Nobody listens at the endpoint's address."""
    NOWHERE = auto()
    """The gateway's own configuration lacks the endpoint: it is new, or was removed."""


class FrontRequest(msgspec.Struct, frozen=True):
    """A request that is to be routed."""

    headers: Mapping[str, str]
    body: bytes = b""
    whole: bool = True
    """Whether `body` is the request's body."""
    problem: str = ""
    """Why it is refused before anything reads it."""


class FrontStep(msgspec.Struct, frozen=True):
    """The result of one message."""

    replies: tuple[bytes, ...] = ()
    request: FrontRequest | None = None
    """Set once: the request is complete and has to be decided."""
    broken: str = ""
    refused: bool = False
    """The gateway reached nobody, and the client has no answer yet."""


class BodyTranslator(Protocol):
    """Changes the body of a response on its way to the client."""

    def begin(self, status: int, headers: Mapping[str, str], /) -> Headers:
        """The response begins; headers to set for the client."""

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        """The bytes to pass on for these."""


class StalledCall(Protocol):
    """A call that can be ended because its endpoint is silent."""

    def stalled(self) -> None: ...


class Rewritten(msgspec.Struct, frozen=True, eq=False):
    """How a request is sent on, and what is done with its response."""

    set_headers: Headers
    remove_headers: tuple[str, ...] = ()
    body: bytes | None = None
    """None: unchanged."""
    translator: BodyTranslator | None = None
    counts_tokens: bool = False
    response_headers: Headers = ()
    retries: RetryTokens | None = None
    """Of the service, where another endpoint is left for a request that this one turns away."""

    def tries_again(self) -> bool:
        """Whether the request goes to another endpoint, which the service's budget then pays for."""
        return self.retries is not None and self.retries.take()


class UpstreamRequest(msgspec.Struct, frozen=True, eq=False):
    """The path, the body and the translation of a request for one endpoint."""

    path: str
    """Below /v1, which the gateway replaces by the endpoint's prefix."""
    body: bytes | None = None
    """None: unchanged."""
    translator: BodyTranslator | None = None
    set_headers: Headers = ()


class RoutedTo(msgspec.Struct, frozen=True, eq=False):
    """A request that is sent on."""

    request: RoutedRequest
    decision: Decision
    member: Member
    rewritten: Rewritten
    attempt: Attempt
    caller: Caller
    overflows: bool
    sent_s: float


class RouterAnswer(msgspec.Struct, frozen=True, eq=False):
    """A request that the router answers itself."""

    api: InferenceApi
    refusal: FrontRefusal | None = None
    body: bytes = b""


class FrontResponse(msgspec.Struct, frozen=True, eq=False):
    """What was seen of a response."""

    status: int
    first_byte_s: float
    unserved: bool
    usage: ResponseUsage
    cancelled: bool
    """The client, or the hop before, reset the exchange."""
    retried: bool = False
    """The endpoint turned it away, and another attempt follows."""
    reached: EndpointReach = EndpointReach.SOMEBODY
