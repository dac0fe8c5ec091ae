"""The KV cache of one engine: blocks of tokens, shared where their whole prefix is the same.

A block is identified by a hash of its tokens and of the block before it, so equal hashes mean equal prefixes. Unused
blocks keep their contents until they are needed: blocks that were never used are taken first, then the least recently
used, and of one sequence the last block first, because only a complete prefix can be found again. Two sequences that
fill the same block at the same time have a copy each; one is found, and when that one is evicted the other is.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

ROOT = 0
"""The parent hash of the first block of an unsalted prompt of the base model."""

Evicted = Callable[[int], None]


def root_hash(*, adapter: str | None, salt: str | None) -> int:
    """The start of a chain of blocks: adapters and salts share no blocks with others."""
    if adapter is None and salt is None:
        return ROOT
    return int.from_bytes(blake2b(repr((adapter, salt)).encode(), digest_size=8).digest(), "big")


def block_hash(parent: int, tokens: Iterable[int]) -> int:
    packed = array("Q", (parent,)).tobytes() + array("Q", tokens).tobytes()
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "big")


class BlockPool:
    """Which blocks are held, which are free, and which of either can be found by their hash."""

    __slots__ = ("_by_hash", "_copies", "_evicted", "_free", "_hash_of", "_holders", "_untouched", "total")

    def __init__(self, total: int, evicted: Evicted) -> None:
        self.total = total
        self._evicted = evicted
        self._untouched = 0
        self._free: OrderedDict[int, None] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._by_hash: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}
        self._hash_of: dict[int, int] = {}

    @property
    def free(self) -> int:
        return self.total - len(self._holders)

    def find(self, hashes: Sequence[int]) -> list[int]:
        """The blocks of the longest known prefix."""
        found: list[int] = []
        for name in hashes:
            block = self._by_hash.get(name)
            if block is None:
                break
            found.append(block)
        return found

    def can_take(self, fresh: int, shared: Sequence[int] = ()) -> bool:
        """Whether so many free blocks are left after sharing those."""
        return fresh <= self.free - sum(block not in self._holders for block in shared)

    def share(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            if block not in self._holders:
                del self._free[block]
            self._holders[block] = self._holders.get(block, 0) + 1

    def take(self, count: int) -> list[int]:
        """Take blocks to write to; the least recently used are evicted. The caller has checked `can_take`."""
        return [self._take_one() for _ in range(count)]

    def name(self, block: int, name: int) -> bool:
        """Make a held, full block findable; False when its contents already are."""
        self._hash_of[block] = name
        if name in self._by_hash:
            self._copies.setdefault(name, []).append(block)
            return False
        self._by_hash[name] = block
        return True

    def release(self, blocks: Sequence[int]) -> None:
        """Give up a sequence's blocks, in the order of its tokens."""
        for block in reversed(blocks):
            left = self._holders[block] - 1
            if left:
                self._holders[block] = left
            else:
                del self._holders[block]
                self._free[block] = None

    def forget(self) -> bool:
        """Drop every name; False, and nothing done, while blocks are held."""
        if self._holders:
            return False
        self._by_hash.clear()
        self._copies.clear()
        self._hash_of.clear()
        return True

    def _take_one(self) -> int:
        if self._untouched < self.total:
            block = self._untouched
            self._untouched += 1
        else:
            block, _ = self._free.popitem(last=False)
            name = self._hash_of.pop(block, None)
            if name is not None:
                self._lose(block, name)
        self._holders[block] = 1
        return block

    def _lose(self, block: int, name: int) -> None:
        copies = self._copies.get(name)
        if copies is None:
            del self._by_hash[name]
            self._evicted(name)
            return
        if self._by_hash[name] == block:
            self._by_hash[name] = copies.pop()
        else:
            copies.remove(block)
        if not copies:
            del self._copies[name]
