"""Prompts as chains of block hashes.

A chain starts from a seed of the model and the cache salt. The hash of a block covers its tokens and the hash before
it, so an equal hash at one position means an equal prompt up to there.

    seed     xxh64(model, salt)
    block    xxh64(LE64(xxh64(tokens as LE32)), LE64(hash before))

Without a tokenizer, four bytes of text are one token: a block's tokens as LE32 are its bytes. The last block counts
even when it is not full, unless the caller requires full ones.
"""

import struct
from collections.abc import Sequence
from typing import Final

from xxhash import xxh64_intdigest

BYTES_A_TOKEN: Final = 4
digest: Final = xxh64_intdigest
_pair: Final = struct.Struct("<QQ").pack


def seed_of(model: str, salt: str = "") -> int:
    return digest((model + salt).encode())


def chain_of_text(text: bytes, block_bytes: int, seed: int, most_bytes: int) -> list[int]:
    """One hash a block of `block_bytes`, over the first `most_bytes`; the last block may be shorter."""
    link = seed
    ends = range(0, min(len(text), most_bytes), block_bytes)
    return [link := digest(_pair(digest(text[start : start + block_bytes]), link)) for start in ends]


def marks_of_text(text: bytes, block_bytes: int, seed: int, ends: Sequence[int]) -> list[int]:
    """One hash at the end of each of these counts of blocks; it covers all text before, in one pass.

    A separate chain, for readers of a few positions in a long text: none of its hashes equals the hash of a block.
    """
    start, marks = 0, []
    for end in ends:
        seed = digest(text[start : end * block_bytes], seed)
        marks.append(seed)
        start = end * block_bytes
    return marks


def chain_of_tokens(tokens: Sequence[int], block_tokens: int, seed: int, *, full_only: bool = False) -> list[int]:
    """One hash a block of `block_tokens`; `full_only` leaves out a last block that is not full."""
    packed = struct.pack(f"<{len(tokens)}I", *tokens)
    width = block_tokens * BYTES_A_TOKEN
    return chain_of_text(packed, width, seed, len(packed) // width * width if full_only else len(packed))


def chain_of_blocks(
    tokens: Sequence[int], block_tokens: int, link: int, extra_keys: Sequence[tuple[object, ...]]
) -> list[int]:
    """The hashes of full blocks that follow `link`; what `extra_keys` has for a block counts as part of it."""
    if not any(extra_keys):
        return chain_of_tokens(tokens, block_tokens, link, full_only=True)
    packed = struct.pack(f"<{len(tokens)}I", *tokens)
    width = block_tokens * BYTES_A_TOKEN
    chain: list[int] = []
    for place in range(len(packed) // width):
        keys = extra_keys[place] if place < len(extra_keys) else ()
        block = packed[place * width : (place + 1) * width] + (repr(keys).encode() if keys else b"")
        link = digest(_pair(digest(block), link))
        chain.append(link)
    return chain
