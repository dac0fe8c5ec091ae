"""An informer: lists and watches the objects of one kind, caches them, and calls listeners with what changes.

A list is read page by page, and of each object the cache holds what `transform` returns; a watch continues where the
list ended, and bookmarks move that point on. After a 410 everything is listed again and the difference becomes events,
so a listener never misses a deletion. A watch that is silent for `silent_s` is made anew from the point that
it reached. Lists are also repeated every `resync_s`, against lost events.

The cache is never emptied because the API is unreachable. `synced`: the kind was listed once, so an empty snapshot
means that there are no objects. `problem`: the current error, or empty. A kind that the server does not serve, or that
may not be read, is not synced.

Objects are identified by namespace, name and uid: one that was deleted and recreated becomes a deletion and an
addition. Changes that `transform` drops cause no event.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from enum import Enum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar, cast

import msgspec

from modelplane.kube.client import KubeClient, Query, Raw, WatchLine, refusal
from modelplane.kube.errors import GONE, KubeError, KubeStatusError
from modelplane.reconcile.clock import Clock, SystemClock
from modelplane.reconcile.log_lines import about, because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)

T = TypeVar("T")


class NamespacedName(NamedTuple):
    """`namespace` is empty for objects of the whole cluster."""

    namespace: str
    name: str


class ChangeKind(Enum):
    """What happened to an object."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


class InformerEvent(msgspec.Struct, Generic[T], frozen=True):
    """`value` is the cached object; of a deleted one, as it was cached last."""

    change: ChangeKind
    key: NamespacedName
    value: T


Listener = Callable[[Sequence[InformerEvent[T]]], None]


class InformerSettings(msgspec.Struct, frozen=True):
    """Every wait is jittered by up to half."""

    page: int = 500
    watch_s: int = 300
    """The timeoutSeconds of a watch, at most."""
    silent_s: float = 90.0
    """A watch that brings nothing for this long is made anew: its connection may be half-open."""
    resync_s: float = 1800.0
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    short_s: float = 1.0
    """A watch that ends sooner than this without an event counts as a failure, so a server cannot make us spin."""


class _Held(NamedTuple, Generic[T]):
    uid: str
    value: T


