"""Header blocks of HTTP/2, read (RFC 7541). What is written here is constant and needs no coder.

The server announces a dynamic table of size 0, so that a block always decodes the same and known blocks are not decoded
again. A peer may use a table of the default size until it has received that setting: the decoder is complete, and
caches blocks only from the moment when the table is empty.
"""

from collections import deque
from typing import Final

from modelplane.epp.transport.h2 import huffman

Header = tuple[bytes, bytes]
Block = tuple[Header, ...]

DEFAULT_TABLE_SIZE: Final = 4096
_ENTRY_OVERHEAD: Final = 32
_MOST_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 4096
_MOST_INTEGER_BYTES: Final = 5
_ONE_BYTE: Final = 0x7F

_NAMES_ONLY: Final = (
    b"accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control "
    b"content-disposition content-encoding content-language content-length content-location content-range content-type "
    b"cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since "
    b"last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh "
    b"retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
)
STATIC: Final[tuple[Header, ...]] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    *((b":status", code) for code in (b"200", b"204", b"206", b"304", b"400", b"404", b"500")),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *((name, b"") for name in _NAMES_ONLY.split()),
)


class HpackError(ValueError):
    """A header block that cannot be read: the whole connection's state of compression is lost."""


class TooLongError(ValueError):
    """A header list above the announced limit. It was decoded to its end, so the connection can continue."""


class Decoder:
    """The state of one direction of one connection."""

    def __init__(self, most_list_bytes: int) -> None:
        self._most_list_bytes = most_list_bytes
        self._table: deque[Header] = deque()
        self._held = 0
        self._size = DEFAULT_TABLE_SIZE
        self._allowed = DEFAULT_TABLE_SIZE
        self._must_shrink = False
        self._remembered: dict[bytes, Block] = {}

    def limit(self, size: int) -> None:
        """The peer acknowledged this table size. It signals a reduction in its next block.

        RFC 7541 section 4.2: a block after the acknowledgement starts with the new size.
        """
        self._allowed = size
        self._must_shrink = size < self._size

    def read(self, block: bytes) -> Block:
        """The headers of a complete block."""
        known = self._remembered.get(block)
        if known is not None:
            return known
        try:
            found = self._read(block)
        except huffman.HuffmanError as error:
            raise HpackError(str(error)) from error
        if self._stateless and len(block) <= _LONGEST_REMEMBERED:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[block] = found
        return found

    def remembers(self, block: bytes) -> bool:
        """Whether the block does not depend on the dynamic table."""
        return block in self._remembered

    @property
    def _stateless(self) -> bool:
        return self._size == 0 and self._allowed == 0

    def _read(self, block: bytes) -> Block:
        place = self._updates(block)
        headers: list[Header] = []
        listed = 0
        while place < len(block):
            header, place = self._field(block, place)
            listed += len(header[0]) + len(header[1]) + _ENTRY_OVERHEAD
            if listed <= self._most_list_bytes:
                headers.append(header)
        if listed > self._most_list_bytes:
            raise TooLongError(f"a header list of {listed} bytes; {self._most_list_bytes} are accepted")
        return tuple(headers)

    def _updates(self, block: bytes) -> int:
        """Table size updates, only at the beginning of a block."""
        place = 0
        while place < len(block) and block[place] >> 5 == 1:
            size, place = _integer(block, place, 5)
            if size > self._allowed:
                raise HpackError(f"a dynamic table of {size} bytes; {self._allowed} are allowed")
            self._must_shrink = False
            self._size = size
            self._evict(size)
        if self._must_shrink:
            raise HpackError("the peer kept its dynamic table after it acknowledged a smaller one")
        return place

    def _field(self, block: bytes, place: int) -> tuple[Header, int]:
        first = block[place]
        if first & 0x80:
            index, place = _integer(block, place, 7)
            return self._entry(index), place
        if first & 0x40:
            header, place = self._literal(block, place, 6)
            self._add(header)
            return header, place
        if first & 0x20:
            raise HpackError("the size of the dynamic table changes in the middle of a block")
        return self._literal(block, place, 4)

    def _literal(self, block: bytes, place: int, bits: int) -> tuple[Header, int]:
        index, place = _integer(block, place, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, place = _string(block, place)
        value, place = _string(block, place)
        return (name, value), place

    def _entry(self, index: int) -> Header:
        if 1 <= index <= len(STATIC):
            return STATIC[index - 1]
        if len(STATIC) < index <= len(STATIC) + len(self._table):
            return self._table[index - len(STATIC) - 1]
        raise HpackError(f"index {index} is in neither table")

    def _add(self, header: Header) -> None:
        size = len(header[0]) + len(header[1]) + _ENTRY_OVERHEAD
        self._evict(self._size - size)
        if size <= self._size:
            self._table.appendleft(header)
            self._held += size

    def _evict(self, room: int) -> None:
        while self._table and self._held > room:
            name, value = self._table.pop()
            self._held -= len(name) + len(value) + _ENTRY_OVERHEAD


def _integer(block: bytes, place: int, bits: int) -> tuple[int, int]:
    mask = (1 << bits) - 1
    value = block[place] & mask
    place += 1
    if value < mask:
        return value, place
    for shift in range(0, 7 * _MOST_INTEGER_BYTES, 7):
        if place >= len(block):
            raise HpackError("a header block ends inside a number")
        byte = block[place]
        place += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, place
    raise HpackError("a number of a header block is too large")


def _string(block: bytes, place: int) -> tuple[bytes, int]:
    if place >= len(block):
        raise HpackError("a header block ends where a string was due")
    coded = block[place] & 0x80
    length, place = _integer(block, place, 7)
    end = place + length
    if end > len(block):
        raise HpackError("a string of a header block is longer than the block")
    text = block[place:end]
    return huffman.decode(text) if coded else text, end


def literal(name: bytes, value: bytes) -> bytes:
    """One header for a block of ours: never indexed into a table, not Huffman-coded."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


def _length(number: int) -> bytes:
    if number < _ONE_BYTE:
        return bytes((number,))
    coded = bytearray((_ONE_BYTE,))
    number -= _ONE_BYTE
    while number >> 7:
        coded.append(number & 0x7F | 0x80)
        number >>= 7
    coded.append(number)
    return bytes(coded)
