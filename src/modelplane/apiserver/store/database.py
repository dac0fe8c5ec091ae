"""The durable store of the embedded plane: many named stores in one SQLite file, read from memory.

A Database holds the plane's own store and one for each simulated cluster. Every object is in memory, so reads are
dictionary lookups, and a decoding where nobody asked for long; every write is one transaction on disk before it
returns. Rules of a write are in `store_rules`, the order of lists in `store_mirror`, what objects take while nobody
asks for them in `store_press`, the file in `store_file`, past changes in `store_history`.

Several writes in one transaction, over any of the stores:

    with database.batch():
        plane.create(...)
        cluster.replace_status(...)

Inside a batch its own writes are visible at once; listeners hear of them after the commit, in order. An exception that
leaves the batch undoes all of it. A batch belongs to the code inside it: awaiting there would let others join it.

A listener may write. Its writes are committed as usual, and told after everything told before them has been heard by
all: then, and only then, a write returns before its listeners were called. A listener that raises is reported and
keeps its subscription; the write stands.

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
from modelplane.apiserver.store.file import ObjectRow, StoreFile, StoreId, StoreRow
from modelplane.apiserver.store.history import ChangeLog, Expired, History
from modelplane.apiserver.store.mirror import Cellar, Mirror
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

__all__ = ["Database", "Expired", "SqliteStore", "StoreSettings", "random_uid"]

Listener = Callable[[StoreChange], None]
ListenerFailed = Callable[[StoreChange, Exception], None]

_GENERATED_NAME_ATTEMPTS = 8

_log = logging.getLogger(__name__)


def random_uid() -> str:
    return str(uuid.uuid4())


def _log_failure(change: StoreChange, error: Exception) -> None:
    _log.error("a listener failed on %s %s: %r", change.type, change.ref, error, exc_info=error)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How a database is kept.

    durable: each commit waits for the disk, so that it outlives a power cut and not only the process.
    history_limit: how many changes are remembered for watchers, over all stores together.
    busy_timeout_s: how long opening waits for another process to let go of the file.
    warm_objects: of each store this many objects stay decoded, the others are packed until somebody asks for them.
    cool_prefix: stores whose name begins so count as one in that.
    """

    durable: bool = False
    history_limit: int = 8_192
    busy_timeout_s: float = 5.0
    warm_objects: int = 4_096
    cool_prefix: str = "cluster/"


_DEFAULTS = StoreSettings()


