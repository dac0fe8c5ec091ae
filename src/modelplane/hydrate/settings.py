"""How the loader works: numbers that a user may set, and those that tests shorten."""

import threading
import time
from dataclasses import dataclass, field

from modelplane.api.reasons import Reason
from modelplane.hydrate.errors import StoppedError

MIB = 1 << 20
_WASTE_BYTES = 4 * MIB
"""What all connections together may hold in hand: half of what a kill may waste."""
_BLOCK_BYTES = 512 * 1024
_SMALLEST_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off with full jitter: a random part of a bound that doubles."""

    first_s: float = 0.5
    longest_s: float = 30.0
    attempts: int = 8
    """Failures in a row without a byte, after which the loader gives up for now."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    connections: int = 8
    part_bytes: int = 32 * MIB
    smallest_part_bytes: int = 4 * MIB
    hash_threads: int = 2
    sync_bytes: int = 1024 * MIB
    """How much is written between two points that survive a crash of the machine."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    verify: bool = True
    """Off only in benchmarks: what checksums cost."""

    @property
    def block_bytes(self) -> int:
        return max(_SMALLEST_BLOCK, min(_BLOCK_BYTES, _WASTE_BYTES // self.connections))

    def part_bytes_of(self, size: int) -> int:
        """A file that is smaller than all connections' parts is shared among them."""
        share = -(-size // self.connections)
        return min(self.part_bytes, max(self.smallest_part_bytes, -(-share // MIB) * MIB))


class Stop:
    """Ends work early: by a signal or at the deadline."""

    def __init__(self, deadline_s: float | None = None) -> None:
        self._event = threading.Event()
        self._ends = None if deadline_s is None else time.monotonic() + deadline_s
        self._words = ""
        self._reason: Reason | None = None

    def set(self, words: str, reason: Reason | None = None) -> None:
        if not self._words:
            self._words, self._reason = words, reason
        self._event.set()

    @property
    def is_set(self) -> bool:
        if self._ends is not None and time.monotonic() >= self._ends:
            self.set("the deadline passed", Reason.STAGING_TIMED_OUT)
        return self._event.is_set()

    def check(self, cause: Exception | None = None) -> None:
        """Raises StoppedError once there is a reason to stop. It names what was waited for."""
        if self.is_set:
            raise StoppedError(f"{self._words}: {cause}" if cause else self._words, self._reason)

    def wait(self, seconds: float, cause: Exception | None = None) -> None:
        """Sleeps. Ends early, as `check` does.

        To stop ends the reads, so what fails once there is a reason to stop is not the source's fault and is not named.
        """
        self.check()
        left = seconds if self._ends is None else min(seconds, max(0.0, self._ends - time.monotonic()))
        self._event.wait(left)
        self.check(cause)
