"""The producer of the approximate prefix index: matches prompts before the profiles run, and records what was sent."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import PREFILLER
from modelplane.epp.scheduling.parameters import ApproxPrefixParameters
from modelplane.epp.scheduling.producers.approximate import ApproximateIndex
from modelplane.epp.scheduling.producers.hashing import BYTES_A_TOKEN
from modelplane.epp.scheduling.producers.limits import PrefixLimits
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import any_held, prefix_of, put_prefix, read_prefix, write_prefix
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import picked_of
from modelplane.framework.registry import plugin_type

OnRecord = Callable[[Sequence[Endpoint], PrefixMatch], None]
PREFILL: Final = "prefill"
"""The profile whose pick computes the prompt's KV blocks in addition to the primary one."""

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIZES = (0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0)

_bucket_of: Final = bisect_left


class Tally:
    """How often numbers fell up to each bound, the last of them beyond all, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, number: float) -> None:
        self.counts[0 if number <= self.bounds[0] else _bucket_of(self.bounds, number)] += 1
        self.total += number


class ApproxPrefixProducer:
    reads_bodies = False
    """Usage makes the index fit better; it does without."""

    def __init__(self, name: str, parameters: ApproxPrefixParameters) -> None:
        self.name = name
        self.index = ApproximateIndex(
            PrefixLimits(
                block_tokens=parameters.block_size // BYTES_A_TOKEN or parameters.block_size_tokens,
                follow_servers=parameters.auto_tune,
                most_tokens=parameters.max_prefix_tokens_to_match,
                most_blocks=parameters.max_prefix_blocks_to_match,
                blocks_a_server=parameters.lru_capacity_per_server,
            )
        )
        self.hit_ratios = Tally(RATIOS)
        """The share of prompts that the picked endpoint has cached."""
        self.hit_bytes = Tally(SIZES)
        self.on_record: OnRecord | None = None
        """Called with each prompt that is sent, and where to."""

    def produce(self, context: SchedulingContext) -> None:
        put_prefix(context, self.name, self.index.match(context.request, context.endpoints))

    def capture(self, context: SchedulingContext) -> object:
        return write_prefix(context, self.name)

    def restore(self, context: SchedulingContext, captured: object) -> None:
        read_prefix(context, self.name, captured)

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        match = prefix_of(context, self.name)
        if match is not None and match.total_blocks:
            held = context.value(match.matched, picked_of(decision)) if any_held(match) else 0
            self.hit_ratios.add(held / match.total_blocks)
            self.hit_bytes.add(held * match.block_size * BYTES_A_TOKEN)
        endpoints = computing(decision)
        self.index.record(context.request, endpoints, match)
        if self.on_record is not None and match is not None and match.total_blocks:
            self.on_record(endpoints, match)
        return ()

    def response_complete(self, request: Request, _decision: Decision, served: EndpointResponse) -> None:
        if served.usage.prompt_tokens > 0 and request.prompts:
            self.index.learn(request.prompt_bytes, served.usage.prompt_tokens)

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        self.index.keep(endpoints)


def computing(decision: Decision) -> tuple[Endpoint, ...]:
    """The endpoints that will hold the prompt's blocks: the primary pick, and the prefill pick.

    The latter is the pick of a profile called prefill, or the one in the prefiller header.
    """
    if not decision.others:
        return (picked_of(decision),)
    named = dict(decision.set_headers).get(PREFILLER)
    prefill = tuple(
        picks[0] for profile, picks in decision.others if picks and (profile == PREFILL or picks[0].address == named)
    )
    return (picked_of(decision), *(endpoint for endpoint in prefill if endpoint is not picked_of(decision)))


TYPES = (plugin_type("approx-prefix-cache-producer", ApproxPrefixProducer, ApproxPrefixParameters, produces="prefix"),)
