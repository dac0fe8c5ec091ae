"""The chain of block hashes against vectors computed from the rule, and its equality with the text form."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from modelplane.epp.scheduling.producers.hashing import (
    chain_of_blocks,
    chain_of_text,
    chain_of_tokens,
    marks_of_text,
    seed_of,
)


@pytest.mark.parametrize(
    ("model", "salt", "tokens", "block", "expected"),
    [
        ("test-model", "", [1, 2], 1, "8aa2db39828944b9 1a9b796c9972dc79"),
        ("test-model", "", [1, 3], 1, "8aa2db39828944b9 705db66896eab4f3"),
        ("test-model", "", range(1, 11), 4, "bbaff9ab40b2fc24 accb2a8863c7324c 2ca6840aac255efb"),
        ("test-model", "salt", range(1, 9), 4, "b137c0788c8b7b4a 02b49790c8fb0d18"),
        ("other", "", range(1, 9), 4, "97f6fa0752529778 3e2f9e785f172ef6"),
        ("test-model", "", [], 4, ""),
    ],
)
def test_golden_vectors(model, salt, tokens, block, expected):
    found = chain_of_tokens(list(tokens), block, seed_of(model, salt))
    assert " ".join(f"{link:016x}" for link in found) == expected


def test_a_last_block_that_is_not_full_can_be_left_out():
    whole = chain_of_tokens(list(range(1, 11)), 4, seed_of("m"))
    assert chain_of_tokens(list(range(1, 11)), 4, seed_of("m"), full_only=True) == whole[:2]


@pytest.mark.parametrize("extra_keys", [(), [(), ()], [("lora",), ()], [("lora",)], [(), ("lora",)]])
def test_blocks_with_extra_keys_are_full_ones_too(extra_keys):
    plain = chain_of_tokens(list(range(8)), 4, 7)
    found = chain_of_blocks(list(range(10)), 4, 7, extra_keys)
    same = [one == other for one, other in zip(found, plain, strict=True)]
    assert same == [not any(extra_keys[: at + 1]) for at in range(2)]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(1, 9))
def test_four_bytes_of_text_are_one_token(tokens, block):
    text = struct.pack(f"<{len(tokens)}I", *tokens)
    assert chain_of_text(text, block * 4, 7, len(text)) == chain_of_tokens(tokens, block, 7)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 40))
def test_equal_hashes_mean_equal_beginnings(one, other, width):
    chains = [chain_of_text(text, width, 1, len(text)) for text in (one, other)]
    for place, (left, right) in enumerate(zip(*chains, strict=False), start=1):
        assert (left == right) == (one[: place * width] == other[: place * width])


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 40), st.sets(st.integers(1, 40), max_size=8))
def test_equal_marks_mean_equal_beginnings(one, other, width, ends):
    places = sorted(ends)
    marks = [marks_of_text(text, width, 1, places) for text in (one, other)]
    for end, left, right in zip(places, *marks, strict=True):
        assert (left == right) == (one[: end * width] == other[: end * width])


def test_a_mark_covers_all_text_before_it():
    text = bytes(range(90))
    first = xxh64_intdigest(text[:10], 7)
    second = xxh64_intdigest(text[10:40], first)
    assert marks_of_text(text, 10, 7, [1, 4, 9]) == [first, second, xxh64_intdigest(text[40:], second)]


def test_no_more_than_requested_is_read():
    text = bytes(range(200))
    assert chain_of_text(text, 10, 1, 45) == chain_of_text(text[:50], 10, 1, 50)
