"""A prefix index from KV events: a server has the blocks cached that it reports.

Engines name blocks by hashes of their own. The index gives each block the hash of the chain up to it, made of its
tokens, so that a prompt in tokens can be matched for any engine; the engine's hash is kept to find the block when it is
removed. A block with an unknown parent is skipped. Only full blocks exist.

Caches whose blocks do not depend on the whole prompt before them (sliding windows, state spaces) are skipped, with
their removals: they would show uncached prompts as cached.

Batches of a server are numbered. A known batch is ignored; after a gap nothing is applied until the missing batches are
replayed or the server restarts. A number 0 after others means that the server restarted.

What a server held that went away is taken out a little at a time, by later batches.

A server reports the blocks of a prompt when it computes them, which is seconds after the decision where requests wait
for it. Without more, the next prompts of the same prefix would go elsewhere meanwhile, and be computed there again. So
a prompt that was sent can be guessed to be held, until its last block is reported or the guess expires.

Blocks in a slower tier count in full in `matched`, and at the tier's weight in `weighted`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.hashing import chain_of_blocks, seed_of
from modelplane.epp.scheduling.producers.kv_events import GPU, BlockRemoved, BlockStored, KvEventBatch
from modelplane.epp.scheduling.producers.matches import PrefixMatch

SLOW_TIER_WEIGHT = 0.8
_SWEPT_A_BATCH = 1024
_WHOLE_PROMPT_KINDS = ("full", "mla")


class BatchOutcome(StrEnum):
    """The outcome of a batch.

    APPLIED     it was the next one
    REPEATED    it was seen before, and changed nothing
    GAP         batches before it are missing, and it changed nothing: replay from `expected`, or start over
    """

    APPLIED = "Applied"
    REPEATED = "Repeated"
    GAP = "Gap"


class _Server:
    __slots__ = ("awaited", "bit", "block_size", "blocks", "expected", "guessed", "left_out")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.block_size = 0
        self.blocks: dict[int, int] = {}
        """The engine's names, and ours."""
        self.expected: int | None = None
        self.left_out: set[int] = set()
        """Groups of caches that do not count."""
        self.awaited: dict[int, int] = {}
        """The numbers of guesses, by the last block of each."""
        self.guessed: dict[int, int] = {}
        """In how many guesses a block is."""


class _Guess(msgspec.Struct, frozen=True, eq=False):
    until_s: float
    chains: tuple[Sequence[int], ...]
    server: _Server
    last: int


class _Places(msgspec.Struct, frozen=True):
    """Servers with one block size: all their bits, and the position of each in the given endpoints."""

    all: int
    index: dict[int, int]


class _Lookup(msgspec.Struct, frozen=True, eq=False):
    endpoints: Sequence[Endpoint]
    size: int
    """The block size of the counts: the first one reported."""
    sizes: Sequence[int]
    places: dict[int, _Places]
    """By block size."""


_NO_ENDPOINTS = _Lookup([], 1, (), {})


