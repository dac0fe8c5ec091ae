from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.picker.arithmetic import within_unit
from modelplane.picker.endpoints import Load
from modelplane.picker.memo import Constant, LoadColumn, RelativeColumn, RememberedFor
from modelplane.testing.picking import cycle_of, endpoints_with, make


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, key):
        self.calls += 1
        return tuple(key)


numbers = st.integers(0, 3).map(float)
steps = st.lists(st.lists(st.tuples(st.integers(0, 4), numbers), max_size=4), max_size=8)


@pytest.mark.parametrize("kind", [LoadColumn, RelativeColumn])
@given(first=st.lists(numbers, min_size=5, max_size=5), later=steps)
def test_a_column_that_is_kept_up_is_the_one_made_anew(kind, first, later):
    pool = endpoints_with([Load(waiting=number) for number in first])
    column = kind(attrgetter("waiting"))
    before = column.of(cycle_of(pool), pool)
    for changes in later:
        for at, number in changes:
            pool[at].load = Load(waiting=number)
        found = column.of(cycle_of(pool), pool)
        assert list(found) == list(kind(attrgetter("waiting")).of(cycle_of(pool), pool))
        assert found is before or found.was is None or found.was is before.values
        if found.was is not None and found is not before:
            differ = [at for at in range(5) if before[at] != found[at]]
            assert set(differ) <= set(found.changes)
        before = found


def test_a_column_stands_while_loads_do():
    pool = endpoints_with([Load(waiting=1), Load(waiting=2)])
    column = LoadColumn(attrgetter("waiting"))
    assert column.of(cycle_of(pool), pool) is column.of(cycle_of(pool), pool)


def test_owners_do_not_take_each_others_place():
    column = LoadColumn(attrgetter("waiting"))
    owners = [endpoints_with([Load(waiting=at)]) for at in range(9)]
    first = [column.of(cycle_of(owner), owner) for owner in owners[:4]]
    assert [column.of(cycle_of(owner), owner) for owner in owners[:4]] == first
    for owner in owners:
        column.of(cycle_of(owner), owner)
    assert len(column._kept) == 4


def test_what_never_changes_is_computed_once_a_tuple():
    counting = Counting()
    column = RememberedFor(counting)
    pool, other = (1, 2), (1, 3)
    assert column.of(pool) is column.of(pool)
    assert (column.of(other), counting.calls) == ((1, 3), 2)
    column.of([1])
    column.of([1])
    assert counting.calls == 4


def test_constants():
    ones = Constant(1.0)
    assert ones.of(2) is ones.of(2)
    assert ones.of(3) == (1.0, 1.0, 1.0)


def test_a_scorer_sees_a_load_that_was_replaced():
    pool = endpoints_with([Load(waiting=1), Load(waiting=3)])
    scorer = make("queue-scorer")
    before = scorer.score(cycle_of(pool), pool)
    assert scorer.score(cycle_of(pool), pool) is before
    pool[0].load = Load(waiting=9)
    assert (list(before), list(scorer.score(cycle_of(pool), pool))) == ([1.0, 0.0], [0.0, 1.0])


def test_numbers_within_the_unit():
    assert [within_unit(value) for value in (float("nan"), -1.0, 0.5, 2.0)] == [0.0, 0.0, 0.5, 1.0]
