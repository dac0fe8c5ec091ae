"""The durable store of the embedded plane: many named stores in one SQLite file, read from memory.

A Database holds the plane's own store and one for each simulated cluster. Every object is in memory: a read is a
dictionary lookup, plus a decoding for an object that was not read lately. Every write is one transaction in the file
before it returns, and survives a power cut after the next `sync`; the API acknowledges writes after it. `rules` has
the metadata rules of a write, `indexer` the lists, `packed` the compressed objects, `file` the SQLite file, `wal` its
log and `history` the past changes.

Several writes in one transaction, over any of the stores:

    with database.batch():
        plane.create(...)
        cluster.replace_status(...)

Inside a batch its own writes are visible at once; listeners are notified after the commit, in order. An exception that
leaves the batch rolls all of it back. Do not await inside a batch: other code would join it.

A listener may write. Its write is committed as usual, and its listeners are notified after all earlier notifications;
only then does a write return before its listeners were called. A listener that raises is reported and keeps its
subscription; the write stands.

A Database belongs to one thread. Without a path nothing is kept on disk.
"""

import gc
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from modelplane.api.errors import ConflictError, InputError, InvalidObject, NotFoundError
from modelplane.api.objects import Json, Manifest
from modelplane.apiserver.store import rules
from modelplane.apiserver.store.file import LostWrites, ObjectRow, StoreFile, StoreId, StoreRow
from modelplane.apiserver.store.history import ChangeLog, Expired, History
from modelplane.apiserver.store.indexer import LruBodies, ObjectIndexer
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

__all__ = ["Database", "Expired", "SqliteStore", "StoreSettings", "random_uid"]

Listener = Callable[[StoreChange], None]
ListenerFailed = Callable[[StoreChange, Exception], None]

MIN_FREE_BYTES = 4 * 1024 * 1024
"""What the log and its checkpoint may need for the next writes."""
_GENERATED_NAME_ATTEMPTS = 8

_log = logging.getLogger(__name__)


def random_uid() -> str:
    return str(uuid.uuid4())


