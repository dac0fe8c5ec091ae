"""Which of one tenant's requests goes first: a number for each, lower first, and arrival where they are equal."""

from typing import Protocol, runtime_checkable

from modelplane.epp.flowcontrol.tickets import Ticket
from modelplane.framework.registry import NoParameters

NEVER = float("inf")


@runtime_checkable
class OrderingPolicy(Protocol):
    @property
    def name(self) -> str: ...

    def order(self, ticket: Ticket, ttl_s: float, /) -> float:
        """The key of a ticket that has just come; `ttl_s` is how long it may wait, 0: as long as it likes."""


class FirstCome:
    """In the order of arrival."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, _ticket: Ticket, _ttl_s: float) -> float:
        return 0.0


class EarliestDeadline:
    """The one whose wait would expire first."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, ticket: Ticket, ttl_s: float) -> float:
        return ticket.arrived_s + ttl_s if ttl_s else NEVER


class EarliestGoal:
    """The one whose client wants its first token soonest; those without such a wish come last."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, ticket: Ticket, _ttl_s: float) -> float:
        request = ticket.request
        return (request.received_s or ticket.arrived_s) + request.ttft_goal_s if request.ttft_goal_s > 0 else NEVER
