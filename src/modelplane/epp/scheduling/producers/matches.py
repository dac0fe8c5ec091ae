"""The result of a prefix index."""

from collections.abc import Sequence

import msgspec


class PrefixMatch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How many blocks of the request's prompts each endpoint holds."""

    total_blocks: int
    block_size: int
    """Tokens of a block."""
    matched: Sequence[int]
    """Blocks held, aligned with the endpoints of the cycle."""
    weighted: Sequence[float] | None = None
    """The same with a lower weight for slower tiers; None: every block counts fully."""
    chains: tuple[Sequence[int], ...] = ()
    """The hashes behind it, one for each prompt's block or landmark, so that recording need not find them again."""
    lengths: tuple[int, ...] = ()
    """Blocks of each prompt, if they do not follow from its hashes."""


class PrefixFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A recorded match: hashes of the prompts' first blocks instead of their text."""

    blocks: int
    block_size: int
    held: tuple[int, ...]
    weighted: tuple[float, ...] | None = None
    hashes: tuple[tuple[str, ...], ...] = ()
