"""Who takes part in a decision beside the scheduler: who asks, who watches, what stands beside the pool, who waits."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from modelplane.epp.flowcontrol import Evictor, FlowControl, FlowItem, PoolSaturation, QueueOutcome
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.plugins import EndpointResponse
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.observe.heard import Heard
from modelplane.epp.server.steps import Rename

TokenIds = tuple[tuple[int, ...], ...]


class AsksTokenizer(Protocol):
    """Knows, or finds out, the tokens of prompts."""

    def ask(self, api: InferenceApi, body: bytes, told: Callable[[TokenIds], None], /) -> Callable[[], object] | None:
        """Have `told` hear them, later and once; what is returned takes that back. None: it will not hear."""


class Flow(msgspec.Struct, frozen=True, eq=False):
    """Flow control, what tells it how full the pool is, and who makes room where requests may be evicted."""

    control: FlowControl
    gauge: PoolSaturation
    evictor: Evictor | None = None


class RoutingResult(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What became of a question."""

    request: Request
    decision: Decision
    scheduler: Scheduler
    rename: Rename | None = None
    counted: bool = False
    """Whether the director counts it at its endpoint."""
    item: FlowItem | None = None
    """What it waited by."""
    flow: Flow | None = None
    """Where it waited."""
    tokens: int = 0
    """Those of its prompts, where it is counted."""


class Asker(Protocol):
    """Who waits for an answer that did not come at once."""

    def answer(self, verdict: RoutingResult, /) -> None: ...

    def evict(self) -> None:
        """The request was sent on, and has to make room for another: end it."""


class RequestObserver(Protocol):
    """Hears of every decision and of every end, for metrics, spans and logs. Must not raise."""

    def listen(self, request: Request, chance: float, /) -> Heard | None:
        """Who is told the steps of the decision; None for most."""

    def decided(
        self, request: Request, decision: Decision, spent_s: float, heard: Heard | None = None, *, model: str = ""
    ) -> None:
        """Once for each request. `model` is what the client asked for, where another serves."""

    def ended(self, request: Request, decision: Decision, served: EndpointResponse, *, model: str = "") -> None:
        """Once for each request that was sent on."""

    def evicted(self, request: Request) -> None:
        """A request that was sent on is ended to make room for another; `ended` follows."""

    def waited(self, request: Request, ending: QueueOutcome, *, model: str = "") -> None:
        """Once for each request that was offered to flow control."""

    def rewrote(self, name: str, model: str, target: str) -> None:
        """The rule of this name had another model asked for."""

    def opened(self) -> None:
        """A stream of the proxy began."""

    def closed(self, code: str, lasted_s: float, request_s: float, response_s: float) -> None:
        """It ended. The last two are the time spent on it here."""


class Rewritten(Protocol):
    """The model to ask for, and the name of the rule."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...


class Rules(Protocol):
    """What stands beside a pool: priorities of objectives by name, and models to ask for instead."""

    @property
    def priorities(self) -> Mapping[str, int]: ...

    def rewrite(self, model: str, chance: float, /) -> Rewritten | None: ...
