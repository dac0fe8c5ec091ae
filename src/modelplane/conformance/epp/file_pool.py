"""The pool of a picker that reads its endpoints from a file, in the form of llm-d's file discovery."""

from collections.abc import Sequence
from pathlib import Path

import msgspec


class FilePool:
    """Each change replaces the file as a whole, so that a picker never reads a part of it."""

    def __init__(self, path: Path, addresses: Sequence[str]) -> None:
        self._path = path
        self._names = {address: f"kit-{at}" for at, address in enumerate(addresses)}
        self.replace(addresses)

    def replace(self, addresses: Sequence[str]) -> None:
        endpoints = [_entry(self._names[address], address) for address in addresses]
        written = self._path.with_name(f"{self._path.name}.new")
        written.write_bytes(msgspec.json.encode({"endpoints": endpoints}) + b"\n")
        written.replace(self._path)


def _entry(name: str, address: str) -> dict[str, str]:
    host, _, port = address.rpartition(":")
    return {"name": name, "address": host.strip("[]"), "port": port}
