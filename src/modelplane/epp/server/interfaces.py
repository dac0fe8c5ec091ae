"""Interfaces of the director: callers that wait, observers, policies of the pool, tokenizers."""

from collections.abc import Callable, Mapping
from typing import Protocol

from modelplane.epp.flowcontrol import QueueOutcome
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe.decision_steps import DecisionSteps
from modelplane.epp.server.routing_result import RoutingResult

TokenIds = tuple[tuple[int, ...], ...]


class PromptTokenizer(Protocol):
    """Finds the tokens of prompts."""

    def tokenize(
        self, api: InferenceApi, body: bytes, on_tokens: Callable[[TokenIds], None], /
    ) -> Callable[[], object] | None:
        """Call `on_tokens` later and once; what is returned cancels that. None: it will not be called."""


class Waiter(Protocol):
    """Waits for a result that did not come at once."""

    def answer(self, result: RoutingResult, /) -> None: ...

    def evict(self) -> None:
        """The request was routed, and has to make room for another: end it."""


class RequestObserver(Protocol):
    """Is called for every decision and every end, for metrics, spans and logs. Must not raise."""

    def record_steps(self, request: Request, chance: float, /) -> DecisionSteps | None:
        """Records the steps of the decision; None for most."""

    def decided(
        self,
        request: Request,
        decision: Decision,
        spent_s: float,
        steps: DecisionSteps | None = None,
        *,
        model: str = "",
    ) -> None:
        """Called once for each request. `model` is the requested model if it was rewritten."""

    def ended(self, request: Request, decision: Decision, served: EndpointResponse, *, model: str = "") -> None:
        """Once for each request that was sent on."""

    def evicted(self, request: Request) -> None:
        """A request that was sent on is ended to make room for another; `ended` follows."""

    def waited(self, request: Request, ending: QueueOutcome, *, model: str = "") -> None:
        """Once for each request that was offered to flow control."""

    def rewrote(self, name: str, model: str, target: str, *, exact: bool = False) -> None:
        """The InferenceModelRewrite of this name changed the model. `exact`: it names the requested one."""

    def opened(self) -> None:
        """A stream of the proxy began."""

    def closed(self, code: str, lasted_s: float, request_s: float, response_s: float) -> None:
        """It ended. The last two are the time spent on it here."""


class RewriteDecision(Protocol):
    """The target model, and the name of the InferenceModelRewrite."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def exact(self) -> bool:
        """Whether the rule names the requested model."""


class PoolPolicies(Protocol):
    """InferenceObjectives of a pool: priorities by name; and its InferenceModelRewrites."""

    @property
    def priorities(self) -> Mapping[str, int]: ...

    def rewrite(self, model: str, chance: float, /) -> RewriteDecision | None: ...
