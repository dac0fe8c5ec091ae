"""The outcomes of a request, and what the proxy gets.

Each request ends in exactly one outcome, with the status code that the client gets if no endpoint was picked.
"""

from enum import Enum

import msgspec

from modelplane.epp.scheduling.endpoints import Endpoint
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


class Decision(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The decision for one request."""

    outcome: Outcome
    groups: tuple[tuple[Endpoint, ...], ...] = ()
    """Best group first; endpoints of a group are equal, in the picker's order. The proxy gets them all in this order,
    and falls back along it."""
    profile: str = ""
    """The primary profile."""
    others: tuple[tuple[str, tuple[Endpoint, ...]], ...] = ()
    """Picks of the further profiles, by profile: `prefill`, `encode`, …"""
    set_headers: tuple[tuple[str, str], ...] = ()
    remove_headers: tuple[str, ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()
    """For the client, with the response."""
    addresses: tuple[str, ...] = ()
    """The addresses for the proxy, if they are not those of the endpoints."""
    shadows: tuple[tuple[str, tuple[Endpoint, ...]], ...] = ()
    """The picks of shadow profiles; empty if one picked nothing."""
    why: str = ""
    """One sentence for the client and the log where nothing was picked."""
    cached_tokens: int = 0
    """Prompt tokens that the first choice has cached; set when the request is sent."""

    @property
    def picked(self) -> Endpoint:
        """The first choice. Only where the outcome is PICKED."""
        return self.groups[0][0]

    @property
    def destinations(self) -> str:
        """The value of the destination header and metadata."""
        if self.addresses:
            return ",".join(self.addresses)
        return ",".join([endpoint.address for group in self.groups for endpoint in group])
