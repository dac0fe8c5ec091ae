from modelplane.picker.arithmetic import lower_is_better, within_unit
from modelplane.picker.endpoints import Load
from modelplane.picker.memo import Constant, Remembered, RememberedFor
from modelplane.testing.picking import cycle_of, endpoints_with, make


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, key):
        self.calls += 1
        return tuple(key)


def test_a_column_stands_until_its_list_changes():
    counting = Counting()
    column = Remembered(counting)
    one = column.of("a", [1, 2])
    assert column.of("a", [1, 2]) is one
    assert (column.of("a", [1, 3]), counting.calls) == ((1, 3), 2)


def test_owners_do_not_take_each_others_place():
    counting = Counting()
    column = Remembered(counting)
    owners = ["a", "b", "c", "d"]
    for _ in range(3):
        assert [column.of(owner, [1]) for owner in owners] == [(1,)] * 4
    assert counting.calls == 4
    for owner in range(9):
        column.of(owner, [owner])
    assert len(column._entries) == 4


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
    assert (before, scorer.score(cycle_of(pool), pool)) == ((1.0, 0.0), (0.0, 1.0))


def test_lines():
    assert lower_is_better([2.0, 2.0, 10.0]) == (1.0, 1.0, 0.0)
    assert [within_unit(value) for value in (float("nan"), -1.0, 0.5, 2.0)] == [0.0, 0.0, 0.5, 1.0]
