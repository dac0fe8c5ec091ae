import pytest

from modelplane.k8s.cel.attributes import (
    Activation,
    ComputedQualifier,
    ConstantQualifier,
    ExactLimitActivation,
    Path,
    PresenceQualifier,
    look_up,
)
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.types import INT
from modelplane.k8s.cel.values import NONE, Optional
from modelplane.k8s.quantity import parse_quantity

_DATA = {"a": {"b": [10, 20]}, "n": None}


def _resolved(*qualifiers, root=_DATA):
    state = Activation([root], 100)
    return Path(lambda state: state.slots[0], qualifiers=list(qualifiers)).resolve(state), state.spent


def test_a_path_is_followed_and_paid_for():
    path = (ConstantQualifier("a"), ConstantQualifier("b"), ComputedQualifier(lambda _: 1))
    assert _resolved(*path) == (20, 3)


def test_presence_is_a_bool():
    assert _resolved(ConstantQualifier("a"), PresenceQualifier("x")) == (False, 2)
    assert _resolved(PresenceQualifier("n")) == (True, 1)


def test_an_optional_step_makes_the_rest_optional():
    found, cost = _resolved(ConstantQualifier("a", optional=True), ConstantQualifier("b"))
    assert (found.value, cost) == ([10, 20], 2)
    assert _resolved(ConstantQualifier("x", optional=True), ConstantQualifier("b")) == (NONE, 0)
    assert _resolved(ConstantQualifier("a"), root=NONE) == (NONE, 0)


def test_an_optional_is_opened_by_a_variable():
    assert _resolved(root=Optional(INT))[0].value == "int"
    assert _resolved(root=Optional(Optional(1)))[0].value == 1
    assert _resolved(root=Optional(NONE))[0].value is None
    spoilt = _resolved(root=Optional(parse_quantity("1")))[0]
    assert isinstance(spoilt.value, EvaluationError)


@pytest.mark.parametrize(
    ("value", "key", "found"),
    [
        ([1, 2], 1, (True, 2)),
        ([1, 2], 1.0, (True, 2)),
        ([1, 2], -1, (False, None)),
        ({"a": 1}, "a", (True, 1)),
        ({"a": 1}, 1, (False, None)),
        (5, "a", (False, None)),
    ],
)
def test_look_up(value, key, found):
    assert look_up(value, key) == found


@pytest.mark.parametrize("key", ["a", 0.5, True])
def test_a_list_has_numbers_for_indices(key):
    with pytest.raises(EvaluationError):
        look_up([1], key)


def test_a_key_of_the_wrong_kind_is_an_error():
    with pytest.raises(EvaluationError, match="cannot be a key"):
        _resolved(ComputedQualifier(lambda _: [1]))


def test_a_spent_budget_ends_the_evaluation():
    state = Activation([], 5)
    state.spent = 6
    with pytest.raises(EvaluationAborted, match="budget of 5"):
        state.check()


def test_a_thrifty_state_ends_with_the_step_that_exceeds_the_budget():
    state = ExactLimitActivation([], 5)
    state.spent = 5
    with pytest.raises(EvaluationAborted, match="budget of 5"):
        state.spent += 3
    assert state.spent == 8
