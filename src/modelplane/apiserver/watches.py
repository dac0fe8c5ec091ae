"""Watches: changes as a stream of JSON lines, from a revision on.

A watch without a revision, or with revision 0, starts with everything there is. One with a revision starts with what
happened since, unless that revision is compacted; otherwise its only event is an ERROR with 410, and the client lists
again. With a selector, an object that begins to match is ADDED and one that no longer does is DELETED.

Writes never wait for a watch. Unread events are buffered up to a limit for each watch and a limit for all of them. A
watch that lags further gets 410 and is closed; over the limit of all, those with most unread bytes are closed first.
Watches share the bytes of an event. A watch that is closed within an event loses its connection instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from modelplane.api.objects import Json, Manifest, with_metadata
from modelplane.apiserver import tables
from modelplane.apiserver.failures import ApiError, expired, too_many
from modelplane.apiserver.media import ObjectForm
from modelplane.apiserver.objects import shown, tabled_of
from modelplane.apiserver.options import ListOptions
from modelplane.apiserver.paths import RequestInfo
from modelplane.apiserver.reads import Reads, ref_in
from modelplane.apiserver.resources import Resource
from modelplane.apiserver.selectors import ListSelector
from modelplane.apiserver.store.database import Expired, SqliteStore
from modelplane.apiserver.wire import Wire, encode
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Limits of watches: their number, the buffered bytes of one and of all, and the interval of bookmarks."""

    watches: int = 2_000
    lag_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 256 * 1024 * 1024
    bookmark_s: float = 60.0


DEFAULT_LIMITS: Final = WatchLimits()


_CHUNK_BYTES: Final = 64 * 1024
"""The bytes of one write to a connection: a client that does not read costs this beyond the limits."""


class _Line:
    """An event as bytes, and how many watches hold it."""

    __slots__ = ("data", "holders")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.holders = 0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    type: str
    manifest: Manifest


def event_of(change: StoreChange, selector: ListSelector) -> WatchEvent | None:
    """The event of a change for a watch with this selector."""
    after = change.type is not ChangeType.DELETED and selector.matches(change.manifest)
    before = change.before is not None and selector.matches(change.before)
    if after:
        return WatchEvent("MODIFIED" if before else "ADDED", change.manifest)
    if not before:
        return None
    if change.type is ChangeType.DELETED:
        return WatchEvent("DELETED", change.manifest)
    return WatchEvent("DELETED", with_metadata(change.before or {}, resourceVersion=str(change.revision)))


