"""Limits of a prefix index."""

import msgspec

LEAST_BLOCK_TOKENS = 64


class PrefixLimits(msgspec.Struct, frozen=True):
    """What is compared, and how much is kept."""

    block_tokens: int = LEAST_BLOCK_TOKENS
    follow_servers: bool = True
    """Take the block size and the number of blocks from the servers' metrics where they have them."""
    most_tokens: int = 131072
    """Of a prompt; 0: all of it."""
    most_blocks: int = 2048
    """Of a prompt, where `most_tokens` is 0; 0: all of it."""
    blocks_a_server: int = 31250
    most_landmarks: int = 500_000
    """Of all servers together; about 100 bytes each."""
