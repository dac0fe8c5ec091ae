"""The response to a request that is not forwarded: a status, headers, and an error in the format of its API."""

from typing import Final

import msgspec

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server import messages

REASON_HEADER: Final = "x-llm-d-request-dropped-reason"
_RETRY_AFTER_S: Final = "1"
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_SERVER_ERRORS: Final = 500

# By status: OpenAI's kind of error, then Anthropic's.
_KINDS: Final = {
    400: ("invalid_request_error", "invalid_request_error"),
    404: ("invalid_request_error", "not_found_error"),
    412: ("invalid_request_error", "invalid_request_error"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_error"),
    500: ("server_error", "api_error"),
    503: ("server_error", "overloaded_error"),
}
_CODES: Final = {Outcome.UNKNOWN_MODEL: "model_not_found", Outcome.MALFORMED: "invalid_request"}


def immediate_response(decision: Decision, api: InferenceApi) -> bytes:
    """The ImmediateResponse message."""
    outcome = decision.outcome
    headers = [("content-type", "application/json")]
    if outcome.reason:
        headers.append((REASON_HEADER, outcome.reason))
    if outcome.status in {_TOO_MANY, _UNAVAILABLE}:
        headers.append(("retry-after", _RETRY_AFTER_S))
    return messages.immediate_response(outcome.status, tuple(headers), body(decision, api), outcome.title)


def body(decision: Decision, api: InferenceApi) -> bytes:
    """The error as clients of the API read it. What went wrong inside is for the log, not for them."""
    outcome = decision.outcome
    sentence = "the endpoint picker failed" if outcome is Outcome.FAULT else decision.why or outcome.title
    ours, theirs = _KINDS.get(outcome.status, _KINDS[_SERVER_ERRORS])
    if api is InferenceApi.MESSAGES:
        return msgspec.json.encode({"type": "error", "error": {"type": theirs, "message": sentence}})
    code = _CODES.get(outcome, _snake(outcome.title))
    return msgspec.json.encode({"error": {"message": sentence, "type": ours, "param": None, "code": code}})


def _snake(title: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in title).lstrip("_")
