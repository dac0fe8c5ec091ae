"""Patches, by the examples of their standards."""

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.patches import PatchError, json_patch, merge_patch, strategic_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab/~"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], {"a": 1}, {"a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, 3, 3),
    ],
)
def test_merge_patch(value, patch, expected):
    before = copy.deepcopy(value)
    assert merge_patch(value, patch) == expected
    assert value == before


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_changes_nothing_more(value, patch):
    once = merge_patch(value, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": None, "b": "2"}}, {"data": {"b": "2"}}),
        ({"data": {"a": "1"}}, {"data": {"$patch": "replace", "b": "2"}}, {"data": {"b": "2"}}),
        ({"data": {"a": "1"}}, {"data": {"$patch": "delete"}}, {"data": {}}),
        ({"data": {"a": "1", "b": "2"}}, {"data": {"$retainKeys": ["b"], "b": "3"}}, {"data": {"b": "3"}}),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"finalizers": ["a"]}, {"$setElementOrder/finalizers": ["a"]}, {"finalizers": ["a"]}),
        (
            {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2"}]},
            {"ownerReferences": [{"uid": "1", "kind": "K"}, {"uid": "2", "$patch": "delete"}]},
            {"ownerReferences": [{"uid": "1", "name": "a", "kind": "K"}]},
        ),
        ({"list": [1]}, {"list": [2]}, {"list": [2]}),
    ],
)
def test_strategic_merge(value, patch, expected):
    assert strategic_patch(value, patch) == expected


@pytest.mark.parametrize(
    ("value", "operations", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "add", "path": "", "value": 2}], 2),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ({"a": [1]}, [{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5]}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        (
            {"a/b": 1, "m~n": 2},
            [{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}],
            {"a/b": 1},
        ),
    ],
)
def test_json_patch(value, operations, expected):
    before = copy.deepcopy(value)
    assert json_patch(value, operations) == expected
    assert value == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/nope/b", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "/list/\u0660", "value": 1},
        {"op": "add", "path": "/number/x", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "move", "path": "/a"},
        {"op": "test", "path": "/number", "value": True},
        {"op": "jump", "path": "/a"},
        {},
    ],
)
def test_an_operation_that_cannot_be_carried_out_is_refused(operation):
    with pytest.raises(PatchError):
        json_patch({"list": [1], "number": 1}, [operation])


@pytest.mark.parametrize("operations", [{}, 3, [3], [{"op": "add", "path": "/a", "value": 1}] * 10_001])
def test_what_is_no_json_patch_is_refused(operations):
    with pytest.raises(ApiError):
        json_patch({}, operations)


@given(JSON, st.lists(st.fixed_dictionaries({
    "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
    "path": st.sampled_from(["", "/a", "/a/0", "/b/-", "/a/b", "/~1"]),
    "from": st.sampled_from(["", "/a", "/b/0"]),
    "value": JSON,
}), max_size=4))  # fmt: skip
def test_any_operations_work_or_are_refused(value, operations):
    before = copy.deepcopy(value)
    with suppress(PatchError):
        json_patch(value, operations)
    assert value == before
