import pytest

from modelplane.k8s.cel.equality import contains, equal
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.standard import add
from modelplane.k8s.cel.schema_values import MapList, Preserved, SchemaMap, SetList, to_value
from modelplane.k8s.cel.values import CelDuration, Timestamp, find

_OBJECT = {
    "type": "object",
    "properties": {
        "a-b": {"type": "string"},
        "n": {"type": "integer", "nullable": True},
        "t": {"type": "object", "properties": {}},
    },
}
_KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
}


@pytest.mark.parametrize(
    ("data", "schema", "value"),
    [
        (True, {"type": "boolean"}, True),
        (3, {"type": "integer"}, 3),
        (3, {"type": "number"}, 3.0),
        ("x", {"type": "string"}, "x"),
        ("aGk=", {"type": "string", "format": "byte"}, b"hi"),
        ("1h", {"type": "string", "format": "duration"}, CelDuration(3600 * 10**9)),
        ("1970-01-02", {"type": "string", "format": "date"}, Timestamp(86400 * 10**9)),
        ("1970-01-01T00:00:01Z", {"type": "string", "format": "date-time"}, Timestamp(10**9)),
        (None, {"type": "string", "nullable": True}, None),
        ("50%", {"x-kubernetes-int-or-string": True}, "50%"),
        ([1, 2], {"type": "array", "items": {"type": "integer"}}, [1, 2]),
    ],
)
def test_value(data, schema, value):
    found = to_value(data, schema)
    assert (found, type(found) is bool) == (value, type(value) is bool)


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (None, {"type": "string"}),
        (1, {"type": "string"}),
        ("1", {"type": "integer"}),
        (True, {"type": "integer"}),
        (2**63, {"type": "integer"}),
        (True, {"type": "number"}),
        (1, {"type": "boolean"}),
        ([], {"type": "object"}),
        ({}, {"type": "array", "items": {}}),
        ([1], {"type": "array"}),
        (1.5, {"x-kubernetes-int-or-string": True}),
        ("x", {"type": "string", "format": "byte"}),
        ("x", {"type": "string", "format": "date"}),
        (1, {}),
    ],
)
def test_data_that_does_not_fit_its_schema(data, schema):
    with pytest.raises(EvaluationError):
        to_value(data, schema)


def test_fields_go_by_identifiers_and_null_is_absent():
    value = SchemaMap({"a-b": "x", "n": None, "unknown": 1}, _OBJECT)
    assert find(value, "a__dash__b") == (True, "x")
    assert find(value, "a-b") == (True, "x")
    assert find(value, "n") == (False, None)
    assert find(value, "unknown") == (False, None)
    assert list(value) == ["a__dash__b"]
    assert len(value) == 3
    with pytest.raises(EvaluationError):
        find(value, 1)


def test_objects_remember_what_they_read():
    value = SchemaMap({"t": {}}, _OBJECT)
    assert find(value, "t")[1] is find(value, "t")[1]


def test_objects_are_equal_by_their_schema():
    one, other = SchemaMap({"a-b": "x", "u": 1}, _OBJECT), SchemaMap({"u": 1, "a-b": "x"}, _OBJECT)
    assert equal(one, other)
    assert not equal(one, SchemaMap({"a-b": "x", "u": 2}, _OBJECT))
    assert not equal(one, SchemaMap({"a-b": "x"}, _OBJECT))
    with pytest.raises(EvaluationError):
        equal(one, 1)


def test_sets_and_keyed_lists_ignore_order():
    assert equal(SetList(["a", "b"]), ["b", "a"])
    assert not equal(SetList(["a", "b"]), ["a", "c"])
    one = to_value([{"k": "x", "v": 1}, {"k": "y", "v": 2}], _KEYED)
    other = to_value([{"k": "y", "v": 2}, {"k": "x", "v": 1}], _KEYED)
    assert isinstance(one, MapList)
    assert equal(one, other)
    assert not equal(one, to_value([{"k": "y", "v": 3}, {"k": "x", "v": 1}], _KEYED))


def test_adding_merges_sets_and_keyed_lists():
    assert add(SetList(["a"]), ["b", "a"]) == ["a", "b"]
    one = to_value([{"k": "x", "v": 1}], _KEYED)
    merged = add(one, to_value([{"k": "x", "v": 2}, {"k": "y", "v": 3}], _KEYED))
    assert [find(item, "v")[1] for item in merged] == [2, 3]
    assert add(to_value([1], {"type": "array", "items": {"type": "integer"}}), [2]) == [1, 2]


def test_membership_in_a_list_of_a_resource():
    numbers = to_value([1, 2], {"type": "array", "items": {"type": "integer"}})
    assert contains(numbers, 2.0)
    assert not contains(numbers, "2")


def test_what_no_schema_describes_can_only_be_compared():
    schema = {"x-kubernetes-preserve-unknown-fields": True}
    assert to_value({"a": [1]}, schema) == Preserved({"a": [1]})
    assert to_value({"a": [1]}, schema) != Preserved({"a": [2]})
