"""The newest changes of each store, for watches that continue from a resourceVersion.

One limit covers all stores of a database together. Older changes, and all changes from before a restart, are compacted:
the watch gets Expired and the client lists again. The log of a store without watches can be disabled, so that its
changes do not compact those of the others.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from modelplane.reconcile.store import StoreChange


@dataclass(frozen=True, slots=True)
class Expired:
    """The revision was compacted, or does not exist yet: list again and watch from there.

    `oldest` is the earliest revision that a watch can continue from.
    """

    oldest: int


class ChangeLog:
    """Changes of one store. Its revisions have no gaps, so a revision gives the position in the log."""

    def __init__(self, revision: int) -> None:
        self._oldest = revision
        self._changes: deque[StoreChange] = deque()
        self.enabled = True

    def since(self, revision: int) -> tuple[StoreChange, ...] | Expired:
        """Changes after that revision, in order."""
        if not self._oldest <= revision <= self._oldest + len(self._changes):
            return Expired(oldest=self._oldest)
        return tuple(islice(self._changes, revision - self._oldest, None))

    def append(self, change: StoreChange) -> None:
        self._changes.append(change)

    def disable(self) -> None:
        """Keep no changes from now on: a watch can continue from the newest revision only."""
        self.enabled = False
        if self._changes:
            self._oldest = self._changes[-1].revision
            self._changes.clear()

    def skip(self, change: StoreChange) -> None:
        self._oldest = change.revision

    def compact_oldest(self) -> None:
        if self._changes:
            self._oldest = self._changes.popleft().revision


class History:
    """Bounds what all change logs of one database hold together, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._logs: deque[ChangeLog] = deque()

    def record(self, log: ChangeLog, change: StoreChange) -> None:
        if not log.enabled:
            log.skip(change)
            return
        log.append(change)
        self._logs.append(log)
        if len(self._logs) > self._limit:
            self._logs.popleft().compact_oldest()