class WatchHub:
    """All watches on one store."""

    def __init__(self, store: SqliteStore, reads: Reads, wire: Wire, clock: Clock, limits: WatchLimits) -> None:
        self._store = store
        self._reads = reads
        self._wire = wire
        self._clock = clock
        self._limits = limits
        self._open: dict[tuple[str, str], set[WatchStream]] = {}
        self._held_bytes = 0
        self._shared: dict[tuple[int, int, str], tuple[Manifest, _Line]] = {}
        self._end = store.subscribe(self._on_change)

    def __len__(self) -> int:
        return sum(len(each) for each in self._open.values())

    def close(self) -> None:
        """End every watch and unsubscribe."""
        self._end()
        for each in [watch for watches in self._open.values() for watch in watches]:
            each.end()

    def open(
        self, target: RequestInfo, selector: ListSelector, options: ListOptions, form: ObjectForm
    ) -> "WatchStream":
        """Starts at once: everything from here on is in the stream. ApiError where there are too many already."""
        if len(self) >= self._limits.watches:
            raise too_many(f"there are {self._limits.watches} watches already; close some, or try again later")
        watch = WatchStream(self, target, selector, _Shape(target.resource, form, options), self._limits)
        watch.start(self._beginning(target, selector, options))
        self._shared.clear()
        self._open.setdefault(_kind(target.resource), set()).add(watch)
        self._evict()
        return watch

    def forget(self, watch: "WatchStream") -> None:
        kind = _kind(watch.target.resource)
        self._open.get(kind, set()).discard(watch)
        if not self._open.get(kind):
            self._open.pop(kind, None)

    @property
    def held_bytes(self) -> int:
        """The unread bytes of all watches; a shared event counts once."""
        return self._held_bytes

    def hold(self, line: _Line) -> None:
        self._held_bytes += 0 if line.holders else len(line.data)
        line.holders += 1

    def release(self, line: _Line) -> None:
        line.holders -= 1
        self._held_bytes -= 0 if line.holders else len(line.data)

    def _evict(self) -> None:
        """Closes the watches with most unread bytes until the rest is within the limit."""
        if self._held_bytes <= self._limits.total_bytes:
            return
        watches = [watch for each in self._open.values() for watch in each]
        for watch in sorted(watches, key=lambda each: each.unread_bytes, reverse=True):
            watch.evict()
            if self._held_bytes <= self._limits.total_bytes:
                return

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def now(self) -> float:
        return self._clock.now()

    def object_line(self, resource: Resource, ref: ObjectRef, event: WatchEvent) -> _Line:
        """An event in full. Watches of one change share the bytes, and readers share those of the object."""
        key = (id(resource), id(event.manifest), event.type)
        shared = self._shared.get(key)
        if shared is not None:
            return shared[1]
        body = (
            encode(shown(resource, event.manifest))
            if event.type == "DELETED"
            else self._wire.object(resource, ref, event.manifest)
        )
        line = _Line(b'{"type":"' + event.type.encode() + b'","object":' + body + b"}\n")
        self._shared[key] = (event.manifest, line)
        return line

    def _on_change(self, change: StoreChange) -> None:
        if change.type is ChangeType.DELETED:
            self._wire.forget(change.ref)
        for watch in tuple(self._open.get((change.ref.group, change.ref.kind), ())):
            watch.on_change(change)
        self._shared.clear()
        self._evict()

    def _beginning(
        self, target: RequestInfo, selector: ListSelector, options: ListOptions
    ) -> Iterable[WatchEvent] | ApiError:
        if not options.revision or options.initial_events:
            if options.initial_events is False:
                return ()
            page = self._reads.page(target, selector, ListOptions())
            return [WatchEvent("ADDED", each) for each in page.items]
        changes = self._store.changes_since(options.revision)
        if isinstance(changes, Expired):
            return expired(f"too old resource version: {options.revision} ({changes.oldest})")
        mine = (change for change in changes if _selects_ref(target, change.ref))
        return [event for event in (event_of(change, selector) for change in mine) if event is not None]


def _kind(resource: Resource) -> tuple[str, str]:
    return resource.home


def _selects_ref(target: RequestInfo, ref: ObjectRef) -> bool:
    same = (ref.group, ref.kind) == _kind(target.resource)
    return same and target.namespace in {None, ref.namespace}


@dataclass(frozen=True, slots=True)
class _Shape:
    """The form of a watch's events."""

    resource: Resource
    form: ObjectForm
    options: ListOptions