class PreciseIndex:
    """See the module. Not for several threads."""

    def __init__(
        self, block_tokens: int = 16, most_blocks: int = 2_000_000, slow_weight: float = SLOW_TIER_WEIGHT
    ) -> None:
        self._block_tokens = block_tokens
        self._most_blocks = most_blocks
        self._slow_weight = slow_weight
        self._servers: dict[Endpoint, _Server] = {}
        self._gone: deque[_Server] = deque()
        self._free_bits: list[int] = []
        self._fast: dict[int, int] = {}
        self._slow: dict[int, int] = {}
        self._guessed: dict[int, int] = {}
        self._guesses: dict[int, _Guess] = {}
        """By number, those that expire first before others."""
        self._next_guess = 0
        self._adapters: set[str] = set()
        self._count = 0
        self._lookup = _NO_ENDPOINTS
        self.orphans = 0
        """Blocks that were left out because what they continue was not known, or because there was no room."""

    @property
    def blocks(self) -> int:
        """The size of the index over all servers, including removed ones that are not yet swept."""
        return self._count

    def expected(self, endpoint: Endpoint) -> int | None:
        """The number of the next batch; None: any."""
        server = self._servers.get(endpoint)
        return server.expected if server else None

    def apply(self, endpoint: Endpoint, batch: KvEventBatch) -> BatchOutcome:
        if self._gone:
            self._sweep()
        server = self._servers.get(endpoint) or self._add_server(endpoint)
        if server.expected is not None and batch.sequence != server.expected:
            if batch.sequence > server.expected:
                return BatchOutcome.GAP
            if batch.sequence:
                return BatchOutcome.REPEATED
            self._clear(server)
        server.expected = batch.sequence + 1
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._store(server, event)
            elif isinstance(event, BlockRemoved):
                self._remove(server, event)
            else:
                self._clear(server)
        return BatchOutcome.APPLIED

    def reset(self, endpoint: Endpoint) -> None:
        """Drops what the endpoint holds; its next batch is applied with any number."""
        server = self._servers.get(endpoint)
        if server is not None:
            self._clear(server)
            server.expected = None

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Forgets every endpoint but these."""
        kept = set(endpoints)
        for endpoint in [known for known in self._servers if known not in kept]:
            server = self._servers.pop(endpoint)
            self._lookup = _NO_ENDPOINTS
            self._gone.append(server)
            for number in list(server.awaited.values()):
                self._end_guess(number)

    def match(
        self, prompts: Iterable[Sequence[int]], endpoints: Sequence[Endpoint], model: str = "", salt: str = ""
    ) -> PrefixMatch:
        """The matches of prompts in tokens, aligned with the endpoints, in blocks of the first size reported."""
        texts = list(prompts)
        lookup = self._lookup_of(endpoints)
        matched, lost = [0] * len(endpoints), [0] * len(endpoints)
        chains: tuple[list[int], ...] = ()
        for size, places in lookup.places.items():
            found = tuple([self._chain(tokens, size, model, salt) for tokens in texts])
            chains = chains or found
            for chain in found:
                self._walk(chain, places, matched, lost)
        if len(lookup.places) > 1:
            matched = [count * size // lookup.size for count, size in zip(matched, lookup.sizes, strict=True)]
        total = sum([len(tokens) // lookup.size for tokens in texts])
        less = 1.0 - self._slow_weight
        weighted = [count - blocks * less for count, blocks in zip(matched, lost, strict=True)] if any(lost) else None
        return PrefixMatch(total, lookup.size, matched, weighted, chains)

    def guess(self, endpoint: Endpoint, match: PrefixMatch, until_s: float) -> None:
        """The endpoint was just sent this prompt: it is assumed to hold it until it reports the last block."""
        chains = tuple(chain for chain in match.chains if chain)
        if not chains:
            return
        server = self._servers.get(endpoint) or self._add_server(endpoint)
        last = chains[-1][-1]
        self._end_guess(server.awaited.get(last))
        for chain in chains:
            for block in chain:
                server.guessed[block] = server.guessed.get(block, 0) + 1
                self._guessed[block] = self._guessed.get(block, 0) | server.bit
        self._guesses[self._next_guess] = _Guess(until_s, chains, server, last)
        server.awaited[last] = self._next_guess
        self._next_guess += 1

    def forget_guesses(self, now_s: float) -> None:
        """Ends those that no event has confirmed in time."""
        while self._guesses and self._guesses[number := next(iter(self._guesses))].until_s <= now_s:
            self._end_guess(number)

    def _end_guess(self, number: int | None) -> None:
        """Takes back what no other guess assumes as well."""
        if number is None:
            return
        guess = self._guesses.pop(number)
        server = guess.server
        del server.awaited[guess.last]
        for chain in guess.chains:
            for block in chain:
                server.guessed[block] -= 1
                if not server.guessed[block]:
                    del server.guessed[block]
                    _drop(self._guessed, block, server.bit)

    def _add_server(self, endpoint: Endpoint) -> _Server:
        bit = self._free_bits.pop() if self._free_bits else 1 << (len(self._servers) + len(self._gone))
        server = self._servers[endpoint] = _Server(bit)
        self._lookup = _NO_ENDPOINTS
        return server

    def _lookup_of(self, endpoints: Sequence[Endpoint]) -> _Lookup:
        """The whole pool comes again and again as the same tuple."""
        if endpoints is self._lookup.endpoints:
            return self._lookup
        reported = [self._size_of(endpoint) for endpoint in endpoints]
        size = next(filter(None, reported), self._block_tokens)
        sizes = [each or size for each in reported]
        places: dict[int, dict[int, int]] = {size: {}}
        for at, endpoint in enumerate(endpoints):
            server = self._servers.get(endpoint)
            if server is not None:
                places.setdefault(sizes[at], {})[server.bit] = at
        lookup = _Lookup(endpoints, size, sizes, {each: _Places(sum(found), found) for each, found in places.items()})
        if isinstance(endpoints, tuple):
            self._lookup = lookup
        return lookup

    def _size_of(self, endpoint: Endpoint) -> int:
        server = self._servers.get(endpoint)
        return (server.block_size if server else 0) or endpoint.metrics.block_size

    def _chain(self, tokens: Sequence[int], size: int, model: str, salt: str) -> list[int]:
        seed = seed_of(model if model in self._adapters else "")
        return chain_of_blocks(tokens, size, seed, [(salt,)] if salt else [])

    def _walk(self, chain: Sequence[int], places: _Places, matched: list[int], lost: list[int]) -> None:
        """Adds to each endpoint's count the blocks it holds from the first on without a hole."""
        fast, slow, guessed = self._fast, self._slow, self._guessed
        holders = places.all
        done = 0
        for block in chain:
            quick = fast.get(block, 0) | (guessed.get(block, 0) if guessed else 0)
            held = holders & (quick | (slow.get(block, 0) if slow else 0))
            if held != holders:
                _add(matched, places, holders & ~held, done)
                holders = held
                if not holders:
                    return
            if slow and holders & ~quick:
                _add(lost, places, holders & ~quick, 1)
            done += 1
        _add(matched, places, holders, done)

    def _store(self, server: _Server, event: BlockStored) -> None:
        if event.kind and not any(kind in event.kind.lower() for kind in _WHOLE_PROMPT_KINDS):
            server.left_out.add(event.group)
            return
        if server.block_size != event.block_size:
            server.block_size = event.block_size
            self._lookup = _NO_ENDPOINTS
        if event.lora:
            self._adapters.add(event.lora)
        link = seed_of(event.lora) if event.parent is None else server.blocks.get(event.parent)
        if link is None or self._count + len(event.hashes) > self._most_blocks:
            self.orphans += len(event.hashes)
            return
        extra = [tuple(key for key in keys if key != event.lora) for keys in event.extra_keys]
        held = self._fast if event.medium == GPU else self._slow
        links = chain_of_blocks(event.tokens, event.block_size, link, extra)
        known = len(server.blocks)
        for name, block in zip(event.hashes, links, strict=False):
            server.blocks[name] = block
            held[block] = held.get(block, 0) | server.bit
            if server.awaited:
                self._end_guess(server.awaited.get(block))
        self._count += len(server.blocks) - known

    def _remove(self, server: _Server, event: BlockRemoved) -> None:
        if event.group in server.left_out:
            return
        here, other = (self._fast, self._slow) if event.medium == GPU else (self._slow, self._fast)
        for name in event.hashes:
            block = server.blocks.get(name)
            if block is None:
                continue
            _drop(here, block, server.bit)
            if not other.get(block, 0) & server.bit:
                del server.blocks[name]
                self._count -= 1

    def _clear(self, server: _Server) -> None:
        self._release(server, len(server.blocks))

    def _sweep(self) -> None:
        server = self._gone[0]
        self._release(server, _SWEPT_A_BATCH)
        if not server.blocks:
            self._free_bits.append(self._gone.popleft().bit)

    def _release(self, server: _Server, most: int) -> None:
        for _ in range(min(most, len(server.blocks))):
            _, block = server.blocks.popitem()
            _drop(self._fast, block, server.bit)
            _drop(self._slow, block, server.bit)
            self._count -= 1


def _drop(held: dict[int, int], block: int, bit: int) -> None:
    holders = held.get(block, 0)
    left = holders & ~bit
    if left:
        held[block] = left
    elif holders:
        del held[block]


def _add(counts: list[int], places: _Places, holders: int, more: int) -> None:
    if more and holders:
        for bit, place in places.index.items():
            if bit & holders:
                counts[place] += more
