"""Values walked along their schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.field_sets import EMPTY
from modelplane.apiserver.typed import (
    Comparison,
    TypedError,
    check_declared,
    compare,
    merge,
    owned,
    remove,
    with_parents,
)

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "list": {"type": "array", "items": ITEM},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": ITEM,
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True},
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
GPU = 'k:{"name":"gpu"}'
SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "whole": st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
        "list": st.lists(st.integers(0, 1), max_size=2),
        "keyed": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("pqr")}, optional={"count": st.integers(0, 1)}),
            max_size=3,
            unique_by=lambda item: item["name"],
        ),
        "set": st.lists(st.sampled_from("xyz"), unique=True, max_size=3),
        "spec": st.fixed_dictionaries({}, optional={"a": st.sampled_from("xy"), "b": st.integers(0, 1)}),
        "open": SMALL.filter(lambda value: isinstance(value, dict)),
    },
)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({}, []),
        ({"labels": {"a": "b"}}, [("f:labels", "f:a")]),
        ({"labels": {}}, [("f:labels",)]),
        ({"whole": {"a": 1}}, [("f:whole",)]),
        ({"list": [{"name": "a"}]}, [("f:list",)]),
        ({"keyed": []}, []),
        (
            {"keyed": [{"name": "gpu", "count": 1}]},
            [("f:keyed", GPU), ("f:keyed", GPU, "f:name"), ("f:keyed", GPU, "f:count")],
        ),
        ({"set": ["x"]}, [("f:set", 'v:"x"')]),
        ({"open": {"a": {"b": [1]}}}, [("f:open", "f:a"), ("f:open", "f:a", "f:b")]),
        ({"spec": {"a": None}}, [("f:spec", "f:a")]),
    ],
)
def test_the_fields_that_a_value_states(value, fields):
    assert owned(value, SCHEMA) == frozenset(fields)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, Comparison()),
        ({}, {"spec": {"a": "x"}}, Comparison(added=frozenset([("f:spec",), ("f:spec", "f:a")]))),
        ({"spec": {"a": "x"}}, {}, Comparison(removed=frozenset([("f:spec",), ("f:spec", "f:a")]))),
        ({"spec": {"a": "x"}}, {"spec": {"a": "y"}}, Comparison(modified=frozenset([("f:spec", "f:a")]))),
        ({"spec": {"b": 1}}, {"spec": {"b": 1.0}}, Comparison(modified=frozenset([("f:spec", "f:b")]))),
        ({"list": [1]}, {"list": [1, 2]}, Comparison(modified=frozenset([("f:list",)]))),
        ({"set": ["x", "y"]}, {"set": ["y", "x"]}, Comparison()),
        (
            {"set": ["x"]},
            {"set": ["y"]},
            Comparison(added=frozenset([("f:set", 'v:"y"')]), removed=frozenset([("f:set", 'v:"x"')])),
        ),
        (
            {"keyed": [{"name": "gpu", "count": 1}]},
            {"keyed": [{"name": "gpu", "count": 2}]},
            Comparison(modified=frozenset([("f:keyed", GPU, "f:count")])),
        ),
        ({"spec": {}}, {"spec": {}}, Comparison()),
        ({"open": {"a": {}}}, {"open": {"a": []}}, Comparison(modified=frozenset([("f:open", "f:a")]))),
    ],
)
def test_what_differs(old, new, expected):
    assert compare(old, new, SCHEMA) == expected


@pytest.mark.parametrize(
    ("live", "stated", "merged"),
    [
        ({"spec": {"a": "x"}}, {"spec": {"b": 1}}, {"spec": {"a": "x", "b": 1}}),
        ({"list": [1, 2]}, {"list": [3]}, {"list": [3]}),
        ({"whole": {"a": 1}}, {"whole": {"b": 1}}, {"whole": {"b": 1}}),
        ({"set": ["x", "y"]}, {"set": ["z", "x"]}, {"set": ["z", "x", "y"]}),
        (
            {"keyed": [{"name": "a", "count": 1}, {"name": "b"}, {"name": "c"}]},
            {"keyed": [{"name": "c"}, {"name": "a", "count": 2}, {"name": "d"}]},
            {"keyed": [{"name": "c"}, {"name": "a", "count": 2}, {"name": "b"}, {"name": "d"}]},
        ),
    ],
)
def test_what_is_stated_is_laid_over_what_is_there(live, stated, merged):
    assert merge(live, stated, SCHEMA) == merged


@given(VALUES, VALUES)
def test_merging_states_everything_that_was_stated(live, stated):
    merged = merge(live, stated, SCHEMA)
    assert owned(stated, SCHEMA) <= owned(merged, SCHEMA) | owned(merged, None)
    assert merge(merged, stated, SCHEMA) == merged
    assert compare(merged, merge(merged, stated, SCHEMA), SCHEMA).is_same


@given(VALUES, VALUES)
def test_a_comparison_read_backwards_is_the_comparison_backwards(old, new):
    there, back = compare(old, new, SCHEMA), compare(new, old, SCHEMA)
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)


@given(VALUES)
def test_removing_everything_that_is_stated_leaves_nothing_stated(value):
    assert owned(remove(value, owned(value, SCHEMA), SCHEMA), SCHEMA) <= with_parents(owned(value, SCHEMA), SCHEMA)
    assert remove(value, EMPTY, SCHEMA) == value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"keyed": [{"count": 1}]}, 'omits key field "name"'),
        ({"keyed": [{"name": "a"}, {"name": "a"}]}, "duplicate entries"),
        ({"keyed": ["a"]}, "no object"),
        ({"set": ["a", "a"]}, "duplicate entries"),
    ],
)
def test_lists_with_duplicate_keys_are_rejected(value, why):
    with pytest.raises(TypedError, match=why):
        owned(value, SCHEMA)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"spec": {"a": "x", "b": 1.5}, "port": "http", "open": {"z": [1]}, "labels": {"q": "r"}}, []),
        ({"spec": {"c": 1}}, [".spec.c: field not declared in schema"]),
        ({"list": 3}, [".list: expected list, got 3"]),
        ({"list": [{"count": True}]}, [".list[0].count: expected numeric, got true"]),
        ({"labels": {"a": 1}}, [".labels.a: expected string, got 1"]),
        ({"nope": None}, [".nope: field not declared in schema"]),
    ],
)
def test_what_a_schema_has_no_place_for(value, wrong):
    assert list(check_declared(value, SCHEMA)) == wrong
