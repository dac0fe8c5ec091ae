"""Error responses of an engine, in OpenAI's format."""

from collections.abc import Iterable

_SERVER_ERRORS = 500


class EngineApiError(Exception):
    """One refused request: the status, and the fields of the `error` object in the body."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers: dict[str, str] = {}

    def body(self) -> dict[str, dict[str, str | None]]:
        kind = "invalid_request_error" if self.status < _SERVER_ERRORS else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def malformed(reason: str) -> EngineApiError:
    return EngineApiError(400, f"The body is not valid JSON: {reason}.", code="invalid_json")


def invalid_field(field: str | None, reason: str) -> EngineApiError:
    place = field or "the body"
    return EngineApiError(400, f"{place}: {reason}.", code="invalid_value", param=field)


def missing_field(field: str) -> EngineApiError:
    return EngineApiError(400, f"{field}: this field is required.", code="missing_required_parameter", param=field)


def context_exceeded(*, limit: int, requested: str, param: str) -> EngineApiError:
    message = f"{param}: this model's context is {limit} tokens; the request has {requested}."
    return EngineApiError(400, message, code="context_length_exceeded", param=param)


def unknown_model(name: str) -> EngineApiError:
    return EngineApiError(404, f"The model `{name}` does not exist.", code="model_not_found", param="model")


def unknown_path(method: str, path: str) -> EngineApiError:
    return EngineApiError(404, f"Invalid URL ({method} {path}).", code="unknown_url")


def method_not_allowed(method: str, path: str, allowed: Iterable[str]) -> EngineApiError:
    names = ", ".join(sorted(allowed))
    error = EngineApiError(405, f"{method} is not allowed on {path}; use {names}.", code="method_not_supported")
    error.headers["Allow"] = names
    return error


def too_large(limit: int) -> EngineApiError:
    return EngineApiError(413, f"The body is larger than the limit of {limit} bytes.", code="request_too_large")


def invalid_header(name: str, reason: str) -> EngineApiError:
    return EngineApiError(400, f"header {name}: {reason}.", code="invalid_value", param=name)


def not_simulated(field: str, reason: str) -> EngineApiError:
    return EngineApiError(400, f"{field}: {reason}.", code="unsupported_value", param=field)


def injected(status: int) -> EngineApiError:
    return EngineApiError(status, f"This is a simulated failure with status {status}.", code="simulated_failure")


def cache_lost() -> EngineApiError:
    message = "The keys and values of this prompt could not be fetched from the engine that computed them."
    return EngineApiError(500, message, code="kv_load_failed")


def refused_adapter(status: int, message: str) -> EngineApiError:
    return EngineApiError(status, message, code="invalid_adapter", param="lora_name")
