"""Failures of requests, as the Status objects that Kubernetes clients read.

Messages are those of the real API server. Two differences: where the real one returns 500 for an invalid request, this
one returns 400 with the same message (413 for an object that is too large), and problems that a schema or a rule finds
have the messages of `modelplane.k8s.admission`, with the same reasons and field paths.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.errors import ConflictError, InputError, ModelplaneError, NotFoundError, UnavailableError
from modelplane.api.objects import Json
from modelplane.apiserver.resources import Resource
from modelplane.k8s.admission.problems import CauseType as Why
from modelplane.k8s.admission.problems import Problem

_WORDS: Final = {
    Why.REQUIRED: "Required value",
    Why.INVALID: "Invalid value",
    Why.TYPE: "Invalid value",
    Why.NOT_SUPPORTED: "Unsupported value",
    Why.DUPLICATE: "Duplicate value",
    Why.FORBIDDEN: "Forbidden",
    Why.TOO_LONG: "Too long",
    Why.TOO_MANY: "Too many",
    Why.UNKNOWN_FIELD: "Unknown field",
}


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of details.causes."""

    reason: str
    message: str
    field: str

    def to_json(self) -> Json:
        named = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: text for name, text in named.items() if text}


class ApiError(ModelplaneError):
    """A request that fails with a Status."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Json | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.retry_after_s = retry_after_s

    def to_status(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
        }
        if self.details is not None:
            status["details"] = self.details
        return {**status, "code": self.code}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', details=_named(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_named(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_named(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[StatusCause] = ()) -> ApiError:
    details = {**_named(resource, name), **_causes(causes)}
    return ApiError(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', details=details)


def invalid(group: str, kind: str, name: str, causes: Sequence[StatusCause]) -> ApiError:
    """Field errors: one sentence, or a list of them in brackets."""
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    sentence = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    qualified = f"{kind}.{group}" if group else kind
    named = {"name": name, "group": group, "kind": kind}
    details: Json = {key: text for key, text in named.items() if text}
    details |= _causes(causes)
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {sentence}', details=details)


def invalid_object(resource: Resource, name: str, problems: Iterable[Problem]) -> ApiError:
    return invalid(resource.group, resource.kind, name, [cause_of(problem) for problem in problems])


def invalid_option(kind: str, field: str, why: Why, message: str) -> ApiError:
    """An option of the request, such as CreateOptions."""
    return invalid("meta.k8s.io", kind, "", [StatusCause(why.value, f"{_WORDS[why]}: {message}", field)])


def cause_of(problem: Problem) -> StatusCause:
    return StatusCause(problem.cause.value, f"{_WORDS[problem.cause]}: {problem.message}", problem.field)


def unsupported_media(accepted: Sequence[str]) -> ApiError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Sequence[str]) -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}")


def not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large_revision(requested: int, current: int) -> ApiError:
    cause = StatusCause("ResourceVersionTooLarge", "Too large resource version", "")
    details: Json = {"causes": [cause.to_json()], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return ApiError(504, "Timeout", message, details=details, retry_after_s=1)


def too_many(message: str) -> ApiError:
    return ApiError(429, "TooManyRequests", message, details={"retryAfterSeconds": 1}, retry_after_s=1)


def too_large_object() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", "etcdserver: request is too large")


def apply_conflict(message: str, causes: Sequence[StatusCause]) -> ApiError:
    return ApiError(409, "Conflict", message, details=_causes(causes))


def as_api_error(error: ModelplaneError) -> ApiError:
    """The ApiError of an error that another package raised."""
    if isinstance(error, ApiError):
        return error
    known: tuple[tuple[type[ModelplaneError], int, str], ...] = (
        (NotFoundError, 404, "NotFound"),
        (ConflictError, 409, "Conflict"),
        (InputError, 422, "Invalid"),
        (UnavailableError, 503, "ServiceUnavailable"),
    )
    for kind, code, reason in known:
        if isinstance(error, kind):
            return ApiError(code, reason, str(error))
    return ApiError(500, "InternalError", str(error))


def _named(resource: Resource, name: str) -> Json:
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: text for key, text in found.items() if text}


def _causes(causes: Sequence[StatusCause]) -> Json:
    return {"causes": [cause.to_json() for cause in causes]} if causes else {}
