"""Where the beginning of a prompt is cached: what producers find out and scorers, filters and deciders read.

A producer asks its index once a cycle and leaves the answer in two slots: `PREFIX`, where readers that name no producer
look, and `PREFIXES`, by the producer's name. Readers call `prefix_of`. With several producers `PREFIX` holds the answer
of the one that ran last.

Matches are contiguous for each server: a count of n says that the server holds blocks 1 to n of the prompt, each of
them, and not block n + 1. With several prompts in a request the counts are added up.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.producers.matches import PrefixFacts, PrefixMatch
from modelplane.framework import Slot, SparseVector

_HASHES_SHOWN: Final = 16
PREFIX: Slot[PrefixMatch] = Slot("prefix")
PREFIXES: Slot[dict[str, PrefixMatch]] = Slot("prefixes")
TOKENS: Slot[Sequence[Sequence[int]]] = Slot("tokens")
"""The prompts as the server's own tokenizer has them, one sequence a prompt, where somebody asked it."""


def put_prefix(context: SchedulingContext, producer: str, match: PrefixMatch) -> None:
    context.put(PREFIX, match)
    others = context.get(PREFIXES)
    if others is None:
        context.put(PREFIXES, {producer: match})
    else:
        others[producer] = match


def prefix_of(context: SchedulingContext, producer: str = "") -> PrefixMatch | None:
    """The match that the named producer left; without a name, the one that any left. None: nothing is known."""
    if not producer:
        return context.get(PREFIX)
    matches = context.get(PREFIXES)
    return None if matches is None else matches.get(producer)


def any_held(match: PrefixMatch) -> bool:
    """Whether some endpoint holds something."""
    matched = match.matched
    return bool(matched.values) if type(matched) is SparseVector else any(matched)


def write_prefix(context: SchedulingContext, producer: str) -> PrefixFacts | None:
    """What the producer left in this cycle, to be written down; None: nothing."""
    match = prefix_of(context, producer)
    if match is None:
        return None
    return PrefixFacts(
        match.total_blocks,
        match.block_size,
        tuple(match.matched),
        None if match.weighted is None else tuple(match.weighted),
        tuple(tuple(f"{link:016x}" for link in chain[:_HASHES_SHOWN]) for chain in match.chains),
    )


def read_prefix(context: SchedulingContext, producer: str, written: object) -> None:
    """Leaves what was written down as if the producer had found it."""
    facts = msgspec.convert(written, PrefixFacts)
    put_prefix(context, producer, PrefixMatch(facts.blocks, facts.block_size, facts.held, facts.weighted))
