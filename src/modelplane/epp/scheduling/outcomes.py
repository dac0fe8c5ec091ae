"""How a request ends: in exactly one outcome, with the status code that the client gets if no endpoint was picked."""

from enum import Enum

from modelplane.framework import Refusal


class Outcome(Enum):
    """A name for people, the HTTP status, and the reason header's value where the ecosystem has one."""

    PICKED = ("Picked", 200, "")
    MALFORMED = ("Malformed", 400, "")
    UNKNOWN_MODEL = ("UnknownModel", 404, "")
    NOT_CACHED = ("NotCached", 412, "")
    TOO_LARGE = ("TooLarge", 413, "")
    SATURATED = ("Saturated", 429, "rejected-saturated")
    EXPIRED = ("Expired", 429, "rejected-ttl-expired")
    EVICTED = ("Evicted", 429, "evicted")
    NO_ENDPOINTS = ("NoEndpoints", 503, "rejected-no-endpoints")
    EXCLUDED = ("Excluded", 503, "rejected-no-endpoints")
    """Endpoints are ready, but none may serve this request: a role, a label, a subset."""
    ABANDONED = ("Abandoned", 499, "")
    """The client disconnected while its request was queued."""
    STOPPING = ("Stopping", 503, "")
    FAULT = ("Fault", 500, "")
    """A plugin broke its contract."""

    def __init__(self, title: str, status: int, reason: str) -> None:
        self.title = title
        self.status = status
        self.reason = reason


class OtherModel(Refusal, frozen=True, gc=False):
    """The server serves other models than the one requested."""
