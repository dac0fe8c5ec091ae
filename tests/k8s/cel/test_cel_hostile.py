"""Expressions written to hurt: each must end, in little memory, in one of the declared ways.

How soon is measured by the set `hostile` of bench/, which reads the same table.
"""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.k8s.cel import CompileError, SelectorOutcome, compile_rule, compile_selector
from modelplane.k8s.device import Device

_WRITTEN = {"attributes": {"s": {"string": "a" * 64}, "i": {"int": 3}}, "capacity": {"q": {"value": "4Gi"}}}
_DEVICE = Device.from_dict("d", _WRITTEN)
_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
_BYTES = 50 * 2**20


def _nested(levels, body):
    for level in range(levels):
        body = f"{_TEN}.all(x{level}, {body})"
    return body


def _doubled(start, count, body):
    text = f"cel.bind(a0, {start}, "
    for index in range(1, count):
        text += f"cel.bind(a{index}, a{index - 1} + a{index - 1}, "
    return text + body.format(count - 1) + ")" * count


HOSTILE = {
    "parentheses": "(" * 5_000 + "true" + ")" * 5_000,
    "brackets": "[" * 10_000,
    "negations": "!" * 10_000 + "true",
    "conjunction": "&&".join(["true"] * 2_000),
    "absorbed errors": "||".join(["1/0==1"] * 1_200) + "||true",
    "conditionals": "true?true:" * 240 + "true",
    "calls": "dyn(" * 245 + "1" + ")" * 245 + " == 1",
    "long number": "1" * 10_000 + " == 1",
    "long string": '"' + "a" * 10_000 + '" == "b"',
    "long list": "[" + ",".join(["1"] * 4_900) + "].size() == 1",
    "long map": "{" + ",".join(f"{key}:1" for key in range(1_300)) + "}.size() == 1",
    "loops": _nested(5, "x0 + x1 >= 0"),
    "too many loops": _nested(6, "x0 + x1 >= 0"),
    "loops with errors": _nested(4, "x0 / 0 >= 0 || true"),
    "more loops with errors": _nested(5, "x0 / 0 >= 0 || true"),
    "missing domains": _nested(5, 'device.attributes["no"].?n.value()'),
    "unknown zones": _nested(4, 'timestamp("2020-01-01T00:00:00Z").getHours("no") > x0 || true'),
    "dispatch": _nested(5, "dyn(b'').min()"),
    "patterns": 'lists.range(900).all(x, "a".matches(string(x) + "(a?){50}"))',
    "maps": "lists.range(20000).transformMapEntry(i, v, {v: i}).size() > 0",
    "sorting": "lists.range(450000).isSorted()",
    "searching": "-1 in lists.range(450000) + [7]",
    "sets": "sets.contains(lists.range(690), lists.range(690).reverse())",
    "printing": '"%s".format([lists.range(900000)]).size() > 0',
    "macro copies": "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()",
    "doubled list": _doubled("[1, 2]", 150, "size(a{}) > 0"),
    "doubled string": _doubled('"ab"', 100, 'a{} == ""'),
    "replacements": '"'
    + "a" * 2_000
    + '".replace("a", "'
    + "b" * 2_000
    + '").replace("b", "'
    + "c" * 2_000
    + '") == ""',
    "nested pattern": '"' + "a" * 2_000 + '".matches("(a*)*b")',
    "large pattern": '"a".matches("' + "(x{100}){10}" * 300 + '")',
    "deep pattern": '"a".matches("' + "(" * 3_000 + "a" + ")" * 3_000 + '")',
    "quoted pattern": '"a".matches(r"' + "\\Q\\E" * 1_500 + '\\QC")',
    "range": "lists.range(900000).size() > 0",
    "range beyond": "lists.range(9223372036854775807).size() > 0",
    "width": '"%.9999999e".format([1.5]).size() > 1',
    "widths": '"' + "%.9999999e" * 500 + '".format([' + ",".join(["1.5"] * 500) + "]).size() > 1",
    "digits": 'quantity("' + "9" * 9_000 + '").compareTo(quantity("1")) > 0',
    "exponent": 'quantity("1e999999999").compareTo(quantity("1")) > 0',
    "sum of exponents": 'quantity("1e9999999").add(quantity("1")).isInteger()',
    "float text": 'double(dyn("' + "1" * 9_000 + 'x")) > 1.0',
    "label": 'format.dns1123Subdomain().validate("' + "a-" * 4_000 + '").hasValue()',
    "unknown functions": "foo(" * 200 + "1" + ")" * 200,
    "zone": 'timestamp("2020-01-01T00:00:00Z").getHours("../../etc/passwd") == 0',
    "surrogate": "'\ud800' == ''",
}


def _compiled(text, *, stored):
    """The selector, or None where it is refused with a reason."""
    try:
        return compile_selector.__wrapped__(text, stored=stored)
    except CompileError as refusal:
        return None if refusal.message else refusal


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends_in_a_declared_way(name, stored):
    selector = _compiled(HOSTILE[name], stored=stored)
    assert selector is None or selector.evaluate(_DEVICE).outcome in SelectorOutcome


@pytest.mark.parametrize("name", ["doubled list", "doubled string", "replacements", "range", "widths", "long list"])
def test_it_takes_little_memory(name):
    tracemalloc.start()
    try:
        selector = _compiled(HOSTILE[name], stored=True)
        assert selector is None or selector.evaluate(_DEVICE).outcome in SelectorOutcome
        assert tracemalloc.get_traced_memory()[1] < _BYTES
    finally:
        tracemalloc.stop()


_PIECES = st.sampled_from(
    [
        *("device", ".", "driver", "attributes", "capacity", '["d"]', "[0]", "?", ":", "(", ")", "[", "]", "{", "}"),
        *(
            "1",
            "2u",
            "1.5",
            '"a"',
            "b'a'",
            "true",
            "null",
            " in ",
            "==",
            "!=",
            "<",
            "&&",
            "||",
            "!",
            "-",
            "+",
            "/",
            "%",
        ),
        *(
            ".all(x, x)",
            ".map(x, x)",
            ".exists(i, v, v)",
            "cel.bind(a, ",
            ",",
            "a",
            "has(",
            ".size()",
            "quantity(",
            "x",
        ),
        *(".?s", "[?0]", "optional.of(", ".orValue(", "dyn(", "type(", ".matches(", "semver(", "int(", "duration("),
    ]
)
_TEXTS = st.text(max_size=60) | st.lists(_PIECES, max_size=14).map("".join)


@settings(max_examples=200)
@given(_TEXTS, st.booleans())
def test_any_text_ends_in_a_declared_way(text, stored):
    selector = _compiled(text, stored=stored)
    if selector is not None:
        outcomes = {selector.evaluate(_DEVICE).outcome for _ in range(6)}
        assert outcomes == {selector.trace(_DEVICE)[0].outcome}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(_JSON, _JSON)
def test_any_data_under_a_rule_ends_in_a_declared_way(value, old):
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "format": "date"}}}}
    rule = compile_rule("self.a.all(x, x > timestamp(0)) || self == oldSelf", schema)
    assert rule.evaluate(value, old).outcome in SelectorOutcome


_KEYWORDS = st.sampled_from(["type", "items", "properties", "additionalProperties", "maxItems", "format"])


@settings(max_examples=100)
@given(st.dictionaries(_KEYWORDS, _JSON))
def test_any_schema_ends_in_a_declared_way(schema):
    try:
        rule = compile_rule("self == self", schema)
    except CompileError:
        return
    assert rule.evaluate({"a": 1}).outcome in SelectorOutcome
