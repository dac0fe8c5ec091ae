"""Frames out of bytes that come in pieces: the preface once, then one frame after another."""

from collections.abc import Iterator

from modelplane.extproc.h2 import frames
from modelplane.extproc.h2.frames import HEADER_BYTES, LARGEST_WINDOW, PREFACE, Code, ConnectionFault

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream and payload."""


class FrameReader:
    """Holds what is left of the last frame: never more than one of the largest size."""

    __slots__ = ("_begun", "_largest", "_rest")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._begun = False
        self._rest = b""

    @property
    def held_bytes(self) -> int:
        """Of a frame that is not whole."""
        return len(self._rest)

    def read(self, data: bytes) -> Iterator[Frame]:
        """Every frame that is whole. One that breaks off, by error or because nobody asks on, is not given again."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        place = 0
        if not self._begun:
            place = self._preface(data)
            if not place:
                self._rest = data
                return
        size = len(data)
        while size - place >= HEADER_BYTES:
            high, low, kind, flags, identity = frames.read_head(data, place)
            length = high << 8 | low
            if length > self._largest:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = place + HEADER_BYTES
            end = begin + length
            if end > size:
                break
            place = end
            yield kind, flags, identity & LARGEST_WINDOW, data[begin:end]
        self._rest = data[place:]

    def _preface(self, data: bytes) -> int:
        if data[: len(PREFACE)] != PREFACE[: len(data)]:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "this is not the beginning of HTTP/2")
        if len(data) < len(PREFACE):
            return 0
        self._begun = True
        return len(PREFACE)

    def drop(self) -> None:
        self._rest = b""
