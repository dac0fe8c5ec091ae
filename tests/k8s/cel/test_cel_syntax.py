from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import CallExpr, Ident, Literal, chain, children, qualified_name, walk


def test_paths_of_names():
    assert qualified_name(parse("a.b.c")) == "a.b.c"
    assert qualified_name(parse(".a.b")) == ".a.b"
    assert [qualified_name(parse(text)) for text in ("a[0].b", "f().b", "has(a.b)", "1")] == [None] * 4


def test_walking_meets_every_node_once():
    node = parse("a.b[1] + [c, {d: e}].size() + x.map(y, y)")
    nodes = list(walk(node))
    assert {part.name for part in nodes if isinstance(part, Ident)} == {"a", "c", "d", "e", "x", "y", "@result"}
    assert len(nodes) == len({id(part) for part in nodes})
    assert all(child in nodes for part in nodes for child in children(part))


def test_terms_of_a_chain_keep_their_order():
    node = parse("a && (b && c) && d || e")
    assert isinstance(node, CallExpr)
    assert [type(term).__name__ for term in chain(node)] == ["CallExpr", "Ident"]
    assert [term.name for term in chain(node.args[0])] == ["a", "b", "c", "d"]


def test_a_binding_differs_from_a_loop():
    assert parse("cel.bind(x, 1, x)").is_bind
    assert not parse("[].all(x, true)").is_bind
    assert isinstance(parse("1"), Literal)
