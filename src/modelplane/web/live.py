"""The newest snapshot of a store: made when somebody wants one, and again when something changed.

A snapshot of a large fleet takes a while to make, so it is made in a thread, for all who watch together, and after each
there is a rest in proportion: whoever watches a busy fleet takes a fifth of one core and no more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from modelplane.api.errors import ModelplaneError
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.web.mirror import ObjectMirror
from modelplane.web.pages import prepared
from modelplane.web.snapshot import DashboardSnapshot
from modelplane.web.source import DashboardSource

_LOG = logging.getLogger(__name__)
_REST_S = 0.2
"""Changes come in bursts: one push for a burst."""
_REST_FACTOR = 4.0
_KEPT_S = 60.0
"""How long objects are kept that nobody watches."""


class LiveSnapshot:
    def __init__(self, source: DashboardSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._mirror: ObjectMirror | None = None
        self._newest: DashboardSnapshot | None = None
        self._published = asyncio.Condition()
        self._making = asyncio.Lock()
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._took_s = 0.0
        self._made_s = float("-inf")

    async def current(self) -> DashboardSnapshot:
        """One that has all changes, unless the last one is so young that the next has to wait."""
        async with self._making:
            mirror = await self._followed()
            newest = self._newest
            if newest is None or (not mirror.is_taken and self._rest_s() <= 0):
                newest = await self._make(mirror)
            return newest

    def problem(self) -> str:
        """Why snapshots may be older than they look."""
        return self._source.problem()

    @asynccontextmanager
    async def watch(self) -> AsyncIterator["SnapshotWatch"]:
        """While anybody is inside, a snapshot is made after every change."""
        self._watchers += 1
        try:
            yield SnapshotWatch(self, await self.current())
        finally:
            self._watchers -= 1

    async def after(self, known: DashboardSnapshot) -> DashboardSnapshot:
        """Waits for another snapshot than this."""
        async with self._published:
            await self._published.wait_for(lambda: self._newest is not None and self._newest is not known)
        return self._newest or known

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._forget()

    async def _followed(self) -> ObjectMirror:
        if self._mirror is not None:
            return self._mirror
        mirror = ObjectMirror(self._source)
        try:
            await mirror.fill()
        except BaseException:
            mirror.close()
            raise
        self._mirror = mirror
        self._task = asyncio.create_task(self._follow(mirror), name="dashboard snapshots")
        return mirror

    async def _follow(self, mirror: ObjectMirror) -> None:
        """Until nobody watches any more."""
        while True:
            try:
                async with asyncio.timeout(_KEPT_S):
                    await mirror.changed()
            except TimeoutError:
                if self._watchers:
                    continue
                break
            if not self._watchers:
                break
            await self._clock.sleep(self._rest_s())
            async with self._making:
                await self._make_again(mirror)
        self._forget()

    async def _make_again(self, mirror: ObjectMirror) -> None:
        """What cannot be read leaves the last snapshot as it is: whoever opens a view gets the reason."""
        if mirror.is_taken:
            return
        try:
            await self._make(mirror)
        except ModelplaneError as error:
            _LOG.warning("the dashboard cannot be made anew: %s", error, extra=because(LogReason.DASHBOARD_STALE))

    def _forget(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
        self._mirror = self._task = self._newest = None

    def _rest_s(self) -> float:
        return max(_REST_S, self._took_s * _REST_FACTOR) - (self._clock.monotonic() - self._made_s)

    async def _make(self, mirror: ObjectMirror) -> DashboardSnapshot:
        started, now = self._clock.monotonic(), self._clock.now()
        traffic, gateway = self._source.traffic, self._source.gateway
        figures = traffic.figures(now) if traffic is not None else None
        counted = self._source.tokens(now) if self._source.tokens is not None else ({}, 0.0)
        try:
            made = await asyncio.to_thread(prepared, mirror.take(), figures, now=now, gateway=gateway, counted=counted)
        except BaseException:
            self._newest = None  # it has none of the changes that were taken
            raise
        finally:
            self._made_s = self._clock.monotonic()
            self._took_s = self._made_s - started
        self._newest = made
        async with self._published:
            self._published.notify_all()
        return made


class SnapshotWatch:
    """The snapshots from one on, each once; those between are left out where the reader is slower."""

    def __init__(self, live: LiveSnapshot, first: DashboardSnapshot) -> None:
        self._live = live
        self.newest = first

    async def next(self, within_s: float) -> bool:
        """Waits for the next one. False where there was none within this time."""
        try:
            async with asyncio.timeout(within_s):
                self.newest = await self._live.after(self.newest)
        except TimeoutError:
            return False
        return True
