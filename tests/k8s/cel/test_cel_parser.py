import pytest

from modelplane.k8s.cel import CompileError
from modelplane.k8s.cel.compiler import with_deep_stack
from modelplane.k8s.cel.parser import MAX_CODE_POINTS, parse
from modelplane.k8s.cel.syntax import CallExpr, Comprehension, Ident, ListNode, Literal, MapNode, Select, Struct


def _shown(node):
    """A tree as prefix text."""
    if isinstance(node, Literal):
        return repr(node.value)
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select):
        return f"{'has' if node.test_only else 'select'}({_shown(node.operand)}, {node.field})"
    if isinstance(node, ListNode):
        return f"[{', '.join(('?' if i in node.optionals else '') + _shown(e) for i, e in enumerate(node.elements))}]"
    if isinstance(node, MapNode):
        parts = [f"{'?' if e.optional else ''}{_shown(e.key)}: {_shown(e.value)}" for e in node.entries]
        return f"{{{', '.join(parts)}}}"
    if isinstance(node, Comprehension):
        return f"fold({_shown(node.range)}, {node.variable}{node.second}, {_shown(node.step)})"
    target = "" if node.target is None else f"{_shown(node.target)}."
    return f"{target}{node.function}({', '.join(_shown(arg) for arg in node.args)})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", "_+_(1, _*_(2, 3))"),
        ("10 - 2 - 3", "_-_(_-_(10, 2), 3)"),
        ("1 + 2 < 3 * 4", "_<_(_+_(1, 2), _*_(3, 4))"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a in b", "@in(a, b)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("!!a", "a"),
        ("!!!a", "!_(a)"),
        ("--1", "1"),
        ("-1", "-1"),
        ("- 1", "-1"),
        ("-a", "-_(a)"),
        ("-1.5e3", "-1500.0"),
        ("!-1", "!_(-1)"),
        ("-a.b", "-_(select(a, b))"),
        ("a.b.c", "select(select(a, b), c)"),
        ("a.?b", "_?._(a, 'b')"),
        ("a[0][?1]", "_[?_](_[_](a, 0), 1)"),
        ("a.f(1, b)", "a.f(1, b)"),
        ("f(1)(2)", None),
        (".a.b", "select(.a, b)"),
        ("[1, 2,]", "[1, 2]"),
        ("[?a, b]", "[?a, b]"),
        ("[,]", "[]"),
        ("{'a': 1, ?'b': c,}", "{'a': 1, ?'b': c}"),
        ("{,}", "{}"),
        ("(a)", "a"),
        ("a.if", "select(a, if)"),
        ("has(a.b)", "has(a, b)"),
        ("x.all(e, e)", "fold(x, e, _&&_(@result, e))"),
        ("x.filter(e, e)", "fold(x, e, _?_:_(e, _+_(@result, [e]), @result))"),
        ("x.map(i, v, w)", None),
        ("x.cel.bind(a, 1, a)", "select(x, cel).bind(a, 1, a)"),
        ("has(has(a.b))", "has(a, b)"),
    ],
)
def test_tree(text, tree):
    if tree is None:
        with pytest.raises(CompileError):
            _shown(parse(text + " unexpected"))
        return
    assert _shown(parse(text)) == tree


def test_a_struct_is_recognised_by_its_brace():
    node = parse("a.b.C{x: 1, ?y: 2,}")
    assert isinstance(node, Struct)
    assert (node.name, len(node.values)) == ("a.b.C", 2)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("1 +", 1, 4),
        ("1 2", 1, 3),
        ("(1", 1, 3),
        ("true &&\n  $", 2, 3),
        ("a.", 1, 3),
        ("a.true", 1, 3),
        ("if", 1, 1),
        ("[1,,2]", 1, 4),
        ("{1}", 1, 3),
        ("f(1,)", 1, 5),
        ("a ? b", 1, 6),
        ("has(1)", 1, 5),
        ("[1].all(1, true)", 1, 9),
        ("[1].all(x, x, true)", 1, 12),
        ("", 1, 1),
    ],
)
def test_errors_point_at_their_place(text, line, column):
    with pytest.raises(CompileError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("accepted", "refused"),
    [
        ("(" * 249 + "1" + ")" * 249, "(" * 250 + "1" + ")" * 250),
        ("[" * 249 + "1" + "]" * 249, "[" * 250 + "1" + "]" * 250),
        ("f(" * 249 + "1" + ")" * 249, "f(" * 250 + "1" + ")" * 250),
        ("1" + "+1" * 250, "1" + "+1" * 251),
        ("1+(" * 124 + "1" + ")" * 124, "1+(" * 125 + "1" + ")" * 125),
        ("a==(" * 124 + "1" + ")" * 124, "a==(" * 125 + "1" + ")" * 125),
        ("a" + ".b" * 250, "a" + ".b" * 251),
        ("a" + "[0]" * 250, "a" + "[0]" * 251),
        ("a?b:" * 249 + "c", "a?b:" * 250 + "c"),
        ("a" + "&&a" * 3_000, "a" + "&&a" * 60_000),
        ("!" * 5_000 + "a", "a" * (MAX_CODE_POINTS + 1)),
    ],
)
def test_limits_of_nesting_and_size(accepted, refused):
    with_deep_stack(lambda: parse(accepted))
    with pytest.raises(CompileError):
        with_deep_stack(lambda: parse(refused))


def test_bind_is_a_call_where_it_is_not_enabled():
    assert isinstance(parse("cel.bind(a, 1, a)"), Comprehension)
    assert isinstance(parse("cel.bind(a, 1, a)", bind=False), CallExpr)
