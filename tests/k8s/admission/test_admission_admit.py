import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.definitions import Definition, Names, Scope
from modelplane.k8s.admission.admit import AdmissionDenied, Admitted, UnknownFields, admit
from modelplane.k8s.admission.problems import MAX_PROBLEMS, CauseType, Problem
from modelplane.k8s.admission.schema import canonical

SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "!has(oldSelf.mode) || self.mode == oldSelf.mode", "message": "mode is immutable"}
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "mode": {"type": "string", "default": "fast"},
                "note": {"type": "string", "maxLength": 8},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}


def definition(scope: Scope = Scope.NAMESPACED) -> Definition:
    names = Names(kind="Thing", list_kind="ThingList", plural="things", singular="thing")
    return Definition(
        group="example.com", version="v1", scope=scope, names=names, columns=(), scale=None, schema=SCHEMA
    )


def thing(**others: object) -> dict[str, object]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"size": 1},
        **others,
    }


def lines(verdict: Admitted | AdmissionDenied) -> list[str]:
    assert isinstance(verdict, AdmissionDenied)
    return [str(problem) for problem in verdict.problems]


def test_a_valid_object_gets_its_defaults():
    given_value = thing()
    assert admit(given_value, definition()) == Admitted(thing(spec={"size": 1, "mode": "fast"}))
    assert given_value == thing()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], [".: is a list of 0; must be an object"]),
        (thing(kind="Think"), ['kind: is "Think"; use Thing']),
        ({"kind": "Thing"}, ["apiVersion: is required; use example.com/v1"]),
        (thing(spec=None), ["spec: is required; give an object"]),
        (thing(spec={}), ["spec.size: is required; give an integer"]),
        (thing(metadata=None), ["metadata.name: is required; give a name, or generateName"]),
        (thing(metadata="a"), ['metadata: is "a"; must be an object']),
        (
            thing(metadata={"name": "x" * 64}),
            [f'metadata.name: "{"x" * 64}" is not a valid name; must have at most 63 characters'],
        ),
        (
            thing(spec={"size": 0, "sise": 1}, metadata={"name": "a", "label": {}, "zzz": 1}),
            [
                "metadata.label: unknown field; did you mean labels?",
                "metadata.zzz: unknown field; leave it out, or make it an annotation",
                "spec.sise: unknown field; did you mean size?",
                "spec.size: 0 is too small; must be at least 1",
            ],
        ),
    ],
)
def test_refusals(value, expected):
    assert lines(admit(value, definition())) == expected


def test_unknown_fields_as_the_caller_likes():
    value = thing(spec={"size": 1, "sise": 1})
    stored = thing(spec={"size": 1, "mode": "fast"})
    problem = Problem(("spec", "sise"), "unknown field", "did you mean size?", CauseType.UNKNOWN_FIELD)
    assert admit(value, definition()) == AdmissionDenied((problem,))
    assert admit(value, definition(), unknown=UnknownFields.WARN) == Admitted(stored, (problem,))
    assert admit(value, definition(), unknown=UnknownFields("Ignore")) == Admitted(stored)


def test_metadata_is_tidied():
    metadata = {"name": "a", "creationTimestamp": None, "labels": {"x": None, "y": "z"}, "annotations": None}
    verdict = admit(thing(metadata=metadata), definition())
    assert isinstance(verdict, Admitted)
    assert verdict.value["metadata"] == {"name": "a", "labels": {"x": "", "y": "z"}}


def test_a_cluster_scoped_object_loses_its_namespace():
    verdict = admit(thing(), definition(Scope.CLUSTER))
    assert isinstance(verdict, Admitted)
    assert verdict.value["metadata"] == {"name": "a"}
    assert [str(problem) for problem in verdict.warnings] == [
        "metadata.namespace: is ignored: Thing is cluster-scoped; leave it out"
    ]


def test_an_update_is_judged_by_what_it_changes():
    old = thing(spec={"size": 0, "mode": "fast", "note": "far too long"})
    verdict = admit(thing(spec={"size": 0, "mode": "fast", "note": "short"}), definition(), old=old)
    assert isinstance(verdict, Admitted)
    assert [str(problem) for problem in verdict.warnings] == ["spec.size: 0 is too small; must be at least 1"]
    assert lines(admit(thing(spec={"size": -1, "mode": "fast"}), definition(), old=old)) == [
        "spec.size: -1 is too small; must be at least 1"
    ]
    assert lines(admit(thing(spec={"size": 1, "mode": "slow"}), definition(), old=old)) == ["spec: mode is immutable"]


def test_a_missing_field_that_was_always_missing_is_tolerated():
    old = thing(spec={"mode": "fast"})
    verdict = admit(thing(spec={"mode": "fast"}, status={"ready": True}), definition(), old=old)
    assert isinstance(verdict, Admitted)
    assert [str(problem) for problem in verdict.warnings] == ["spec.size: is required; give an integer"]


def test_many_unknown_fields_are_reported_in_part_and_quickly():
    crowd = {f"strange{number}": 1 for number in range(20_000)}
    verdict = admit(thing(metadata={"name": "a", **crowd}, spec={"size": 1, **crowd}), definition())
    assert len(lines(verdict)) == MAX_PROBLEMS


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "labels", "size", "mode", "spec", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional={"metadata": VALUES, "spec": VALUES, "status": VALUES, "x": VALUES}))
def test_any_object_is_judged_and_none_is_changed(parts):
    value = {"apiVersion": "example.com/v1", "kind": "Thing", **parts}
    before, old = canonical(value), copy.deepcopy(value)
    verdict = admit(value, definition(), old=old, unknown=UnknownFields.DROP)
    assert canonical(value) == before
    if isinstance(verdict, Admitted):
        again = admit(verdict.value, definition())
        assert isinstance(again, Admitted) or verdict.warnings
    else:
        assert verdict.problems
