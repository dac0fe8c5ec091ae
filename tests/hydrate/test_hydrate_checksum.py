"""A checksum that is stored and continued is the one of hashlib, wherever it was cut."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.hydrate.checksum import STATE_BYTES, PlainChecksum, can_store, checksum


def view(data):
    return memoryview(bytearray(data))


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_it_continues_from_its_state(blocks):
    if not can_store():
        pytest.skip("this libcrypto hides the structure")
    digest = checksum()
    for block in blocks:
        digest.update(view(block))
        state = digest.state()
        assert len(state) == STATE_BYTES
        digest = checksum(state)
    assert digest.hexdigest() == hashlib.sha256(b"".join(blocks)).hexdigest()


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_without_the_library_it_is_hashlib(blocks):
    digest = PlainChecksum()
    for block in blocks:
        digest.update(view(block))
    assert (digest.state(), digest.hexdigest()) == (None, hashlib.sha256(b"".join(blocks)).hexdigest())
