"""The SQLite file under the store: what is on disk, how it is opened, checked and written.

    schema    one row: the version of this layout
    stores    one row a store, with the revision of its newest write and a checksum of both
    objects   one row an object: where it is, its JSON, and a checksum of that JSON and its store

One process at a time: the file is locked for as long as it is open, because the objects are cached in memory. In WAL
mode a transaction is whole or absent after any crash of the process. What was committed before `sync` began survives a
power cut when it returns; a power cut may lose newer transactions, never part of one.

SQLite cuts a damaged log back to the last whole transaction. `lost` then says how many transactions are gone and which
objects they wrote, and the damaged log is kept beside the file. Other damage is found on opening (page structure by
SQLite, content by checksum) and refused with its place; nothing is repaired by guessing.
"""

import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from modelplane.api.errors import InputError, UnavailableError
from modelplane.apiserver.store.wal import WriteAheadLog
from modelplane.reconcile.store import ObjectRef

StoreId = NewType("StoreId", int)

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x6D706C6E  # "mpln": identifies our database files

_SCHEMA = """
CREATE TABLE schema (version INTEGER NOT NULL);
CREATE TABLE stores (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE objects (
    store INTEGER NOT NULL REFERENCES stores (id),
    grp TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (store, grp, kind, namespace, name)
);
"""

