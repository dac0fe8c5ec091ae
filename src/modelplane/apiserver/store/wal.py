"""SQLite's write-ahead log as bytes: which transactions are in it, and the same log with its checksums mended.

SQLite reads a log up to the first frame whose checksum is wrong and drops the rest without an error. A commit frame
beyond that point is a transaction that was written and is lost. The format is documented in section 4 of SQLite's
"Database File Format": a header of 32 bytes, then frames of 24 bytes and a page each. A frame belongs to the current
round of the log when it has the salts of the header.
"""

import struct
import sys
from dataclasses import dataclass
from typing import Final

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_VERSION: Final = 3007000
_MAGIC: Final = {0x377F0682: "<", 0x377F0683: ">"}
_NATIVE: Final = {"little": 0x377F0682, "big": 0x377F0683}[sys.byteorder]
_WORD: Final = 0xFFFFFFFF
Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    data: bytes
    page_size: int

    def lost_transactions(self, read: int) -> int:
        """How many transactions lie beyond the frames that SQLite read."""
        salts = self._salts()
        frames = [_FRAME.unpack_from(self.data, at) for at in self._positions()]
        return sum(frame[1] != 0 and _is_of_round(frame, salts) for frame in frames[read:])

    def mended(self) -> bytes:
        """The current round of the log with its checksums computed anew, so that SQLite reads all of it."""
        salts = self._salts()
        found = [at for at in self._positions() if _is_of_round(_FRAME.unpack_from(self.data, at), salts)]
        end = found[-1] + _FRAME.size + self.page_size if found else _HEADER.size
        out = bytearray(self.data[:end])
        struct.pack_into(">6I", out, 0, _NATIVE, _VERSION, self.page_size, 0, *salts)
        order = _MAGIC[_NATIVE]
        sums = _checksum(order, out[:24], (0, 0))
        struct.pack_into(">2I", out, 24, *sums)
        for at in self._positions():
            if at >= end:
                break
            page = at + _FRAME.size
            sums = _checksum(order, out[at : at + 8] + out[page : page + self.page_size], sums)
            struct.pack_into(">4I", out, at + 8, *salts, *sums)
        return bytes(out)

    def _salts(self) -> Sums:
        """Those of the header, or of the first frame where the header is damaged: it is always of this round."""
        at = 16 if self._header_is_whole() else _HEADER.size + 8
        first, second = struct.unpack_from(">2I", self.data, at) if len(self.data) >= at + 8 else (0, 0)
        return first, second

    def _header_is_whole(self) -> bool:
        if len(self.data) < _HEADER.size:
            return False
        magic, *_, first, second = _HEADER.unpack_from(self.data)
        return magic in _MAGIC and _checksum(_MAGIC[magic], self.data[:24], (0, 0)) == (first, second)

    def _positions(self) -> range:
        size = _FRAME.size + self.page_size
        return range(_HEADER.size, len(self.data) - size + 1, size)


def _is_of_round(frame: tuple[int, ...], salts: Sums) -> bool:
    """Each round has two new salts, so one that is right is enough: damage may have hit the other."""
    return frame[2] == salts[0] or frame[3] == salts[1]


def _checksum(order: str, data: bytes | bytearray, sums: Sums) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & _WORD
        second = (second + words[at + 1] + first) & _WORD
    return first, second
