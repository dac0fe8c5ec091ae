"""What a client gets that is not sent on: a status, and an error in the shape of its API."""

from enum import Enum
from typing import Final

import msgspec

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.messages import immediate_response
from modelplane.router.headers import UNSERVED

_JSON: Final = ("content-type", "application/json")


class FrontOutcome(Enum):
    """A title, the status, and the error's type and code for OpenAI's clients, then its type for Anthropic's."""

    ROUTED = ("Routed", 200, "", "", "")
    ANSWERED = ("Answered", 200, "", "", "")
    """The router itself answered."""
    MALFORMED = ("Malformed", 400, "invalid_request_error", "invalid_request", "invalid_request_error")
    UNAUTHENTICATED = ("Unauthenticated", 401, "invalid_request_error", "invalid_api_key", "authentication_error")
    FORBIDDEN = ("Forbidden", 403, "invalid_request_error", "forbidden", "permission_error")
    RESIDENCY = ("Residency", 403, "invalid_request_error", "residency", "permission_error")
    """Endpoints are there, and none is where the request may be served."""
    UNKNOWN_MODEL = ("UnknownModel", 404, "invalid_request_error", "model_not_found", "not_found_error")
    UNKNOWN_PATH = ("UnknownPath", 404, "invalid_request_error", "unknown_url", "not_found_error")
    TOO_LARGE = ("TooLarge", 413, "invalid_request_error", "request_too_large", "request_too_large")
    LIMITED = ("Limited", 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error")
    OVER_BUDGET = ("OverBudget", 429, "insufficient_quota", "insufficient_quota", "rate_limit_error")
    FAULT = ("Fault", 500, "server_error", "internal_error", "api_error")
    NOT_READY = ("NotReady", 503, "server_error", "service_unavailable", "overloaded_error")
    RETRIES_EXHAUSTED = ("RetriesExhausted", 503, "server_error", "service_unavailable", "overloaded_error")
    STALLED = ("Stalled", 504, "server_error", "timeout", "timeout_error")
    """The endpoint was silent for longer than its service allows."""
    STOPPING = ("Stopping", 503, "server_error", "service_unavailable", "overloaded_error")

    def __init__(self, title: str, status: int, kind: str, code: str, anthropic_kind: str) -> None:
        self.title = title
        self.status = status
        self.kind = kind
        self.code = code
        self.anthropic_kind = anthropic_kind


class FrontRefusal(msgspec.Struct, frozen=True):
    """Why a request is not sent on."""

    outcome: FrontOutcome
    why: str
    retry_after_s: int = 0
    try_another: bool = False
    """Whether the gateway is to try the request again."""


def refuse(refusal: FrontRefusal, api: InferenceApi) -> bytes:
    """The ImmediateResponse of a refusal."""
    headers: tuple[tuple[str, str], ...] = (_JSON,)
    if refusal.retry_after_s:
        headers = (*headers, ("retry-after", str(refusal.retry_after_s)))
    if refusal.try_another:
        headers = (*headers, (UNSERVED, "true"))
    if refusal.outcome is FrontOutcome.UNAUTHENTICATED:
        headers = (*headers, ("www-authenticate", "Bearer"))
    return immediate_response(
        refusal.outcome.status, headers, error_body(refusal, api), f"modelplane_router_{refusal.outcome.title}"
    )


def error_body(refusal: FrontRefusal, api: InferenceApi) -> bytes:
    """The error as clients of the API read it."""
    outcome = refusal.outcome
    why = "the router failed" if outcome is FrontOutcome.FAULT else refusal.why
    if api is InferenceApi.MESSAGES:
        return msgspec.json.encode({"type": "error", "error": {"type": outcome.anthropic_kind, "message": why}})
    return msgspec.json.encode({"error": {"message": why, "type": outcome.kind, "param": None, "code": outcome.code}})


def answer(body: bytes, status: int = 200) -> bytes:
    """The ImmediateResponse of an answer of the router's own."""
    return immediate_response(status, (_JSON,), body, "modelplane_router")
