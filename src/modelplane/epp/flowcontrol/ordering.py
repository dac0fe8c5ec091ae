"""Ordering policies: which request of a flow is dispatched next. Lower keys first, then arrival."""

from typing import Protocol, runtime_checkable

from modelplane.epp.flowcontrol.items import FlowItem
from modelplane.framework.registry import NoParameters

NEVER = float("inf")


@runtime_checkable
class OrderingPolicy(Protocol):
    @property
    def name(self) -> str: ...

    def order(self, item: FlowItem, ttl_s: float, /) -> float:
        """The key of a new item; `ttl_s` is how long it may be queued, 0: no limit."""


class FirstCome:
    """In the order of arrival."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, _item: FlowItem, _ttl_s: float) -> float:
        return 0.0


class EarliestDeadline:
    """The one whose TTL expires first."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, item: FlowItem, ttl_s: float) -> float:
        return item.arrived_s + ttl_s if ttl_s else NEVER


class EarliestGoal:
    """The one with the earliest TTFT deadline; those without one come last."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name

    def order(self, item: FlowItem, _ttl_s: float) -> float:
        request = item.request
        return (request.received_s or item.arrived_s) + request.ttft_goal_s if request.ttft_goal_s > 0 else NEVER
