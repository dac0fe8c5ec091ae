from modelplane.api.errors import InputError
from modelplane.k8s.cel.errors import CompileError, EvaluationAborted, EvaluationError


def test_a_compile_error_is_the_users():
    assert issubclass(CompileError, InputError)
    assert str(CompileError("odd", 2, 5)) == "2:5: odd"
    assert str(CompileError("odd")) == "odd"


def test_only_one_kind_of_failure_can_be_absorbed():
    assert not issubclass(EvaluationAborted, EvaluationError)
