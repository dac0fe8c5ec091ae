import sys

import pytest

from modelplane.k8s.cel import CompileError, compile_selector
from modelplane.k8s.cel.compiler import placed, with_deep_stack
from modelplane.k8s.cel.errors import SyntaxFault, place


def _deep(levels):
    return 0 if levels == 0 else 1 + _deep(levels - 1)


def test_deep_work_gets_room_and_leaves_no_trace():
    before = sys.getrecursionlimit()
    assert with_deep_stack(lambda: _deep(5_000)) == 5_000
    assert sys.getrecursionlimit() == before


def test_results_and_errors_pass_through():
    assert with_deep_stack(lambda: 7) == 7
    with pytest.raises(ValueError, match="x"):
        with_deep_stack(lambda: int("x"))


def test_places_count_lines_and_columns_from_one():
    assert [place("ab\ncd\n", offset) for offset in (0, 1, 3, 6)] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    error = placed(SyntaxFault("odd", 4), "ab\ncd")
    assert (str(error), error.message, error.line, error.column) == ("2:2: odd", "odd", 2, 2)


def test_the_deepest_expression_that_is_allowed():
    text = "(" * 200 + "[" * 30 + "1" + "]" * 30 + ")" * 200 + " == dyn(1)"
    compile_selector(text)
    with pytest.raises(CompileError):
        compile_selector("(" * 251 + "true" + ")" * 251)
