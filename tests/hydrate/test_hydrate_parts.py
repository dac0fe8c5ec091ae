"""Counters of parts: what they say after a kill, after a crash of the machine, and when they are damaged."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.hydrate import parts
from modelplane.hydrate.checksum import STATE_BYTES
from modelplane.hydrate.parts import PartState

IDENTITY = b"i" * 32
SIZE, PART = 1000, 300


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.parts"


def opened(path, *, identity=IDENTITY, size=SIZE, part=PART):
    return PartState(path, identity, size, part)


def counted(path, counts):
    """A state with these counts, as a killed process leaves it."""
    state = opened(path)
    for part, count in enumerate(counts):
        state.advance(part, count)
    return state


def test_parts_cover_the_file(path):
    state = opened(path)
    assert [state.bounds(part) for part in range(state.part_count)] == [(0, 300), (300, 600), (600, 900), (900, 1000)]
    assert opened(path.with_name("empty.parts"), size=0).bounds(0) == (0, 0)


@given(st.lists(st.integers(0, 300), min_size=4, max_size=4))
def test_a_killed_process_left_its_counts(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("parts") / "file.parts"
    counts[3] = min(counts[3], 100)
    counted(path, counts)
    again = opened(path)
    assert (list(again.counts), again.done_bytes, again.resumed) == (counts, sum(counts), True)
    assert again.missing() == [part for part in range(4) if counts[part] < (300, 300, 300, 100)[part]]


def test_after_a_crash_only_what_was_synced_counts(path, tmp_path, monkeypatch):
    state = counted(path, [300, 10, 0, 0])
    data = os.open(tmp_path / "data", os.O_RDWR | os.O_CREAT)
    state.store_hash(300, b"h" * STATE_BYTES)
    state.sync(data)
    os.close(data)
    state.advance(1, 250)
    monkeypatch.setattr(parts, "boot_id", lambda: b"another boot".ljust(36))
    again = opened(path)
    assert (list(again.counts), again.hashed) == ([300, 10, 0, 0], (300, b"h" * STATE_BYTES))


def test_after_a_crash_without_a_sync_nothing_counts(path, monkeypatch):
    counted(path, [300, 300, 0, 0])
    monkeypatch.setattr(parts, "boot_id", lambda: b"another boot".ljust(36))
    assert (opened(path).done_bytes, opened(path).resumed) == (0, True)


@pytest.mark.parametrize("other", [{"identity": b"x" * 32}, {"size": 999}])
def test_the_state_of_another_file_is_not_taken(path, other):
    counted(path, [300, 300, 300, 100])
    assert opened(path, **other).done_bytes == 0


def test_the_size_of_parts_stays(path):
    counted(path, [300, 5, 0, 0])
    again = opened(path, part=500)
    assert (again.part_bytes, list(again.counts)) == (300, [300, 5, 0, 0])


@given(st.binary(max_size=400), st.integers(0, 300))
def test_damage_is_no_failure(tmp_path_factory, noise, cut):
    """Any bytes are read as a state that is possible: no count is larger than its part."""
    path = tmp_path_factory.mktemp("parts") / "file.parts"
    counted(path, [300, 300, 20, 100])
    raw = path.read_bytes()
    path.write_bytes(raw[:cut] + noise)
    state = opened(path)
    assert all(
        count <= stop - start for count, (start, stop) in zip(state.counts, map(state.bounds, range(9)), strict=False)
    )


def test_a_damaged_checksum_is_left_out(path):
    counted(path, [300, 0, 0, 0]).store_hash(300, b"h" * STATE_BYTES)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"hhhh")] ^= 1
    path.write_bytes(raw)
    assert opened(path).hashed is None


def test_a_damaged_size_of_parts_takes_no_memory(path):
    counted(path, [300, 0, 0, 0])
    raw = bytearray(path.read_bytes())
    raw[84:92] = (1).to_bytes(8, "little")
    path.write_bytes(raw)
    state = opened(path)
    assert (state.part_bytes, state.done_bytes) == (PART, 0)
