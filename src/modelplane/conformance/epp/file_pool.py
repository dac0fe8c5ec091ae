"""The pool of a picker that reads its endpoints from a file, in the form of llm-d's file discovery."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from modelplane.conformance.epp.controls import KitEndpoint


class FilePool:
    """Each change replaces the file as a whole, so that a picker never reads a part of it."""

    has_pods = False

    def __init__(self, path: Path, addresses: Sequence[str]) -> None:
        self._path = path
        self._names = {address: f"kit-{at}" for at, address in enumerate(addresses)}
        self.replace([KitEndpoint(address) for address in addresses])

    def replace(self, members: Sequence[KitEndpoint]) -> None:
        endpoints = [_entry(self._names[member.address], member) for member in members]
        written = self._path.with_name(f"{self._path.name}.new")
        written.write_bytes(msgspec.json.encode({"endpoints": endpoints}) + b"\n")
        written.replace(self._path)


def _entry(name: str, member: KitEndpoint) -> dict[str, object]:
    entry: dict[str, object] = {"name": name, "address": member.host, "port": member.address.rpartition(":")[2]}
    return entry | ({"labels": {"llm-d.ai/role": member.role}} if member.role else {})
