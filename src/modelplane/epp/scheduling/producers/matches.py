"""The result of a prefix index. A plain class, as a `Decision` is one, and as constant."""

from collections.abc import Sequence
from typing import Final


class PrefixMatch:
    """How many blocks of the request's prompts each endpoint holds."""

    __slots__ = ("block_size", "chains", "lengths", "matched", "total_blocks", "weighted")

    def __init__(
        self,
        total_blocks: int,
        block_size: int,
        matched: Sequence[int],
        weighted: Sequence[float] | None = None,
        chains: tuple[Sequence[int], ...] = (),
        lengths: tuple[int, ...] = (),
    ) -> None:
        self.total_blocks: Final = total_blocks
        self.block_size: Final = block_size
        """Tokens of a block."""
        self.matched: Final = matched
        """Blocks held, aligned with the endpoints of the cycle."""
        self.weighted: Final = weighted
        """The same with a lower weight for slower tiers; None: every block counts fully."""
        self.chains: Final = chains
        """The hashes behind it, one for each prompt's block or landmark, so that recording need not find them again."""
        self.lengths: Final = lengths
        """Blocks of each prompt, if they do not follow from its hashes."""
