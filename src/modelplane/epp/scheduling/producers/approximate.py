"""A prefix index from what was sent: a server that was sent a prompt is taken to hold its blocks for a while.

Not every block is indexed. Of a chain the first 32 are, then every 2nd to the 64th, every 4th to the 128th and so on
(`_PLACES`), and the last one: its *landmarks*. So a count is exact up to 32 blocks, exact for a prompt that was sent
before, and otherwise rounded down by less than a sixteenth; and a prompt of 200 KB costs a hundred hashes and lookups.

Two structures. `_held` maps a landmark to the servers that hold it, as a set of bits. Each server has *segments*: runs
of consecutive landmarks, keyed by the first of the run, in the order of last use. A chain that is recorded passes
through the server's segments from its beginning; where it leaves one half-way, the segment is split; the rest of the
chain becomes a new segment.

The order of use is kept so that a segment is always used later than any that continues it. So the oldest segment has
no continuation, and taking landmarks off its end never leaves a hole: what a server holds of any chain is a beginning
of it. Therefore the servers that hold a landmark are among those that hold the one before it, and the places where the
set of holders changes are found by bisection.

Bounds. A server holds at most its capacity (its own KV blocks if reported), and all servers together at most
`most_landmarks`: above that, the server with the most loses some. The cost of a request depends on its own length only:
new landmarks evict as many old ones, `_held` is many small dicts because a large one stops everything when it grows,
and the landmarks of a removed server are released a few at a time, by later requests.

Servers report their capacity in tokens, and prompts are known in bytes. The ratio is learned from the usage in
responses, if the proxy shows them. Until then a high ratio is assumed: an underestimated server loses prompts that it
has, and an overestimated one gets some requests whose prompt it must compute, as any other server would.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.hashing import BYTES_A_TOKEN, marks_of_text, seed_of
from modelplane.epp.scheduling.producers.limits import LEAST_BLOCK_TOKENS, PrefixLimits
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import SparseVector

_SHARDS: Final = 64
_SHARD: Final = _SHARDS - 1
_SETS_KEPT: Final = 256
_EXACT: Final = 32


def _places() -> list[int]:
    """The number of blocks up to each landmark."""
    counts = list(range(1, _EXACT + 1))
    while counts[-1] < 1 << 24:
        step = counts[-1] // (_EXACT // 2)
        counts.extend(range(counts[-1] + step, counts[-1] * 2 + 1, step))
    return counts


_PLACES: Final = _places()
_SWEPT_A_RECORD: Final = 256
_SPARE: Final = 1024
_UNLEARNED: Final = 8.0
"""Bytes of a token before anything is learned: twice of what English has under usual vocabularies."""
_TRUSTED_TOKENS: Final = 10_000
"""Fewer learned tokens than this weigh less than the assumed ratio."""
_RECENT_TOKENS: Final = 10_000_000


class _Segment:
    """Consecutive landmarks; `first` is the place of the first of them in its chain."""

    __slots__ = ("first", "landmarks")

    def __init__(self, first: int, landmarks: "array[int]") -> None:
        self.first = first
        self.landmarks = landmarks

    def blocks(self, start: int = 0) -> int:
        """The number of blocks of the landmarks from `start` on."""
        first, end = self.first + start, self.first + len(self.landmarks)
        return _PLACES[end - 1] - (_PLACES[first - 1] if first else 0)


class _Server:
    __slots__ = ("bit", "blocks", "landmarks", "segments")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.blocks = 0
        self.landmarks = 0
        self.segments: OrderedDict[int, _Segment] = OrderedDict()


class _Lookup:
    """Endpoints in the order given, the bit of each (0: unknown), and positions by set of bits."""

    __slots__ = ("bits", "endpoints", "where")

    def __init__(self, endpoints: Sequence[Endpoint], bits: Sequence[int]) -> None:
        self.endpoints = endpoints
        self.bits = bits
        self.where: dict[int, Sequence[int]] = {}


_NO_ENDPOINTS: Final = _Lookup((), ())
_NONE: Final[Mapping[int, int]] = MappingProxyType({})


class ApproximateIndex:
    """See the module. Not for several threads."""

    def __init__(self, limits: PrefixLimits | None = None) -> None:
        self._limits = limits or PrefixLimits()
        self._held: tuple[dict[int, int], ...] = tuple({} for _ in range(_SHARDS))
        self._servers: dict[Endpoint, _Server] = {}
        self._gone: deque[_Server] = deque()
        self._free_bits: list[int] = []
        self._recorded = 0
        self._lookup = _NO_ENDPOINTS
        self._nowhere = SparseVector(0, _NONE, 0)
        self._known_seed = ("", "", seed_of(""))
        self._most_bytes = self._limits.most_tokens * BYTES_A_TOKEN
        self._most_landmarks = self._limits.most_landmarks
        self._follows_servers = self._limits.follow_servers
        self._block_tokens_unknown = self._limits.block_tokens
        """Where servers do not say."""
        self._learned = (_UNLEARNED * _TRUSTED_TOKENS, float(_TRUSTED_TOKENS))

    @property
    def bytes_a_token(self) -> float:
        """The ratio for prompts, as far as it was learned."""
        return self._learned[0] / self._learned[1]

    def learn(self, text_bytes: int, tokens: int) -> None:
        """A prompt of so many bytes had so many tokens."""
        known_bytes, known_tokens = self._learned[0] + text_bytes, self._learned[1] + tokens
        if known_tokens > _RECENT_TOKENS:
            known_bytes, known_tokens = known_bytes / 2, known_tokens / 2
        self._learned = (known_bytes, known_tokens)

    @property
    def landmarks(self) -> int:
        """The size of the index over all servers, including removed ones that are not yet swept."""
        return self._recorded

    def blocks_of(self, endpoint: Endpoint) -> int:
        server = self._servers.get(endpoint)
        return server.blocks if server else 0

    def match(self, request: Request, endpoints: Sequence[Endpoint]) -> PrefixMatch:
        block_tokens = self._block_tokens(endpoints)
        chains, lengths = self._chains(request, block_tokens)
        matched: dict[int, int] | None = None
        for at, landmarks in enumerate(chains):
            if landmarks and (holders := self._held[landmarks[0] & _SHARD].get(landmarks[0])):
                found = self._matched(landmarks, lengths[at], holders, self._lookup_of(endpoints))
                matched = found if matched is None else _added(matched, found)
        if matched is None and self._nowhere.length != len(endpoints):
            self._nowhere = SparseVector(len(endpoints), _NONE, 0)
        counts = self._nowhere if matched is None else SparseVector(len(endpoints), matched, 0)
        blocks = lengths[0] if len(lengths) == 1 else sum(lengths)
        return PrefixMatch(blocks, block_tokens, counts, None, chains, lengths)

    def record(self, request: Request, endpoints: Iterable[Endpoint], known: PrefixMatch | None = None) -> None:
        for endpoint in endpoints:
            block_tokens = known.block_size if known else self._block_tokens((endpoint,))
            chains = known.chains if known else self._chains(request, block_tokens)[0]
            self._record_on(endpoint, block_tokens, chains)
        self._keep_bounds()

    def record_chains(self, endpoint: Endpoint, block_tokens: int, chains: Sequence[Sequence[int]]) -> None:
        """What another picker sent there. No prompt has more landmarks than there are places."""
        bounded = [chain[: len(_PLACES)] for chain in chains]
        self._record_on(endpoint, block_tokens, bounded)
        self._keep_bounds()

    def _record_on(self, endpoint: Endpoint, block_tokens: int, chains: Sequence[Sequence[int]]) -> None:
        server = self._servers.get(endpoint) or self._add_server(endpoint)
        room = self._room(endpoint, block_tokens)
        most = bisect_right(_PLACES, room)
        for landmarks in chains:
            if fits := landmarks[:most]:
                self._remember(server, fits)
        while server.blocks > room:
            self._drop_from_oldest(server, server.blocks - room, _SPARE)

    def _keep_bounds(self) -> None:
        if self._gone:
            self._sweep()
        while self._recorded > self._most_landmarks:
            largest = max((*self._servers.values(), *self._gone), key=lambda server: server.landmarks)
            self._drop_from_oldest(largest, largest.blocks, _SPARE)

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        kept = set(endpoints)
        for endpoint in [known for known in self._servers if known not in kept]:
            self._gone.append(self._servers.pop(endpoint))
        self._lookup = _NO_ENDPOINTS

    def _block_tokens(self, endpoints: Sequence[Endpoint]) -> int:
        """Those of the first server: servers of one pool are equal. Small blocks would only fill the memory."""
        reported = endpoints[0].block_size if self._follows_servers and endpoints else 0
        return max(reported or self._block_tokens_unknown, LEAST_BLOCK_TOKENS)

    def _chains(self, request: Request, block_tokens: int) -> tuple[tuple[Sequence[int], ...], tuple[int, ...]]:
        """The landmarks of each prompt, and how many blocks it has."""
        model, salt, seed = self._known_seed
        if model != request.model or salt != request.salt:
            seed = self._seed(request.model, request.salt)
        width = block_tokens * BYTES_A_TOKEN
        most = self._most_bytes or self._limits.most_blocks * width or request.prompt_bytes
        chains: list[Sequence[int]] = []
        lengths: list[int] = []
        for text in request.prompts:
            length = -(-min(len(text), most) // width)
            chains.append(marks_of_text(text, width, seed, _ends(length)))
            lengths.append(length)
        return tuple(chains), tuple(lengths)

    def _seed(self, model: str, salt: str) -> int:
        """Kept, for most requests of a pool are for one model."""
        seed = seed_of(model, salt)
        self._known_seed = (model, salt, seed)
        return seed

    def _room(self, endpoint: Endpoint, block_tokens: int) -> int:
        if not (self._follows_servers and endpoint.cache_tokens):
            return self._limits.blocks_a_server
        return max(1, int(endpoint.cache_tokens * self.bytes_a_token / (block_tokens * BYTES_A_TOKEN)))

    def _add_server(self, endpoint: Endpoint) -> _Server:
        bit = self._free_bits.pop() if self._free_bits else 1 << (len(self._servers) + len(self._gone))
        server = self._servers[endpoint] = _Server(bit)
        self._lookup = _NO_ENDPOINTS
        return server

    def _lookup_of(self, endpoints: Sequence[Endpoint]) -> _Lookup:
        """The whole pool comes again and again as the same tuple."""
        if endpoints is self._lookup.endpoints:
            return self._lookup
        servers = self._servers
        bits = [server.bit if (server := servers.get(endpoint)) is not None else 0 for endpoint in endpoints]
        lookup = _Lookup(endpoints, bits)
        if isinstance(endpoints, tuple):
            self._lookup = lookup
        return lookup

    def _matched(self, landmarks: Sequence[int], length: int, holders: int, lookup: _Lookup) -> dict[int, int]:
        matched: dict[int, int] = {}
        at = 0
        while holders:
            at, left = self._same_until(landmarks, at, holders)
            count = length if at == len(landmarks) else _PLACES[at - 1]
            for place in _where(lookup, holders & ~left):
                matched[place] = count
            holders = left
        return matched

    def _same_until(self, landmarks: Sequence[int], low: int, holders: int) -> tuple[int, int]:
        """The first landmark after `low` whose holders differ from `holders`, and those holders; else the end.

        Holders only get fewer along a chain, so bisection finds the place.
        """
        high = len(landmarks)
        left = self._holders(landmarks[-1])
        if left == holders:
            return high, 0
        high -= 1
        while high - low > 1:
            middle = (low + high) // 2
            found = self._holders(landmarks[middle])
            if found == holders:
                low = middle
            else:
                high, left = middle, found
        return high, left

    def _holders(self, block: int) -> int:
        return self._held[block & _SHARD].get(block, 0)

    def _remember(self, server: _Server, landmarks: Sequence[int]) -> None:
        at, path = self._follow(server, landmarks) if landmarks[0] in server.segments else (0, ())
        if at < len(landmarks):
            left = landmarks[at:] if at else landmarks
            server.segments[left[0]] = fresh = _Segment(at, array("Q", left))
            self._count(server, len(left), fresh.blocks())
            held, bit = self._held, server.bit
            for landmark in left:
                shard = held[landmark & _SHARD]
                holders = shard.setdefault(landmark, bit)
                if not holders & bit:
                    shard[landmark] = holders | bit
        if len(path) == 1:
            server.segments.move_to_end(path[0])
        else:
            for head in reversed(path):
                server.segments.move_to_end(head)

    def _follow(self, server: _Server, landmarks: Sequence[int]) -> tuple[int, Sequence[int]]:
        """How much of the chain the server holds, and the segments that it passes, the last one split to fit."""
        at = 0
        path: list[int] = []
        while at < len(landmarks) and (segment := server.segments.get(landmarks[at])) is not None:
            path.append(landmarks[at])
            common = _common(segment.landmarks, landmarks, at)
            at += common
            if common < len(segment.landmarks):
                rest = segment.landmarks[common:]
                del segment.landmarks[common:]
                server.segments[rest[0]] = _Segment(at, rest)
                break
        return at, path

    def _count(self, server: _Server, landmarks: int, blocks: int) -> None:
        server.landmarks += landmarks
        server.blocks += blocks
        self._recorded += landmarks

    def _drop_from_oldest(self, server: _Server, blocks: int, most_landmarks: int) -> int:
        """Release landmarks for `blocks` from the least recently used segment, at most `most_landmarks`."""
        head, segment = next(iter(server.segments.items()))
        start = len(segment.landmarks)
        whole = segment.blocks()
        if start <= most_landmarks and whole <= blocks:
            self._count(server, -start, -whole)
            self._release(server.bit, segment.landmarks)
            del server.segments[head]
            return start
        stop = max(0, start - most_landmarks)
        while start > stop and segment.blocks(start) < blocks:
            start -= 1
        dropped = segment.landmarks[start:]
        self._count(server, -len(dropped), -segment.blocks(start))
        self._release(server.bit, dropped)
        if start:
            del segment.landmarks[start:]
        else:
            del server.segments[head]
        return len(dropped)

    def _release(self, bit: int, landmarks: Iterable[int]) -> None:
        for landmark in landmarks:
            shard = self._held[landmark & _SHARD]
            left = shard[landmark] & ~bit
            if left:
                shard[landmark] = left
            else:
                del shard[landmark]

    def _sweep(self) -> None:
        budget = _SWEPT_A_RECORD
        while self._gone and budget > 0:
            server = self._gone[0]
            if server.segments:
                budget -= self._drop_from_oldest(server, server.blocks, budget)
            if not server.segments:
                self._free_bits.append(self._gone.popleft().bit)


def _ends(blocks: int) -> Sequence[int]:
    """The places of a prompt of so many blocks that are indexed, and its end."""
    if blocks <= _EXACT:
        return _PLACES[:blocks]
    return [*_PLACES[: bisect_left(_PLACES, blocks)], blocks]


def _common(segment: Sequence[int], chain: Sequence[int], at: int) -> int:
    """How long the segment and the chain from `at` on are the same; their first blocks are."""
    low, high = 1, min(len(segment), len(chain) - at)
    if segment[high - 1] == chain[at + high - 1]:
        return high
    while low < high:
        middle = (low + high) // 2
        if segment[middle] == chain[at + middle]:
            low = middle + 1
        else:
            high = middle
    return low


def _added(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {at: one.get(at, 0) + other.get(at, 0) for at in {**one, **other}}


def _where(lookup: _Lookup, holders: int) -> Sequence[int]:
    """The indices of the endpoints among the holders. The same sets come again with each well-known beginning."""
    found = lookup.where.get(holders)
    if found is None:
        if len(lookup.where) >= _SETS_KEPT:
            lookup.where.clear()
        found = lookup.where[holders] = [index for index, bit in enumerate(lookup.bits) if bit & holders]
    return found
