"""The usage records in a file, a JSON line each. A file that is full is set aside, and one old file is kept.

A line is written at once and in one call, so that a record is there when its request is over. What callers spent is
read back from it, so a budget survives a restart as far as the two files go.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from modelplane.router.usage_record import UsageRecord

LARGEST: Final = 64 << 20


class UsageFile:
    """Open until `close`."""

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        """OSError where the file cannot be written."""
        self._path = path
        self._largest = largest
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._open()

    @property
    def path(self) -> Path:
        return self._path

    def write(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._largest:
            self.close()
            self._path.replace(self._old)
            self._open()
        os.write(self._file, line)
        self._size += len(line)

    def close(self) -> None:
        os.close(self._file)

    def spent(self) -> Iterator[tuple[str, str, float]]:
        """Caller, month and cost of each record that has a cost. What is no record is passed over."""
        for path in (self._old, self._path):
            try:
                lines = path.read_bytes().splitlines()
            except OSError:
                continue
            for line in lines:
                try:
                    record = msgspec.json.decode(line, type=UsageRecord)
                except msgspec.DecodeError:
                    continue  # the last line of a process that was killed
                if record.cost > 0.0:
                    yield record.caller, record.time[:7], record.cost

    @property
    def _old(self) -> Path:
        return self._path.with_name(f"{self._path.name}.1")

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size
