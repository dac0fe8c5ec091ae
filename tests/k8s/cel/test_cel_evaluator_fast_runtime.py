import pytest

from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.evaluator_fast_runtime import FALLBACKS, NAMES


def test_generated_code_sees_no_builtins():
    assert NAMES["__builtins__"] == {}
    assert EvaluationAborted in FALLBACKS


def test_helpers():
    assert NAMES["one"]([1, 2], lambda value: value == 1) is True
    assert NAMES["mapped2"]([(1, 2)], lambda one, other: one + other) == [3]
    assert NAMES["kept"]([1, 2], lambda value: value > 1) == [2]
    with pytest.raises(EvaluationError):
        NAMES["truth"](1)
    with pytest.raises(EvaluationError):
        NAMES["get"]({}, "a")
