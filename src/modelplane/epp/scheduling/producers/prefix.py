"""The cached prefix of a prompt: written by producers, read by scorers, filters and deciders.

A producer matches once per cycle and writes the match under two state keys: `PREFIX`, for readers that name no
producer, and `PREFIXES`, by the producer's name. Readers call `prefix_of`. With several producers `PREFIX` is the match
of the one that ran last.

Matches are contiguous for each server: a count of n means that the server holds blocks 1 to n of the prompt, and not
block n + 1. With several prompts in a request the counts are added.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix_facts import PrefixFacts
from modelplane.framework import SparseVector, StateKey

_HASHES_SHOWN: Final = 16
PREFIX: Final[StateKey[PrefixMatch]] = StateKey("prefix")
PREFIXES: Final[StateKey[dict[str, PrefixMatch]]] = StateKey("prefixes")
TOKENS: Final[StateKey[Sequence[Sequence[int]]]] = StateKey("tokens")
"""The prompts as tokens of the server's own tokenizer, one sequence a prompt, if it was called."""


def put_prefix(context: SchedulingContext, producer: str, match: PrefixMatch) -> None:
    context.put(PREFIX, match)
    others = context.get(PREFIXES)
    if others is None:
        context.put(PREFIXES, {producer: match})
    else:
        others[producer] = match


def prefix_of(context: SchedulingContext, producer: str = "") -> PrefixMatch | None:
    """The match of the named producer; without a name, of any. None: there is none."""
    if not producer:
        return context.get(PREFIX)
    matches = context.get(PREFIXES)
    return None if matches is None else matches.get(producer)


def any_held(match: PrefixMatch) -> bool:
    """Whether some endpoint holds something."""
    matched = match.matched
    return bool(matched.values) if type(matched) is SparseVector else any(matched)


def write_prefix(context: SchedulingContext, producer: str) -> PrefixFacts | None:
    """The match of the producer in this cycle, to be recorded; None: there is none."""
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
