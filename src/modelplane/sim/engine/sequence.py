"""One prompt on its way through an engine."""

from collections.abc import Callable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass
from enum import Enum, auto

from modelplane.sim.engine.block_pool import block_hash, root_hash

Notify = Callable[[], None]


class SequencePhase(Enum):
    """The phase of a sequence."""

    NEW = auto()
    """Not given to an engine yet."""
    WAITING = auto()
    """In the queue: for a place, for cache, or for its adapter."""
    LOADING = auto()
    """Holds cache that another engine's keys and values are being copied into."""
    RUNNING = auto()
    """In the batch."""
    FINISHED = auto()
    FAILED = auto()
    """Its keys and values could not be fetched, and the engine is configured not to compute them."""
    ABORTED = auto()
    """Its client left."""


ENDED = frozenset({SequencePhase.FINISHED, SequencePhase.FAILED, SequencePhase.ABORTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCache:
    """Keys and values that another engine has computed for a prompt, and what copying them takes.

    `is_there` returns whether it still keeps them; `fetched` releases them.
    """

    tokens: int
    latency_s: float
    seconds_per_token: float
    is_there: Callable[[], bool]
    fetched: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceParams:
    """The parameters of one sequence. Its output is known from the start.

    An empty answer (an embedding) ends with its prompt. With `each`, every token is notified and not only the end.
    `adapter` and `salt` separate the prompt's cache from others'. `hold` keeps the cache for another engine when the
    output is complete; `remote` is cache that another engine keeps for this one.
    """

    key: str
    prompt: Tokens[int]
    answer: Tokens[int]
    reason: str
    each: bool = False
    adapter: str | None = None
    salt: str | None = None
    hold: bool = False
    remote: RemoteCache | None = None


class Sequence:
    """A sequence in the engine: its progress, its blocks, and the times for metrics."""

    __slots__ = (
        "_hashes",
        "_root",
        "adapter",
        "answer",
        "arrived",
        "blocks",
        "cached",
        "computed",
        "each",
        "emitted",
        "first_token",
        "hold",
        "key",
        "last_token",
        "named",
        "notify",
        "phase",
        "preemptions",
        "prompt",
        "reason",
        "remote",
        "scheduled",
    )

    def __init__(self, params: SequenceParams, notify: Notify) -> None:
        self.key = params.key
        self.prompt = params.prompt
        self.answer = params.answer
        self.reason = params.reason
        self.each = params.each
        self.adapter = params.adapter
        self.hold = params.hold
        self.remote = params.remote
        self.notify = notify
        self.phase = SequencePhase.NEW
        self.computed = self.emitted = self.cached = self.named = self.preemptions = 0
        self.blocks: list[int] = []
        self.arrived = 0.0
        self.scheduled: float | None = None
        self.first_token: float | None = None
        self.last_token = -1.0
        self._root = root_hash(adapter=params.adapter, salt=params.salt)
        self._hashes: list[int] = []

    @property
    def length(self) -> int:
        """Tokens that exist: the prompt and what was answered."""
        return len(self.prompt) + self.emitted

    @property
    def pending(self) -> int:
        """Tokens whose keys and values the next token needs and the cache lacks."""
        return len(self.prompt) + self.emitted - self.computed

    @property
    def left(self) -> int:
        """Tokens still to be answered."""
        return len(self.answer) - self.emitted

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def hash_of(self, index: int, block_size: int) -> int:
        """The name of the block with this index; its tokens must exist."""
        while len(self._hashes) <= index:
            start = len(self._hashes) * block_size
            self._hashes.append(block_hash(self.parent_of(len(self._hashes)), self.tokens(start, start + block_size)))
        return self._hashes[index]

    def parent_of(self, index: int) -> int:
        return self._hashes[index - 1] if index else self._root

    def hashes(self, count: int, block_size: int) -> list[int]:
        if count:
            self.hash_of(count - 1, block_size)
        return self._hashes[:count]

    def tokens(self, start: int, end: int) -> Tokens[int]:
        size = len(self.prompt)
        if end <= size:
            return self.prompt[start:end]
        return [*self.prompt[start:size], *self.answer[max(0, start - size) : end - size]]
