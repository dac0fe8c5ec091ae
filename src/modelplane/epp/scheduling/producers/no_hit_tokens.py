"""Requests whose prompt no endpoint has cached go to the endpoint that got the fewest tokens of prompts new to it.

A prompt stays where it was first sent, so what an endpoint holds and computes later is decided by where new prompts go.
Tokens make turns fair where lengths differ, and where load moved a prompt elsewhere the turn is still owed. Old prompts
weigh less, as caches drop them. Where an endpoint has a prefix of the prompt cached, all endpoints score 0.5.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import NoHitTokensParameters
from modelplane.epp.scheduling.producers.approx_producer import computing
from modelplane.epp.scheduling.producers.no_hit_lru import NEUTRAL, in_turn, is_cold
from modelplane.epp.scheduling.producers.prefix import prefix_of
from modelplane.framework.registry import plugin_type

_REMEMBERED: Final = 256
"""Prompts an endpoint after which one weighs about a third."""
_LARGEST_UNIT: Final = 1e100


class NoHitTokensScorer:
    def __init__(self, name: str, parameters: NoHitTokensParameters | None = None) -> None:
        self.name = name
        self._producer = (parameters or NoHitTokensParameters()).prefix_match_info_producer_name
        self._sent: dict[Endpoint, float] = {}
        self._unit = 1.0
        """What a token weighs now. It grows instead of all sums shrinking."""

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        """1 for the endpoint that got the fewest tokens, down to 0; equal ones by name."""
        if not is_cold(context, self._producer):
            return [NEUTRAL] * len(endpoints)
        return in_turn(endpoints, [(self._sent.get(endpoint, 0.0), endpoint.name) for endpoint in endpoints])

    def capture(self, context: SchedulingContext) -> object:
        """Tokens by endpoint; only cold requests use them."""
        if not is_cold(context, self._producer):
            return None
        return {each.name: self._sent[each] / self._unit for each in context.endpoints if each in self._sent}

    def restore(self, context: SchedulingContext, captured: object) -> None:
        sent = msgspec.convert(captured, dict[str, float])
        self._sent = {each: sent[each.name] * self._unit for each in context.endpoints if each.name in sent}

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        match = prefix_of(context, self._producer)
        new_to = [each for each in computing(decision) if match is None or not context.value(match.matched, each)]
        for endpoint in new_to:
            self._sent[endpoint] = self._sent.get(endpoint, 0.0) + context.request.tokens * self._unit
        if new_to:
            self._age(len(context.endpoints))
        return ()

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        """One that joins is next, and owed no more than that: it gets its share of what comes, not of what was."""
        known = {endpoint: self._sent[endpoint] for endpoint in endpoints if endpoint in self._sent}
        least = min(known.values(), default=0.0)
        self._sent = {endpoint: known.get(endpoint, least) for endpoint in endpoints}

    def _age(self, endpoints: int) -> None:
        self._unit *= 1.0 + 1.0 / (_REMEMBERED * endpoints)
        if self._unit > _LARGEST_UNIT:
            self._sent = {endpoint: tokens / self._unit for endpoint, tokens in self._sent.items()}
            self._unit = 1.0


TYPES = (plugin_type("no-hit-tokens-scorer", NoHitTokensScorer, NoHitTokensParameters, consumes=("prefix",)),)
