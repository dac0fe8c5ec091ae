"""Huffman-coded strings of HPACK (RFC 7541, appendix B), decoded a byte at a time.

The code is canonical, so the symbols in the order of their lengths are the whole of it. The decoder is an automaton
whose states are the inner nodes of the code's tree and whose steps, one for a state and a byte, are worked out when
they are first taken: a peer that repeats itself soon meets none that is new.
"""

from typing import Final

_END_OF_STRING: Final = 256
_MOST_PADDING_BITS: Final = 7

_SYMBOLS: Final[dict[int, tuple[int, ...]]] = {
    5: tuple(b"012aceiost"),
    6: tuple(b" %-./3456789=A_bdfghlmnpru"),
    7: tuple(b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    8: tuple(b"&*,;XZ"),
    10: tuple(b'!"()?'),
    11: tuple(b"'+|"),
    12: tuple(b"#>"),
    13: tuple(b"\x00$@[]~"),
    14: tuple(b"^}"),
    15: tuple(b"<`{"),
    19: (92, 195, 208),
    20: (128, 130, 131, 162, 184, 194, 224, 226),
    21: (153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230),
    22: tuple(bytes.fromhex("818485868892 9a9ca0a3a4a9aaadb2b5b9babbbdbe c4c6e4e8e9")),
    23: tuple(bytes.fromhex("018789 8a8b8c8d8f939596 97989b9d9ea5a6a8aeafb4b6b7bcbfc5e7ef")),
    24: (9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237),
    25: (199, 207, 234, 235),
    26: (192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255),
    27: (203, 204, 211, 212, 214, 221, 222, 223, 241, *range(244, 249), *range(250, 255)),
    28: (*range(2, 9), 11, 12, *range(14, 22), *range(23, 32), 127, 220, 249),
    30: (10, 13, 22, _END_OF_STRING),
}


class HuffmanError(ValueError):
    """The bytes are not a Huffman-coded string."""


def codes() -> dict[int, tuple[int, int]]:
    """The code and its length in bits, by symbol."""
    found: dict[int, tuple[int, int]] = {}
    code = previous = 0
    for length, symbols in _SYMBOLS.items():
        code <<= length - previous
        previous = length
        for symbol in symbols:
            found[symbol] = (code, length)
            code += 1
    return found


def _tree() -> list[list[int]]:
    """Children of each inner node: a number from 0 is an inner node, one below is the symbol `-1 - number`."""
    nodes = [[0, 0]]
    for symbol, (code, length) in codes().items():
        node = 0
        for place in range(length - 1, 0, -1):
            bit = code >> place & 1
            if nodes[node][bit] == 0:
                nodes.append([0, 0])
                nodes[node][bit] = len(nodes) - 1
            node = nodes[node][bit]
        nodes[node][code & 1] = -1 - symbol
    return nodes


def _endings() -> frozenset[int]:
    """Valid ends of a string: at a symbol, or inside at most seven bits of padding, all ones."""
    node = 0
    found = {0}
    for _ in range(_MOST_PADDING_BITS):
        node = _TREE[node][1]
        found.add(node)
    return frozenset(found)


_TREE: Final = _tree()
_ENDINGS: Final = _endings()
_STEPS: Final[dict[int, tuple[int, bytes]]] = {}


def decode(data: bytes) -> bytes:
    """The string. Wrong padding, or a coded end of string, is an error."""
    node = 0
    pieces: list[bytes] = []
    for byte in data:
        key = node << 8 | byte
        step = _STEPS.get(key)
        if step is None:
            step = _STEPS[key] = _step(node, byte)
        node, text = step
        pieces.append(text)
    if node not in _ENDINGS:
        raise HuffmanError("a Huffman-coded string ends in the middle of a symbol")
    return b"".join(pieces)


def _step(node: int, byte: int) -> tuple[int, bytes]:
    text = bytearray()
    for place in range(7, -1, -1):
        node = _TREE[node][byte >> place & 1]
        if node < 0:
            symbol = -1 - node
            if symbol == _END_OF_STRING:
                raise HuffmanError("a Huffman-coded string contains the end-of-string symbol")
            text.append(symbol)
            node = 0
    return node, bytes(text)
