"""The result of a prefix index as it is recorded."""

import msgspec


class PrefixFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A recorded match: hashes of the prompts' first blocks instead of their text."""

    blocks: int
    block_size: int
    held: tuple[int, ...]
    weighted: tuple[float, ...] | None = None
    hashes: tuple[tuple[str, ...], ...] = ()
