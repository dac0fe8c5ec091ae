"""The result of a `PickRequest`. A plain class, as a `Decision` is one, and as constant."""

from typing import Final

from modelplane.epp.flowcontrol import FlowItem
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.flow import Flow
from modelplane.epp.server.steps import Rename


class RoutingResult:
    __slots__ = ("counted", "decision", "flow", "item", "rename", "request", "scheduler", "tokens")

    def __init__(  # noqa: PLR0913, PLR0917  a record
        self,
        request: Request,
        decision: Decision,
        scheduler: Scheduler,
        rename: Rename | None = None,
        counted: bool = False,  # noqa: FBT001, FBT002  as above
        item: FlowItem | None = None,
        flow: Flow | None = None,
        tokens: int = 0,
    ) -> None:
        self.request: Final = request
        self.decision: Final = decision
        self.scheduler: Final = scheduler
        self.rename: Final = rename
        self.counted: Final = counted
        """Whether the director counts it at its endpoint."""
        self.item: Final = item
        """Its item in flow control."""
        self.flow: Final = flow
        """The flow control that it waited in."""
        self.tokens: Final = tokens
        """The tokens of its prompts, if it is counted."""
