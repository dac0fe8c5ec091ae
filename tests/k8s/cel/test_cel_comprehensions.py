import pytest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2, 3].all(x, x < 4)", "true"),
        ("[3, 1].exists(x, x == 1)", "true"),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
        ("[5, 6].transformList(i, v, i + v)", "[5, 7]"),
        ("[1, 2].transformMap(i, v, v * 10)", "{0: 10, 1: 20}"),
        ("cel.bind(x, 1/0, true || x == 1)", "true"),
        ("cel.bind(l, [], [l + [1], l + [2]])", "[[1, 2], [1, 2]]"),
        ("[[1], [2]].map(l, l + [9])", "[[1, 9], [2, 9]]"),
        ("[1].map(x, [x, x].map(x, x + 1))", "[[2, 2]]"),
        ("[].all(x, 1/0 == 1)", "true"),
        ("lists.range(1000).map(x, x)[999]", "999"),
    ],
)
def test_value(answer, text, value):
    assert answer(text).value == value


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("[0, 1].all(x, 1/x == 1)", "runtime_error"),
        ("[0, 2].all(x, 1/x == 1)", "value"),
        ("[1, 0].exists(x, 1/x == 1)", "value"),
        ("[0, 2].exists(x, 1/x == 1)", "runtime_error"),
        ("[0].map(x, 1/x)", "runtime_error"),
        ("dyn(5).all(x, true)", "runtime_error"),
        ("dyn(5).all(x, y, true)", "runtime_error"),
        ("[1, 1].transformMapEntry(i, v, {v: i})", "runtime_error"),
    ],
)
def test_errors_are_absorbed_where_something_decides(answer, text, outcome):
    assert answer(text).outcome == outcome


def test_a_loop_stops_when_the_budget_is_spent(answer):
    found = answer("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))")
    assert found.outcome == "runtime_error"
    assert 1_000_000 < found.cost < 1_010_000