def _log_failure(change: StoreChange, error: Exception) -> None:
    extra = about(LogReason.LISTENER_FAILED, change.ref.kind, change.ref.name, change.ref.namespace)
    _log.error("a store listener failed on %s %s: %r", change.type, change.ref, error, exc_info=error, extra=extra)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of a database.

    history_limit: changes kept for watches, over all stores together.
    busy_timeout_s: how long opening waits for another process to release the file.
    decoded_objects: how many objects of a store stay decoded; the others are packed until they are read.
    packed_prefix: stores whose name has this prefix share one such limit.
    """

    history_limit: int = 8_192
    busy_timeout_s: float = 5.0
    decoded_objects: int = 4_096
    packed_prefix: str = "cluster/"


_DEFAULTS = StoreSettings()


class Database:
    """`new_id` makes uids and the suffixes of generated names; tests pass one that counts."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        new_id: Callable[[], str] = random_uid,
        settings: StoreSettings = _DEFAULTS,
        listener_failed: ListenerFailed = _log_failure,
    ) -> None:
        self.clock = clock
        self.new_id = new_id
        self._listener_failed = listener_failed
        self._history = History(settings.history_limit)
        self._packed_prefix = settings.packed_prefix
        self._decoded_objects = settings.decoded_objects
        self._bodies = LruBodies(settings.decoded_objects)
        self._stores: dict[str, SqliteStore] = {}
        self._pending: list[tuple[SqliteStore, StoreChange]] = []
        self._depth = 0
        self._outbox: deque[tuple[SqliteStore, StoreChange]] = deque()
        self._notifying = False
        self.commits = 0
        """Transactions in the file so far; those of a database in memory do not count."""
        self._problem = ""
        self._file: StoreFile | None = None
        if path is not None:
            self._file = StoreFile(path, busy_timeout_s=settings.busy_timeout_s)
            try:
                self._load(self._file)
            except BaseException:
                self._file.close()
                raise

    def store(self, name: str) -> "SqliteStore":
        """The store of that name, created when it does not exist."""
        store = self._stores.get(name)
        if store is None:
            number = StoreId(len(self._stores)) if self._file is None else self._file.add_store(name)
            store = self._stores[name] = SqliteStore(self, name, number, bodies=self._bodies_of(name))
        return store

    def _bodies_of(self, name: str) -> LruBodies:
        return self._bodies if name.startswith(self._packed_prefix) else LruBodies(self._decoded_objects)

    def stores(self) -> tuple[str, ...]:
        return tuple(sorted(self._stores))

    def drop(self, name: str) -> None:
        """Delete a store with all its objects, without notifications. It must not be used any more."""
        if self._depth:
            raise RuntimeError("a store cannot be dropped inside a batch")
        store = self._stores.get(name)
        if store is None:
            raise NotFoundError(f"store {name} not found")
        if self._file is not None:
            self._file.drop_store(store.id)
        del self._stores[name]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All writes inside are one transaction. An inner batch joins the outer one; if it fails, only it is undone."""
        mark = len(self._pending)
        self._depth += 1
        try:
            yield
        except BaseException:
            self._roll_back_to(mark)
            raise
        finally:
            self._depth -= 1
        if self._depth == 0 and self._pending:
            self._commit()

    def record(self, store: "SqliteStore", change: StoreChange) -> None:
        """For stores: this change is about to be applied to memory, inside the current batch."""
        if self._stores.get(store.name) is not store:
            raise NotFoundError(f"the store named {store.name} was dropped")
        self._pending.append((store, change))

    def in_batch(self) -> bool:
        return self._depth > 0

    @property
    def lost(self) -> LostWrites | None:
        """What a damaged log took with it, found when the file was opened."""
        return self._file.lost if self._file is not None else None

    def sync(self) -> None:
        """Wait until the disk has every transaction so far. May be called from another thread."""
        if self._file is not None:
            self._file.sync()

    def problem(self) -> str:
        """Why writes fail: the disk is full, or the last write failed. Empty: they do not."""
        if self._file is None:
            return ""
        free = self._file.free_bytes()
        if free < MIN_FREE_BYTES:
            return f"the disk of the store has {free} bytes left; {MIN_FREE_BYTES} are needed"
        return self._problem

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, file: StoreFile) -> None:
        by_id: dict[StoreId, SqliteStore] = {}
        for row in file.stores():
            store = SqliteStore(self, row.name, row.id, revision=row.revision, bodies=self._bodies_of(row.name))
            by_id[row.id] = self._stores[row.name] = store
        with _collector_paused():
            for found in file.objects():
                if found.store not in by_id:
                    raise file.damaged(f"{found.ref} belongs to no store")
                by_id[found.store].load(found.ref, self._checked(file, found, by_id[found.store].name))

    def _checked(self, file: StoreFile, row: ObjectRow, store: str) -> bytes:
        """The plane's objects are decoded now. Those of clusters are many; their checksums were right."""
        return (row.body or b"") if store.startswith(self._packed_prefix) else _readable(file, row)

    def _commit(self) -> None:
        if self._file is not None:
            try:
                self._file.commit(self._rows(), self._store_rows())
            except BaseException as error:
                self._problem = str(error)
                self._roll_back_to(0)
                raise
            self._problem = ""
            self.commits += 1
        for store, change in self._pending:
            self._history.record(store.log, change)
        self._outbox.extend(self._pending)
        self._pending.clear()
        self._notify()

    def _rows(self) -> list[ObjectRow]:
        newest = {(store.id, change.ref): change for store, change in self._pending}
        return [
            ObjectRow(number, ref, None if change.type is ChangeType.DELETED else rules.encode(change.manifest))
            for (number, ref), change in newest.items()
        ]

    def _store_rows(self) -> list[StoreRow]:
        written = {store.name: store for store, _ in self._pending}
        return [StoreRow(store.id, store.name, store.revision) for store in written.values()]

    def _roll_back_to(self, mark: int) -> None:
        while len(self._pending) > mark:
            store, change = self._pending.pop()
            store.roll_back(change)

    def _notify(self) -> None:
        if self._notifying:
            return
        self._notifying = True
        try:
            while self._outbox:
                store, change = self._outbox.popleft()
                for listener in store.listeners(change):
                    self._notify_one(listener, change)
        finally:
            self._notifying = False

    def _notify_one(self, listener: Listener, change: StoreChange) -> None:
        try:
            listener(change)
        except Exception as error:  # noqa: BLE001  the write is committed; a listener can no longer refuse it
            self._listener_failed(change, error)


