"""Patches, by the examples of their standards."""

import copy
import json
import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.patches import (
    COPIED_BYTES_MOST,
    PatchError,
    json_patch,
    merge_patch,
    strategic_patch,
)

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
        {"op": "add", "path": f"/list/{'9' * 5_000}", "value": 1},
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


AT_ONCE_S = 10
"""Processor time on a busy machine, with every allocation traced. Unbounded it was 18 s, or never."""


def doubling(times, path="/annotations"):
    return [{"op": "copy", "from": path, "path": f"{path}/b{number}"} for number in range(times)]


@pytest.mark.parametrize(
    ("times", "inside"),
    [(20, {"a": "x" * 100}), (10_000, {"a": "x" * 100}), (30, {}), (30, {"a": [[], {}, 0]})],
    ids=["a text", "a text, many times", "nothing", "tiny values"],
)
def test_copies_that_double_an_object_are_refused_at_once(times, inside):
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(
        PatchError,
        match=r"accumulated size increase of copy is .* exceeding the limit 3145728|more than 100000 values are copied",
    ):
        json_patch({"annotations": inside}, doubling(times))
    assert time.process_time() - started < AT_ONCE_S
    assert tracemalloc.get_traced_memory()[1] < 100 * COPIED_BYTES_MOST
    tracemalloc.stop()


def test_copies_up_to_the_limit_are_carried_out():
    third = "x" * (COPIED_BYTES_MOST // 3 - 2)
    copies = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(4)]
    assert json_patch({"a": third}, copies[:3])["b2"] == third
    with pytest.raises(PatchError, match="exceeding the limit"):
        json_patch({"a": third}, copies)


def test_many_small_copies_are_counted_together():
    value = {"a": "x" * 398, "b": []}
    operations = [{"op": "copy", "from": "/a", "path": "/b/-"}]
    most = COPIED_BYTES_MOST // 400
    assert len(json_patch(value, operations * most)["b"]) == most
    with pytest.raises(PatchError, match="exceeding the limit"):
        json_patch(value, operations * (most + 1))


def test_a_copy_is_a_value_of_its_own():
    operations = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 2},
    ]
    assert json_patch({"a": {"x": 1}}, operations) == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "remove", "path": "/a/0"},
        {"op": "move", "from": "/a/0", "path": "/a/0"},
        {"op": "copy", "from": "/b", "path": "/a/0"},
    ],
    ids=lambda operation: operation["op"],
)
def test_operations_that_shift_long_lists_are_refused(operation):
    value = {"a": [0] * 100_000, "b": 0}
    started = time.process_time()
    with pytest.raises(PatchError, match="shift more than 50000000 items"):
        json_patch(value, [operation] * 10_000)
    assert time.process_time() - started < AT_ONCE_S


def test_items_are_added_to_the_end_of_a_long_list():
    value = {"a": [0] * 100_000}
    assert len(json_patch(value, [{"op": "add", "path": "/a/-", "value": 1}] * 10_000)["a"]) == 110_000


POINTERS = st.lists(st.sampled_from("ab"), max_size=4).map(lambda steps: "".join(f"/{step}" for step in steps))
GROWTH = st.fixed_dictionaries(
    {"op": st.sampled_from(["copy", "copy", "copy", "move", "add"]), "path": POINTERS, "from": POINTERS, "value": JSON}
)


@given(st.lists(GROWTH, min_size=1, max_size=8), st.integers(1, 200))
def test_any_composition_of_copies_is_bounded_in_size(operations, times):
    value = {"a": {"a": "x" * 1_000}, "b": {"a": {}, "b": [1]}}
    allowed = COPIED_BYTES_MOST + len(json.dumps([value, operations * times])) * 2
    with suppress(PatchError, ApiError):
        assert len(json.dumps(json_patch(value, operations * times))) <= allowed


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "", "path": "/a" * 62}] * 200,
        [{"op": "copy", "from": "/a", "path": "/a" * 60}] * 10_000,
        [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 500)],
    ],
)
def test_operations_that_nest_too_deeply_are_refused(operations):
    value = {}
    for _ in range(62):
        value = {"a": value}
    with pytest.raises((PatchError, ApiError), match=r"nested|exceeding"):
        json_patch(value, operations)


def test_long_merging_lists_are_merged_in_linear_time():
    names = [f"example.com/{number}" for number in range(50_000)]
    owners = [{"uid": name} for name in names]
    started = time.process_time()
    merged = strategic_patch(
        {"finalizers": names, "ownerReferences": owners},
        {"finalizers": names[::-1], "ownerReferences": owners, "$deleteFromPrimitiveList/finalizers": names[1:]},
    )
    assert merged == {"finalizers": names[:1], "ownerReferences": owners}
    assert time.process_time() - started < 5
