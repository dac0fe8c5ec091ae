"""Deciders: whether a request gets a further stage."""

from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.prefix import prefix_of
from modelplane.framework.registry import NoParameters, Parameters, plugin_type

Count = Annotated[int, msgspec.Meta(ge=0)]


class PrefixBasedParameters(Parameters, frozen=True):
    non_cached_tokens: Count = 0
    """The stage runs if at least this many tokens are not cached; 0: never."""
    prompt_tokens: Count = 0
    """So long must the prompt be."""
    prefix_match_info_producer_name: str = ""


class PrefixBasedDecider:
    """Disaggregates if the decode endpoint would have to compute much of the prompt."""

    __slots__ = ("_parameters", "name")

    def __init__(self, name: str, parameters: PrefixBasedParameters) -> None:
        self.name = name
        self._parameters = parameters

    def disaggregate(self, context: SchedulingContext, primary: Endpoint | None, /) -> bool:
        least, tokens = self._parameters.non_cached_tokens, context.request.tokens
        if not least or tokens < least or tokens < self._parameters.prompt_tokens or primary is None:
            return False
        match = prefix_of(context, self._parameters.prefix_match_info_producer_name)
        if match is None:
            return False
        return tokens - context.aligned(match.matched, (primary,))[0] * match.block_size >= least


class AlwaysDecider:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def disaggregate(self, _context: SchedulingContext, _primary: Endpoint | None, /) -> bool:
        return True


class MultimodalDecider:
    """Disaggregates if the request has images, audio or video."""

    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def disaggregate(self, context: SchedulingContext, _primary: Endpoint | None, /) -> bool:
        return context.request.has_media


TYPES = (
    plugin_type("prefix-based-pd-decider", PrefixBasedDecider, PrefixBasedParameters, consumes=("prefix",)),
    plugin_type("always-disagg-pd-decider", AlwaysDecider, NoParameters),
    plugin_type("always-disagg-multimodal-decider", MultimodalDecider, NoParameters),
)
