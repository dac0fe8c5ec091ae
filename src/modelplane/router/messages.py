"""Replies of external processing that the router writes and the picker does not.

The router decides at a buffered body, whose reply sets headers and replaces the body together, and has Envoy select the
route again. Which parts of a response it reads it says in the reply to the response's headers (`mode_override`): most
responses pass without their bodies being shown.
"""

from functools import lru_cache
from typing import Final

from modelplane.epp.server.messages import REPLY_FIELDS, header_mutation
from modelplane.epp.server.processing_request import BodyMode, ProcessingPhase
from modelplane.epp.transport.wire import nested, whole

Headers = tuple[tuple[str, str], ...]
_MODE_OVERRIDE: Final = 9
_RESPONSE_BODY_MODE: Final = 4
_CLEAR_ROUTE: Final = 5
_ROUTE_AGAIN: Final = whole(_CLEAR_ROUTE, 1)
_REQUEST_BODY: Final = REPLY_FIELDS[ProcessingPhase.REQUEST_BODY]
_mutation: Final = lru_cache(maxsize=4096)(header_mutation)
"""Kept: an endpoint's headers are those of its last request, and bodies are often as long as others."""


@lru_cache(maxsize=4096)
def route_request(phase: ProcessingPhase, set_headers: Headers, remove_headers: tuple[str, ...]) -> bytes:
    """Sends a request on with other headers; the route is selected again."""
    common = nested(2, _mutation(set_headers, remove_headers)) + _ROUTE_AGAIN
    return nested(REPLY_FIELDS[phase], nested(1, common))


def route_request_and_body(set_headers: Headers, remove_headers: tuple[str, ...], body: bytes) -> bytes:
    """The reply to a buffered body that is replaced."""
    mutation = _mutation(set_headers, remove_headers) + _mutation((("content-length", str(len(body))),), ())
    common = nested(2, mutation) + nested(3, nested(1, body)) + _ROUTE_AGAIN
    return nested(_REQUEST_BODY, nested(1, common))


@lru_cache(maxsize=256)
def continue_response(
    set_headers: Headers = (), remove_headers: tuple[str, ...] = (), *, shows_body: bool = False
) -> bytes:
    """The reply to the headers of a response. `shows_body`: its body is to be sent here, piece by piece."""
    common = nested(2, header_mutation(set_headers, remove_headers)) if set_headers or remove_headers else b""
    reply = nested(REPLY_FIELDS[ProcessingPhase.RESPONSE_HEADERS], nested(1, common) if common else b"")
    if not shows_body:
        return reply
    # Fields that are left out would be defaults, and the default of trailers is to skip them.
    mode = whole(1, 1) + whole(2, 1) + whole(_RESPONSE_BODY_MODE, int(BodyMode.STREAMED)) + whole(6, 1)
    return reply + nested(_MODE_OVERRIDE, mode)
