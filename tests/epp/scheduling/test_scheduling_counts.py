import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.counts import Counts
from modelplane.testing.picking import context_of, endpoint


def test_counts_read_like_a_list():
    counts = Counts(4, {1: 5, 3: 1})
    assert (list(counts), len(counts), counts[1], counts[-1], counts[1:], max(counts)) == (
        [0, 5, 0, 1], 4, 5, 1, [5, 0, 1], 5,
    )  # fmt: skip
    with pytest.raises(IndexError):
        counts[4]


@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.sets(st.integers(0, 4), min_size=1))
def test_counts_are_aligned_as_lists_are(held, kept):
    pool = tuple(endpoint(name) for name in "abcde")
    some = tuple(pool[at] for at in sorted(kept, reverse=True))
    counts = Counts(5, {at: count for at, count in enumerate(held) if count})
    context = context_of(pool)
    assert list(context.aligned(counts, some)) == context.aligned(held, some)
    assert context.aligned(counts, pool) is counts
    assert context.aligned(counts, [some[0]]) == [held[max(kept)]]
    assert [context.value(counts, each) for each in pool] == [context.value(held, each) for each in pool] == held
