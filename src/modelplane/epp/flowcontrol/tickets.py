"""A request that waits, and how its wait can end."""

import msgspec

from modelplane.epp.scheduling.decisions import Outcome
from modelplane.epp.scheduling.requests import Request


class WaitOutcome(msgspec.Struct, frozen=True):
    """The end of a wait. There is exactly one for each ticket."""

    outcome: Outcome | None
    """None: released, to be scheduled next. Else the request ends here, with this outcome."""
    waited_s: float
    why: str = ""

    @property
    def released(self) -> bool:
        return self.outcome is None


class Ticket:
    """Given for each request that is offered. `ending` is None while it waits, and is set once."""

    __slots__ = ("arrived_s", "ending", "key", "number", "priority", "request", "size", "tenant", "tokens")

    def __init__(self, number: int, request: Request, arrived_s: float) -> None:
        self.number = number
        """The place in the order of arrival."""
        self.request = request
        self.arrived_s = arrived_s
        self.priority = request.priority
        self.tenant = request.tenant
        self.size = request.size
        self.tokens = request.tokens
        self.key = 0.0
        """The ordering policy's: lower goes first."""
        self.ending: WaitOutcome | None = None

    def __repr__(self) -> str:
        return f"Ticket({self.number}, {self.request.id}, {self.ending})"