class SqliteStore:
    """One API's objects. Made by Database.store; see modelplane.reconcile.store.Store for what each method promises."""

    def __init__(self, database: Database, name: str, number: StoreId, *, bodies: LruBodies, revision: int = 0) -> None:
        self.id = number
        self.name = name
        self.log = ChangeLog(revision)
        self.database = database
        self._objects = ObjectIndexer(bodies)
        self._revision = revision
        self._listeners: dict[int, tuple[int, Listener]] = {}
        self._subscriptions = 0

    @property
    def revision(self) -> int:
        return self._revision

    def get(self, ref: ObjectRef) -> Manifest | None:
        return self._objects.get(ref)

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        return self._objects.list(group, kind, namespace=namespace, labels=labels)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects here, in order."""
        return self._objects.kinds()

    def __len__(self) -> int:
        return len(self._objects)

    def create(self, manifest: Manifest) -> Manifest:
        given = rules.read(manifest)
        if not given.ref.name:
            given = self._named(given)
        if self.get(given.ref) is not None:
            raise ConflictError(f"{given.ref} already exists")
        made = rules.created(given, uid=self.database.new_id(), now_s=self.database.clock.now())
        return self._write(given.ref, made, None)

    def replace(self, manifest: Manifest) -> Manifest:
        given = rules.read(manifest)
        current = self._existing(given.ref)
        after = rules.replaced(current, given)
        if after is None:
            return current
        return self._write(given.ref, after, current, gone=rules.is_finished(after))

    def replace_status(self, manifest: Manifest) -> Manifest:
        given = rules.read(manifest)
        current = self._existing(given.ref)
        after = rules.status_replaced(current, given)
        return current if after is None else self._write(given.ref, after, current)

    def delete(self, ref: ObjectRef, *, uid: str | None = None) -> None:
        current = self._existing(ref)
        metadata = rules.metadata_of(current)
        rules.check_uid(ref, metadata, uid)
        if not metadata.get("finalizers"):
            self._write(ref, dict(current), current, gone=True)
        elif (marked := rules.deletion_requested(current, self.database.clock.now())) is not None:
            self._write(ref, marked, current)

    def batch(self) -> AbstractContextManager[None]:
        """As Database.batch."""
        return self.database.batch()

    def changes_since(self, revision: int) -> tuple[StoreChange, ...] | Expired:
        """Committed changes after that revision, in order."""
        return self.log.since(revision)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        if self.database.in_batch():
            raise RuntimeError("subscribe outside of a batch: a failed batch rolls revisions back")
        self._subscriptions += 1
        number = self._subscriptions
        self._listeners[number] = (self._revision, listener)

        def end() -> None:
            self._listeners.pop(number, None)

        return end

    def listeners(self, change: StoreChange) -> Iterator[Listener]:
        """Listeners that subscribed before the change and are still subscribed."""
        for number, (since, listener) in tuple(self._listeners.items()):
            if number in self._listeners and since < change.revision:
                yield listener

    def scan(self, group: str, kind: str, *, having: bytes = b"") -> Iterator[Manifest]:
        """Iterates over the objects of a kind; objects deleted meanwhile are left out.

        Packed objects whose JSON lacks the text `having` are left out too, without being decoded.
        """
        return self._objects.scan(group, kind, having)

    def load(self, ref: ObjectRef, body: bytes) -> None:
        """For the database: add an object that was read from disk."""
        self._objects.load(ref, body)

    def roll_back(self, change: StoreChange) -> None:
        """For the database: roll the newest change back."""
        if change.before is None:
            self._objects.remove(change.ref)
        else:
            self._objects.put(change.ref, change.before)
        self._revision = change.revision - 1

    def _existing(self, ref: ObjectRef) -> Manifest:
        current = self.get(ref)
        if current is None:
            raise NotFoundError(f"{ref} not found")
        return current

    def _named(self, given: rules.Given) -> rules.Given:
        base = given.generate_name
        if not base:
            raise InvalidObject(f"metadata of a {given.ref.kind}: name or generateName is required")
        for _ in range(_GENERATED_NAME_ATTEMPTS):
            named = rules.named(given, rules.generated_name(base, self.database.new_id()))
            if self.get(named.ref) is None:
                return named
        raise ConflictError(f"no free name for {given.ref.kind} {base} after {_GENERATED_NAME_ATTEMPTS} attempts")

    def _write(self, ref: ObjectRef, manifest: Json, before: Manifest | None, *, gone: bool = False) -> Manifest:
        with self.database.batch():
            revision = self._revision + 1
            stamped = rules.stamped(manifest, revision)
            kind = ChangeType.DELETED if gone else ChangeType.MODIFIED if before is not None else ChangeType.ADDED
            self.database.record(self, StoreChange(kind, ref, stamped, before, revision))
            if gone:
                self._objects.remove(ref)
            else:
                self._objects.put(ref, stamped)
            self._revision = revision
        return stamped


@contextmanager
def _collector_paused() -> Iterator[None]:
    """JSON has no cycles, and collecting garbage while it is decoded takes longer than the decoding."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _readable(file: StoreFile, row: ObjectRow) -> bytes:
    try:
        ref = rules.checked_ref(rules.decode(row.body or b""))
    except (ValueError, InputError) as error:
        raise file.damaged(f"the content of {row.ref} cannot be read: {error}") from None
    if ref != row.ref:
        raise file.damaged(f"the content of {row.ref} is that of {ref}")
    return row.body or b""
