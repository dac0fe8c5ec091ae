import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.engine import LLAMA_8B_H200, LLAMA_70B_H200, Timing

# Medians measured on an H200, in ms: (timing, tokens, prefill).
PREFILL = [
    (LLAMA_8B_H200, 64, 9.0),
    (LLAMA_8B_H200, 1_024, 25.0),
    (LLAMA_8B_H200, 2_048, 49.3),
    (LLAMA_8B_H200, 8_192, 225),
    (LLAMA_8B_H200, 32_768, 1_282),
    (LLAMA_70B_H200, 64, 43),
    (LLAMA_70B_H200, 1_024, 219),
    (LLAMA_70B_H200, 2_048, 460),
    (LLAMA_70B_H200, 8_192, 1_978),
    (LLAMA_70B_H200, 32_768, 9_736),
]

# (timing, batch, context of each, ms a step).
DECODE = [
    (LLAMA_8B_H200, 1, 1_024, 5.4),
    (LLAMA_8B_H200, 32, 1_024, 6.4),
    (LLAMA_8B_H200, 64, 4_096, 13.2),
    (LLAMA_8B_H200, 128, 4_096, 21.3),
    (LLAMA_8B_H200, 256, 1_024, 15.6),
    (LLAMA_8B_H200, 256, 4_096, 39.2),
    (LLAMA_70B_H200, 1, 1_024, 37.8),
    (LLAMA_70B_H200, 32, 1_024, 41.4),
    (LLAMA_70B_H200, 64, 4_096, 58.8),
    (LLAMA_70B_H200, 128, 4_096, 81.2),
    (LLAMA_70B_H200, 256, 1_024, 76.9),
    (LLAMA_70B_H200, 256, 4_096, 145),
]


@pytest.mark.parametrize(("timing", "tokens", "measured"), PREFILL)
def test_prefill_follows_the_measurements(timing, tokens, measured):
    assert timing.prefill_ms(tokens) == pytest.approx(measured, rel=0.04)


@pytest.mark.parametrize(("timing", "batch", "context", "measured"), DECODE)
def test_decode_follows_the_measurements(timing, batch, context, measured):
    assert timing.decode_ms(sequences=batch, kv_tokens=batch * context) == pytest.approx(measured, rel=0.16)


@given(st.integers(0, 200_000), st.integers(0, 200_000))
def test_a_longer_prompt_is_never_faster(one, other):
    shorter, longer = sorted((one, other))
    assert LLAMA_8B_H200.prefill_ms(shorter) <= LLAMA_8B_H200.prefill_ms(longer)


def test_scaling_moves_prefill_by_compute_and_decode_by_bandwidth():
    timing = Timing(
        prefill_floor=8,
        prefill_per_token=4,
        prefill_per_token_squared=2,
        decode_floor=6,
        decode_per_sequence=3,
        decode_per_kv_token=1,
    )
    assert timing.scaled(compute=2, bandwidth=4) == Timing(
        prefill_floor=4,
        prefill_per_token=2,
        prefill_per_token_squared=1,
        decode_floor=1.5,
        decode_per_sequence=0.75,
        decode_per_kv_token=0.25,
    )
