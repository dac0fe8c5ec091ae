"""The token that opens the dashboard: one that was printed, or the content of a file that others write.

A file is read for every request, so that a Secret which is mounted can be replaced while the page is open. Without a
file, or with other content than `LEAST` or more printable ASCII characters, nobody gets in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEAST: Final = 16
_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class PageToken:
    read: Callable[[], str]
    """Empty: there is none."""
    where: str
    """What whoever has none is answered."""
    query: str = ""
    """Of the address that is printed."""

    @classmethod
    def printed(cls, token: str) -> "PageToken":
        return cls(lambda: token, "open the address that `modelplane up` printed", f"?token={token}")

    @classmethod
    def in_file(cls, path: Path) -> "PageToken":
        where = f"open /?token=TOKEN with the token that is in {path}: {LEAST} characters or more"
        return cls(lambda: _read(path), where)


def _read(path: Path) -> str:
    """A file that is not there, or no text, has no token."""
    try:
        with path.open(encoding="utf-8") as file:
            token = file.read(_MOST).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    is_valid = len(token) >= LEAST and token.isascii() and token.isprintable() and " " not in token
    return token if is_valid else ""
