"""The fast path agrees with `prepare`, and takes every valid object of ours."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.definitions import definitions
from modelplane.k8s.admission import prepare, prepare_fast
from modelplane.k8s.admission.prepare import PreparedObject
from modelplane.k8s.admission.prepare_fast import prepare_valid

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
NAMES = st.sampled_from(["a", "b", "name", "spec"])
TEXTS = st.sampled_from(["", "a", "ab", "2026-11-15T00:00:00Z", "UP"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, 2**40]) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=10
)
LIMITS = {
    "string": st.fixed_dictionaries(
        {},
        optional={
            "minLength": st.just(1),
            "maxLength": st.just(2),
            "pattern": st.sampled_from(["^[a-z]*$", "("]),
            "format": st.sampled_from(["date-time", "no-such-format"]),
            "enum": st.just(["a", "UP"]),
        },
    ),
    "integer": st.fixed_dictionaries(
        {},
        optional={
            "minimum": st.just(0),
            "maximum": st.just(1),
            "exclusiveMinimum": st.booleans(),
            "format": st.just("int32"),
            "multipleOf": st.just(2),
        },
    ),
    "number": st.fixed_dictionaries({}, optional={"minimum": st.just(0.75), "enum": st.just([1, 0.5])}),
    "boolean": st.just({}),
}
COMMON = st.fixed_dictionaries({}, optional={"nullable": st.just(True), "default": SCALARS})


def scalar(kind):
    return st.builds(lambda limits, common: {"type": kind, **limits, **common}, LIMITS[kind], COMMON)


EITHER = st.sampled_from(
    [{"x-kubernetes-int-or-string": True}, {"x-kubernetes-int-or-string": True, "pattern": "a", "minimum": 1}, {}]
)
LISTS = st.sampled_from(
    [
        {},
        {"x-kubernetes-list-type": "set"},
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        {"uniqueItems": True, "minItems": 1},
        {"maxItems": 1, "x-kubernetes-preserve-unknown-fields": True},
    ]
)
OBJECTS = st.sampled_from(
    [
        {},
        {"required": ["a"]},
        {"maxProperties": 1},
        {"minProperties": 2, "default": {}},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True, "additionalProperties": False},
        {"additionalProperties": True},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"not": {"required": ["name"]}},
        {"x-kubernetes-embedded-resource": True},
    ]
)


def larger(inner):
    properties = st.dictionaries(NAMES, inner, max_size=4)
    return (
        st.builds(lambda items, more: {"type": "array", "items": items, **more}, inner, LISTS)
        | st.builds(lambda fields, more: {"type": "object", "properties": fields, **more}, properties, OBJECTS)
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
        | st.builds(lambda fields: {"properties": fields}, properties)
    )


LEAVES = st.one_of(*(scalar(kind) for kind in LIMITS)) | EITHER
SCHEMAS = st.recursive(LEAVES, larger, max_leaves=8)
ROOTS = st.builds(lambda fields, more: {"type": "object", "properties": fields, **more}, *(
    st.dictionaries(st.sampled_from(["a", "spec", "kind"]), SCHEMAS, max_size=3), OBJECTS
))  # fmt: skip


def same_json(one, other):
    return repr(one) == repr(other)


@given(value=st.dictionaries(st.sampled_from(["a", "spec", "kind"]), VALUES, max_size=3), schema=ROOTS)
def test_both_agree(value, schema):
    expected = prepare.prepare(value, schema)
    assert same_json(prepare_fast.prepare(value, schema), expected)
    found = prepare_valid(value, schema)
    assert found is None or same_json(PreparedObject(found), expected)


def documents():
    for path in EXAMPLES:
        for number, document in enumerate(yaml.safe_load_all(path.read_text())):
            if document and (document["apiVersion"], document["kind"]) in definitions():
                yield pytest.param(document, id=f"{path.stem}-{number}")


@pytest.mark.parametrize("document", [*documents()])
def test_the_fast_path_takes_the_examples(document):
    schema = definitions()[document["apiVersion"], document["kind"]].schema
    found = prepare_valid(document, schema)
    assert found is not None
    assert same_json(PreparedObject(found), prepare.prepare(document, schema))


def test_nothing_is_shared_with_what_was_given():
    schema = {"type": "object", "properties": {"spec": {"type": "array", "default": [], "items": {"type": "string"}}}}
    given_value = {"spec": ["a"], "metadata": {"labels": {"a": "b"}}}
    found = prepare_valid(given_value, schema)
    found["spec"].append("b")
    found["metadata"]["labels"]["c"] = "d"
    prepare_valid({}, schema)["spec"].append("changed")
    assert given_value == {"spec": ["a"], "metadata": {"labels": {"a": "b"}}}
    assert prepare_valid({}, schema) == {"spec": []}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array"}, id="no object"),
        pytest.param({"type": "object", "enum": [{}]}, id="one of some objects"),
        pytest.param({"type": "object", "required": ["spec"]}, id="lacks a field"),
    ],
)
def test_falls_back(schema):
    assert prepare_valid({"kind": "A"}, schema) is None


def test_a_value_too_deep_for_one_walk_is_left_to_prepare():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert prepare_valid({"spec": deep}, schema) is None
