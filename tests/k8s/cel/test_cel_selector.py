import pytest

from modelplane.k8s.cel import CompileError, Evaluation, Gates, SelectorOutcome, compile_selector
from modelplane.k8s.cel.selector import MAX_BYTES, MAX_COST
from modelplane.k8s.cel.sizes import MAX
from modelplane.k8s.cel.work_budget import MAX_WORK
from modelplane.k8s.device import Device

_DEVICE = Device.from_dict("d", {"attributes": {"x": {"int": 1}, "on": {"bool": True}}})


def test_three_outcomes():
    selectors = ["device.driver == 'd'", "device.driver == 'e'", "device.attributes['d'].y == 1"]
    assert [compile_selector(text).evaluate(_DEVICE) for text in selectors] == [
        Evaluation(SelectorOutcome.TRUE),
        Evaluation(SelectorOutcome.FALSE),
        Evaluation(SelectorOutcome.ERROR, "no such key: y"),
    ]


@pytest.mark.parametrize(
    ("text", "complaint", "place"),
    [
        ("device.driver ==", "syntax error", (1, 17)),
        ("true &&\n  device.nope", "undefined field 'nope'", (2, 9)),
        ("device.driver", "must evaluate to bool", (0, 0)),
        ("dyn(true)", "must evaluate to bool", (0, 0)),
        ("'a'.join() == 'a'", "no matching overload", (1, 9)),
        ("['a'].join() == 'a'", "unbounded", (0, 0)),
        ("lists.range(1000000).size() > 0", "1000013 units", (0, 0)),
        ("int('x') == 1", "conversion", (1, 4)),
        (" " * MAX_BYTES + "true", "10240 bytes", (0, 0)),
        ("'\ud800' == ''", "Unicode", (0, 0)),
    ],
)
def test_rejections_have_a_message_and_position(text, complaint, place):
    with pytest.raises(CompileError) as caught:
        compile_selector(text)
    assert complaint in caught.value.message
    assert (caught.value.line, caught.value.column) == place
    if place != (0, 0):
        assert str(caught.value).startswith(f"{place[0]}:{place[1]}: ")


def test_a_stored_selector_is_not_held_to_the_rules_of_new_ones():
    stored = compile_selector("['a'].join() == 'a'", stored=True)
    assert stored.estimated_cost > MAX_COST
    assert stored.evaluate(_DEVICE).outcome is SelectorOutcome.TRUE
    assert compile_selector(" " * MAX_BYTES + "true", stored=True).evaluate(_DEVICE).outcome is SelectorOutcome.TRUE
    assert compile_selector("type(1) == int", stored=True).estimated_cost <= MAX


def test_length_counts_bytes():
    with pytest.raises(CompileError, match="bytes"):
        compile_selector('"' + "é" * 5_200 + '" == ""')


def test_a_bare_attribute_must_be_a_bool():
    outcomes = [compile_selector(f"device.attributes['d'].{name}").evaluate(_DEVICE) for name in ("on", "x")]
    assert outcomes == [
        Evaluation(SelectorOutcome.TRUE),
        Evaluation(SelectorOutcome.ERROR, "the result is of type int, not bool"),
    ]


def test_a_faulty_device_fails_every_selector():
    faulty = Device.from_dict("d", {"attributes": {"v": {"version": "99999999999999999999.0.0"}}})
    evaluation = compile_selector("true").evaluate(faulty)
    assert evaluation.outcome is SelectorOutcome.ERROR
    assert "attribute v" in evaluation.message


def test_gates_change_what_compiles():
    lists = Gates(list_attributes=True)
    assert (
        compile_selector("device.attributes['d'].x.includes(1)", gates=lists).evaluate(_DEVICE).outcome
        is SelectorOutcome.TRUE
    )
    for text, gates in (
        ("device.attributes['d'].x.includes(1)", Gates()),
        ("device.allowMultipleAllocations", Gates(consumable_capacity=False)),
    ):
        with pytest.raises(CompileError):
            compile_selector(text, gates=gates)


def test_the_same_text_is_compiled_once():
    assert compile_selector("device.driver == 'q'") is compile_selector("device.driver == 'q'")


def test_the_budget_is_the_same_for_every_evaluation():
    selector = compile_selector("lists.range(999990).size() > 0", stored=True)
    messages = {selector.evaluate(_DEVICE).message for _ in range(2)}
    assert messages == {"the evaluation costs more than its budget of 1000000 units"}


_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("lists.range(450000).isSorted()", SelectorOutcome.TRUE),
        ("'%s'.format([lists.range(400000)]).startsWith('{')", SelectorOutcome.FALSE),
        (
            f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_TEN}.all(e, a / 0 > 1 || true)))))",
            SelectorOutcome.TRUE,
        ),
    ],
)
def test_what_takes_too_long_ends_though_its_cost_is_allowed(text, outcome):
    selector = compile_selector(text, stored=True)
    assert {selector.evaluate(_DEVICE) for _ in range(2)} == {
        Evaluation(SelectorOutcome.ERROR, "the evaluation takes too long")
    }
    evaluation, cost = selector.trace(_DEVICE)
    assert evaluation.outcome is outcome
    assert cost < 1_000_000


def test_ten_thousand_iterations_may_raise_errors():
    text = f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, a / 0 > 1 || true))))"
    assert compile_selector(text).evaluate(_DEVICE).outcome is SelectorOutcome.TRUE


def test_a_hundred_thousand_iterations_may_be_simple():
    text = f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_TEN}.all(e, a + b >= 0)))))"
    assert compile_selector(text).evaluate(_DEVICE).outcome is SelectorOutcome.TRUE


def test_every_way_of_evaluating_gives_the_same_error():
    selector = compile_selector("device.attributes['d'].y == 1 && device.driver == 'd'")
    evaluations = {selector.evaluate(_DEVICE) for _ in range(10)}
    assert evaluations == {Evaluation(SelectorOutcome.ERROR, "no such key: y")}


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("true", 0, 100),
        ('device.driver == "d"', 50, 500),
        ("lists.range(100).all(x, x >= 0)", 100, 100_000),
        ("lists.range(900000).isSorted()", MAX_WORK, MAX_WORK + 50_000),
    ],
)
def test_the_work_of_an_evaluation_is_counted_and_stays_the_same(text, least, most):
    device = Device.from_dict("d", {})
    works = set()
    for _ in range(2):
        selector = compile_selector.__wrapped__(text, stored=True)
        works |= {selector.evaluate_with_work(device)[1] for _ in range(5)}
    (work,) = works
    assert least <= work <= most