_UPSERT = """
INSERT INTO objects (store, grp, kind, namespace, name, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (store, grp, kind, namespace, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
_CHECKSUMS = "SELECT store, grp, kind, namespace, name, checksum FROM objects"
_MAX_NAMED = 20
_DELETE = "DELETE FROM objects WHERE store = ? AND grp = ? AND kind = ? AND namespace = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object as it is, or is to be, on disk. Without a body it is to be removed."""

    store: StoreId
    ref: ObjectRef
    body: bytes | None


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A store and the revision of its newest write."""

    id: StoreId
    name: str
    revision: int


@dataclass(frozen=True, slots=True)
class LostWrites:
    """Transactions that a damaged log took with it."""

    transactions: int
    objects: tuple[str, ...]
    """Objects that they wrote or deleted, as far as the log can still be read; each has an older state now, or none."""
    kept: Path
    """The damaged log."""

    def __str__(self) -> str:
        names = ", ".join(self.objects[:_MAX_NAMED]) + (", …" if len(self.objects) > _MAX_NAMED else "")
        which = f"{len(self.objects)} objects have an older state: {names}" if self.objects else "they cannot be read"
        return (
            f"the log was damaged: {self.transactions} transactions are lost; {which}; the log is kept as {self.kept}"
        )


class StoreFile:
    def __init__(self, path: Path, *, busy_timeout_s: float) -> None:
        """Open or make the file, and lock it. UnavailableError when it is in use, InputError when it cannot be used."""
        self._path = path
        self._log_path = path.with_name(f"{path.name}-wal")
        self.lost: LostWrites | None = None
        with self._reported():
            self._connection = _connect(path, busy_timeout_s)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        self._log = _open_log(self._log_path)

    def stores(self) -> list[StoreRow]:
        with self._reported():
            found = self._connection.execute("SELECT id, name, revision, checksum FROM stores ORDER BY id").fetchall()
        for number, name, revision, checksum in found:
            if checksum != _store_checksum(name, revision):
                raise self.damaged(f"the row of store {number} does not match its checksum")
        return [StoreRow(StoreId(number), name, revision) for number, name, revision, _ in found]

    def objects(self) -> Iterator[ObjectRow]:
        """Every object, checked, by store and place."""
        with self._reported():
            found = self._connection.execute(
                "SELECT store, grp, kind, namespace, name, body, checksum FROM objects"
                " ORDER BY store, grp, kind, namespace, name"
            )
            for store, group, kind, namespace, name, body, checksum in found:
                ref = ObjectRef(group=group, kind=kind, namespace=namespace, name=name)
                if not isinstance(body, bytes) or checksum != zlib.crc32(body, store):
                    raise self.damaged(f"the content of {ref} does not match its checksum")
                yield ObjectRow(StoreId(store), ref, body)

    def add_store(self, name: str) -> StoreId:
        with self._reported():
            cursor = self._connection.execute(
                "INSERT INTO stores (name, revision, checksum) VALUES (?, 0, ?)", (name, _store_checksum(name, 0))
            )
        return StoreId(cursor.lastrowid or 0)

    def drop_store(self, store: StoreId) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM objects WHERE store = ?", (store,))
            self._connection.execute("DELETE FROM stores WHERE id = ?", (store,))

    def commit(self, rows: Sequence[ObjectRow], stores: Sequence[StoreRow]) -> None:
        """Write all rows and the revisions of their stores, or nothing."""
        kept = [(*_place(row), row.body, zlib.crc32(row.body, row.store)) for row in rows if row.body is not None]
        removed = [_place(row) for row in rows if row.body is None]
        with self._transaction():
            self._connection.executemany(_UPSERT, kept)
            self._connection.executemany(_DELETE, removed)
            self._connection.executemany(
                "UPDATE stores SET revision = ?, checksum = ? WHERE id = ?",
                [(store.revision, _store_checksum(store.name, store.revision), store.id) for store in stores],
            )

    def sync(self) -> None:
        """Wait until the disk has what was committed before. May be called from another thread."""
        try:
            os.fsync(self._log)
        except OSError as error:
            raise UnavailableError(f"{self._log_path} cannot be written: {error.strerror}") from error

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    def close(self) -> None:
        self._connection.close()
        os.close(self._log)

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA cell_size_check = ON")
        is_new = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not is_new:
            self._check()
            self.lost = self._find_lost()
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        with self._transaction():
            if is_new:
                self._create()
        # Damage to the log can then only affect writes of this run.
        run("PRAGMA wal_checkpoint(TRUNCATE)")

    def _find_lost(self) -> LostWrites | None:
        data = self._log_path.read_bytes() if self._log_path.exists() else b""
        (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
        _, read, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        log = WriteAheadLog(data, page_size)
        lost = log.lost_transactions(max(read, 0))
        if not lost:
            return None
        kept = self._log_path.with_name(f"{self._log_path.name}.damaged")
        kept.touch(mode=0o600)
        kept.write_bytes(data)
        return LostWrites(lost, self._objects_lost(log), kept)

    def _objects_lost(self, log: WriteAheadLog) -> tuple[str, ...]:
        """What the whole log would have changed; nothing of it is taken over, since damage may be anywhere in it."""
        with tempfile.TemporaryDirectory(dir=self._path.parent) as folder:
            copy = Path(folder, "copy.db")
            target = sqlite3.connect(copy)
            self._connection.backup(target)
            target.close()
            copy.with_name("copy.db-wal").write_bytes(log.mended())
            try:
                return tuple(sorted(_row_names(self._connection, copy)))
            except sqlite3.Error:
                return ()

    def _create(self) -> None:
        run = self._connection.execute
        run(f"PRAGMA application_id = {_APPLICATION_ID}")
        for statement in _SCHEMA.split(";"):
            run(statement)
        run("INSERT INTO schema (version) VALUES (?)", (SCHEMA_VERSION,))

    def _check(self) -> None:
        run = self._connection.execute
        if run("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise InputError(f"{self._path} is a database of another program")
        found = [row[0] for row in run("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise self.damaged(str(found[0]))
        versions = [row[0] for row in run("SELECT version FROM schema")]
        if versions != [SCHEMA_VERSION]:
            raise InputError(_version_mismatch(self._path, versions))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._reported():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite itself rolls back after some errors; a second rollback would hide the first error.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # The sqlite3 module fails so when SQLite quotes damaged bytes in its own message.
            raise self.damaged(error.object.decode(errors="replace")) from None
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise UnavailableError(f"{self._path} is in use by another process") from None
            if name == "SQLITE_NOTADB":
                raise InputError(f"{self._path} is not a SQLite database") from None
            # Our statements are fixed, so an SQL error means that the layout is not ours.
            if name == "SQLITE_ERROR" or name.startswith("SQLITE_CORRUPT"):
                raise self.damaged(str(error)) from None
            raise UnavailableError(f"{self._path} cannot be read or written: {error}") from error

    def damaged(self, why: str) -> InputError:
        return InputError(f"{self._path} is damaged: {why}; nothing was changed; restore a copy or delete the file")


def _row_names(connection: sqlite3.Connection, copy: Path) -> set[str]:
    """The objects whose rows differ between the connection's file and the copy."""
    other = sqlite3.connect(copy)
    other.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        before, after = (set(each.execute(_CHECKSUMS)) for each in (connection, other))
    finally:
        other.close()
    return {
        str(ObjectRef(group=group, kind=kind, namespace=namespace, name=name))
        for _, group, kind, namespace, name, _ in before ^ after
    }


def _open_log(path: Path) -> int:
    """The log for syncing, once its directory entry is on disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return os.open(path, os.O_RDWR)


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    try:
        # Secrets live in it: made readable by its owner only, and SQLite gives its log the same mode.
        path.touch(mode=0o600)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be opened: {error.strerror}") from None
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    # Damaged text must reach the checks that name its row.
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    return connection


def _place(row: ObjectRow) -> tuple[int, str, str, str, str]:
    return row.store, row.ref.group, row.ref.kind, row.ref.namespace, row.ref.name


def _store_checksum(name: object, revision: object) -> int:
    return zlib.crc32(f"{revision}:{name}".encode())


def _version_mismatch(path: Path, versions: list[int]) -> str:
    if len(versions) == 1 and versions[0] > SCHEMA_VERSION:
        return (
            f"{path} was written by a newer program (layout {versions[0]}, this one knows {SCHEMA_VERSION}): "
            "use that program"
        )
    return (
        f"{path} has an unknown layout ({', '.join(map(str, versions)) or 'none'}; this program knows {SCHEMA_VERSION})"
    )