class WatchStream:
    """One client's stream. Read with `chunks`, and closed when that ends."""

    def __init__(
        self, watches: WatchHub, target: RequestInfo, selector: ListSelector, shape: _Shape, limits: WatchLimits
    ) -> None:
        self.target = target
        self._watches = watches
        self._selector = selector
        self._shape = shape
        self._limits = limits
        self._lines: deque[_Line] = deque()
        self._sent_of_first = 0
        self._initial_lines = 0
        self._lag_bytes = 0
        self._unread_bytes = 0
        self._ended = False
        self._is_cut = False
        self._wakeup = asyncio.Event()
        self._sent_columns = False

    def start(self, beginning: Iterable[WatchEvent] | ApiError) -> None:
        if isinstance(beginning, ApiError):
            self._fail(beginning)
            return
        for event in beginning:
            self._append(self._line(ref_in(self.target, event.manifest), event))
        if self._shape.options.initial_events:
            self._append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        # The initial events are not counted as lag.
        self._initial_lines, self._lag_bytes = len(self._lines), 0

    def on_change(self, change: StoreChange) -> None:
        if self._ended or not _selects_ref(self.target, change.ref):
            return
        event = event_of(change, self._selector)
        if event is None:
            return
        self._append(self._line(change.ref, event))
        if self._lag_bytes > self._limits.lag_bytes:
            self.evict()

    @property
    def unread_bytes(self) -> int:
        return self._unread_bytes

    def evict(self) -> None:
        """Drops what is unread. The last event is then 410, unless the client has a part of another one."""
        if self._ended and not self._lines:
            return
        self._is_cut = self._sent_of_first > 0
        self._clear()
        if self._is_cut:
            self.end()
        else:
            self._fail(expired("the watcher fell too far behind: list again and watch from there"))

    def close(self) -> None:
        self._ended = True
        self._clear()
        self._watches.forget(self)

    def end(self) -> None:
        self._ended = True
        self._wakeup.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Lines as they come, until the timeout of the request."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._shape.options.timeout_s
        try:
            while True:
                while self._lines:
                    yield self._take()
                if self._is_cut:
                    raise ConnectionAbortedError("the watcher fell too far behind")
                if self._ended or loop.time() >= deadline:
                    break
                if not await self._wait(min(deadline, loop.time() + self._limits.bookmark_s)):
                    self._mark()
        finally:
            self.close()

    def _mark(self) -> None:
        if self._shape.options.bookmarks:
            self._append(self._bookmark({}))

    async def _wait(self, until: float) -> bool:
        """Whether something came before that time."""
        self._wakeup.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                return await self._wakeup.wait()
        return False

    def _take(self) -> bytes:
        """The next piece: whole lines as long as they fit, or a part of one."""
        taken: list[bytes] = []
        room = _CHUNK_BYTES
        while self._lines and room > 0:
            data = self._lines[0].data
            piece = data[self._sent_of_first : self._sent_of_first + room]
            taken.append(piece)
            room -= len(piece)
            self._sent_of_first += len(piece)
            if self._sent_of_first >= len(data):
                self._drop_first()
        return b"".join(taken)

    def _drop_first(self) -> None:
        line = self._lines.popleft()
        self._sent_of_first = 0
        self._unread_bytes -= len(line.data)
        if self._initial_lines:
            self._initial_lines -= 1
        else:
            self._lag_bytes -= len(line.data)
        self._watches.release(line)

    def _clear(self) -> None:
        while self._lines:
            self._drop_first()

    def _append(self, line: _Line) -> None:
        self._lines.append(line)
        self._lag_bytes += len(line.data)
        self._unread_bytes += len(line.data)
        self._watches.hold(line)
        self._wakeup.set()

    def _fail(self, error: ApiError) -> None:
        self._append(_plain("ERROR", error.to_status()))
        self.end()

    def _line(self, ref: ObjectRef, event: WatchEvent) -> _Line:
        resource = self._shape.resource
        match self._shape.form:
            case ObjectForm.OBJECT:
                return self._watches.object_line(resource, ref, event)
            case ObjectForm.PARTIAL:
                return _plain(event.type, tables.partial(shown(resource, event.manifest)))
            case ObjectForm.TABLE:
                return _plain(event.type, self._table(tabled_of(resource, event.manifest)))

    def _table(self, manifest: Manifest) -> Json:
        """Only the first event carries the columns."""
        resource, include = self._shape.resource, self._shape.options.include
        columns = [] if self._sent_columns else tables.column_definitions(resource)
        self._sent_columns = True
        return tables.table(tables.rows(resource, [manifest], self._watches.now, include), columns, {})

    def _bookmark(self, annotations: dict[str, str]) -> _Line:
        resource = self._shape.resource
        metadata: Json = {"resourceVersion": str(self._watches.revision)}
        metadata |= {"annotations": annotations} if annotations else {}
        marker: Json = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._shape.form is ObjectForm.PARTIAL:
            marker = {**marker, "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        if self._shape.form is ObjectForm.TABLE:
            marker = tables.table([{"cells": [], "object": marker}], [], dict(metadata))
        return _plain("BOOKMARK", marker)


def _plain(kind: str, value: object) -> _Line:
    return _Line(encode({"type": kind, "object": value}) + b"\n")
