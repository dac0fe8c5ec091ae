"""The newest changes of each store, for watchers that come back with a revision.

One bound covers all stores of a database together: a thousand quiet clusters cost nothing, and a busy one cannot grow
without end. What falls out, and everything from before a restart, is Expired: the watcher lists again. A store that
nobody comes back to need not be remembered: its changes would push out those of the others.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from modelplane.reconcile.store import StoreChange


@dataclass(frozen=True, slots=True)
class Expired:
    """Changes since that revision fell out, or it was never reached: list again and go on from there.

    `oldest` is the earliest revision that can be continued from.
    """

    oldest: int


class ChangeLog:
    """Changes of one store. Its revisions have no gaps, so a place in the log follows from a revision."""

    def __init__(self, revision: int) -> None:
        self._oldest = revision
        self._changes: deque[StoreChange] = deque()
        self.remembers = True

    def since(self, revision: int) -> tuple[StoreChange, ...] | Expired:
        """Changes after that revision, in order."""
        if not self._oldest <= revision <= self._oldest + len(self._changes):
            return Expired(oldest=self._oldest)
        return tuple(islice(self._changes, revision - self._oldest, None))

    def append(self, change: StoreChange) -> None:
        self._changes.append(change)

    def stop_remembering(self) -> None:
        """From here on only the newest revision can be continued from."""
        self.remembers = False
        if self._changes:
            self._oldest = self._changes[-1].revision
            self._changes.clear()

    def pass_over(self, change: StoreChange) -> None:
        self._oldest = change.revision

    def drop_oldest(self) -> None:
        if self._changes:
            self._oldest = self._changes.popleft().revision


class History:
    """Bounds what all change logs of one database hold together, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._logs: deque[ChangeLog] = deque()

    def record(self, log: ChangeLog, change: StoreChange) -> None:
        if not log.remembers:
            log.pass_over(change)
            return
        log.append(change)
        self._logs.append(log)
        if len(self._logs) > self._limit:
            self._logs.popleft().drop_oldest()
