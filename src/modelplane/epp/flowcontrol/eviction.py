"""Which running requests are evicted for a more urgent one.

Only sheddable requests, whose priority is below 0, are evicted, and only for a waiting request of a higher priority;
the lowest priority first, and within a priority the newest, which loses the least work. Few are evicted at a time: an
eviction takes effect when the response has ended, so pending ones count as freed for a grace period. One without effect
is abandoned.
"""

from collections.abc import Hashable
from heapq import nsmallest

import msgspec


class EvictionLimits(msgspec.Struct, frozen=True):
    at_once: int = 2
    grace_s: float = 0.5
    give_up_s: float = 10.0


class _Running(msgspec.Struct):
    priority: int
    number: int
    revoked_s: float = -1.0


class Evictor:
    """Requests are identified by any key of the caller's. Not thread-safe."""

    def __init__(self, limits: EvictionLimits | None = None) -> None:
        self._limits = limits or EvictionLimits()
        self._running: dict[Hashable, _Running] = {}
        self._revoked: dict[Hashable, _Running] = {}
        self._sent = 0

    def sent(self, key: Hashable, priority: int) -> None:
        """A request was sent to an endpoint. Those that are never evicted are not kept."""
        if priority < 0:
            self._sent += 1
            self._running[key] = _Running(priority, self._sent)

    def ended(self, key: Hashable) -> bool:
        """A request ended. Whether it had been revoked."""
        self._running.pop(key, None)
        return self._revoked.pop(key, None) is not None

    def decide(self, waiting_priority: int, now_s: float) -> list[Hashable]:
        """The requests to evict now, for a queued one of this priority."""
        limits = self._limits
        for key, running in list(self._revoked.items()):
            if now_s - running.revoked_s > limits.give_up_s:
                del self._revoked[key]
        under_way = sum(1 for running in self._revoked.values() if now_s - running.revoked_s < limits.grace_s)
        chosen = nsmallest(
            max(0, limits.at_once - under_way),
            (item for item in self._running.items() if item[1].priority < waiting_priority),
            key=lambda item: (item[1].priority, -item[1].number),
        )
        for key, running in chosen:
            running.revoked_s = now_s
            self._revoked[key] = self._running.pop(key)
        return [key for key, _ in chosen]
