"""Limits of flow control that hold for all workers of a picker together.

Workers know what the others have in flight, some milliseconds late. Before that they might all fill the same room, so
each takes a part of it: with `w` workers and room for `r` more requests, a worker that dispatched `k` in the last
`LAG_S` dispatches another only if `w * (k + 1) <= r + k`. What all dispatch within that time fits into the room. Once
room for less than one request of each is known to all, it belongs to one worker at a time, in turn: `TURN_S` each, of
which the last `LAG_S` are for the others to learn what it sent.

Limits of queues are divided: each worker has its own queues.
"""

from collections import deque
from typing import Final

import msgspec

LAG_S: Final = 0.1
"""Within this time workers know of each other's requests."""
TURN_S: Final = 2 * LAG_S
FULL: Final = 1.0
_ROUNDING: Final = 1e-9


class WorkerShare(msgspec.Struct, frozen=True):
    """One of so many workers."""

    number: int = 0
    """From 0 on."""
    workers: int = 1

    def of(self, limit: int) -> int:
        """The part of a limit that is this worker's. A limit of 0 is none; else each has room for one."""
        if not limit:
            return 0
        return max(1, limit // self.workers + (self.number < limit % self.workers))


class DividedRoom:
    """What one worker has dispatched that others may not know of."""

    __slots__ = ("_narrow_since_s", "_recent", "_share")

    def __init__(self, share: WorkerShare) -> None:
        self._share = share
        self._recent: deque[float] = deque()
        self._narrow_since_s: float | None = None
        """Since when there is room for less than one request of each."""

    def dispatched(self, now_s: float) -> None:
        self._recent.append(now_s)

    def saturation(self, known: float, step: float, now_s: float) -> float:
        """The saturation to dispatch by. `known` has this worker's own requests; one request adds `step`."""
        while self._recent and self._recent[0] <= now_s - LAG_S:
            self._recent.popleft()
        others = (self._share.workers - 1) * step
        if known + others >= FULL - _ROUNDING:
            self._narrow_since_s = now_s if self._narrow_since_s is None else self._narrow_since_s
            return known if self._is_our_turn(now_s) else max(FULL, known)
        self._narrow_since_s = None
        divided = known + others * (len(self._recent) + 1)
        return max(FULL, divided) if divided >= FULL - _ROUNDING else divided

    def _is_our_turn(self, now_s: float) -> bool:
        turn, passed_s = divmod(now_s, TURN_S)
        # Until then others may have room for one of each, and we do not know yet what they sent.
        is_known = self._narrow_since_s is not None and now_s - self._narrow_since_s >= TURN_S
        return is_known and turn % self._share.workers == self._share.number and passed_s < TURN_S - LAG_S
