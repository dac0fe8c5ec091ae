"""KV events of an engine's cache: stored and removed blocks.

The events have vLLM's names and fields. vLLM publishes them over ZMQ; here they go to callbacks in this process and, as
JSON lines, to the readers of the engine's stream. A batch has a sequence number; the last batches are kept for replay,
and a reader that is too late sees the gap in the numbers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

MEDIUM = "GPU"
_KEPT_BATCHES = 1024


class BlockStoredEvent(msgspec.Struct, frozen=True, tag="BlockStored"):
    block_hashes: tuple[int, ...]
    parent_block_hash: int | None
    token_ids: tuple[int, ...]
    block_size: int
    lora_name: str | None = None
    medium: str = MEDIUM


class BlockRemovedEvent(msgspec.Struct, frozen=True, tag="BlockRemoved"):
    block_hashes: tuple[int, ...]
    medium: str = MEDIUM


class AllBlocksClearedEvent(msgspec.Struct, frozen=True, tag="AllBlocksCleared"):
    pass


KvEvent = BlockStoredEvent | BlockRemovedEvent | AllBlocksClearedEvent


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """The events of one step. `seq` counts from 0 without gaps; `ts` is in seconds since the epoch."""

    seq: int
    ts: float
    events: tuple[KvEvent, ...]

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


Listener = Callable[[PublishedBatch], None]


class KvEventLog:
    """Collects events between steps; costs nothing while it is off."""

    __slots__ = ("_kept", "_listeners", "_next", "_pending", "_wall_clock", "enabled")

    def __init__(self, *, enabled: bool, wall_clock: Callable[[], float]) -> None:
        self.enabled = enabled
        self._wall_clock = wall_clock
        self._pending: list[KvEvent] = []
        self._kept: deque[PublishedBatch] = deque(maxlen=_KEPT_BATCHES)
        self._listeners: list[Listener] = []
        self._next = 0

    def add(self, event: KvEvent) -> None:
        if self.enabled:
            self._pending.append(event)

    def removed(self, name: int) -> None:
        if self.enabled:
            self._pending.append(BlockRemovedEvent((name,)))

    def publish(self) -> None:
        """Send what was collected as one batch, if anything was."""
        if not self._pending:
            return
        batch = PublishedBatch(self._next, self._wall_clock(), tuple(self._pending))
        self._next += 1
        self._pending.clear()
        self._kept.append(batch)
        for listener in list(self._listeners):
            listener(batch)

    def since(self, seq: int) -> Iterator[PublishedBatch]:
        """The batches from this number on that are still kept."""
        return (batch for batch in tuple(self._kept) if batch.seq >= seq)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call it with every batch from here on, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
