import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.optionals import first, has_value, last, none, of, of_non_zero, unwrap, value_of
from modelplane.k8s.cel.values import NONE, CelDuration, Optional, Timestamp, Uint


@pytest.mark.parametrize(
    "value", [None, False, 0, Uint(0), 0.0, "", b"", [], {}, CelDuration(0), Timestamp(-62135596800 * 10**9)]
)
def test_zero_values(value):
    assert of_non_zero(value) is NONE
    assert has_value(of(value))


@pytest.mark.parametrize("value", [True, 1, "a", b"a", [0], {"a": 0}, CelDuration(1), Timestamp(0)])
def test_other_values(value):
    assert value_of(of_non_zero(value)) == value


def test_the_ends_of_a_list():
    assert [value_of(first([1, 2])), value_of(last([1, 2])), first([]), last([])] == [1, 2, NONE, NONE]


def test_unwrapping():
    assert unwrap([of(1), none(), of(None)]) == [1, None]
    with pytest.raises(EvaluationError):
        unwrap([1])


def test_no_value():
    assert not has_value(none())
    with pytest.raises(EvaluationError, match="dereference"):
        value_of(none())


def test_an_optional_may_hold_a_failure():
    with pytest.raises(EvaluationError, match="inside"):
        value_of(Optional(EvaluationError("inside")))
