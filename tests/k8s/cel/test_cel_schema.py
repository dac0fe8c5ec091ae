import pytest

from modelplane.k8s.cel.schema import SchemaBounds, nested, shape_of, struct_fields, with_object_meta
from modelplane.k8s.cel.types import DYN

_SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "mode": {"type": "string", "enum": ["A", "Bee"]},
        "free": {"type": "string"},
        "size": {"x-kubernetes-int-or-string": True, "maxLength": 5},
        "when": {"type": "string", "format": "date-time"},
        "data": {"type": "string", "format": "byte", "maxLength": 7},
        "ports": {"type": "array", "maxItems": 4, "items": {"type": "integer"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
        "inner": {"type": "object", "properties": {"a-b": {"type": "boolean"}, "if": {"type": "number"}}},
        "hidden": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {"type": "array"},
        "0": {"type": "string"},
    },
}


def test_types_of_fields():
    fields = struct_fields(shape_of(_SCHEMA, "self"))
    assert {name: str(found) for name, found in fields["self"].items()} == {
        "name": "string",
        "mode": "string",
        "free": "string",
        "size": "dyn",
        "when": "google.protobuf.Timestamp",
        "data": "bytes",
        "ports": "list(int)",
        "labels": "map(string, string)",
        "inner": "self.inner",
    }
    assert {name: str(found) for name, found in fields["self.inner"].items()} == {
        "a__dash__b": "bool",
        "__if__": "double",
        "if": "double",
    }


@pytest.mark.parametrize(
    ("path", "most"),
    [
        (("self",), 0),
        (("self", "name"), 40),
        (("self", "mode"), 3),
        (("self", "free"), 3 * 2**20 - 2),
        (("self", "size"), 20),
        (("self", "when"), 32),
        (("self", "data"), 7),
        (("self", "ports"), 4),
        (("self", "ports", "@items"), 0),
        (("self", "labels"), 3),
        (("self", "labels", "@keys"), 0),
        (("oldSelf", "labels", "@values"), 3 * 2**20 - 2),
    ],
)
def test_bounds(path, most):
    assert SchemaBounds(shape_of(_SCHEMA, "self")).size(path, DYN) == (0, most)


@pytest.mark.parametrize("path", [(), ("self", "nope"), ("self", "name", "@items"), ("self", "ports", "@keys")])
def test_places_without_bounds(path):
    assert SchemaBounds(shape_of(_SCHEMA, "self")).size(path, DYN) is None


def test_sizes_follow_from_what_fits_into_a_request():
    items = shape_of(
        {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}}}, "x"
    )
    assert items.most == (3 * 2**20 - 2) // (2 + 1 + 4 + 4 + 1)


@pytest.mark.parametrize(
    "schema", [{}, {"type": "array"}, {"type": "array", "items": {}}, {"type": "object", "additionalProperties": {}}]
)
def test_what_has_no_type_is_not_visible(schema):
    assert shape_of(schema, "x") is None


def test_the_root_of_a_resource_has_names():
    fields = struct_fields(shape_of({"type": "object"}, "self", root=True))
    assert sorted(fields["self"]) == ["apiVersion", "kind", "metadata"]
    assert sorted(fields["self.metadata"]) == ["generateName", "name"]
    text = {"type": "string"}
    complete = {
        "type": "object",
        "properties": {
            "kind": text,
            "apiVersion": text,
            "metadata": {"type": "object", "properties": {"name": text, "generateName": text, "labels": text}},
        },
    }
    assert with_object_meta(complete) is complete
    assert nested({"additionalProperties": True}, "additionalProperties") is None
