"""Limits of a prefix index."""

from typing import Final

import msgspec

LEAST_BLOCK_TOKENS: Final = 64


class PrefixLimits(msgspec.Struct, frozen=True):
    """Limits of the prefix index."""

    block_tokens: int = LEAST_BLOCK_TOKENS
    follow_servers: bool = True
    """Take the block size and the number of blocks from the servers' metrics where they have them."""
    most_tokens: int = 131072
    """Tokens of a prompt; 0: all of it."""
    most_blocks: int = 2048
    """Blocks of a prompt, if `most_tokens` is 0; 0: all of it."""
    blocks_a_server: int = 31250
    most_landmarks: int = 500_000
    """Landmarks of all servers together; about 100 bytes each."""
