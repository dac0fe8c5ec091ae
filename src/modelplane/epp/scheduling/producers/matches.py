"""What a prefix index returns, and its interface."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import Request


class PrefixMatch(msgspec.Struct, frozen=True, eq=False, gc=False):
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


class PrefixIndex(Protocol):
    """Which endpoint has which prompts cached."""

    def match(self, request: Request, endpoints: Sequence[Endpoint]) -> PrefixMatch:
        """The matches, aligned with `endpoints`."""

    def record(self, request: Request, endpoints: Iterable[Endpoint], known: PrefixMatch | None = None) -> None:
        """The endpoints are sent this request; `known` is what `match` said of it."""

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Forget every endpoint but these."""


class PrefixFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A match as it is written down: hashes of the prompts' first blocks stand for their text."""

    blocks: int
    block_size: int
    held: tuple[int, ...]
    weighted: tuple[float, ...] | None = None
    hashes: tuple[tuple[str, ...], ...] = ()
