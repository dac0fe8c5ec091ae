from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine import LLAMA_8B_H200, LLAMA_70B_H200, Timing

# Medians measured on an H200, in ms: (timing, tokens, prefill).
PREFILL = [
    (LLAMA_8B_H200, 1_024, 25.0),
    (LLAMA_8B_H200, 2_048, 49.3),
    (LLAMA_8B_H200, 2_048, 49.5),
    (LLAMA_8B_H200, 8_192, 225),
    (LLAMA_8B_H200, 32_768, 1_282),
    (LLAMA_70B_H200, 1_024, 219),
    (LLAMA_70B_H200, 2_048, 460),
    (LLAMA_70B_H200, 8_192, 1_978),
    (LLAMA_70B_H200, 32_768, 9_736),
]

# Prompts short enough for a CUDA graph.
SHORT_PREFILL = [
    (LLAMA_8B_H200, 64, 5.5),
    (LLAMA_8B_H200, 256, 7.6),
    (LLAMA_8B_H200, 512, 12.0),
    (LLAMA_70B_H200, 64, 39.8),
    (LLAMA_70B_H200, 256, 58.8),
    (LLAMA_70B_H200, 512, 102.0),
]

# (timing, batch, context of each, ms a step).
DECODE = [
    (LLAMA_8B_H200, 1, 1_024, 5.4),
    (LLAMA_8B_H200, 32, 1_024, 6.4),
    (LLAMA_8B_H200, 64, 4_096, 13.2),
    (LLAMA_8B_H200, 128, 1_024, 9.8),
    (LLAMA_8B_H200, 128, 4_096, 21.3),
    (LLAMA_8B_H200, 256, 1_024, 15.6),
    (LLAMA_8B_H200, 256, 4_096, 39.2),
    (LLAMA_70B_H200, 1, 1_024, 37.8),
    (LLAMA_70B_H200, 32, 1_024, 41.4),
    (LLAMA_70B_H200, 64, 4_096, 58.8),
    (LLAMA_70B_H200, 128, 1_024, 52.3),
    (LLAMA_70B_H200, 128, 4_096, 81.2),
    (LLAMA_70B_H200, 256, 1_024, 76.9),
    (LLAMA_70B_H200, 256, 4_096, 145),
]

# A prompt piece beside sequences that decode: (timing, piece, batch, context, ms a step).
MIXED = [
    (LLAMA_8B_H200, 64, 8, 1_024, 6.244),
    (LLAMA_8B_H200, 64, 128, 4_096, 22.578),
    (LLAMA_8B_H200, 256, 64, 1_024, 11.356),
    (LLAMA_8B_H200, 256, 256, 1_024, 20.546),
    (LLAMA_8B_H200, 512, 128, 4_096, 31.579),
    (LLAMA_8B_H200, 1_024, 64, 1_024, 30.302),
    (LLAMA_8B_H200, 2_048, 8, 1_024, 51.755),
    (LLAMA_8B_H200, 2_048, 128, 4_096, 74.253),
    (LLAMA_8B_H200, 8_192, 256, 1_024, 240.518),
    (LLAMA_70B_H200, 64, 8, 1_024, 44.915),
    (LLAMA_70B_H200, 256, 128, 4_096, 133.401),
    (LLAMA_70B_H200, 512, 64, 1_024, 135.149),
    (LLAMA_70B_H200, 2_048, 256, 1_024, 548.203),
    (LLAMA_70B_H200, 8_192, 128, 4_096, 2073.111),
]

# One rank's share without the all-reduces: (timing, ranks, piece, batch, context, ms a step).
SHARDS = [
    (LLAMA_8B_H200, 2, 0, 1, 1_024, 3.666),
    (LLAMA_8B_H200, 2, 0, 256, 4_096, 19.851),
    (LLAMA_8B_H200, 4, 2_048, 0, 0, 13.563),
    (LLAMA_8B_H200, 4, 0, 128, 4_096, 6.542),
    (LLAMA_70B_H200, 2, 0, 32, 1_024, 22.618),
    (LLAMA_70B_H200, 4, 8_192, 0, 0, 512.942),
    (LLAMA_70B_H200, 4, 0, 256, 4_096, 36.858),
    (LLAMA_70B_H200, 8, 0, 1, 1_024, 9.357),
    (LLAMA_70B_H200, 8, 0, 256, 4_096, 20.948),
    (LLAMA_70B_H200, 8, 8_192, 0, 0, 268.104),
]


