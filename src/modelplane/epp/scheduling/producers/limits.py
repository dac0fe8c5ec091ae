"""How much an index of prefixes compares and remembers."""

import msgspec

LEAST_BLOCK_TOKENS = 64


class PrefixLimits(msgspec.Struct, frozen=True):
    """What is compared, and how much is remembered."""

    block_tokens: int = LEAST_BLOCK_TOKENS
    follow_servers: bool = True
    """Take the block size and the room from the servers where they tell them."""
    most_tokens: int = 131072
    """Of a prompt; 0: all of it."""
    most_blocks: int = 2048
    """Of a prompt, where `most_tokens` is 0; 0: all of it."""
    blocks_a_server: int = 31250
    most_landmarks: int = 500_000
    """Of all servers together; about 100 bytes each."""
