"""Each target on mutations of its corpus: bytes cut, repeated, replaced and joined."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seeds

EXAMPLES = int(os.environ.get("MODELPLANE_FUZZ_EXAMPLES", "50"))


@st.composite
def mutated(draw, start):
    """One of the seeds after a few changes."""
    data = draw(st.sampled_from(start))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 64)))
        change = draw(st.sampled_from(("cut", "repeat", "put", "join")))
        if change == "cut":
            data = data[:at] + data[end:]
        elif change == "repeat":
            data = data[:at] + data[at:end] * draw(st.integers(2, 50)) + data[end:]
        elif change == "put":
            data = data[:at] + draw(st.binary(min_size=1, max_size=8)) + data[end:]
        else:
            data = data[:at] + draw(st.sampled_from(start))
        data = data[:8192]
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_end_in_a_declared_way(name):
    @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.binary(max_size=200) | mutated(seeds(name)))
    def run(data):
        TARGETS[name](data)

    run()


def test_there_are_enough_targets_and_each_has_seeds():
    assert len(TARGETS) >= 8
    assert all(len(seeds(name)) >= 10 for name in TARGETS)
