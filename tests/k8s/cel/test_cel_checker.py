import pytest

from modelplane.k8s.cel import CompileError
from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.compiler import checked_tree, with_deep_stack
from modelplane.k8s.cel.device_view import DEFAULT_GATES, environment

_ENVIRONMENT = environment(DEFAULT_GATES, stored=False)
_ATTRIBUTE = 'device.attributes["d"].x'
_CAPACITY = 'device.capacity["d"].x'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("device.driver", "string"),
        ("device.attributes", "map(string, map(string, any))"),
        (_ATTRIBUTE, "any"),
        (_CAPACITY, "kubernetes.Quantity"),
        (f"{_ATTRIBUTE} == 1", "bool"),
        ("[]", "list(dyn)"),
        ("[] + [1]", "list(int)"),
        ("{}", "map(dyn, dyn)"),
        ("[1].map(x, string(x))", "list(string)"),
        ("{'a': 1}.map(k, k)", "list(string)"),
        ("[1].transformMap(i, v, v)", "map(int, int)"),
        ("optional.none()", "optional_type(dyn)"),
        ("optional.of(1).orValue(2)", "int"),
        ("device.attributes['d'].?x", "optional_type(any)"),
        ("{'a': [1]}.?a[0]", "optional_type(int)"),
        ("true ? 1 : dyn(2)", "dyn"),
        ("type(1)", "type(int)"),
        ("int", "type(int)"),
        ("net.IP", "type(net.IP)"),
        ("google.protobuf.Timestamp", "type(google.protobuf.Timestamp)"),
        (f"{_ATTRIBUTE} + 1", "int"),
        (f"{_ATTRIBUTE} + {_ATTRIBUTE}", "dyn"),
        ("cel.bind(x, 1, x + 1)", "int"),
        ("[[1]].flatten()", "list(int)"),
        ("lists.range(3)", "list(int)"),
        ("url('http://h').getQuery()", "map(string, list(string))"),
        ("'%s %d'.format(['a', 1])", "string"),
        ("null", "null_type"),
        ("dyn(1)", "dyn"),
    ],
)
def test_type(text, found):
    assert str(checked_tree(text, _ENVIRONMENT).type) == found


@pytest.mark.parametrize(
    ("text", "complaint", "column"),
    [
        ("dev.driver", "undeclared reference to 'dev'", 1),
        ("device.nope", "undefined field 'nope'", 7),
        ("device.driver.x", "does not support field selection", 14),
        ("device['driver']", "no matching overload for '_[_]'", 7),
        ("foo(1)", "undeclared reference to function 'foo'", 4),
        ("1 == 'a'", "applied to '(int, string)'", 3),
        ("1 == 1.0", "applied to '(int, double)'", 3),
        ("1 + 1.0", "no matching overload", 3),
        ("'a'.contains(1)", "applied to 'string.(int)'", 13),
        (f"{_CAPACITY} > quantity('1')", "no matching overload", 24),
        (f"{_CAPACITY}.sign()", "no matching overload", 28),
        ("true && 1", "expected type 'bool' but found 'int'", 9),
        ("[1].all(x, x)", "expected type 'bool'", 12),
        ("'a'.all(x, true)", "cannot be the range", 1),
        (f"{_ATTRIBUTE}.all(x, true)", "cannot be the range", 23),
        ("[1, 'a']", "expected type 'int' but found 'string'", 5),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'", 15),
        (f"[{_ATTRIBUTE}, 3]", "expected type 'any' but found 'int'", 28),
        ("[?1]", "expected type 'optional_type(int)'", 3),
        ("kubernetes.Quantity{}", "undeclared reference", 1),
        ("duration('x')", "invalid duration argument", 10),
        ("timestamp('x')", "invalid timestamp argument", 11),
        ("'a'.matches('(')", "invalid matches argument", 13),
        ("'%d'.format(['a'])", "cannot format", 14),
        ("'%d'.format([])", "out of range", 12),
        ("x.y", "undeclared reference to 'x'", 1),
    ],
)
def test_refusal_points_at_its_place(text, complaint, column):
    with pytest.raises(CompileError) as caught:
        checked_tree(text, _ENVIRONMENT)
    assert complaint in caught.value.message
    assert caught.value.column == column


def test_all_overloads_that_fit_are_kept_in_order():
    node = checked_tree(f"{_ATTRIBUTE}.isGreaterThan({_ATTRIBUTE})", _ENVIRONMENT).node
    assert [overload.id for overload in node.overloads] == ["quantity_is_greater_than", "semver_is_greater_than"]


def test_what_was_resolved_once_is_remembered_within_bounds():
    function = _ENVIRONMENT.functions["_==_"]
    checked_tree("1 == 2", _ENVIRONMENT)
    assert (False, (t.INT, t.INT)) in function.resolved
    text = f"{'[' * 200}1{']' * 200} == {'[' * 200}1{']' * 200}"
    with_deep_stack(lambda: checked_tree(text, _ENVIRONMENT))
    assert len(function.resolved) <= 512
