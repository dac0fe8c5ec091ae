"""Scrapes the metrics of endpoints, the more often the more traffic they have.

One tick serves all endpoints: it begins the scrapes that are due, as many at a time as allowed. A scrape is a GET on
the endpoint's own connection; its page replaces `endpoint.metrics` as a whole and sets when the next is due. No task
waits, so an idle pool of a hundred costs about as much as its system calls.

An endpoint that gets its first requests is scraped by the next tick. One that cannot be scraped keeps its last metrics,
and `load.scraped_s` shows their age.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from modelplane.epp.datalayer.endpoint_logs import about_endpoint
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.datalayer.scrape.connections import ScrapeConnection
from modelplane.epp.datalayer.scrape.engines import Engines
from modelplane.epp.datalayer.scrape.extractor import MetricsExtractor
from modelplane.epp.datalayer.scrape.intervals import (
    ScrapeOutcome,
    busy_interval_s,
    next_interval_s,
    weight_left,
)
from modelplane.epp.datalayer.scrape.scraped_values import NO_VALUES
from modelplane.epp.datalayer.scrape.settings import ScrapeCounts, ScrapeSettings
from modelplane.epp.datalayer.scrape.targets import TargetOf, page_of
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import aged
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)


_UNDER_WAY: Final = float("inf")
"""The due time while a scrape is queued or in flight."""


class _Watched:
    """One endpoint, its connection, and when it is scraped next."""

    __slots__ = (
        "aged_s", "connection", "due_s", "endpoint", "failures", "problem", "reader", "seen", "serves_there",
        "started_s", "then", "wait_s",
    )  # fmt: skip

    def __init__(
        self, endpoint: Endpoint, connection: ScrapeConnection, reader: MetricsExtractor, due_s: float
    ) -> None:
        self.endpoint = endpoint
        self.connection = connection
        self.reader = reader
        self.seen = NO_VALUES
        self.due_s = due_s
        self.started_s = -1.0
        self.aged_s = -1.0
        """When its old numbers last lost weight."""
        self.then = (0, 0)
        """Requests and tokens in flight at the time of the request: the page may or may not include what is sent after
        it.
        """
        self.wait_s = 0.0
        self.failures = 0
        self.problem = ""
        self.serves_there = connection.address == endpoint.address
        """Whether the page is where requests are sent."""


class Scraper:
    """Scrapes the endpoints that it is given, between `start` and `stop`. One event loop."""

    def __init__(
        self,
        engines: Engines | None = None,
        settings: ScrapeSettings = ScrapeSettings(),  # noqa: B008 - frozen
        *,
        where: TargetOf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engines = engines or Engines()
        self._settings = settings
        self._where = where or page_of
        self._clock = clock
        self._watched: dict[int, _Watched] = {}
        self._ready: deque[_Watched] = deque()
        self._in_flight = 0
        self._often = 1
        self._tick_handle: asyncio.TimerHandle | None = None
        self.counts = ScrapeCounts()

    def watch(self, endpoints: Iterable[Endpoint]) -> None:
        """These, and no others: a callback of `EndpointSource.on_change`."""
        now = self._clock()
        kept: dict[int, _Watched] = {}
        for endpoint in endpoints:
            known = self._watched.pop(id(endpoint), None)
            watched = self._add(endpoint, now) if known is None else self._read_by_labels(known, now)
            if watched is not None:
                kept[id(endpoint)] = watched
        gone, self._watched = self._watched, kept
        for watched in gone.values():
            self._remove(watched)

    def follow(self, source: EndpointSource) -> None:
        """Scrape the endpoints of a source, and those that it changes to."""
        self.watch(source.current)
        source.on_change(self.watch)

    async def start(self) -> None:
        if self._tick_handle is None:
            self._tick()

    async def stop(self) -> None:
        if self._tick_handle is not None:
            self._tick_handle.cancel()
            self._tick_handle = None
        self.watch(())

    def stale(self) -> Sequence[Endpoint]:
        """Endpoints whose numbers are older than they may be, or were never seen."""
        oldest = self._clock() - self._settings.intervals.stale_s
        return [watched.endpoint for watched in self._watched.values() if watched.endpoint.metrics.scraped_s < oldest]

    @property
    def problems(self) -> Mapping[str, str]:
        """The problems by endpoint name."""
        found = {watched.endpoint.name: watched.problem for watched in self._watched.values() if watched.problem}
        return MappingProxyType(found)

    def _add(self, endpoint: Endpoint, now: float) -> _Watched | None:
        target = self._where(endpoint)
        if target is None:
            return None
        engine = self._engines.of(endpoint.labels)
        page = msgspec.structs.replace(target, path=target.path or engine.path)
        connection = ScrapeConnection(page, timeout_s=self._settings.timeout_s)
        return _Watched(endpoint, connection, MetricsExtractor(engine), now)

    def _read_by_labels(self, watched: _Watched, now: float) -> _Watched | None:
        """A label that names another engine changes which metrics are read, and where."""
        engine = self._engines.of(watched.endpoint.labels)
        if engine.path != watched.reader.engine.path:
            self._remove(watched)
            return self._add(watched.endpoint, now)
        if engine is not watched.reader.engine:
            watched.reader = MetricsExtractor(engine)
        return watched

    def _remove(self, watched: _Watched) -> None:
        if watched.connection.busy:
            self._in_flight -= 1
        watched.due_s = _UNDER_WAY
        watched.connection.close()

    def _tick(self) -> None:
        self._tick_handle = asyncio.get_running_loop().call_later(self._settings.tick_s, self._tick)
        now = self._clock()
        busy_s = busy_interval_s(self._settings.intervals, self._often)
        often = 0
        hurries = self._settings.uses.load
        retry_s = max(busy_s, self._settings.intervals.retry_s)
        for watched in self._watched.values():
            busy = hurries and watched.endpoint.requests_in_flight > 0
            often += busy and not watched.failures
            soon_s = watched.started_s + (retry_s if watched.failures else busy_s)
            due_s = min(watched.due_s, soon_s) if busy else watched.due_s
            if now >= due_s and watched.due_s != _UNDER_WAY:
                watched.due_s = _UNDER_WAY
                self._ready.append(watched)
        self._often = often or 1
        self._scrape_next()

    def _scrape_next(self) -> None:
        while self._ready and self._in_flight < self._settings.at_once:
            watched = self._ready.popleft()
            if self._watched.get(id(watched.endpoint)) is not watched or watched.connection.busy:
                continue
            self._in_flight += 1
            watched.started_s = self._clock()
            watched.then = (watched.endpoint.requests_in_flight, watched.endpoint.tokens_shown)
            self.counts.scrapes += 1
            watched.connection.fetch(partial(self._on_page, watched))

    def _on_page(self, watched: _Watched, page: bytes | None, problem: str) -> None:
        self._in_flight -= 1
        now = self._clock()
        changed = page is not None and self._read(watched, page, now)
        if page is None:
            self._failed(watched, problem, now)
        load = watched.endpoint.metrics
        outcome = ScrapeOutcome(
            watched.wait_s,
            watched.failures,
            watched.endpoint.requests_in_flight > 0,
            changed,
            load.running > 0 or load.waiting > 0,
        )
        intervals, uses = self._settings.intervals, self._settings.uses
        watched.wait_s = next_interval_s(intervals, uses, outcome, often=self._often, chance=random.random())  # noqa: S311 - jitter
        watched.due_s = now + watched.wait_s
        self._scrape_next()

    def _read(self, watched: _Watched, page: bytes, now: float) -> bool:
        """Whether the load changed."""
        seen = watched.reader.read(page)
        changed = seen is not watched.seen
        endpoint = watched.endpoint
        endpoint.metrics = seen.after(endpoint.metrics, now, watched.then)
        if changed and seen.others:
            endpoint.attributes = MappingProxyType({**endpoint.attributes, **dict(seen.others)})
        watched.seen = seen
        watched.failures = 0
        problem = "" if seen.has_load else f"the page has no metrics of {watched.reader.engine.name}"
        self.counts.unread += not seen.has_load
        self._note(watched, problem)
        return changed

    def _failed(self, watched: _Watched, problem: str, now: float) -> None:
        self.counts.failures += 1
        watched.failures += 1
        self._age(watched, now)
        if watched.serves_there and watched.connection.is_refused:
            metrics = watched.endpoint.metrics
            refused = metrics.refused_scrapes + 1
            watched.endpoint.metrics = msgspec.structs.replace(metrics, refused_scrapes=refused)
        self._note(watched, problem)

    def _age(self, watched: _Watched, now: float) -> None:
        metrics = watched.endpoint.metrics
        share = weight_left(self._settings.intervals, metrics.scraped_s, watched.aged_s, now)
        if metrics.scraped_s >= 0.0 and share < 1.0:
            watched.endpoint.metrics = aged(metrics, share)
            watched.aged_s = now

    def _note(self, watched: _Watched, problem: str) -> None:
        """Logged when it begins and when it ends, not at every scrape."""
        if bool(problem) != bool(watched.problem):
            if problem:
                failed = about_endpoint(LogReason.SCRAPE_FAILED, watched.endpoint)
                _log.warning("metrics are not read: %s", problem, extra=failed)
            else:
                _log.info("metrics are read again", extra=about_endpoint(LogReason.SCRAPE_RECOVERED, watched.endpoint))
        watched.problem = problem
