import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.admission.problems import MAX_PROBLEMS, CauseType, Problem
from modelplane.k8s.admission.schema import canonical, check
from modelplane.k8s.admission.structure import apply_defaults, copy_json, find_unknown, nearest, prune

TEXT = {"type": "string"}
NAMES = st.sampled_from(["a", "b", "c", "replicas"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "replica"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def with_default(schema):
    return st.tuples(st.just(schema), SCALARS).map(lambda pair: {**pair[0], "default": pair[1]})


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean", "nullable": True}])
SCHEMAS = st.recursive(
    LEAVES | LEAVES.flatmap(with_default),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda properties: {"type": "object", "properties": properties}, st.dictionaries(NAMES, inner))
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
        | st.builds(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "default": {},
                "x-kubernetes-preserve-unknown-fields": True,
            },
            st.dictionaries(NAMES, inner),
        )
    ),
    max_leaves=12,
)


def obj(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        pytest.param({}, obj(a={"type": "integer", "default": 1}), {"a": 1}, id="absent"),
        pytest.param({"a": None}, obj(a={"type": "integer", "default": 1}), {"a": 1}, id="null where not allowed"),
        pytest.param({"a": None}, obj(a={"default": 1, "nullable": True}), {"a": None}, id="null where allowed"),
        pytest.param({"a": None}, obj(a=TEXT), {}, id="null without default is dropped"),
        pytest.param({"a": None}, obj(), {"a": None}, id="null of an unknown field stays"),
        pytest.param({"a": 0}, obj(a={"default": 1}), {"a": 0}, id="zero is not absent"),
        pytest.param({}, obj(a=obj(b={"default": 1})), {}, id="parents are not conjured up"),
        pytest.param({"a": {}}, obj(a=obj(b={"default": 1})), {"a": {"b": 1}}, id="inside a given parent"),
        pytest.param({}, obj(a={**obj(b={"default": 1}), "default": {}}), {"a": {"b": 1}}, id="inside a made parent"),
        pytest.param([{}, None], {"items": {**obj(b={"default": 1}), "default": {}}}, [{"b": 1}, {"b": 1}], id="items"),
        pytest.param([None], {"items": TEXT}, [None], id="a null item without default stays"),
        pytest.param(
            {"k": None, "m": {}},
            {"additionalProperties": {**obj(b={"default": 1}), "default": {}}},
            {"k": {"b": 1}, "m": {"b": 1}},
            id="values of a map",
        ),
        pytest.param("text", TEXT, "text", id="scalars"),
    ],
)
def test_defaults(value, schema, expected):
    assert apply_defaults(value, schema) == expected


def test_a_default_is_copied():
    schema = obj(a={"default": {"b": []}})
    apply_defaults({}, schema)["a"]["b"].append("changed")
    assert schema == obj(a={"default": {"b": []}})


KEEPING = {**obj(a=obj(b=TEXT)), "x-kubernetes-preserve-unknown-fields": True}
RESOURCE = {**obj(spec=TEXT), "x-kubernetes-embedded-resource": True}


@pytest.mark.parametrize(
    ("value", "schema", "kept", "unknown"),
    [
        pytest.param({"a": 1, "z": 2}, obj(a=TEXT), {"a": 1}, ["z"], id="a field"),
        pytest.param({"a": [{"z": 1}]}, obj(a={"items": obj()}), {"a": [{}]}, ["a[0].z"], id="inside a list"),
        pytest.param({"k/y": {"z": 1}}, {"additionalProperties": obj()}, {"k/y": {}}, ["[k/y].z"], id="inside a map"),
        pytest.param({"k": {"z": 1}}, {"additionalProperties": True}, {"k": {}}, ["[k].z"], id="a map of anything"),
        pytest.param({"z": {"y": 1}}, KEEPING, {"z": {"y": 1}}, [], id="kept"),
        pytest.param({"a": {"z": 1}}, KEEPING, {"a": {}}, ["a.z"], id="known fields of a keeper have their schema"),
        pytest.param(
            {"kind": "A", "metadata": {"x": 1}, "z": 1, "spec": "s"},
            RESOURCE,
            {"kind": "A", "metadata": {"x": 1}, "spec": "s"},
            ["z"],
            id="an embedded object has its metadata",
        ),
        pytest.param({"kind": "A"}, obj(), {}, ["kind"], id="any other has not"),
        pytest.param("x", obj(), "x", [], id="scalars"),
    ],
)
def test_unknown_fields(value, schema, kept, unknown):
    assert prune(value, schema) == kept
    assert [problem.field for problem in find_unknown(value, schema)] == unknown


def test_at_a_root_metadata_is_known():
    value = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "z": 1}
    assert prune(value, obj(), root=True) == {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}


def test_unknown_fields_suggest_the_nearest_name():
    schema = obj(replicas=TEXT, nodeSelector=TEXT)
    assert find_unknown({"replica": 1, "nodeselector": 2, "zzz": 3}, schema) == (
        Problem(("replica",), "unknown field", "did you mean replicas?", CauseType.UNKNOWN_FIELD),
        Problem(("nodeselector",), "unknown field", "did you mean nodeSelector?", CauseType.UNKNOWN_FIELD),
        Problem(("zzz",), "unknown field", "the fields here are replicas and nodeSelector", CauseType.UNKNOWN_FIELD),
    )
    assert find_unknown({"a": {"b": 1}}, obj(a=obj())) == (
        Problem(("a", "b"), "unknown field", "leave it out", CauseType.UNKNOWN_FIELD),
    )


def test_many_unknown_fields_are_reported_in_part():
    assert len(find_unknown({f"z{number}": 1 for number in range(5_000)}, obj())) == MAX_PROBLEMS


@pytest.mark.parametrize(
    ("name", "known", "guess"),
    [
        ("replica", ["replicas", "reply"], "replicas"),
        ("REPLICAS", ["replicas"], "replicas"),
        ("xyz", ["replicas"], ""),
        ("replicas" * 20, ["replicas"], ""),
        ("a", [], ""),
        ("nodes", ["name", "nodeCount", "zones"], "nodeCount"),
    ],
)
def test_nearest(name, known, guess):
    assert nearest(name, known) == guess


@given(VALUES, SCHEMAS)
def test_defaults_are_idempotent(value, schema):
    once = apply_defaults(value, schema)
    assert canonical(apply_defaults(once, schema)) == canonical(once)


@given(VALUES, SCHEMAS)
def test_what_is_pruned_has_no_unknown_fields(value, schema):
    pruned = prune(value, schema)
    assert find_unknown(pruned, schema) == ()
    assert canonical(prune(pruned, schema)) == canonical(pruned)


@given(VALUES, SCHEMAS)
def test_nothing_is_changed(value, schema):
    before = canonical(value), canonical(schema)
    apply_defaults(value, schema)
    prune(value, schema)
    find_unknown(value, schema)
    check(value, schema)
    assert (canonical(value), canonical(schema)) == before


@given(VALUES)
def test_a_copy_shares_nothing(value):
    copied = copy_json(value)
    assert canonical(copied) == canonical(value)
    assert not ids(copied) & ids(value)


def ids(value: object) -> set[int]:
    """The identities of all containers inside."""
    if isinstance(value, dict):
        return {id(value)}.union(*(ids(item) for item in value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*(ids(item) for item in value))
    return set()
