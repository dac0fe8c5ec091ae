"""How a request can end at the picker, and what the proxy is told.

Each request ends in exactly one outcome. The code beside it is what the client sees where nothing was picked.
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
    """The client went away while its request waited."""
    STOPPING = ("Stopping", 503, "")
    FAULT = ("Fault", 500, "")
    """A plugin broke its contract."""

    def __init__(self, title: str, status: int, reason: str) -> None:
        self.title = title
        self.status = status
        self.reason = reason


class OtherModel(Refusal, frozen=True, gc=False):
    """The server answers to other names than that of the model that is asked for."""


class Decision(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What was decided for one request."""

    outcome: Outcome
    groups: tuple[tuple[Endpoint, ...], ...] = ()
    """Best group first; inside a group endpoints are as good as each other and stand in the picker's order. The proxy
    is told them all in this order, and falls back along it."""
    profile: str = ""
    """The primary profile."""
    others: tuple[tuple[str, tuple[Endpoint, ...]], ...] = ()
    """Picks of the further profiles, by profile: `prefill`, `encode`, …"""
    set_headers: tuple[tuple[str, str], ...] = ()
    remove_headers: tuple[str, ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()
    """For the client, with the response."""
    addresses: tuple[str, ...] = ()
    """What the proxy is told where that is not the addresses of the endpoints themselves."""
    shadows: tuple[tuple[str, tuple[Endpoint, ...]], ...] = ()
    """What profiles that only watch would have picked; empty where one picked nothing."""
    why: str = ""
    """One sentence for the client and the log where nothing was picked."""
    cached_tokens: int = 0
    """Of the prompts, how many the first choice is taken to hold; found when the request is sent on."""

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
