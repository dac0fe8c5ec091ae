"""Objects of one kind as small as they get while nobody asks for them.

Most objects of a kind are made from one template, so an object is kept as what makes it differ from another of its
kind, its pattern: the first that was seen, and a few more where objects resemble none of those. A pod of 3,000 letters
takes 200 bytes that way; packing costs less than encoding it did, and unpacking next to nothing.
"""

import zlib

_LEVEL, _WINDOW, _MEMORY = 1, -13, 6
"""The least work, and a window of 8 KiB without a header: larger ones take longer to set up than to use."""
_PATTERN_BYTES = 1 << 13
_PATTERNS_MOST = 8
_GOOD = 4
"""An object that does not shrink to one in so many resembles no pattern."""


class Press:
    """Packs and unpacks texts. What one packed only the same can unpack: it has the patterns."""

    def __init__(self) -> None:
        self._patterns: list[bytes] = []

    def pack(self, text: bytes) -> bytes:
        best = b""
        for number in range(len(self._patterns)):
            packed = self._packed(text, number)
            if not best or len(packed) < len(best):
                best = packed
            if len(best) * _GOOD <= len(text):
                return best
        if len(self._patterns) == _PATTERNS_MOST:
            return best
        self._patterns.append(text[:_PATTERN_BYTES])
        return self._packed(text, len(self._patterns) - 1)

    def unpack(self, packed: bytes) -> bytes:
        return zlib.decompressobj(_WINDOW, self._patterns[packed[0]]).decompress(memoryview(packed)[1:])

    def _packed(self, text: bytes, number: int) -> bytes:
        packer = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._patterns[number]
        )
        return b"%c%b%b" % (number, packer.compress(text), packer.flush())
