import pytest

from modelplane.k8s.cel.emit_runtime import ABSORBED, FALLBACKS, NAMES
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError


def _fails(*_):
    raise EvaluationError("x")


def test_generated_code_sees_no_builtins():
    assert NAMES["__builtins__"] == {}
    assert EvaluationAborted in FALLBACKS
    assert EvaluationAborted not in ABSORBED


def test_terms_absorb_errors():
    assert NAMES["any_of"](_fails, lambda: True) is True
    assert NAMES["all_of"](_fails, lambda: False) is False
    for name, term in (("any_of", lambda: False), ("all_of", lambda: True)):
        with pytest.raises(EvaluationError):
            NAMES[name](_fails, term)


def test_loops_absorb_errors():
    def inverse_is_one(value):
        if value == 0:
            raise EvaluationError("division by zero")
        return value == 1

    assert NAMES["absorbing_some"]([0, 1], inverse_is_one) is True
    assert NAMES["absorbing_every"]([0, 2], inverse_is_one) is False
    with pytest.raises(EvaluationError):
        NAMES["absorbing_every"]([0, 1], inverse_is_one)
    with pytest.raises(EvaluationError):
        NAMES["absorbing_some"]([0, 2], inverse_is_one)
    assert NAMES["absorbing_every2"]([(0, 1)], lambda _, value: value == 1) is True
    assert NAMES["absorbing_some2"]([(0, 1)], lambda _, value: value == 2) is False


def test_a_lazy_value_is_computed_once():
    calls = []
    read = NAMES["lazy"](lambda: calls.append(1) or len(calls))
    assert (read(), read(), calls) == (1, 1, [1])


def test_helpers():
    assert NAMES["one"]([1, 2], lambda value: value == 1) is True
    assert NAMES["mapped2"]([(1, 2)], lambda one, other: one + other) == [3]
    assert NAMES["kept"]([1, 2], lambda value: value > 1) == [2]
    with pytest.raises(EvaluationError):
        NAMES["truth"](1)
    with pytest.raises(EvaluationError):
        NAMES["get"]({}, "a")
