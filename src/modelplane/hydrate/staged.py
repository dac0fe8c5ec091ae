"""One file on its way: its bytes, how far they have come, and its checksum."""

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import UNREADABLE
from modelplane.hydrate.artifact import ArtifactFile, FileStream
from modelplane.hydrate.checksum import Checksum, checksum
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.parts import PartState

_READ_BYTES = 1 << 20
_HASH_STORE_BYTES = 64 << 20


class DigestError(HydrateError):
    """A file does not have the digest that the source gave."""

    reason = Reason.DIGEST_MISMATCH


class FileRecord(msgspec.Struct, frozen=True):
    """A file that is whole and checked."""

    sha256: str
    size: int


class StagedFile:
    """Bytes may arrive in any order; the checksum follows the prefix that is complete."""

    def __init__(self, folder: Path, file: ArtifactFile, *, size: int, part_bytes: int) -> None:
        self.file = file
        self.data_path = folder / f"{file.content_id}.data"
        self.state = PartState(
            folder / f"{file.content_id}.parts",
            hashlib.sha256(f"{file.content_id}|{size}".encode()).digest(),
            size,
            part_bytes,
        )
        self.descriptor = os.open(self.data_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if self.state.resumed and os.fstat(self.descriptor).st_size != size:
            self.state.reset()
        self.fresh = not self.state.resumed
        if self.fresh:
            os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, size)
        self._moved = threading.Condition()
        self._prefix_part = 0

    @property
    def size(self) -> int:
        return self.state.size

    def write(self, part: int, done: int, block: memoryview) -> None:
        """Takes the next block of a part, of which `done` bytes are there."""
        start, _ = self.state.bounds(part)
        if not (self.fresh and _is_zero(block)):
            write_whole(self.descriptor, block, start + done)
        self.state.advance(part, done + len(block))
        with self._moved:
            self._moved.notify()

    def prefix(self) -> int:
        """How many bytes are there from the start without a gap."""
        state = self.state
        while self._prefix_part < state.part_count:
            start, stop = state.bounds(self._prefix_part)
            count = state.counts[self._prefix_part]
            if count < stop - start:
                return start + count
            self._prefix_part += 1
        return state.size

    def follow(self, check: Callable[[], None], sync_bytes: int) -> str:
        """The SHA-256 of the whole file, made as its bytes arrive. `check` raises when waiting is in vain."""
        offset, digest = self._start()
        buffer = memoryview(bytearray(_READ_BYTES))
        stored = synced = offset
        while offset < self.size:
            offset = self._hash_to(digest, offset, self._await_more(offset, check), buffer)
            if offset - stored >= _HASH_STORE_BYTES:
                stored = self._store(digest, offset)
            if offset - synced >= sync_bytes:
                self.state.sync(self.descriptor)
                synced = offset
        return digest.hexdigest()

    def await_whole(self, check: Callable[[], None]) -> None:
        while self.prefix() < self.size:
            self._await_more(self.prefix(), check)

    def reset(self) -> None:
        """Everything has to be fetched again."""
        self.state.reset()
        self._prefix_part = 0
        self.fresh = True
        os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, self.size)

    def finish(self, sha256: str) -> FileRecord:
        """Makes the file durable and remembers that it is whole. Raises DigestError if it is not what was listed."""
        check_digest(self.file, sha256, self.descriptor)
        os.fsync(self.descriptor)
        record = FileRecord(sha256, self.size)
        store_record(self.data_path.with_suffix(".json"), record)
        self.close()
        self.state.remove()
        return record

    def close(self) -> None:
        os.close(self.descriptor)
        self.state.close()

    def _start(self) -> tuple[int, Checksum]:
        hashed = self.state.hashed
        if hashed is None or hashed[0] > self.prefix():
            return 0, checksum()
        digest = checksum(hashed[1])
        return (hashed[0], digest) if digest.state() is not None else (0, digest)

    def _await_more(self, offset: int, check: Callable[[], None]) -> int:
        with self._moved:
            while (prefix := self.prefix()) <= offset:
                check()
                self._moved.wait(0.2)
        return prefix

    def _hash_to(self, digest: Checksum, offset: int, stop: int, buffer: memoryview) -> int:
        while offset < stop:
            count = os.preadv(self.descriptor, [buffer[: min(len(buffer), stop - offset)]], offset)
            if not count:
                raise HydrateError(f"{self.data_path} became shorter while it was read")
            digest.update(buffer[:count])
            offset += count
        return offset

    def _store(self, digest: Checksum, offset: int) -> int:
        state = digest.state()
        if state is not None:
            self.state.store_hash(offset, state)
        return offset


def check_digest(file: ArtifactFile, sha256: str, descriptor: int) -> None:
    """Raises DigestError if a file is not what was listed."""
    kind, _, wanted = (file.digest or "").partition(":")
    found = _git_digest(descriptor) if kind == "git" else sha256
    if wanted and found != wanted:
        raise DigestError(f"{file.path} has the digest {kind}:{found}, and {kind}:{wanted} was listed")


def _git_digest(descriptor: int) -> str:
    """The name of a git blob: SHA-1 over a header and the content."""
    size = os.fstat(descriptor).st_size
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    buffer = memoryview(bytearray(_READ_BYTES))
    offset = 0
    while count := os.preadv(descriptor, [buffer], offset):
        digest.update(buffer[:count])
        offset += count
    return digest.hexdigest()


def stream_file(folder: Path, file: ArtifactFile, body: FileStream, read: Callable[[int], None]) -> FileRecord:
    """Takes a file whose size nobody knows, from its start to its end. `read` is told of each block."""
    data = folder / f"{file.content_id}.data"
    digest = hashlib.sha256()
    block = memoryview(bytearray(_READ_BYTES))
    with data.open("w+b", buffering=0) as out:
        while count := body.readinto(block):
            digest.update(block[:count])
            write_whole(out.fileno(), block[:count], out.tell())
            out.seek(count, os.SEEK_CUR)
            read(count)
        check_digest(file, digest.hexdigest(), out.fileno())
        os.fsync(out.fileno())
        record = FileRecord(digest.hexdigest(), out.tell())
    store_record(data.with_suffix(".json"), record)
    return record


def store_record(path: Path, record: FileRecord) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(record))
    beside.replace(path)


def read_record(path: Path, data: Path) -> FileRecord | None:
    """The record of a file, if its bytes are still there."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=FileRecord)
        return record if data.stat().st_size == record.size else None
    except (OSError, *UNREADABLE):
        return None


def write_whole(descriptor: int, block: memoryview, offset: int) -> None:
    while block:
        count = os.pwrite(descriptor, block, offset)
        block, offset = block[count:], offset + count


_ZEROS = bytes(1 << 20)


def _is_zero(block: memoryview) -> bool:
    """A block of zeros in a new file stays a hole: sparse files stay sparse."""
    return block[0] == 0 and block[-1] == 0 and block == _ZEROS[: len(block)]
