"""The ports and the page's token of the previous run: the next run uses the same, so that addresses stay valid."""

import json
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

HOST = "127.0.0.1"
_MAX_PORT = 65535
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class Ports:
    file: Path
    known: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Path) -> "Ports":
        """The ports of the last plane with this data folder; none where they cannot be read."""
        file = data / "ports.json"
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError):
            return cls(file)
        entries = found.items() if isinstance(found, dict) else ()
        return cls(file, {name: port for name, port in entries if isinstance(port, int) and 0 < port <= _MAX_PORT})

    def again(self, name: str, requested: int) -> int:
        """The requested port, else the previous one if it is free, else any."""
        before = self.known.get(name, 0)
        return requested or (before if before and _is_free(before) else 0)

    def remember(self, **urls: str) -> None:
        self.file.write_text(json.dumps({name: urlsplit(url).port for name, url in urls.items()}))


def page_token(data: Path) -> str:
    """The token of the page, made once for a data folder. Only the owner may read it."""
    file = data / "page.token"
    known = file.read_text() if file.is_file() else ""
    if _TOKEN.fullmatch(known):
        return known
    token = secrets.token_urlsafe(16)
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(token)
    return token


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