@pytest.mark.parametrize(("timing", "tokens", "measured"), PREFILL)
def test_prefill_follows_the_measurements(timing, tokens, measured):
    bound = 0.04 if timing is LLAMA_8B_H200 else 0.07
    assert timing.prefill_ms(tokens) == pytest.approx(measured, rel=bound)


@pytest.mark.parametrize(("timing", "tokens", "measured"), SHORT_PREFILL)
def test_short_prompts_follow_the_measurements(timing, tokens, measured):
    assert timing.prefill_ms(tokens) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(("timing", "batch", "context", "measured"), DECODE)
def test_decode_follows_the_measurements(timing, batch, context, measured):
    assert timing.decode_ms(sequences=batch, kv_tokens=batch * context) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(("timing", "piece", "batch", "context", "measured"), MIXED)
def test_mixed_steps_follow_the_measurements(timing, piece, batch, context, measured):
    step = timing.step_ms(tokens=piece + batch, pairs=piece * piece, kv_tokens=batch * context)
    assert step == pytest.approx(measured, rel=0.10)


@pytest.mark.parametrize(("timing", "ranks", "piece", "batch", "context", "measured"), SHARDS)
def test_shards_follow_the_measurements(timing, ranks, piece, batch, context, measured):
    shard = timing.sharded(ranks, latency_ms=0, per_token_ms=0)
    step = shard.step_ms(tokens=piece + batch, pairs=piece * piece, kv_tokens=batch * context)
    assert step == pytest.approx(measured, rel=0.08)


@given(st.integers(0, 200_000), st.integers(0, 200_000))
def test_a_longer_prompt_is_never_faster(one, other):
    shorter, longer = sorted((one, other))
    assert LLAMA_8B_H200.prefill_ms(shorter) <= LLAMA_8B_H200.prefill_ms(longer)


@given(st.integers(1, 20_000), st.integers(1, 16_000))
def test_reading_a_prompt_in_pieces_costs_what_the_pieces_overhead_adds(tokens, piece):
    timing = replace(LLAMA_8B_H200, weights=0, overhead=0)
    starts = range(0, tokens, piece)
    pieces = [(start, min(piece, tokens - start)) for start in starts]
    total = sum(timing.step_ms(tokens=size, pairs=size * (2 * start + size)) for start, size in pieces)
    assert total == pytest.approx(timing.prefill_ms(tokens))


PLAIN = Timing(overhead=3, weights=8, per_token=4, per_pair=2, per_kv_token=1)


def test_other_hardware_moves_compute_and_bandwidth_and_leaves_the_overhead():
    assert PLAIN.scaled(compute=2, bandwidth=4) == Timing(
        overhead=3, weights=2, per_token=2, per_pair=1, per_kv_token=0.25
    )


def test_shards_share_the_work_and_add_their_messages():
    assert PLAIN.sharded(2, latency_ms=5, per_token_ms=0.5) == Timing(
        overhead=8, weights=4, per_token=2.5, per_pair=1, per_kv_token=0.5
    )
    assert PLAIN.sharded(1, latency_ms=5, per_token_ms=0.5) == PLAIN


def test_a_faster_simulation_shortens_everything():
    assert PLAIN.faster(2) == Timing(overhead=1.5, weights=4, per_token=2, per_pair=1, per_kv_token=0.5)


def test_no_work_on_weightless_hardware_costs_the_overhead():
    assert Timing(overhead=1, weights=0, per_token=1, per_pair=0, per_kv_token=0).step_ms(tokens=0) == 1
