"""The directory of one Envoy: its files, its logs, its admin socket."""

import os
import tempfile
from pathlib import Path
from typing import IO

from modelplane.envoy.bootstrap import BOOTSTRAP, bootstrap
from modelplane.envoy.files import DIRECTORY, XdsFile, file_name
from modelplane.envoy.listeners import ACCESS_LOG

LOG = "envoy.log"
_SOCKET = "admin.sock"

# Longer paths do not fit a socket address.
_LONGEST_SOCKET_PATH = 100
_TAIL_BYTES = 1 << 20


class Storage:
    """Everything Envoy reads and writes. All of it may be deleted while Envoy is stopped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.access_log = directory / ACCESS_LOG
        self._log = directory / LOG
        self._short: tempfile.TemporaryDirectory[str] | None = None

    def prepare(self) -> Path:
        """Make the directory ready for a start; returns where the admin socket will be."""
        (self.directory / DIRECTORY).mkdir(parents=True, exist_ok=True)
        for log in (self._log, self.access_log):
            if log.exists():
                _set_aside(log)
        socket = self._socket()
        socket.unlink(missing_ok=True)
        (self.directory / BOOTSTRAP).write_bytes(bootstrap(socket))
        return socket

    def write(self, file: XdsFile) -> None:
        """Replace a table in one step, so that Envoy never reads half of one. It may hold credentials."""
        path = self.directory / file_name(file.table)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)  # a file that is there would keep its mode
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            written.writelines(file.parts())
        fresh.replace(path)

    def open_log(self) -> IO[bytes]:
        return self._log.open("ab")

    def log_size(self) -> int:
        return self._log.stat().st_size

    def read_log(self, since: int = 0) -> str:
        """The log after position `since`, or its tail if it is long."""
        with self._log.open("rb") as log:
            log.seek(max(since, self.log_size() - _TAIL_BYTES))
            return log.read().decode(errors="replace")

    def set_aside(self, most_bytes: int) -> bool:
        """Rotate the access log if it is longer than that; one old log is kept."""
        if not self.access_log.exists() or self.access_log.stat().st_size <= most_bytes:
            return False
        _set_aside(self.access_log)
        return True

    def clean(self) -> None:
        (self.directory / _SOCKET).unlink(missing_ok=True)
        if self._short is not None:
            self._short.cleanup()
            self._short = None

    def _socket(self) -> Path:
        plain = self.directory.absolute() / _SOCKET
        if len(os.fsencode(plain)) <= _LONGEST_SOCKET_PATH:
            return plain
        self._short = tempfile.TemporaryDirectory(prefix="modelplane-")
        return Path(self._short.name) / _SOCKET


def _set_aside(log: Path) -> None:
    log.replace(log.with_name(f"{log.name}.1"))
