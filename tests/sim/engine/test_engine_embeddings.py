from array import array
from base64 import b64decode
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine.embeddings import packed, vector
from modelplane.sim.engine.text import token_ids


def near(one, other):
    return sum(a * b for a, b in zip(vector(token_ids(one), 256), vector(token_ids(other), 256), strict=True))


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50), st.integers(1, 300))
def test_vectors_have_length_one(tokens, size):
    values = vector(tokens, size)
    assert (len(values), sqrt(sum(value * value for value in values))) == (size, pytest.approx(1))


def test_texts_that_share_words_are_near():
    assert near("the cat sat on the mat", "the cat sat on the mat") == pytest.approx(1)
    assert near("the cat sat on the mat", "the cat sat on a mat") > 0.5
    assert abs(near("the cat sat on the mat", "quarterly revenue grew again")) < 0.3


@given(st.lists(st.floats(-1, 1, width=32), max_size=10))
def test_packing_keeps_the_values(values):
    found = array("f")
    found.frombytes(b64decode(packed(values)))
    assert list(found) == values