class Database:
    """`new_id` makes uids, and the suffixes of generated names; tests pass one that counts."""

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
        self._cool_prefix = settings.cool_prefix
        self._warm_objects = settings.warm_objects
        self._cellar = Cellar(settings.warm_objects)
        self._stores: dict[str, SqliteStore] = {}
        self._pending: list[tuple[SqliteStore, StoreChange]] = []
        self._depth = 0
        self._outbox: deque[tuple[SqliteStore, StoreChange]] = deque()
        self._telling = False
        self._file: StoreFile | None = None
        if path is not None:
            self._file = StoreFile(path, durable=settings.durable, busy_timeout_s=settings.busy_timeout_s)
            try:
                self._load(self._file)
            except BaseException:
                self._file.close()
                raise

    def store(self, name: str) -> "SqliteStore":
        """The store of that name, made when there is none."""
        store = self._stores.get(name)
        if store is None:
            number = StoreId(len(self._stores)) if self._file is None else self._file.add_store(name)
            store = self._stores[name] = SqliteStore(self, name, number, cellar=self._cellar_of(name))
        return store

    def _cellar_of(self, name: str) -> Cellar:
        return self._cellar if name.startswith(self._cool_prefix) else Cellar(self._warm_objects)

    def stores(self) -> tuple[str, ...]:
        return tuple(sorted(self._stores))

    def drop(self, name: str) -> None:
        """Remove a store and everything in it, telling nobody. It must not be used any more."""
        if self._depth:
            raise RuntimeError("a store cannot be dropped inside a batch")
        store = self._stores.get(name)
        if store is None:
            raise NotFoundError(f"there is no store named {name}")
        if self._file is not None:
            self._file.drop_store(store.id)
        del self._stores[name]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All writes inside are one transaction. An inner batch joins the outer one; failing, it is undone alone."""
        mark = len(self._pending)
        self._depth += 1
        try:
            yield
        except BaseException:
            self._undo_to(mark)
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
            store = SqliteStore(self, row.name, row.id, revision=row.revision, cellar=self._cellar_of(row.name))
            by_id[row.id] = self._stores[row.name] = store
        with _collector_paused():
            for found in file.objects():
                if found.store not in by_id:
                    raise file.damaged(f"{found.ref} belongs to no store")
                by_id[found.store].load(found.ref, self._checked(file, found, by_id[found.store].name))

    def _checked(self, file: StoreFile, row: ObjectRow, store: str) -> bytes:
        """Objects of clusters are many, and are read when somebody asks: their checksums were right."""
        return (row.body or b"") if store.startswith(self._cool_prefix) else _readable(file, row)

    def _commit(self) -> None:
        if self._file is not None:
            try:
                self._file.commit(self._rows(), self._store_rows())
            except BaseException:
                self._undo_to(0)
                raise
        for store, change in self._pending:
            self._history.record(store.log, change)
        self._outbox.extend(self._pending)
        self._pending.clear()
        self._tell()

    def _rows(self) -> list[ObjectRow]:
        newest = {(store.id, change.ref): change for store, change in self._pending}
        return [
            ObjectRow(number, ref, None if change.type is ChangeType.DELETED else rules.encode(change.manifest))
            for (number, ref), change in newest.items()
        ]

    def _store_rows(self) -> list[StoreRow]:
        written = {store.name: store for store, _ in self._pending}
        return [StoreRow(store.id, store.name, store.revision) for store in written.values()]

    def _undo_to(self, mark: int) -> None:
        while len(self._pending) > mark:
            store, change = self._pending.pop()
            store.undo(change)

    def _tell(self) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            while self._outbox:
                store, change = self._outbox.popleft()
                for listener in store.listeners(change):
                    self._tell_one(listener, change)
        finally:
            self._telling = False

    def _tell_one(self, listener: Listener, change: StoreChange) -> None:
        try:
            listener(change)
        except Exception as error:  # noqa: BLE001  the write is committed; a listener can no longer refuse it
            self._listener_failed(change, error)


class SqliteStore:
    """One API's objects. Made by Database.store; see modelplane.reconcile.store.Store for what each method promises."""

    def __init__(self, database: Database, name: str, number: StoreId, *, cellar: Cellar, revision: int = 0) -> None:
        self.id = number
        self.name = name
        self.log = ChangeLog(revision)
        self._database = database
        self._mirror = Mirror(cellar)
        self._revision = revision
        self._listeners: dict[int, tuple[int, Listener]] = {}
        self._subscriptions = 0

    @property
    def revision(self) -> int:
        return self._revision

    def get(self, ref: ObjectRef) -> Manifest | None:
        return self._mirror.get(ref)

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        return self._mirror.list(group, kind, namespace=namespace, labels=labels)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects here, in order."""
        return self._mirror.kinds()

    def __len__(self) -> int:
        return len(self._mirror)

    def create(self, manifest: Manifest) -> Manifest:
        given = rules.read(manifest)
        if not given.ref.name:
            given = self._named(given)
        if self.get(given.ref) is not None:
            raise ConflictError(f"{given.ref} already exists")
        made = rules.created(given, uid=self._database.new_id(), now_s=self._database.clock.now())
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
        elif (marked := rules.deletion_requested(current, self._database.clock.now())) is not None:
            self._write(ref, marked, current)

    def batch(self) -> AbstractContextManager[None]:
        """As Database.batch."""
        return self._database.batch()

    def changes_since(self, revision: int) -> tuple[StoreChange, ...] | Expired:
        """Committed changes after that revision, in order."""
        return self.log.since(revision)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        if self._database.in_batch():
            raise RuntimeError("subscribe outside of a batch: one that fails would take revisions back")
        self._subscriptions += 1
        number = self._subscriptions
        self._listeners[number] = (self._revision, listener)

        def end() -> None:
            self._listeners.pop(number, None)

        return end

    def listeners(self, change: StoreChange) -> Iterator[Listener]:
        """Those who subscribed before the change and, when their turn comes, have not left."""
        for number, (since, listener) in tuple(self._listeners.items()):
            if number in self._listeners and since < change.revision:
                yield listener

    def scan(self, group: str, kind: str, *, having: bytes = b"") -> Iterator[Manifest]:
        """Objects of a kind, one after the other and not all at once; those that went meanwhile are left out.

        So may be those whose JSON does not have that text, which is cheaper to see than what an object says.
        """
        return self._mirror.scan(group, kind, having)

    def load(self, ref: ObjectRef, body: bytes) -> None:
        """For the database: an object found on disk."""
        self._mirror.load(ref, body)

    def undo(self, change: StoreChange) -> None:
        """For the database: the newest change is taken back."""
        if change.before is None:
            self._mirror.remove(change.ref)
        else:
            self._mirror.put(change.ref, change.before)
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
            named = rules.named(given, rules.generated_name(base, self._database.new_id()))
            if self.get(named.ref) is None:
                return named
        raise ConflictError(f"no free name for {given.ref.kind} {base} after {_GENERATED_NAME_ATTEMPTS} attempts")

    def _write(self, ref: ObjectRef, manifest: Json, before: Manifest | None, *, gone: bool = False) -> Manifest:
        with self._database.batch():
            revision = self._revision + 1
            stamped = rules.stamped(manifest, revision)
            kind = ChangeType.DELETED if gone else ChangeType.MODIFIED if before is not None else ChangeType.ADDED
            self._database.record(self, StoreChange(kind, ref, stamped, before, revision))
            if gone:
                self._mirror.remove(ref)
            else:
                self._mirror.put(ref, stamped)
            self._revision = revision
        return stamped


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Trees of JSON hold no cycles; looking for some while they pile up takes longer than reading them."""
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
