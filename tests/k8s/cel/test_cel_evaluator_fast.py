import pytest

from modelplane.k8s.cel import CompileError, SelectorOutcome, compile_selector
from modelplane.k8s.cel.compiler import checked_tree
from modelplane.k8s.cel.device_view import DEFAULT_GATES, environment
from modelplane.k8s.cel.evaluator_fast import MAX_NODES, emit
from modelplane.k8s.cel.evaluator_fast_runtime import FALLBACKS
from modelplane.k8s.cel.types import BOOL
from modelplane.k8s.device import Device

_ENVIRONMENT = environment(DEFAULT_GATES, stored=True)
_WRITTEN = {
    "attributes": {
        "b": {"bool": True},
        "f": {"bool": False},
        "i": {"int": 3},
        "n": {"int": -7},
        "s": {"string": "abc"},
        "e": {"string": ""},
        "v": {"version": "1.2.3"},
        "num": {"string": "42"},
        "other.com/s": {"string": "o"},
    },
    "capacity": {"q": {"value": "4Gi"}, "z": {"value": "0"}, "big": {"value": "100Pi"}, "m": {"value": "1500m"}},
}
_DEVICE = Device.from_dict("dra.example.com", _WRITTEN)


def _emitted(text):
    node = checked_tree(text, _ENVIRONMENT).node
    return emit(node, _ENVIRONMENT.functions)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('device.driver == "dra.example.com"', True),
        ('device.attributes["dra.example.com"].s == "abc"', True),
        ('device.attributes["dra.example.com"].s != "abc"', False),
        ('device.attributes["nope"].size() == 0', True),
        ('has(device.attributes["nope"].x)', False),
        ('device.attributes["dra.example.com"].?x.orValue("y") == "y"', True),
        ('device.attributes["dra.example.com"].?s.hasValue()', True),
        ('device.capacity["dra.example.com"].q.compareTo(quantity("1Gi")) > 0', True),
        ('device.attributes["dra.example.com"].v.isGreaterThan(semver("1.0.0"))', True),
        ('device.attributes["dra.example.com"].s in ["abc", "x"]', True),
        ('device.attributes["dra.example.com"].i in [1, 3]', True),
        ('device.attributes["dra.example.com"].s.matches("^a")', True),
        ('["a", "abc"].exists(x, x == device.attributes["dra.example.com"].s)', True),
        ('cel.bind(a, device.attributes["dra.example.com"], a.i > 2 && a.b)', True),
        ("[1, 2, 3].map(x, x * 2).filter(y, y > 2).size() == 2", True),
        ("device.attributes.all(d, d != '')", True),
        ("device.attributes.exists(d, m, size(m) == 8)", True),
        ('"dra.example.com" in device.attributes', True),
        ("device.allowMultipleAllocations", False),
    ],
)
def test_generated_function(text, value):
    assert _emitted(text)(_DEVICE) is value


@pytest.mark.parametrize(
    "text",
    [
        'device.capacity["d"].q.isInteger()',
        'device.capacity["d"].q.add(1).compareTo(quantity("1")) == 0',
        "dyn(device) == dyn(device)",
        "[1, 2].transformMap(i, v, v).size() == 2",
        "cel.bind(l, [1], l + l == [1, 1])",
        "{'a': 1}.a == 1",
        "(true ? dyn(1) : dyn(2)) == 1",
        "type(1) == int",
        " || ".join(["true"] * MAX_NODES),
    ],
)
def test_what_is_left_to_the_exact_evaluator(text):
    assert _emitted(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('device.attributes["dra.example.com"].missing == 1 || true', True),
        ('true && (device.attributes["dra.example.com"].missing == 1 && false)', False),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("[0, 1].all(i, v, 1 / v == 2)", False),
        ("cel.bind(x, 1 / 0, true || x == 1)", True),
    ],
)
def test_errors_are_absorbed_by_the_exact_evaluator(text, value):
    with pytest.raises(FALLBACKS):
        _emitted(text)(_DEVICE)
    selector = compile_selector(text, stored=True)
    outcome = SelectorOutcome.TRUE if value else SelectorOutcome.FALSE
    assert {selector.evaluate(_DEVICE).outcome for _ in range(7)} == {outcome}


def test_no_text_of_the_user_becomes_source():
    hostile = "__import__('os').system('x')"
    function = _emitted(f'device.driver == "{hostile}"')
    assert hostile not in "".join(str(name) for name in function.__code__.co_names)
    assert function(_DEVICE) is False


@pytest.mark.parametrize("seed", range(8))
def test_generated_functions_agree_with_the_exact_evaluator(writer_of, seed):
    writer = writer_of(seed)
    for _ in range(40):
        text = writer.expression(BOOL, 3)
        try:
            selector = compile_selector(text, stored=True)
        except CompileError:
            continue
        exact = selector.trace(_DEVICE)[0].outcome
        assert {selector.evaluate(_DEVICE).outcome for _ in range(7)} == {exact}, text
