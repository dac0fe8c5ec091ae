from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import ConflictError, InvalidObject
from modelplane.apiserver.store import rules
from modelplane.reconcile.store import ObjectRef

NOW_S = 1_750_000_000.9


def manifest(metadata=None, **fields):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "llama", "namespace": "team-a", **(metadata or {})},
        **fields,
    }


def stored(metadata=None, **fields):
    """An object as the store holds it at revision 7."""
    own = {"uid": "uid-1", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2025-06-15T15:06:40Z"}
    return manifest({**own, **(metadata or {})}, **fields)


FORGED = {
    "uid": "forged",
    "generation": 99,
    "creationTimestamp": "1999-01-01T00:00:00Z",
    "deletionTimestamp": "1999-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 5,
    "selfLink": "/forged",
}


def test_a_creation_sets_what_the_store_owns_and_drops_what_is_empty_or_forged():
    given = manifest(
        {**FORGED, "labels": {}, "annotations": None, "finalizers": ["a/b"]}, spec={"n": 1}, status={"s": 2}
    )
    assert rules.created(rules.read(given), uid="uid-1", now_s=NOW_S) == {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": "llama",
            "namespace": "team-a",
            "finalizers": ["a/b"],
            "uid": "uid-1",
            "generation": 1,
            "creationTimestamp": "2025-06-15T15:06:40Z",
        },
        "spec": {"n": 1},
        "status": {"s": 2},
    }


def test_a_creation_names_no_resource_version():
    with pytest.raises(InvalidObject, match=r"ModelDeployment team-a/llama: metadata.resourceVersion must not be set"):
        rules.created(rules.read(manifest({"resourceVersion": "1"})), uid="u", now_s=NOW_S)


@pytest.mark.parametrize(
    ("before", "after", "generation"),
    [
        pytest.param({"spec": {"n": 1}}, {"spec": {"n": 2}}, 4, id="spec"),
        pytest.param({"data": {"n": "1"}}, {"data": {"n": "1"}, "immutable": True}, 4, id="any other field"),
        pytest.param({"spec": {"n": 1}}, {}, 4, id="a field that goes"),
        pytest.param({"spec": {"n": 1}}, {"spec": {"n": 1.0}}, 4, id="an integer is not a float"),
        pytest.param({"spec": {"n": 1}}, {"spec": {"n": True}}, 4, id="an integer is not a boolean"),
        pytest.param({"spec": {"n": [1, 2]}}, {"spec": {"n": [2, 1]}}, 4, id="the order of a list"),
        pytest.param({}, {"metadata": {"labels": {"a": "b"}}}, 3, id="labels"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, {}, 3, id="labels that go"),
        pytest.param({"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2, "a": 1}}, None, id="the order of keys"),
        pytest.param({"spec": {"n": 1}}, {"spec": {"n": 1}, "status": {"x": 1}}, None, id="the status"),
        pytest.param({}, {"metadata": {"labels": {}, "finalizers": [], "ownerReferences": None}}, None, id="empty"),
        pytest.param({}, {"metadata": FORGED | {"uid": "uid-1"}}, None, id="what the store owns"),
        pytest.param({}, {}, None, id="nothing"),
    ],
)
def test_a_replacement_grows_the_generation_only_with_the_content(before, after, generation):
    changed = rules.replaced(stored(**before), rules.read(manifest(**after)))
    assert (changed and rules.generation_of(changed)) == generation


def test_a_replacement_keeps_the_status_and_what_the_store_owns():
    current = stored(spec={"n": 1}, status={"ready": True})
    after = rules.replaced(current, rules.read(manifest(FORGED | {"uid": "uid-1"}, spec={"n": 2}, status={"x": 1})))
    assert after == stored({"generation": 4}, spec={"n": 2}, status={"ready": True})


def test_versions_share_what_did_not_change():
    current = stored(spec={"n": 1}, template={"big": [1, 2, 3]}, status={"ready": True})
    after = rules.replaced(current, rules.read(manifest(spec={"n": 2}, template={"big": [1, 2, 3]})))
    assert after["template"] is current["template"]
    assert after["status"] is current["status"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"status": {"ready": False}}, {"status": {"ready": False}}, id="another"),
        pytest.param({}, {}, id="none"),
        pytest.param({"status": {"ready": True}}, None, id="the same"),
    ],
)
def test_a_status_write_changes_the_status_alone(status, expected):
    current = stored(spec={"n": 1}, status={"ready": True})
    given = manifest({"labels": {"new": "label"}}, spec={"n": 2}, **status)
    after = rules.status_replaced(current, rules.read(given))
    assert after == (None if expected is None else stored(spec={"n": 1}, **expected))


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"uid": "uid-2"}, "metadata.uid is uid-2 but the object of this name has uid-1"),
        ({"resourceVersion": "6"}, "metadata.resourceVersion is 6 but the object is at 7"),
    ],
)
@pytest.mark.parametrize("write", [rules.replaced, rules.status_replaced])
def test_a_writer_that_read_something_else_is_refused(write, metadata, complaint):
    with pytest.raises(ConflictError, match=f"^ModelDeployment team-a/llama: {complaint}"):
        write(stored(), rules.read(manifest(metadata, spec={"n": 2}, status={"n": 2})))


