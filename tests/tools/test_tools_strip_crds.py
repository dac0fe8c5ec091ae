import importlib.util
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "tools" / "strip_crds.py"


def load():
    spec = importlib.util.spec_from_file_location("strip_crds", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_structure_stays_and_prose_goes():
    schema = {
        "type": "object",
        "description": "words",
        "default": {},
        "required": ["a"],
        "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {
            "a": {"type": "string", "maxLength": 3, "description": "words", "enum": ["x"]},
            "description": {"type": "array", "items": {"type": "integer", "minimum": 1, "format": "int32"}},
        },
    }
    assert load().strip(schema, {}) == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "maxLength": 3, "enum": ["x"]},
            "description": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
    }


def test_references_are_followed_and_quantities_are_numbers_or_texts():
    components = {
        "io.k8s.Pod": {"type": "object", "properties": {"limit": {"$ref": "#/x/io.k8s.api.resource.Quantity"}}},
    }
    schema = {"properties": {"pod": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Pod"}], "default": {}}}}
    limit = {"x-kubernetes-int-or-string": True}
    assert load().strip(schema, components) == {
        "properties": {"pod": {"type": "object", "properties": {"limit": limit}}}
    }


def test_equal_parts_are_stored_once():
    tool = load()
    part = {"type": "object", "properties": {f"field{index}": {"type": "string"} for index in range(9)}}
    shared = {}
    stored = tool._intern({"type": "object", "properties": {"a": part, "b": part}}, shared)
    found = shared[stored["$ref"]] if "$ref" in stored else stored
    assert found["properties"]["a"] == found["properties"]["b"]
    assert shared[found["properties"]["a"]["$ref"]] == part
