import pytest

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import Comprehension
from modelplane.k8s.cel.work_budget import iteration_work, metered, spend, work_limited


def test_effort_is_endless_unless_it_is_limited():
    spend(10**12)
    assert list(metered([1, 2], 10**12)) == [1, 2]


def test_an_allowance_is_used_up():
    with work_limited(10):
        spend(6)
        spend(4)
        with pytest.raises(EvaluationAborted, match="takes too long"):
            spend(1)
    spend(1)


def test_turns_are_paid_for_one_by_one():
    with work_limited(10):
        turns = metered(range(100), 4)
        assert [next(turns), next(turns)] == [0, 1]
        with pytest.raises(EvaluationAborted, match="takes too long"):
            next(turns)


def test_allowances_do_not_mix():
    with work_limited(10):
        with work_limited(1), pytest.raises(EvaluationAborted, match="takes too long"):
            spend(2)
        spend(10)


def _effort(text, **more):
    node = parse(text)
    assert isinstance(node, Comprehension)
    return iteration_work(node.step, **more)


def test_more_to_do_is_more_effort():
    plain = _effort("[1].all(x, x > 1)")
    assert plain < _effort("[1].all(x, x > 1 && x > 2)") < _effort("[1].all(x, x > 1 && {x: x}.size() > 2)")
    assert plain < _effort("[1].all(x, x > 1)", per_node=1)


def test_a_loop_inside_pays_for_its_own_turns():
    assert _effort("[1].all(x, [1].all(y, y > 1))") == _effort("[1].all(x, [1].all(y, y > 1 && y > 2 && y > 3))")


def test_constants_are_free():
    assert _effort("[1].all(x, x in [1])") == _effort("[1].all(x, x in [1, 2, 3, 4, 5])")
