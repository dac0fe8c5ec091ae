import pytest


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("1 + 2 * 3", "7", 2),
        ("[1, 2, 3].map(x, x * 2)", "[2, 4, 6]", 43),
        ("true ? 1 : 2", "1", 0),
        ("{'a': 1}.a", "1", 2),
        ("has({'a': 1}.b)", "false", 1),
        ("cel.bind(x, 2, x + x)", "4", 3),
        ("[1, 2][1] == 2", "true", 3),
        ("string(1) + 'a'", '"1a"', 1),
        ("1 in [1, 2]", "true", 0),
        ("1/0 == 1 || true", "true", 2),
        ("[1, 2].exists(x, x/0 == 1 || x == 2)", "true", 19),
        ("optional.none().orValue(3)", "3", 1),
        ("{1: 2}[dyn(1.0)]", "2", 2),
    ],
)
def test_value_and_cost(answer, text, value, cost):
    found = answer(text)
    assert (found.outcome, found.value, found.cost) == ("value", value, cost)


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0",
        "[1][1]",
        "{'a': 1}['b']",
        "dyn(1) + dyn('a')",
        "dyn(1) ? 1 : 2",
        "1/0 == 1 || false",
        "1/0 == 1 && true",
        "[0, 1].exists_one(x, 1/x == 1)",
        "optional.none().value()",
        "dyn(b'a') in ['x']",
        "dyn(b'a') in ['x'] || true",
        "{dyn(b'a'): size('x')} == {} || true",
        "dyn(1)[[1].map(x, x)]",
    ],
)
def test_errors(answer, text):
    assert answer(text).outcome == "runtime_error"


@pytest.mark.parametrize(
    "text",
    [
        "int('x')",
        "duration('x')",
        "'a'.find('(')",
        "'a'.findAll('[')",
        "{}[duration('1s')]",
        "{b'a': 1}",
        "timestamp(253402300800)",
        "uint(-1)",
    ],
)
def test_constants_that_can_never_work_are_refused_beforehand(answer, text):
    assert answer(text).outcome == "compile_error"