def test_deletion_is_requested_once_and_shows_as_a_new_generation():
    marked = rules.deletion_requested(stored({"finalizers": ["a/b"]}), NOW_S)
    expected = {"finalizers": ["a/b"], "generation": 4, "deletionTimestamp": "2025-06-15T15:06:40Z"}
    expected["deletionGracePeriodSeconds"] = 0
    assert marked == stored(expected)
    assert rules.deletion_requested(marked, NOW_S + 60) is None
    assert not rules.is_finished(marked)


def test_an_object_that_is_being_deleted_only_loses_finalizers():
    current = stored({"finalizers": ["a/b", "c/d"], "deletionTimestamp": "2025-06-15T15:06:40Z"})
    with pytest.raises(InvalidObject, match=r"is being deleted: metadata.finalizers cannot gain e/f"):
        rules.replaced(current, rules.read(manifest({"finalizers": ["a/b", "e/f"]})))
    fewer = rules.replaced(current, rules.read(manifest({"finalizers": ["c/d"]})))
    none = rules.replaced(current, rules.read(manifest()))
    assert [rules.is_finished(each) for each in (fewer, none)] == [False, True]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "apiVersion: a non-empty string is required"),
        ({"apiVersion": 1, "kind": "A", "metadata": {}}, "apiVersion: a non-empty string is required"),
        ({"apiVersion": "v1", "kind": "", "metadata": {}}, "kind: a non-empty string is required"),
        ({"apiVersion": "v1", "kind": "Secret"}, "Secret: metadata: an object is required"),
        (manifest({"name": 5}), "metadata.namespace and metadata.name must be strings"),
        (manifest({"labels": {"a": 1}}), r"ModelDeployment team-a/llama: metadata: Expected `str`.*labels"),
        (manifest({"finalizers": "a/b"}), r"metadata: Expected `array`.*finalizers"),
        (manifest({"resourceVersion": 7}), r"metadata: Expected `str`.*resourceVersion"),
        (manifest(spec={"a": {1, 2}.__class__}), "cannot be stored as a JSON object: type is not a JSON value"),
        (manifest(spec="\ud800"), "cannot be stored as a JSON object"),
        ([1], "cannot be stored as a JSON object"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(given, complaint):
    with pytest.raises(InvalidObject, match=complaint):
        rules.read(given)


def test_a_bottomless_manifest_is_refused():
    deep = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(InvalidObject, match="cannot be stored"):
        rules.read(manifest(spec=deep))


def test_a_manifest_is_copied_into_plain_json():
    labels = {"a": "b"}
    read = rules.read(MappingProxyType(manifest({"labels": labels}, spec=MappingProxyType({"t": (1, 2)}))))
    labels["a"] = "changed"
    assert (read.metadata["labels"], read.body["spec"]) == ({"a": "b"}, {"t": [1, 2]})


@pytest.mark.parametrize(
    ("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("modelplane.ai/v1alpha1", "modelplane.ai")]
)
def test_the_version_is_no_part_of_where_an_object_is(api_version, group):
    body = {"apiVersion": api_version, "kind": "K", "metadata": {"name": "n"}}
    assert rules.checked_ref(body) == ObjectRef(group, "K", "", "n")


@given(st.text(min_size=1, max_size=80), st.text(max_size=40))
def test_generated_names_extend_the_base_and_stay_short(base, fresh_id):
    name = rules.generated_name(base, fresh_id)
    assert name[:-5] == base[:58]
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert name == rules.generated_name(base, fresh_id)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_writing_what_was_read_changes_nothing(spec):
    created = rules.created(rules.read(manifest(spec=spec, status=spec)), uid="u", now_s=NOW_S)
    at_first = rules.stamped(created, 1)
    again = rules.decode(rules.encode(at_first))
    assert again == at_first
    assert rules.replaced(at_first, rules.read(again)) is None
    assert rules.status_replaced(at_first, rules.read(again)) is None


def test_a_status_write_may_change_who_owns_which_fields():
    current = stored()
    owned = {**current, "metadata": {**current["metadata"], "managedFields": [{"manager": "me"}]}}
    assert rules.status_replaced(current, rules.read(owned)) == owned
    assert rules.status_replaced(owned, rules.read(current)) is None
