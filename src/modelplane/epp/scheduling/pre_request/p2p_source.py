"""Names, to the server that computes a prompt, another server that has more of it cached, to fetch the blocks from."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import CACHE_SOURCE
from modelplane.epp.scheduling.producers.prefix import any_held, prefix_of
from modelplane.framework.registry import Parameters, plugin_type


class PeerSourceParameters(Parameters, frozen=True):
    prefix_match_info_producer_name: str = ""
    min_cached_token_delta: Annotated[int, msgspec.Meta(ge=1)] = 1
    """So many more tokens must the other hold."""
    prefill_profile_name: str = "prefill"


class P2pSource:
    __slots__ = ("_parameters", "name")

    def __init__(self, name: str, parameters: PeerSourceParameters) -> None:
        self.name = name
        self._parameters = parameters

    def pre_request(self, context: SchedulingContext, decision: Decision, /) -> Sequence[tuple[str, str]]:
        match = prefix_of(context, self._parameters.prefix_match_info_producer_name)
        if match is None or not any_held(match):
            return ()
        best = max(match.matched)
        own = context.aligned(match.matched, (self._computes(decision),))[0]
        if (best - own) * match.block_size < self._parameters.min_cached_token_delta:
            return ()
        holders = [each for each, held in zip(context.endpoints, match.matched, strict=True) if held == best]
        # Independent of the order of the pool.
        source = min(holders, key=lambda endpoint: endpoint.name)
        return ((CACHE_SOURCE, source.address),)

    def _computes(self, decision: Decision) -> Endpoint:
        others = dict(decision.others).get(self._parameters.prefill_profile_name)
        return others[0] if others else decision.picked


TYPES = (plugin_type("p2p-source-producer", P2pSource, PeerSourceParameters, consumes=("prefix",)),)
