"""How far each part of a file has come, kept so that a kill at any byte loses no more than the block in hand.

The state lies beside the data, as a header, the state of the checksum, and a counter for each part. A counter is
written after the bytes that it counts, in one call. After a kill the kernel still has both. After a crash of the
machine it may have the counters and not the bytes: the header names the boot, and with another boot only the copy
counts that was written after the data reached the disk.
"""

import functools
import os
import struct
import zlib
from array import array
from pathlib import Path

from modelplane.hydrate.checksum import STATE_BYTES

_MAGIC = b"MPPARTS1"
_HEADER = struct.Struct("<8s32s36sQQ")
_HASH = struct.Struct(f"<Q{STATE_BYTES}sI")
_HASH_AT = _HEADER.size
_COUNTS_AT = _HASH_AT + _HASH.size
_COUNT_BYTES = 8
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class PartState:
    """The counters of one file. Each part has one writer at a time; the checksum has one writer."""

    def __init__(self, path: Path, identity: bytes, size: int, part_bytes: int) -> None:
        self._path = path
        self.size = size
        self.part_bytes = part_bytes
        self.resumed = False
        self._identity = identity
        self.counts = array("Q", [0] * self.part_count)
        self.hashed: tuple[int, bytes] | None = None
        self._load()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._write_all()

    @property
    def part_count(self) -> int:
        return _parts(self.size, self.part_bytes)

    @property
    def done_bytes(self) -> int:
        return sum(self.counts)

    def bounds(self, part: int) -> tuple[int, int]:
        start = part * self.part_bytes
        return start, min(self.size, start + self.part_bytes)

    def missing(self) -> list[int]:
        return [part for part in range(self.part_count) if self.counts[part] < self._length(part)]

    def advance(self, part: int, count: int) -> None:
        """The first `count` bytes of a part are in the file."""
        self.counts[part] = count
        os.pwrite(self._file, struct.pack("<Q", count), _COUNTS_AT + part * _COUNT_BYTES)

    def store_hash(self, offset: int, state: bytes) -> None:
        self.hashed = (offset, state)
        os.pwrite(self._file, _packed_hash(self.hashed), _HASH_AT)

    def reset(self) -> None:
        self.counts = array("Q", [0] * self.part_count)
        self.hashed = None
        self._write_all()
        self._synced.unlink(missing_ok=True)

    def sync(self, data: int) -> None:
        """Makes what is counted now survive a crash of the machine."""
        counted = self._packed()
        os.fdatasync(data)
        beside = self._path.with_suffix(".sync")
        with beside.open("wb") as file:
            file.write(counted)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._synced)

    def close(self) -> None:
        os.close(self._file)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._synced.unlink(missing_ok=True)

    @property
    def _synced(self) -> Path:
        return self._path.with_suffix(".synced")

    def _length(self, part: int) -> int:
        start, stop = self.bounds(part)
        return stop - start

    def _load(self) -> None:
        live = _read(self._path)
        if not self._take(live, boot_id()):
            self._take(_read(self._synced), None)

    def _take(self, raw: bytes, boot: bytes | None) -> bool:
        """Takes over a state of the same file. Its size of a part is kept, whatever was asked for now."""
        if len(raw) < _COUNTS_AT:
            return False
        magic, identity, its_boot, size, part_bytes = _HEADER.unpack_from(raw)
        if (magic, identity, size) != (_MAGIC, self._identity, self.size) or not part_bytes:
            return False
        if (boot is not None and its_boot != boot) or len(raw) != _COUNTS_AT + _COUNT_BYTES * _parts(size, part_bytes):
            return False
        self.part_bytes = part_bytes
        counts = array("Q")
        counts.frombytes(raw[_COUNTS_AT:])
        self.counts = array("Q", (min(count, self._length(part)) for part, count in enumerate(counts)))
        self.hashed = _unpacked_hash(raw)
        self.resumed = True
        return True

    def _write_all(self) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, self._packed(), 0)

    def _packed(self) -> bytes:
        header = _HEADER.pack(_MAGIC, self._identity, boot_id(), self.size, self.part_bytes)
        return header + _packed_hash(self.hashed) + self.counts.tobytes()


def _parts(size: int, part_bytes: int) -> int:
    return max(1, -(-size // part_bytes))


@functools.cache
def boot_id() -> bytes:
    """Which start of the machine this is. Unknown, it never equals a stored one."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36].ljust(36)
    except OSError:
        return os.urandom(18).hex().encode()


def _packed_hash(hashed: tuple[int, bytes] | None) -> bytes:
    offset, state = hashed or (0, bytes(STATE_BYTES))
    return _HASH.pack(offset, state, zlib.crc32(state, offset & 0xFFFFFFFF))


def _unpacked_hash(raw: bytes) -> tuple[int, bytes] | None:
    offset, state, check = _HASH.unpack_from(raw, _HASH_AT)
    return (offset, state) if offset and check == zlib.crc32(state, offset & 0xFFFFFFFF) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
