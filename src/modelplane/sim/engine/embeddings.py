"""Embeddings of texts: equal texts have equal vectors, and texts that share words have similar ones.

Each token adds to a few places of the vector that its id chooses; the sum has length one. That is feature hashing: no
meaning, but enough that a search over simulated embeddings finds what it should.
"""

from array import array
from base64 import b64encode
from collections.abc import Sequence
from math import sqrt

_PLACES_PER_TOKEN = 4
# Odd multipliers spread neighbouring ids over the vector: the golden ratio of 32 bits, and a prime for the sign.
_SPREAD, _SIGN = 2_654_435_761, 40_503


def vector(tokens: Sequence[int], size: int) -> list[float]:
    sums = [0.0] * size
    for token in tokens:
        state = (token + 1) * _SPREAD
        for _ in range(_PLACES_PER_TOKEN):
            state = (state * _SPREAD + _SIGN) & 0xFFFFFFFFFFFFFFFF
            sums[(state >> 32) % size] += 1.0 if state & 0x80000000 else -1.0
    length = sqrt(sum(value * value for value in sums))
    if not length:
        return [1.0] + [0.0] * (size - 1)
    return [value / length for value in sums]


def packed(values: Sequence[float]) -> str:
    """For `encoding_format: base64`: little-endian 32-bit floats."""
    floats = array("f", values)
    return b64encode(floats.tobytes()).decode()
