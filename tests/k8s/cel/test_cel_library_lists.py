import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library.lists import (
    distinct,
    flatten,
    index_of,
    insert_entry,
    insert_map,
    is_sorted,
    last_index_of,
    make_range,
    reverse,
    sets_contains,
    sets_equivalent,
    sets_intersects,
    slice_list,
    sort,
    sort_by_keys,
)
from modelplane.k8s.cel.values import Uint

INTS = st.lists(st.integers(0, 6), max_size=12)


@given(INTS)
def test_sorting(items):
    found = sort(items)
    assert found == sorted(items)
    assert is_sorted(found)
    assert is_sorted(items) == (list(items) == sorted(items))


@given(INTS)
def test_distinct_elements_keep_their_order(items):
    assert list(distinct(items)) == sorted(set(items), key=items.index)


@given(INTS, INTS)
def test_sets(left, right):
    assert sets_contains(left, right) == (set(right) <= set(left))
    assert sets_equivalent(left, right) == (set(right) == set(left))
    assert sets_intersects(left, right) == bool(set(right) & set(left))


@given(INTS, st.integers(0, 6))
def test_positions_count_from_either_end(items, wanted):
    first, last = index_of(items, wanted), last_index_of(items, wanted)
    assert (first == -1) == (last == -1) == (wanted not in items)
    assert last == (-1 if first == -1 else len(items) - 1 - index_of(reverse(items), wanted))


@given(INTS, st.integers(0, 12), st.integers(0, 12))
def test_slices(items, start, end):
    if start <= end <= len(items):
        assert slice_list(items, start, end) == items[start:end]
    else:
        with pytest.raises(EvaluationError, match="cannot slice"):
            slice_list(items, start, end)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: distinct([1, 1.0, Uint(1), "1", [1], [1.0]]), [1, "1", [1]]),
        (lambda: flatten([1, [2, [3, [4]]]]), [1, 2, [3, [4]]]),
        (lambda: flatten([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
        (lambda: flatten([[1], [2]], 0), [[1], [2]]),
        (lambda: sort_by_keys(["a", "b", "c"], [2, 1, 1]), ["b", "c", "a"]),
        (lambda: list(make_range(3)), [0, 1, 2]),
        (lambda: sets_contains([1.0, Uint(2)], [1, 2]), True),
        (lambda: dict(insert_entry({"a": 1}, "b", 2)), {"a": 1, "b": 2}),
        (lambda: dict(insert_map({"a": 1}, {"b": 2})), {"a": 1, "b": 2}),
    ],
)
def test_lists(call, expected):
    assert call() == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: flatten([1], -1),
        lambda: sort([1, "a"]),
        lambda: sort([[1], [2]]),
        lambda: sort_by_keys([1], [1, 2]),
        lambda: slice_list([1], -1, 1),
        lambda: is_sorted([None]),
        lambda: insert_entry({"a": 1}, "a", 2),
        lambda: insert_map({"a": 1}, {"a": 2}),
    ],
)
def test_calls_that_fail(call):
    with pytest.raises(EvaluationError):
        call()


@pytest.mark.parametrize("call", [lambda: make_range(10**9), lambda: reverse(range(10**9))])
def test_lists_beyond_all_measure_end_the_evaluation(call):
    with pytest.raises(EvaluationAborted, match="too large"):
        call()
