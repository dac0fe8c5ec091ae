"""What came of a request that was sent to an endpoint. A plain class, as a `Decision` is one, and as constant."""

from typing import Final

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.response_usage import NO_USAGE, ResponseUsage


class EndpointResponse:
    """The response to a request that was sent to an endpoint."""

    __slots__ = ("ended_s", "endpoint", "first_byte_s", "given_up", "started_s", "status", "usage")

    def __init__(  # noqa: PLR0913, PLR0917  a record, written with names where it is long
        self,
        endpoint: Endpoint,
        status: int,
        started_s: float,
        first_byte_s: float = -1.0,
        ended_s: float = -1.0,
        usage: ResponseUsage = NO_USAGE,
        given_up: bool = False,  # noqa: FBT001, FBT002  as above
    ) -> None:
        self.endpoint: Final = endpoint
        """The one that served it, where the proxy reports it; else the one picked."""
        self.status: Final = status
        """The HTTP status; 0: unknown."""
        self.started_s: Final = started_s
        """When the request was sent."""
        self.first_byte_s: Final = first_byte_s
        self.ended_s: Final = ended_s
        self.usage: Final = usage
        self.given_up: Final = given_up
        """The client or the proxy cancelled the request before a response came."""

    def by(self, endpoint: Endpoint) -> "EndpointResponse":
        """The same of another endpoint."""
        return EndpointResponse(
            endpoint, self.status, self.started_s, self.first_byte_s, self.ended_s, self.usage, self.given_up
        )
