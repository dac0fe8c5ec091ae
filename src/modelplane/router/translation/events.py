"""Splits a byte stream into server-sent events, however its pieces are cut."""

from typing import Final

_LARGEST: Final = 4 << 20
_DATA: Final = b"data:"


class EventSplitter:
    """Feed bytes, get the data of complete events. An event that grows beyond 4 MiB is dropped."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that is complete."""
        text = (self._held + piece).replace(b"\r\n", b"\n")
        *whole, self._held = text.split(b"\n\n")
        if len(self._held) > _LARGEST:
            self._held = b""
        return [data for data in map(_data, whole) if data]

    def end(self) -> list[bytes]:
        """The data of an event that the stream ended in."""
        left, self._held = self._held, b""
        data = _data(left)
        return [data] if data else []


def _data(event: bytes) -> bytes:
    lines = [line[len(_DATA) :].strip() for line in event.split(b"\n") if line.startswith(_DATA)]
    return b"\n".join(lines)
