"""Where the beginning of a prompt is cached: what producers find out and scorers, filters and deciders read.

A producer asks its index once a cycle and leaves the answer in two slots: `PREFIX`, where readers that name no producer
look, and `PREFIXES`, by the producer's name. Readers call `prefix_of`. With several producers `PREFIX` holds the answer
of the one that ran last.

Matches are contiguous for each server: a count of n says that the server holds blocks 1 to n of the prompt, each of
them, and not block n + 1. With several prompts in a request the counts are added up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from modelplane.framework import Slot
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.requests import Request


class PrefixMatch(msgspec.Struct, frozen=True, eq=False):
    """How many blocks of the request's prompts each endpoint holds."""

    total_blocks: int
    block_size: int
    """Tokens of a block."""
    matched: Sequence[int]
    """Blocks held, aligned with the endpoints that were asked about: those of the cycle."""
    weighted: Sequence[float] | None = None
    """The same where a block in a slower tier counts less; None: every block counts whole."""
    chains: tuple[Sequence[int], ...] = ()
    """The hashes behind it, one for each prompt's block or landmark, so that recording need not find them again."""
    lengths: tuple[int, ...] = ()
    """Blocks of each prompt, where its hashes do not tell."""

    @property
    def any(self) -> bool:
        """Whether some endpoint holds something."""
        return any(self.matched)


class PrefixIndex(Protocol):
    """Remembers which endpoint was sent which prompts, or heard which it holds."""

    def match(self, request: Request, endpoints: Sequence[Endpoint]) -> PrefixMatch:
        """The matches, aligned with `endpoints`."""

    def record(self, request: Request, endpoints: Iterable[Endpoint], known: PrefixMatch | None = None) -> None:
        """The endpoints are sent this request; `known` is what `match` said of it."""

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Forget every endpoint but these."""


PREFIX: Slot[PrefixMatch] = Slot("prefix")
PREFIXES: Slot[Mapping[str, PrefixMatch]] = Slot("prefixes")
TOKENS: Slot[Sequence[Sequence[int]]] = Slot("tokens")
"""The prompts as the server's own tokenizer has them, one sequence a prompt, where somebody asked it."""


def put_prefix(cycle: Cycle, producer: str, match: PrefixMatch) -> None:
    cycle.put(PREFIX, match)
    others = cycle.get(PREFIXES)
    cycle.put(PREFIXES, {producer: match} if others is None else {**others, producer: match})


def prefix_of(cycle: Cycle, producer: str = "") -> PrefixMatch | None:
    """The match that the named producer left; without a name, the one that any left. None: nothing is known."""
    if not producer:
        return cycle.get(PREFIX)
    matches = cycle.get(PREFIXES)
    return None if matches is None else matches.get(producer)
