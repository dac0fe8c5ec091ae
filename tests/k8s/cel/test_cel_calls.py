import pytest

from modelplane.k8s.cel.attributes import Activation
from modelplane.k8s.cel.calls import both, call_step
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.runtime_cost import FAILED


def _fails(_state):
    raise EvaluationError("left")


def _one(state):
    state.spent += 1
    return 1


def _cost_of(steps, *, stops_early=False, price=None):
    state = Activation([], 100)
    with pytest.raises(EvaluationError, match="left"):
        call_step(steps, lambda *_: 0, price, stops_early=stops_early)(state)
    return state.spent


def test_a_call_that_works_is_paid_once():
    state = Activation([], 100)
    assert call_step([_one, _one], lambda a, b: a + b, None, stops_early=False)(state) == 2
    assert state.spent == 3


def test_both_arguments_are_computed_and_paid_for_where_the_first_fails():
    assert _cost_of([_fails, _one]) == 2
    assert _cost_of([_fails, _one], price=lambda args, result: 10 * (args == (FAILED, 1) and result is FAILED)) == 11


def test_longer_calls_stop_at_the_first_failure():
    assert _cost_of([_one, _fails, _one]) == 1
    assert _cost_of([_one, _one, _fails]) == 3
    assert _cost_of([_fails, _one], stops_early=True) == 0


def test_a_failing_argument_is_paid_for_with_its_price():
    assert _cost_of([_fails], price=lambda args, _: 7 if args == (FAILED,) else 0) == 7


def test_a_body_that_fails_is_paid_for():
    state = Activation([], 100)
    with pytest.raises(EvaluationError):
        call_step([_one], _fails, lambda _, result: 5 if result is FAILED else 0, stops_early=False)(state)
    assert state.spent == 6


def test_a_dear_call_may_exhaust_the_budget():
    with pytest.raises(EvaluationAborted):
        call_step([_one], lambda value: value, lambda *_: 1_000, stops_early=False)(Activation([], 100))


def test_the_first_of_two_failures_counts():
    def other(_state):
        raise EvaluationError("right")

    with pytest.raises(EvaluationError, match="left"):
        both(_fails, other, Activation([], 10), lambda *_: 1)
