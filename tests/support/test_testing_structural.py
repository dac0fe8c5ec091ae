import pytest

from tests.support.structural import Structures

PART = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["A", "B"]},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"}},
    },
}
ROOT = {"type": "object", "properties": {"apiVersion": {}, "kind": {}, "spec": {"$ref": "part"}}}
KNOWN = Structures({"v1/Thing": ROOT}, {"part": PART})


def problems(**spec) -> list[str]:
    return KNOWN.problems({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"name": "a"}, []),
        ({}, [".spec.name: required"]),
        ({"name": "a", "more": 1}, [".spec.more: unknown field"]),
        ({"name": 3}, [".spec.name: 3 is no string"]),
        ({"name": "abcdef"}, [".spec.name: 'abcdef' is longer than 5"]),
        ({"name": "A"}, [".spec.name: 'A' does not match ^[a-z]+$"]),
        ({"name": "a", "size": True}, [".spec.size: True is no integer"]),
        ({"name": "a", "size": 0}, [".spec.size: 0 is less than 1"]),
        ({"name": "a", "size": 10}, [".spec.size: 10 is more than 9"]),
        ({"name": "a", "mode": "C"}, [".spec.mode: 'C' is none of ['A', 'B']"]),
        ({"name": "a", "port": "http"}, []),
        ({"name": "a", "port": True}, [".spec.port: True is neither a number nor a text"]),
        ({"name": "a", "free": {"b": 1}}, []),
        ({"name": "a", "map": {"b": 1}}, [".spec.map.b: 1 is no string"]),
        ({"name": "a", "list": []}, [".spec.list: [] has fewer items than 1"]),
        ({"name": "a", "list": [True, 1]}, [".spec.list[1]: 1 is no boolean"]),
    ],
)
def test_every_kind_of_mistake_is_found_with_its_place(spec, expected):
    assert problems(**spec) == expected


def test_an_unknown_kind_and_unknown_metadata_are_mistakes():
    assert KNOWN.problems({"apiVersion": "v1", "kind": "Other"}) == ["v1/Other: no such kind"]
    item = {"apiVersion": "v1", "kind": "Thing", "metadata": {"nmae": "x"}, "spec": {"name": "a"}}
    assert KNOWN.problems(item) == [".metadata.nmae: unknown field"]
