import pytest

from modelplane.k8s.cel.effort import limited, metered, turn_effort, work
from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import Comprehension


def test_effort_is_endless_unless_it_is_limited():
    work(10**12)
    assert list(metered([1, 2], 10**12)) == [1, 2]


def test_an_allowance_is_used_up():
    with limited(10):
        work(6)
        work(4)
        with pytest.raises(EvaluationAborted, match="takes too long"):
            work(1)
    work(1)


def test_turns_are_paid_for_one_by_one():
    with limited(10):
        turns = metered(range(100), 4)
        assert [next(turns), next(turns)] == [0, 1]
        with pytest.raises(EvaluationAborted, match="takes too long"):
            next(turns)


def test_allowances_do_not_mix():
    with limited(10):
        with limited(1), pytest.raises(EvaluationAborted, match="takes too long"):
            work(2)
        work(10)


def _effort(text, **more):
    node = parse(text)
    assert isinstance(node, Comprehension)
    return turn_effort(node.step, **more)


def test_more_to_do_is_more_effort():
    plain = _effort("[1].all(x, x > 1)")
    assert plain < _effort("[1].all(x, x > 1 && x > 2)") < _effort("[1].all(x, x > 1 && {x: x}.size() > 2)")
    assert plain < _effort("[1].all(x, x > 1)", per_node=1)


def test_a_loop_inside_pays_for_its_own_turns():
    assert _effort("[1].all(x, [1].all(y, y > 1))") == _effort("[1].all(x, [1].all(y, y > 1 && y > 2 && y > 3))")


def test_constants_are_free():
    assert _effort("[1].all(x, x in [1])") == _effort("[1].all(x, x in [1, 2, 3, 4, 5])")