class Informer(Generic[T]):
    """Runs in one task (`run`); everything else may be called from that event loop at any time."""

    def __init__(
        self,
        client: KubeClient,
        query: Query,
        transform: Callable[[Raw], T | None],
        *,
        settings: InformerSettings = InformerSettings(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self.query = query
        self._transform = transform
        self._settings = settings
        self._clock: Clock = clock or SystemClock()
        self._chance: Callable[[], float] = random.random
        self._held: dict[NamespacedName, _Held[T]] = {}
        self._values: dict[NamespacedName, T] = {}
        self._listeners: list[Listener[T]] = []
        self._version = ""
        self._listed_at_s = 0.0
        self._synced = asyncio.Event()
        self.problem = ""
        """The current error, in one sentence; empty: none."""

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def snapshot(self) -> Mapping[NamespacedName, T]:
        """A live view: copy it to keep it."""
        return MappingProxyType(self._values)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def listen(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` with every later event, in batches; cached objects come first, as additions.

        The first list makes a batch even if it is empty.
        """
        self._listeners.append(listener)
        if self._values:
            listener([InformerEvent(ChangeKind.ADDED, key, value) for key, value in self._values.items()])
        return lambda: self._listeners.remove(listener)

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            try:
                alive = await self._follow()
            except KubeError as problem:
                self._note(problem)
                alive = False
            failures = 0 if alive else failures + 1
            if failures:
                await self._clock.sleep(self._wait_s(failures))

    async def _follow(self) -> bool:
        """List if needed, then watch once. False: it ended so soon that one should wait before the next."""
        due = self._clock.monotonic() - self._listed_at_s >= self._settings.resync_s
        if not self._version or due:
            await self._list()
        self.problem = ""
        started = self._clock.monotonic()
        seconds = max(1, int(self._settings.watch_s * (0.5 + 0.5 * self._chance())))
        received = False
        watch = self._client.watch(self.query, version=self._version, seconds=seconds, silent_s=self._settings.silent_s)
        async with aclosing(watch) as batches:  # type: ignore[type-var]  # an async generator, declared as what callers may rely on
            async for batch in batches:
                self._on_batch(batch)
                received = True
        return received or self._clock.monotonic() - started >= self._settings.short_s

    async def _list(self) -> None:
        found: dict[NamespacedName, _Held[T]] = {}
        after = version = ""
        while True:
            page = await self._client.page(self.query, limit=self._settings.page, after=after)
            for raw in page.items:
                self._take(found, raw)
            version, after = page.metadata.resource_version, page.metadata.continue_
            if not after:
                break
        self._listed_at_s = self._clock.monotonic()
        self._version = version
        events = [event for key in list(self._held) for event in self._gone(key, found)]
        events += [event for key, held in found.items() for event in self._put(key, held)]
        first = not self.synced
        self._synced.set()
        self._notify(events, if_empty=first)

    def _on_batch(self, batch: Sequence[WatchLine]) -> None:
        events: list[InformerEvent[T]] = []
        for line in batch:
            if line.type == "ERROR":
                self._notify(events)
                raise refusal(line.object)
            _, _, version = _identity(line.object)
            self._version = version or self._version
            if line.type != "BOOKMARK":
                events += self._changed(line)
        self._notify(events)

    def _changed(self, line: WatchLine) -> Sequence[InformerEvent[T]]:
        found: dict[NamespacedName, _Held[T]] = {}
        if line.type != "DELETED":
            self._take(found, line.object)
        key, _, _ = _identity(line.object)
        return [*self._gone(key, found), *(event for key, held in found.items() for event in self._put(key, held))]

    def _take(self, found: dict[NamespacedName, _Held[T]], raw: Raw) -> None:
        key, uid, _ = _identity(raw)
        try:
            value = self._transform(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as broken:
            extra = about(LogReason.UNDECODABLE, self.query.kind.kind, key.name, key.namespace)
            _log.warning("an object cannot be read: %s", broken, extra=extra)
            before = self._held.get(key)
            value = before.value if before is not None and before.uid == uid else None
        if value is not None:
            found[key] = _Held(uid, value)

    def _gone(self, key: NamespacedName, found: Mapping[NamespacedName, _Held[T]]) -> Sequence[InformerEvent[T]]:
        held, after = self._held.get(key), found.get(key)
        if held is None or (after is not None and after.uid == held.uid):
            return ()
        del self._held[key], self._values[key]
        return (InformerEvent(ChangeKind.DELETED, key, held.value),)

    def _put(self, key: NamespacedName, held: _Held[T]) -> Sequence[InformerEvent[T]]:
        before = self._held.get(key)
        if before is not None and before.value == held.value:
            return ()
        self._held[key], self._values[key] = held, held.value
        return (InformerEvent(ChangeKind.ADDED if before is None else ChangeKind.CHANGED, key, held.value),)

    def _notify(self, events: Sequence[InformerEvent[T]], *, if_empty: bool = False) -> None:
        if events or if_empty:
            for listener in list(self._listeners):
                listener(events)

    def _note(self, problem: KubeError) -> None:
        if isinstance(problem, KubeStatusError) and problem.status == GONE:
            self._version = ""
        if not self.problem:
            _log.warning("%s are not watched: %s", self.query.kind, problem, extra=because(LogReason.UNAVAILABLE))
        self.problem = f"{self.query.kind}: {problem}"

    def _wait_s(self, failures: int) -> float:
        settings = self._settings
        full = min(settings.backoff_most_s, settings.backoff_first_s * 2.0 ** min(failures - 1, 32))
        return full * (0.5 + 0.5 * self._chance())


def _identity(raw: Raw) -> tuple[NamespacedName, str, str]:
    """Key, uid and version."""
    metadata = raw.get("metadata")
    known = cast("Mapping[str, object]", metadata) if isinstance(metadata, Mapping) else {}
    namespace, name, uid, version = (
        str(known.get(field) or "") for field in ("namespace", "name", "uid", "resourceVersion")
    )
    return NamespacedName(namespace, name), uid, version
