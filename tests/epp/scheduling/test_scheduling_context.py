from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.context import SchedulingContext, new_positions
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import SparseVector
from modelplane.testing.picking import context_of, endpoint


@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.sets(st.integers(0, 4), min_size=1))
def test_sparse_vectors_are_aligned_as_lists_are(held, kept):
    pool = tuple(endpoint(name) for name in "abcde")
    some = tuple(pool[at] for at in sorted(kept, reverse=True))
    counts = SparseVector(5, {at: count for at, count in enumerate(held) if count}, 0)
    context = context_of(pool)
    assert list(context.aligned(counts, some)) == context.aligned(held, some)
    assert context.aligned(counts, pool) is counts
    assert context.aligned(counts, [some[0]]) == [held[max(kept)]]
    assert [context.value(counts, each) for each in pool] == [context.value(held, each) for each in pool] == held


def test_columns_are_aligned_with_a_list_of_endpoints_that_changes():
    pool = tuple(endpoint(name) for name in "abc")
    context, some = context_of(pool), [pool[0], pool[2]]
    counts = SparseVector(3, {0: 5, 2: 7}, 0)
    before = list(context.aligned(counts, some))
    some.reverse()
    assert (before, list(context.aligned(counts, some))) == ([5, 7], [7, 5])


def test_a_list_of_endpoints_may_change_between_requests():
    positions, first, second = new_positions(), endpoint("a"), endpoint("b")
    pool = [first, second]
    for expected in ("x", "y"):
        context = SchedulingContext(Request("r"), pool, 0.0, lambda: 0.0, positions)
        assert context.value(("x", "y"), first) == expected
        pool.reverse()
