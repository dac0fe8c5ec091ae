"""One HTTP exchange at the front door, as ext_proc shows it: messages in, replies out, without IO.

A request is decided when its body is complete, or by its headers where it has none or Envoy keeps it. The reply sends
it to an endpoint (`routed`) or answers the client (`answered`). Of the response the status and the time of the first
byte are always read; its body only where it is translated or its tokens are counted.

Bodies are buffered by Envoy (`BUFFERED`), not streamed in full duplex: Envoy then still has the body when the router
goes away, and sends the request on by the static plan.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from modelplane.compose.router_objects import CODE_DETAILS
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.messages import UNCHANGED, read_metadata, replace_body
from modelplane.epp.server.processing_request import BodyMode, ProcessingPhase, ProcessingRequest
from modelplane.epp.server.sse import UsageReader
from modelplane.router.front_values import EndpointReach, FrontRequest, FrontStep, Rewritten
from modelplane.router.headers import UNSERVED
from modelplane.router.messages import continue_response, route_request, route_request_and_body

_NO_HEADERS: Final[Mapping[str, str]] = {}
_OK: Final = 200
_EVENTS: Final = "text/event-stream"
_NO_USAGE: Final = ResponseUsage()
_TURNED_AWAY: Final = frozenset((429, 503))
"""Statuses of an endpoint that did not begin to work on a request."""
_TRY_ANOTHER: Final = ((UNSERVED, "true"),)
_ATTRIBUTES, _DETAILS = b"envoy.filters.http.ext_proc", CODE_DETAILS.encode()
_NO_CONNECTION: Final = ("connection_failure", "connection_timeout", "no_healthy_upstream")
_NO_ROUTE: Final = ("cluster_not_found", "route_not_found")
"""What Envoy calls it when a request reached nobody, and when its own configuration lacks the endpoint."""
_WITHOUT_BODY: Final = frozenset((BodyMode.NONE, BodyMode.STREAMED))


class FrontStage(Enum):
    """How far an exchange is."""

    BEGINNING = auto()
    READING = auto()
    DECIDING = auto()
    ROUTED = auto()
    ANSWERED = auto()


NOTHING: Final = FrontStep()
# Each message passes these: a member of an enumeration is found by name in its class, a constant is not.
_BEGINNING: Final = FrontStage.BEGINNING
_READING: Final = FrontStage.READING
_DECIDING: Final = FrontStage.DECIDING
_ROUTED: Final = FrontStage.ROUTED
_ANSWERED: Final = FrontStage.ANSWERED
_REQUEST_HEADERS: Final = ProcessingPhase.REQUEST_HEADERS
_REQUEST_BODY: Final = ProcessingPhase.REQUEST_BODY
_RESPONSE_HEADERS: Final = ProcessingPhase.RESPONSE_HEADERS
_RESPONSE_BODY: Final = ProcessingPhase.RESPONSE_BODY
_RESPONSE_TRAILERS: Final = ProcessingPhase.RESPONSE_TRAILERS
_BUFFERED: Final = int(BodyMode.BUFFERED)
_SOMEBODY: Final = EndpointReach.SOMEBODY
_PASSED: Final = {phase: FrontStep((reply,)) for phase, reply in UNCHANGED.items()}
"""The step of a message that passes as it is."""


class FrontExchange:
    """The state of one."""

    def __init__(self, body_limit: int, budget: Budget) -> None:
        self.stage = _BEGINNING
        self.status = 0
        self.first_byte_s = -1.0
        self.unserved = False
        """The response came from a gateway, and no engine received the request."""
        self.reached = _SOMEBODY
        self.retried = False
        """The endpoint turned the request away, and the gateway was told to try another one."""
        self.is_complete = False
        """The response was seen to its end."""
        self._limit = body_limit
        self._budget = budget
        self._mode: int = _BUFFERED
        self._headers: Mapping[str, str] = _NO_HEADERS
        self._held = 0
        self._reader: UsageReader | None = None
        self._rewritten: Rewritten | None = None
        self._translates = False

    def feed(self, incoming: ProcessingRequest, now_s: float) -> FrontStep:
        """A message from Envoy."""
        if incoming.observed or self.stage is _ANSWERED:
            return NOTHING
        phase = incoming.phase
        if phase is _REQUEST_HEADERS:
            return self._request_headers(incoming)
        if phase is _REQUEST_BODY:
            return self._request_body(incoming)
        if phase is _RESPONSE_HEADERS:
            return self._response_headers(incoming, now_s)
        if phase is _RESPONSE_BODY:
            return self._response_body(incoming)
        self.is_complete = self.is_complete or phase is _RESPONSE_TRAILERS
        return _PASSED.get(phase, NOTHING)

    def routed(self, rewritten: Rewritten) -> tuple[bytes, ...]:
        """The replies that send the request on."""
        self._leave_deciding(_ROUTED)
        self._rewritten = rewritten
        set_headers, remove_headers = rewritten.set_headers, rewritten.remove_headers
        if self._mode in _WITHOUT_BODY:
            return (route_request(_REQUEST_HEADERS, set_headers, remove_headers),)
        if rewritten.body is None:
            return (route_request(_REQUEST_BODY, set_headers, remove_headers),)
        return (route_request_and_body(set_headers, remove_headers, rewritten.body),)

    def answered(self) -> None:
        """The client got its answer from the router."""
        self._leave_deciding(_ANSWERED)

    @property
    def usage(self) -> ResponseUsage:
        return _NO_USAGE if self._reader is None else self._reader.end()

    @property
    def waits(self) -> bool:
        """Whether the request was sent on and nothing came back."""
        return self.stage is _ROUTED and self.first_byte_s < 0.0

    def release(self) -> None:
        """Nothing of the body is held any more."""
        self._budget.used -= self._held
        self._held = 0

    def _leave_deciding(self, stage: FrontStage) -> None:
        self.stage = stage
        self.release()

    def _request_headers(self, incoming: ProcessingRequest) -> FrontStep:
        if self.stage is not _BEGINNING:
            return FrontStep(broken="request headers came twice")
        self._headers = incoming.headers
        if incoming.request_mode >= 0:
            self._mode = incoming.request_mode
        if incoming.ends or self._mode in _WITHOUT_BODY:
            whole = incoming.ends
            self._mode = BodyMode.NONE
            self.stage = _DECIDING
            return FrontStep(request=FrontRequest(incoming.headers, whole=whole))
        self.stage = _READING
        return _PASSED[_REQUEST_HEADERS]

    def _request_body(self, incoming: ProcessingRequest) -> FrontStep:
        if self.stage is not _READING:
            if self.stage is _BEGINNING:
                return FrontStep(broken="a request body came before its headers")
            return _PASSED[_REQUEST_BODY]
        self.stage = _DECIDING
        size = len(incoming.body)
        if size > self._limit:
            problem = f"the body has {size} bytes; {self._limit} are accepted"
            return FrontStep(request=FrontRequest(self._headers, whole=False, problem=problem))
        self._budget.used += size
        self._held = size
        whole = incoming.ends or self._mode == _BUFFERED
        return FrontStep(request=FrontRequest(self._headers, incoming.body, whole))

    def _response_headers(self, incoming: ProcessingRequest, now_s: float) -> FrontStep:
        headers = incoming.headers
        status = headers.get(":status", "")
        self.status = int(status) if status.isdecimal() else 0
        self.first_byte_s = now_s
        self.unserved = UNSERVED in headers
        self.reached = _SOMEBODY if self.unserved else _reached(incoming)
        self.is_complete = incoming.ends
        rewritten = self._rewritten
        if rewritten is None:
            return FrontStep((continue_response(),))
        if self.reached is not _SOMEBODY:
            return FrontStep(refused=True)
        set_headers = rewritten.response_headers
        if self.status in _TURNED_AWAY and not self.unserved and rewritten.tries_again():
            self.retried = True
            return FrontStep((continue_response(_TRY_ANOTHER),))
        if rewritten.translator is None or self.unserved:
            shows = rewritten.counts_tokens and self.status == _OK and not incoming.ends
            self._read_usage(headers, counts=shows)
            return FrontStep((continue_response(set_headers, shows_body=shows),))
        self._translates = True
        self._read_usage(headers, counts=rewritten.counts_tokens)
        set_headers = (*set_headers, *rewritten.translator.begin(self.status, headers))
        return FrontStep((continue_response(set_headers, ("content-length",), shows_body=not incoming.ends),))

    def _read_usage(self, headers: Mapping[str, str], *, counts: bool) -> None:
        if counts and self.status == _OK:
            self._reader = UsageReader(streaming=headers.get("content-type", "").startswith(_EVENTS))

    def _response_body(self, incoming: ProcessingRequest) -> FrontStep:
        if self._reader is not None:
            self._reader.feed(incoming.body)
        self.is_complete = self.is_complete or incoming.ends
        rewritten = self._rewritten
        if not self._translates or rewritten is None or rewritten.translator is None:
            return _PASSED[_RESPONSE_BODY]
        body = rewritten.translator.feed(incoming.body, ends=incoming.ends)
        return FrontStep((replace_body(_RESPONSE_BODY, body),))


def _reached(incoming: ProcessingRequest) -> EndpointReach:
    """By the reason that Envoy gives for a response of its own, where the gateway was told to send it."""
    details = read_metadata(incoming.attributes, _ATTRIBUTES, _DETAILS) if incoming.attributes else None
    if not isinstance(details, str):
        return _SOMEBODY
    if any(sign in details for sign in _NO_CONNECTION):
        return EndpointReach.NOBODY
    return EndpointReach.NOWHERE if details in _NO_ROUTE else _SOMEBODY
