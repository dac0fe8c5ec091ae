"""Revisions: when one is recorded, what it has, and what a paused deployment is composed with."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError
from modelplane.api.models import ModelDeployment, ModelDeploymentStatus, StatusRollout
from modelplane.compose import revisions
from modelplane.compose.revisions import effective, pack, recorded, template_hash, template_of, unpack

NOW = 1_767_225_600.0
CREATED = "2026-01-01T00:00:00Z"


def workers(image="engine:1"):
    return {"template": {"spec": {"containers": [{"name": "engine", "image": image}]}}}


def deployment(image="engine:1", known=(), cause="", **spec):
    item = {
        "metadata": {"name": "chat", "namespace": "team", "annotations": {"kubernetes.io/change-cause": cause}},
        "spec": {"nodeSelector": {"devices": [{"name": "gpu", "count": 1}]}, "workers": workers(image), **spec},
    }
    found = decode(ModelDeployment, item)
    return msgspec.structs.replace(found, status=ModelDeploymentStatus(revisions=tuple(known)))


def history(*images, **spec):
    known = ()
    for image in images:
        known = recorded(deployment(image, known, **spec), NOW)
    return known


def shown(known):
    return [(each.revision, each.images) for each in known]


def test_the_first_revision_has_what_pods_depend_on_and_nothing_else():
    (only,) = recorded(deployment(cause="first", replicas=3, labels={"app": "chat"}), NOW)
    assert (only.revision, only.created_at, only.change_cause, only.images) == (1, CREATED, "first", ("engine:1",))
    assert unpack(only.template) == template_of(deployment().spec)
    assert unpack(only.template).keys() == {"nodeSelector", "workers"}
    assert only.hash_ == template_hash(template_of(deployment().spec))


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (["a", "a"], [(1, ("a",))]),
        (["a", "b"], [(1, ("a",)), (2, ("b",))]),
        (["a", "b", "a"], [(2, ("b",)), (3, ("a",))]),
        (["a", "b", "c", "b"], [(1, ("a",)), (3, ("c",)), (4, ("b",))]),
    ],
)
def test_a_template_that_comes_back_gets_a_new_number(images, expected):
    assert shown(history(*images)) == expected


@pytest.mark.parametrize(("limit", "expected"), [(0, [3]), (1, [2, 3]), (10, [1, 2, 3])])
def test_only_so_many_old_revisions_are_kept(limit, expected):
    found = history("a", "b", "c", rollout={"revisionHistoryLimit": limit})
    assert [each.revision for each in found] == expected


def test_the_stable_revision_is_kept_beyond_the_limit():
    """A rollout that is halted goes back to it."""
    known = history("a", "b", "c", "d")
    item = deployment("d", known, rollout={"revisionHistoryLimit": 1})
    for stable, expected in ((known[0], [1, 3, 4]), (known[1], [2, 3, 4]), (known[2], [3, 4])):
        rollout = StatusRollout(revision=4, hash_=known[3].hash_, stable=stable.hash_)
        status = msgspec.structs.replace(item.status, rollout=rollout)
        found = recorded(msgspec.structs.replace(item, status=status), NOW)
        assert [each.revision for each in found] == expected


def test_scaling_and_routing_make_no_revision():
    known = history("a")
    edited = deployment("a", known, replicas=7, labels={"a": "b"}, failover={"policy": "Never"}, protected=True)
    assert recorded(edited, NOW) == known


MEMBER = {"role": "Standalone", "template": workers("e")["template"]}
ENGINES = {"engines": [{"name": "m", "members": [MEMBER]}]}


@pytest.mark.parametrize(
    "change",
    [
        {"priority": "high"},
        {"tolerations": [{"key": "k"}]},
        {"caches": [{"name": "weights"}]},
        {"warmUp": {"prompts": 1}},
        {"serving": {"mode": "PrefillDecode"}},
        {"nodeSelector": {"devices": [{"name": "gpu", "count": 2}]}},
        {"workers": workers("b")},
        {"decode": {"workers": workers("b"), "nodeSelector": {"devices": []}}},
        {"prefill": {"workers": workers("b"), "nodeSelector": {"devices": []}}},
        ENGINES,
        {"template": {"spec": ENGINES}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_that_pods_depend_on_makes_one(change):
    assert len(recorded(deployment("a", history("a"), **change), NOW)) == 2


def test_a_template_has_the_same_hash_in_every_release():
    """Another hash would be a new revision of every deployment."""
    assert template_hash({"priority": "high", "workers": workers("a")}) == "5bf3feab4b"


def test_what_a_revision_shows_is_as_long_as_the_api_allows():
    engines = [{"name": f"e{at}", "members": [{**MEMBER, **workers(f"{at}{'i' * 600}")}]} for at in range(9)]
    (only,) = recorded(deployment(cause="c" * 300, engines=engines), NOW)
    assert only.change_cause == "c" * 256
    assert [len(image) for image in only.images] == [len("engine:1"), *[512] * 7]


def test_a_paused_deployment_is_composed_with_the_newest_revision():
    known = history("a", "b")
    paused = deployment("c", known, replicas=5, rollout={"paused": True})
    found = effective(paused)
    assert template_of(found.spec) == template_of(deployment("b").spec)
    assert (found.spec.replicas, found.spec.rollout.paused) == (5, True)
    assert recorded(found, NOW) == known


def test_what_was_added_to_a_paused_deployment_since_its_newest_revision_waits():
    paused = deployment("a", history("a"), rollout={"paused": True}, caches=[{"name": "weights"}], priority="batch")
    found = effective(paused).spec
    assert (found.caches, found.priority) == ((), None)


@pytest.mark.parametrize("template", ["", "?", pack({"workers": 7})])
def test_a_revision_that_cannot_be_read_changes_nothing(template):
    known = tuple(msgspec.structs.replace(each, template=template) for each in history("a"))
    paused = deployment("b", known, rollout={"paused": True})
    assert effective(paused) is paused


def test_a_deployment_without_revisions_or_pause_is_as_it_is():
    for item in (deployment("a", rollout={"paused": True}), deployment("b", history("a"))):
        assert effective(item) is item


def test_a_template_that_is_too_large_is_numbered_and_not_kept(monkeypatch):
    monkeypatch.setattr(revisions, "MAX_TEMPLATE", 10)
    (only,) = history("a")
    assert (only.revision, only.template) == (1, "")


def test_a_bomb_is_no_template():
    longest = {"a": "x" * (16 * 1024 * 1024 - len('{"a":""}'))}
    assert unpack(pack(longest)) == longest
    with pytest.raises(InputError, match="cannot be read"):
        unpack(pack({"a": longest["a"] + "x"}))


def test_images_of_every_shape_are_found():
    for spec, images in (
        ({"workers": workers("e")}, {"e"}),
        ({"decode": {"workers": workers("e")}, "prefill": {"workers": workers("f")}}, {"e", "f"}),
        (ENGINES, {"e"}),
        ({"template": {"spec": ENGINES}}, {"e"}),
    ):
        assert set(revisions.images_of(spec)) == images


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(0, 5))
def test_the_newest_is_what_was_written_last_and_numbers_only_grow(images, limit):
    known, highest = (), 0
    for image in images:
        known = recorded(deployment(image, known, rollout={"revisionHistoryLimit": limit}), NOW)
        numbers = [each.revision for each in known]
        assert numbers == sorted(set(numbers))
        assert len({each.hash_ for each in known}) == len(known) <= limit + 1
        assert known[-1].images == (image,)
        assert known[-1].revision >= highest
        highest = known[-1].revision


@given(st.recursive(st.text() | st.integers(0, 9), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8))
def test_what_is_packed_is_unpacked(value):
    assert unpack(pack({"a": value})) == {"a": value}
    assert encode(deployment())  # the deployment of these tests is one that can be written


@pytest.mark.parametrize("added", ["\n", "!", "é"])
def test_a_template_that_somebody_wrote_in_is_not_read(added):
    packed = pack(template_of(deployment().spec))
    assert unpack(packed)
    with pytest.raises(InputError, match="the template of the revision cannot be read"):
        unpack(f"{packed[:8]}{added}{packed[8:]}")


@pytest.mark.parametrize("room", [0, -1])
def test_a_template_is_recorded_up_to_the_limit(monkeypatch, room):
    packed = pack(template_of(deployment().spec))
    monkeypatch.setattr(revisions, "MAX_TEMPLATE", len(packed) + room)
    assert recorded(deployment(), NOW)[0].template == (packed if room == 0 else "")
