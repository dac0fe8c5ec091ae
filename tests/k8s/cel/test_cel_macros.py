import pytest

from modelplane.k8s.cel import CompileError
from modelplane.k8s.cel.macros import GLOBAL_MACROS, MAX_COPIES, RECEIVER_MACROS
from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import CallExpr, Comprehension, walk


def test_names_of_all_macros():
    names = sorted({name for name, _ in [*GLOBAL_MACROS, *RECEIVER_MACROS]})
    assert names == [
        *("all", "bind", "exists", "existsOne", "exists_one", "filter", "has", "map", "optFlatMap", "optMap"),
        *("sortBy", "transformList", "transformMap", "transformMapEntry"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x.all(e, e > 1)",
        "x.exists(i, v, v > i)",
        "x.map(e, e > 1, e)",
        "x.transformMap(k, v, v)",
        "x.transformMapEntry(k, v, {k: v})",
        "x.sortBy(e, -e)",
        "cel.bind(a, 1, a)",
    ],
)
def test_a_macro_with_a_variable_is_a_fold(text):
    assert isinstance(parse(text), Comprehension)


@pytest.mark.parametrize("text", ["x.existsOne(e, true)", "x.all(e)", "all(x, e, true)", "x.has(a.b)", ".has(a.b)"])
def test_other_shapes_stay_calls(text):
    assert isinstance(parse(text), CallExpr)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x.all(1, true)", "simple name"),
        ("x.all(__result__, true)", "accumulator"),
        ("x.all(a, a, true)", "duplicate"),
        ("x.all(a, 1, true)", "simple names"),
        ("cel.bind(1, 2, 3)", "simple name"),
        ("x.optMap(1, 2)", "simple name"),
        ("1.sortBy(e, e)", "sortBy"),
        ("has(a)", "has"),
        ("has(a[0])", "has"),
    ],
)
def test_bad_arguments_are_refused(text, complaint):
    with pytest.raises(CompileError, match=complaint):
        parse(text)


def test_copies_of_the_target_are_copies():
    node = parse("a.b[0].optMap(x, x)")
    nodes = list(walk(node))
    assert len({id(part) for part in nodes}) == len(nodes)


def test_copies_are_bounded():
    with pytest.raises(CompileError, match="too many parts"):
        parse("optional.of(1)" + ".optMap(x, x)" * 100)
    assert MAX_COPIES < 10_000
