import msgspec
import pytest

from modelplane.k8s.dra.decode import decode_node
from modelplane.k8s.dra.nodes import NodeScope, UnreadableSelector, merged, pinned_to, reaches
from modelplane.k8s.dra.resources import CoreNodeSelector, NodeRequirement, NodeTerm
from modelplane.testing.devices import a_node

NODE = decode_node(a_node("node-1", zone="a", n="5", text="x"))


def selector(*expressions, fields=()):
    def read(items):
        return tuple(NodeRequirement(key=k, operator=o, values=v or None) for k, o, *v in items) or None

    return CoreNodeSelector(
        node_selector_terms=(NodeTerm(match_expressions=read(expressions), match_fields=read(fields)),)
    )


def scope(node_name=None, all_nodes=None, found=None):
    return NodeScope.of(node_name=node_name, all_nodes=all_nodes, selector=found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (scope("node-1"), True),
        (scope("node-2"), False),
        (scope("node-2", all_nodes=True), False),
        (scope(all_nodes=True), True),
        (scope(all_nodes=False), False),
        (scope(), False),
        (scope("", found=selector(("zone", "In", "a"))), True),
    ],
)
def test_scopes(given, expected):
    assert reaches(given, NODE) is expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (("zone", "In", "a", "b"), True),
        (("zone", "In", "b"), False),
        (("none", "In", "a"), False),
        (("zone", "NotIn", "b"), True),
        (("zone", "NotIn", "a"), False),
        (("none", "NotIn", "a"), True),
        (("zone", "Exists"), True),
        (("none", "Exists"), False),
        (("zone", "DoesNotExist"), False),
        (("none", "DoesNotExist"), True),
        (("n", "Gt", "4"), True),
        (("n", "Gt", "5"), False),
        (("n", "Lt", "9223372036854775807"), True),
        (("n", "Lt", "6"), True),
        (("n", "Lt", "5"), False),
        (("none", "Gt", "1"), False),
        (("text", "Gt", "1"), False),
    ],
)
def test_label_requirements(requirement, expected):
    assert reaches(scope(found=selector(requirement)), NODE) is expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [("-9223372036854775808", True), ("-9223372036854775809", False), ("9223372036854775808", False), ("x", False)],
)
def test_a_label_is_a_number_of_64_bits_or_none(label, expected):
    assert reaches(scope(found=selector(("n", "Lt", "6"))), decode_node(a_node(n=label))) is expected


def test_all_requirements_of_a_term_and_any_term():
    both = selector(("zone", "In", "a"), ("n", "Gt", "9"))
    assert not reaches(scope(found=both), NODE)
    either = CoreNodeSelector(
        node_selector_terms=(*both.node_selector_terms, *selector(("zone", "In", "a")).node_selector_terms)
    )
    assert reaches(scope(found=either), NODE)


def test_an_empty_term_or_no_term_matches_nothing():
    assert not reaches(scope(found=CoreNodeSelector(node_selector_terms=(NodeTerm(),))), NODE)
    assert not reaches(scope(found=CoreNodeSelector()), NODE)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("metadata.name", "In", "node-1")], True),
        ([("metadata.name", "In", "node-2")], False),
        ([("metadata.name", "NotIn", "node-2")], True),
        ([("metadata.uid", "NotIn", "x")], True),
        ([("metadata.uid", "In", "x")], False),
    ],
)
def test_field_requirements(fields, expected):
    assert reaches(scope(found=selector(fields=fields)), NODE) is expected


def test_a_node_without_a_name_has_no_fields():
    assert reaches(scope(found=selector(fields=[("metadata.name", "In", "x")])), decode_node({"metadata": {}}))


@pytest.mark.parametrize(
    "found",
    [
        selector(("n", "Gt", "x")),
        selector(("n", "Gt", "99999999999999999999")),
        selector(("n", "Gt", "9223372036854775808")),
        selector(("n", "Gt")),
        selector(("zone", "In")),
        selector(("zone", "Exists", "a")),
        selector(("zone", "Like", "a")),
        selector(("not a key", "Exists")),
        selector(("zone", "In", "not a value")),
        selector(fields=[("metadata.name", "Exists")]),
        selector(fields=[("metadata.name", "In", "a", "b")]),
    ],
    ids=lambda found: str(msgspec.to_builtins(found))[:60],
)
def test_selectors_that_cannot_be_read(found):
    with pytest.raises(UnreadableSelector, match=r"^node selector: "):
        reaches(scope(found=found), NODE)


def test_merging_keeps_each_requirement_once():
    zone, zones = ("zone", "In", "a", "b"), ("zone", "In", "b", "a")
    found = merged([selector(zone), selector(zones, ("n", "Exists")), selector(fields=[("metadata.name", "In", "x")])])
    assert found == selector(zone, ("n", "Exists"), fields=[("metadata.name", "In", "x")])


def test_merging_keeps_requirements_that_differ_in_one_thing():
    found = [("zone", "In", "a"), ("zone", "NotIn", "a"), ("zone", "In", "b"), ("rack", "In", "a")]
    assert merged(map(selector, found)) == selector(*found)


def test_merging_nothing():
    assert merged([]) is None
    assert merged([CoreNodeSelector()]) is None


def test_merging_several_terms_is_not_possible():
    two = CoreNodeSelector(node_selector_terms=(NodeTerm(), NodeTerm()))
    with pytest.raises(UnreadableSelector, match="2 terms"):
        merged([two])


def test_pinning():
    assert msgspec.to_builtins(pinned_to("n").node_selector_terms[0].match_fields) == (
        {"key": "metadata.name", "operator": "In", "values": ("n",)},
    )
