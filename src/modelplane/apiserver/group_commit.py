"""Group commit: a write is acknowledged when it survives a power cut, and one fsync serves all writes that wait.

A commit writes to SQLite's log without waiting for the disk. The fsync runs in a thread while the loop goes on; writes
that are committed meanwhile share the next one.
"""

import asyncio

from modelplane.apiserver.store.database import Database


class GroupCommit:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._synced = 0
        """Transactions that the disk has."""
        self._running: asyncio.Future[None] | None = None

    async def flush(self) -> None:
        """Wait until the disk has every transaction so far. Raises UnavailableError when it cannot be written."""
        wanted = self._database.commits
        while self._synced < wanted:
            if self._running is None:
                self._running = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._running)

    async def _sync(self) -> None:
        covered = self._database.commits
        try:
            await asyncio.to_thread(self._database.sync)
            self._synced = covered
        finally:
            self._running = None
