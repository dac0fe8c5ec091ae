from modelplane.epp.scheduling.arithmetic import within_unit
from modelplane.epp.scheduling.loads import Load
from modelplane.epp.scheduling.remembered import Constant, RememberedFor
from modelplane.testing.picking import context_of, endpoints_with, make


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, key):
        self.calls += 1
        return tuple(key)


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
    before = scorer.score(context_of(pool), pool)
    pool[0].load = Load(waiting=9)
    assert (list(before), list(scorer.score(context_of(pool), pool))) == ([1.0, 0.0], [0.0, 1.0])


def test_numbers_within_the_unit():
    assert [within_unit(value) for value in (float("nan"), -1.0, 0.5, 2.0)] == [0.0, 0.0, 0.5, 1.0]
