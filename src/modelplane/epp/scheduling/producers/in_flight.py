"""Requests and tokens in flight, counted on each endpoint.

A request counts from when it is sent until its response is complete, once, even if events come twice or late. Its
tokens are those of the prompt that the endpoint has not cached, until the response is received, and optionally an
estimate of its output tokens. A request also counts at its prefill endpoint, until the response is received.

A request that never completes is released after a day.
"""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import InFlightParameters
from modelplane.epp.scheduling.producers.approx_producer import computing
from modelplane.epp.scheduling.producers.prefix import any_held, prefix_of
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.framework.registry import plugin_type

LOST_AFTER_S = 86_400.0


class _Counted:
    __slots__ = ("at_s", "shares")

    def __init__(self, at_s: float, shares: tuple[tuple[Endpoint, int, int], ...]) -> None:
        self.at_s = at_s
        self.shares = shares
        """The endpoint, with tokens of the prompt and of the output."""


class InFlightProducer:
    """See the module. The counts are on the endpoints."""

    reads_bodies = False

    def __init__(self, name: str, parameters: InFlightParameters | None = None) -> None:
        self.name = name
        self.parameters = parameters or InFlightParameters()
        self._counted: dict[Request, _Counted] = {}

    @property
    def requests(self) -> int:
        """Requests in flight, over all endpoints."""
        return len(self._counted)

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        request = context.request
        if request in self._counted:
            return ()
        output = self._output_tokens(request)
        shares = tuple(
            (endpoint, self._prompt_tokens(context, endpoint), output if endpoint is decision.picked else 0)
            for endpoint in computing(decision)
        )
        for endpoint, prompt, further in shares:
            endpoint.count(1, prompt + further)
        self._counted[request] = _Counted(context.now_s, shares)
        self._release_lost(context.now_s)
        return ()

    def response_received(self, request: Request, decision: Decision) -> None:
        """Prefill is done: prompt tokens count no more, and a prefill endpoint is released."""
        counted = self._counted.get(request)
        if counted is None:
            return
        kept = []
        for endpoint, prompt, further in counted.shares:
            endpoint.count(0, -prompt)
            if endpoint is decision.picked:
                kept.append((endpoint, 0, further))
            else:
                endpoint.count(-1, 0)
        self._counted[request] = _Counted(counted.at_s, tuple(kept))

    def response_complete(self, request: Request, _decision: Decision, _served: EndpointResponse) -> None:
        self.release(request)

    def release(self, request: Request) -> bool:
        """Takes back what was counted for the request. Whether anything was."""
        counted = self._counted.pop(request, None)
        if counted is None:
            return False
        for endpoint, prompt, further in counted.shares:
            if further:
                # Separate from prompt tokens, whose release `count` takes as a response that was not received.
                endpoint.tokens_in_flight -= further
            endpoint.count(-1, -prompt)
        return True

    def _prompt_tokens(self, context: SchedulingContext, endpoint: Endpoint) -> int:
        tokens = context.request.tokens
        match = prefix_of(context, self.parameters.prefix_match_info_producer_name)
        if match is not None and any_held(match):
            tokens = max(0, tokens - context.aligned(match.matched, (endpoint,))[0] * match.block_size)
        return tokens

    def _output_tokens(self, request: Request) -> int:
        limits = self.parameters
        if not limits.add_estimated_output_tokens:
            return 0
        estimated = int(request.tokens * limits.output_ratio)
        caps = [cap for cap in (limits.max_estimated_output_tokens, request.max_output_tokens) if cap]
        return min([estimated, *caps])

    def _release_lost(self, now_s: float) -> None:
        """The first is the oldest."""
        oldest = next(iter(self._counted))
        if now_s - self._counted[oldest].at_s > LOST_AFTER_S:
            self.release(oldest)


TYPES = (plugin_type("inflight-load-producer", InFlightProducer, InFlightParameters, produces="in-flight load"),)
