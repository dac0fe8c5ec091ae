"""A queued request, and its final state."""

import msgspec

from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request


class QueueOutcome(msgspec.Struct, frozen=True):
    """How an item left the queue. Each item has exactly one."""

    outcome: Outcome | None
    """None: dispatched, to be scheduled next. Else the request ends here, with this outcome."""
    waited_s: float
    why: str = ""

    @property
    def released(self) -> bool:
        return self.outcome is None


class FlowItem:
    """A request in flow control. `final_state` is None while it is queued, and is set once."""

    __slots__ = ("arrived_s", "fairness_id", "final_state", "key", "number", "priority", "request", "size", "tokens")

    def __init__(self, number: int, request: Request, arrived_s: float) -> None:
        self.number = number
        """The order of arrival."""
        self.request = request
        self.arrived_s = arrived_s
        self.priority = request.priority
        self.fairness_id = request.fairness_id
        self.size = request.size
        self.tokens = request.tokens
        self.key = 0.0
        """Set by the ordering policy: the lowest is dispatched first."""
        self.final_state: QueueOutcome | None = None

    def __repr__(self) -> str:
        return f"FlowItem({self.number}, {self.request.id}, {self.final_state})"
