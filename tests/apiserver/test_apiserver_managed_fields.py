"""Who owns which fields: the rules by name. The whole of it beside a real server is in the recorded answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.field_sets import read
from modelplane.apiserver.managed_fields import (
    BEFORE_FIRST_APPLY,
    LAST_APPLIED,
    WriteContext,
    Writer,
    apply,
    read_owners,
    updated,
)
from modelplane.apiserver.resources import resources

CONFIG_MAP = resources()["", "v1", "configmaps"]
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"


def context(manager, *, applies=True, now=NOW, subresource=""):
    return WriteContext(CONFIG_MAP, Writer(manager, applies, "v1", subresource), now)


def config(**data):
    metadata = {"name": "c", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def owners(value):
    """The names of the owners, and the keys of the data that they own."""
    found = {}
    for entry in value["metadata"].get("managedFields", []):
        fields = read(entry["fieldsV1"])
        keys = {field[1][2:] for field in fields if len(field) == 2 and field[0] == "f:data"}
        found[entry["manager"]] = sorted(keys.union(found.get(entry["manager"], ())))
    return found


def test_an_apply_owns_what_it_states_and_leaves_the_rest():
    one = apply(None, config(a="1", b="2"), context("one"), force=False)
    two = apply(one, config(c="3"), context("two"), force=False)
    assert two["data"] == {"a": "1", "b": "2", "c": "3"}
    assert owners(two) == {"one": ["a", "b"], "two": ["c"]}


def test_what_is_no_longer_applied_goes_unless_another_states_it():
    one = apply(None, config(a="1", b="2"), context("one"), force=False)
    two = apply(one, config(b="2"), context("two"), force=False)
    left = apply(two, config(), context("one"), force=False)
    assert left["data"] == {"b": "2"}
    assert owners(left) == {"two": ["b"]}


def test_a_conflict_names_the_owner_and_the_fields_and_force_takes_them():
    one = apply(None, config(a="1", b="2"), context("one"), force=False)
    changed = updated(one, {**one, "data": {"a": "1", "b": "2", "z": "0"}}, context("upd", applies=False))
    with pytest.raises(ApiError) as caught:
        apply(changed, config(a="9", b="9", z="9"), context("two"), force=False)
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.a\n- .data.b\n'
        'conflicts with "upd" using v1:\n- .data.z'
    )
    assert [cause["field"] for cause in caught.value.details["causes"]] == [".data.a", ".data.b", ".data.z"]
    taken = apply(changed, config(a="9", b="9", z="9"), context("two"), force=True)
    assert owners(taken) == {"two": ["a", "b", "z"]}


def test_an_update_takes_what_it_changes_and_drops_what_it_removes():
    one = apply(None, config(a="1", b="2"), context("one"), force=False)
    after = updated(one, {**one, "data": {"a": "5", "c": "3"}}, context("two", applies=False, now=LATER))
    assert owners(after) == {"two": ["a", "c"]}


def test_an_update_that_changes_nothing_keeps_every_entry():
    one = apply(None, config(a="1"), context("one"), force=False)
    assert updated(one, dict(one), context("two", applies=False, now=LATER)) == one
    assert apply(one, config(a="1"), context("one", now=LATER), force=False) == one


def test_an_object_without_managers_is_not_tracked_until_an_apply():
    plain = config(a="1")
    assert updated(plain, config(a="2"), context("two", applies=False)) == config(a="2")
    first = apply(plain, config(b="2"), context("one"), force=False)
    assert owners(first) == {"one": ["b"], BEFORE_FIRST_APPLY: ["a"]}


def test_a_writer_may_move_or_forget_ownership():
    one = apply(None, config(a="1"), context("one"), force=False)
    moved = [{**one["metadata"]["managedFields"][0], "manager": "other"}]
    given = {**one, "metadata": {**one["metadata"], "managedFields": moved}}
    assert owners(updated(one, given, context("x", applies=False))) == {"other": ["a"]}
    forgotten = {**one, "metadata": {**one["metadata"], "managedFields": [{}]}}
    assert owners(updated(one, forgotten, context("x", applies=False))) == {}
    broken = {**one, "metadata": {**one["metadata"], "managedFields": [{"manager": "x", "fieldsV1": 3}]}}
    assert owners(updated(one, broken, context("x", applies=False))) == {"one": ["a"]}


def test_many_updaters_are_taken_together():
    value = updated(None, config(a="0"), context("w0", applies=False))
    for number in range(1, 14):
        after = {**value, "data": {**value["data"], f"k{number}": "1"}}
        value = updated(value, after, context(f"w{number}", applies=False, now=f"2026-01-{number + 1:02}T00:00:00Z"))
    assert len(owners(value)) == 11
    assert owners(value)["ancient-changes"] == ["a", "k1", "k2", "k3"]


def test_the_annotation_of_kubectl_follows_its_applies():
    noted = {**config(a="1"), "metadata": {**config()["metadata"], "annotations": {LAST_APPLIED: "old"}}}
    after = apply(noted, config(b="2"), context("kubectl"), force=True)
    assert after["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"b":"2"},"kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}\n'
    )
    assert apply(noted, config(b="2"), context("else"), force=True)["metadata"]["annotations"] == {LAST_APPLIED: "old"}


@pytest.mark.parametrize("wrong", [{"data": {"a": 1}}, {"nope": 1}, {"metadata": {"finalizers": ["x", "x"]}}])
def test_a_configuration_that_its_schema_has_no_place_for_is_refused(wrong):
    with pytest.raises(ApiError, match="failed to create typed patch object"):
        apply(None, {**config(), **wrong}, context("one"), force=False)


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)
WRITES = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.booleans(), DATA), max_size=8)


@given(WRITES)
@settings(max_examples=200)
def test_no_field_is_owned_that_is_not_there_and_an_applier_owns_what_it_states(writes):
    value = apply(None, config(), context("none"), force=True)
    for manager, applies, data in writes:
        if applies:
            value = apply(value, config(**data), context(manager), force=True)
            assert set(data) <= set(owners(value).get(manager, []))
            assert data.items() <= value.get("data", {}).items()
        else:
            value = updated(value, {**value, "data": data}, context(manager, applies=False))
        held = {key for keys in owners(value).values() for key in keys}
        assert held <= set(value.get("data", {}))
        assert read_owners(value) is not None
