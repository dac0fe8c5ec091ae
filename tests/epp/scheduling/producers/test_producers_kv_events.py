"""Both forms of both kinds of batch, what is left out, and what is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.producers.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KvEventBatch,
    KvEventError,
    pod_of,
    read_batch,
    read_frames,
    read_json,
)
from modelplane.sim.engine.kv_events import BlockStoredEvent as EngineStored
from modelplane.sim.engine.kv_events import PublishedBatch as EngineBatch

pack = msgspec.msgpack.encode

OLD = ["BlockStored", [1, 2], None, [5, 6, 7, 8], 2]
WHOLE = [
    "BlockStored", [b"\x02" * 24 + b"\x01" * 8], -1, [5, 6], 2, 3, "CPU", "adapter", [["salt", 1], None], 4,
    "full_attention", None,
]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (OLD, BlockStored((1, 2), None, (5, 6, 7, 8), 2)),
        (
            WHOLE,
            BlockStored(
                (0x0101010101010101,), 2**64 - 1, (5, 6), 2, "adapter", "cpu", (("salt", 1), ()), 4, "full_attention"
            ),
        ),
        (["BlockStored", [1], None, [0, 2**32 - 1], 2], BlockStored((1,), None, (0, 2**32 - 1), 2)),
        (["BlockRemoved", [7], None], BlockRemoved((7,))),
        (["BlockRemoved", [7], "cpu", 2], BlockRemoved((7,), "cpu", 2)),
        (["BlockRemoved", [7], "", "2"], BlockRemoved((7,))),
        (["BlockRemoved", [7], 5], BlockRemoved((7,))),
        (["AllBlocksCleared"], AllBlocksCleared()),
        (
            {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": 9, "token_ids": [4], "block_size": 1},
            BlockStored((1,), 9, (4,), 1),
        ),
        ({"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU"}, BlockRemoved((1,))),
        ({"type": "AllBlocksCleared"}, AllBlocksCleared()),
    ],
)
def test_events(event, expected):
    for document in ([1.5, [event], 3], {"ts": 1.5, "events": [event], "data_parallel_rank": 3}):
        assert read_batch(pack(document), 42) == KvEventBatch(42, (expected,), 1.5, 3)


def test_unknown_events_are_left_out_and_a_rank_may_be_missing():
    assert read_batch(pack([2, [["BlockMoved", 1], {"type": "Other"}]]), 0) == KvEventBatch(0, (), 2.0, None)
    assert read_batch(pack(["soon", [], "first"]), 0) == KvEventBatch(0, (), 0.0, None)
    assert read_batch(pack({"events": []}), 0) == KvEventBatch(0, (), 0.0, None)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\xc1", "no msgpack"),
        (b"", "no msgpack"),
        (pack(5), "a batch must be"),
        (pack([1.0]), "a batch must be"),
        (pack([1.0, "events"]), "a batch must be"),
        (pack([1.0, [5]]), "an event must be"),
        (pack([1.0, [[]]]), "an event must be"),
        (pack([1.0, [["BlockStored", 5, None, [], 1]]]), "block_hashes must be a list"),
        (pack([1.0, [["BlockStored", ["x"], None, [1], 1]]]), "number or bytes, not str"),
        (pack([1.0, [["BlockStored", [1], None, "tokens", 1]]]), "token_ids"),
        (pack([1.0, [["BlockStored", [1], None, [-1], 1]]]), "token_ids"),
        (pack([1.0, [["BlockStored", [1], None, [1, -1], 2]]]), "token_ids must be a list of numbers of 32 bits"),
        (pack([1.0, [["BlockStored", [1], None, [1 << 32], 1]]]), "token_ids must be a list of numbers of 32 bits"),
        (pack([1.0, [["BlockStored", [1, 2], None, [1, 2, 3], 2]]]), "3 tokens for 2 blocks of 2"),
        (pack([1.0, [["BlockStored", [1], None, [1], 0]]]), "1 tokens for 1 blocks of 0"),
        (pack([1.0, [["BlockStored", [1], None, [1], None]]]), "block_size must be a whole number"),
    ],
)
def test_invalid_messages_are_reported(payload, why):
    with pytest.raises(KvEventError, match=why):
        read_batch(payload, 0)


@given(st.binary(max_size=60))
def test_noise_is_an_error_or_a_batch(payload):
    try:
        found = read_batch(payload, 0)
    except KvEventError:
        return
    assert isinstance(found, KvEventBatch)


def test_frames():
    payload = pack([1.0, [["AllBlocksCleared"]], None])
    expected = ("kv@10.0.0.1@org/model", KvEventBatch(258, (AllBlocksCleared(),), 1.0))
    assert read_frames([b"kv@10.0.0.1@org/model", (258).to_bytes(8, "big"), payload]) == expected
    assert read_frames([b"kv@\xff", bytes(8), payload]) == ("kv@\ufffd", KvEventBatch(0, (AllBlocksCleared(),), 1.0))
    for frames in ([b"t", payload], [b"t", b"\x01", payload]):
        with pytest.raises(KvEventError):
            read_frames(frames)


def test_topics():
    assert pod_of("kv@10.0.0.1@org/model@v2") == ("10.0.0.1", "org/model@v2")
    for topic in ("kv@pod", "events@pod@model"):
        with pytest.raises(KvEventError, match="is not kv@pod@model"):
            pod_of(topic)


def test_simulated_engines_are_read():
    batch = EngineBatch(3, 1.0, (EngineStored((1,), None, (5, 6), 2, "adapter"),))
    assert read_json(batch.line()) == KvEventBatch(3, (BlockStored((1,), None, (5, 6), 2, "adapter"),), 1.0)
    assert read_json(b'{"seq": 4, "events": []}') == KvEventBatch(4, ()) == KvEventBatch(4, (), 0.0, None)
    for line, why in (
        (b"{", "the line is no JSON"),
        (b"[]", "the line is no object"),
        (b'{"events": []}', "seq must be a whole number"),
    ):
        with pytest.raises(KvEventError, match=why):
            read_json(line)
