"""Roll-outs as commands show and change them: states, histories and patches."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.models import ModelDeployment
from modelplane.compose.revisions import recorded, template_hash, template_of
from modelplane.views.rollouts import (
    RESTARTED_AT,
    RolloutPhase,
    RolloutView,
    abort_patch,
    merge_patch,
    pause_patch,
    promote_patch,
    restart_patch,
    resume_patch,
    revisions_of,
    rollout_view,
    template_at,
    undo_patch,
)

AT = "2026-01-01T00:00:00Z"


def deployment(*images, reason="RolloutComplete", told="", **rollout):
    """A deployment that had one image after the other, with what its status says of the last."""
    item = {
        "metadata": {"name": "chat", "namespace": "team", "resourceVersion": "7"},
        "spec": {
            "replicas": 2,
            "rollout": rollout,
            "nodeSelector": {"devices": [{"name": "gpu"}]},
            "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "none"}]}}},
        },
        "status": {},
    }
    for image in images:
        item = with_image(item, image)
        found = decode(ModelDeployment, item)
        item["status"]["revisions"] = [encode(each) for each in recorded(found, 0.0)]
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": reason,
        "message": told or f"revision {len(images)}: 2 of 2",
    }
    item["status"]["conditions"] = [condition]
    item["status"]["rollout"] = {"revision": len(images), "hash": item["status"]["revisions"][-1]["hash"]}
    return item


def with_image(item, image, **workers):
    made = copy.deepcopy(item)
    made["spec"]["workers"] = {"template": {"spec": {"containers": [{"name": "engine", "image": image}]}}, **workers}
    return made


def applied(item, patch):
    """What an API server makes of a merge patch."""
    if not isinstance(patch, dict):
        return patch
    made = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = applied(made.get(name), value)
    return made


def unobserved():
    item = deployment("a")
    del item["status"]["rollout"]
    return item


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (deployment("a"), RolloutView(RolloutPhase.COMPLETE, "revision 1: 2 of 2")),
        (deployment("a", reason="RollingOut"), RolloutView(RolloutPhase.PROGRESSING, "revision 1: 2 of 2")),
        (deployment("a", reason="ProgressDeadlineExceeded"), RolloutView(RolloutPhase.FAILED, "revision 1: 2 of 2")),
        (deployment("a", reason="RolloutPaused", paused=True), RolloutView(RolloutPhase.PAUSED, "revision 1: 2 of 2")),
        (unobserved(), RolloutView(RolloutPhase.UNOBSERVED, "the deployment is not observed yet")),
        (with_image(deployment("a"), "b"), RolloutView(RolloutPhase.UNOBSERVED, "the newest spec is not observed yet")),
        (
            deployment("a", "b", told="revision 1: 2 of 2"),
            RolloutView(RolloutPhase.UNOBSERVED, "the newest spec is not observed yet"),
        ),
        (
            deployment("a", reason="RolloutPaused"),
            RolloutView(RolloutPhase.UNOBSERVED, "the newest spec is not observed yet"),
        ),
        (
            deployment("a", paused=True),
            RolloutView(RolloutPhase.UNOBSERVED, "the newest spec is not observed yet"),
        ),
    ],
)
def test_how_far_an_update_is(item, expected):
    assert rollout_view(item) == expected


@pytest.mark.parametrize(("number", "image", "restored"), [(None, "b", 2), (1, "a", 1), (2, "b", 2)])
def test_undo_restores_a_revision_and_nothing_else(number, image, restored):
    item = with_image(deployment("a", "b", "c"), "c", topology={"tensor": 2})
    patch, found = undo_patch(item, number)
    after = applied(item, patch)
    assert (found, patch["metadata"]) == (restored, {"resourceVersion": "7"})
    assert after["spec"] == with_image(item, image)["spec"]


def test_undo_of_what_is_there_already_changes_nothing():
    assert undo_patch(deployment("a", "b"), 2) == (None, 2)


@pytest.mark.parametrize(
    ("item", "number", "says"),
    [
        (deployment("a"), None, "there is no earlier revision; correct the manifest and apply it"),
        (deployment("a", "b"), 7, "revision 7 is not in the history; revisions: 1, 2"),
        (deployment("a", "b", paused=True), None, "the rollout is paused; resume it before you undo it"),
    ],
)
def test_what_cannot_be_undone_is_said(item, number, says):
    with pytest.raises((InputError, NotFoundError), match=says):
        undo_patch(item, number)


def test_a_revision_that_was_too_large_is_said():
    item = deployment("a", "b")
    item["status"]["revisions"][0]["template"] = ""
    with pytest.raises(NotFoundError, match="too large"):
        template_at(item, 1)


def test_the_template_of_a_revision_is_shown():
    containers = template_at(deployment("a", "b"), 1)["workers"]["template"]["spec"]["containers"]
    assert containers == [{"name": "engine", "image": "a"}]
    assert [each.revision for each in revisions_of(deployment("a", "b"))] == [1, 2]


POD = {"spec": {"containers": [{"name": "engine", "image": "a"}]}}
STAMPED = {**POD, "metadata": {"annotations": {RESTARTED_AT: AT}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"workers": {"template": POD}}, {"workers": {"template": STAMPED}}),
        (
            {"decode": {"workers": {"template": POD}}, "prefill": {"workers": {"template": POD}}},
            {"decode": {"workers": {"template": STAMPED}}, "prefill": {"workers": {"template": STAMPED}}},
        ),
        (
            {"engines": [{"name": "m", "members": [{"role": "Standalone", "template": POD}]}]},
            {"engines": [{"name": "m", "members": [{"role": "Standalone", "template": STAMPED}]}]},
        ),
        (
            {"template": {"spec": {"engines": [{"name": "m", "members": [{"template": POD}]}]}}},
            {"template": {"spec": {"engines": [{"name": "m", "members": [{"template": STAMPED}]}]}}},
        ),
    ],
)
def test_restart_stamps_the_pods_of_every_shape(spec, expected):
    item = {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2, **spec}}
    after = applied(item, restart_patch(item, AT))
    assert after == {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2, **expected}}


def test_a_restart_makes_a_new_revision_and_keeps_annotations():
    item = deployment("a")
    item["spec"]["workers"]["template"]["metadata"] = {"annotations": {"team": "b"}}
    after = applied(item, restart_patch(item, AT))
    assert after["spec"]["workers"]["template"]["metadata"]["annotations"] == {"team": "b", RESTARTED_AT: AT}
    hashes = {template_hash(template_of(decode(ModelDeployment, each).spec)) for each in (item, after)}
    assert len(hashes) == 2


def test_pause_and_resume_refuse_what_is_so_already():
    assert pause_patch(deployment("a"), paused=True) == {"spec": {"rollout": {"paused": True}}}
    assert pause_patch(deployment("a", paused=True), paused=False) == {"spec": {"rollout": {"paused": False}}}
    for item, paused, says in (
        (deployment("a"), False, "not paused"),
        (deployment("a", paused=True), True, "already paused"),
    ):
        with pytest.raises(InputError, match=says):
            pause_patch(item, paused=paused)


VALUES = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_a_merge_patch_leads_from_one_object_to_the_other(before, after):
    assert applied(before, merge_patch(before, after)) == after


def at_canary(*images, promoted=False, **rollout):
    item = deployment(*images, reason="CanaryBaking")
    item["status"]["rollout"] |= {"promoted": promoted, **rollout}
    return item


def hash_of(item):
    return item["status"]["rollout"]["hash"]


STEP = {"canary": {"step": 1, "steps": 3}}


@pytest.mark.parametrize(
    ("item", "full", "step", "told"),
    [
        (at_canary("a", "b", **STEP), False, "1", "promoted revision 2 to step 2 of 3"),
        (at_canary("a", "b", **STEP), True, "all", "promoted revision 2"),
        (at_canary("a", "b", canary={"step": 3, "steps": 3}), False, "all", "promoted revision 2"),
        (at_canary("a", "b"), False, "all", "promoted revision 2"),
    ],
)
def test_promote_ends_the_step_that_it_saw(item, full, step, told):
    patch = {"metadata": {"annotations": {"modelplane.ai/promote": f"{hash_of(item)}/{step}"}}}
    assert promote_patch(item, full=full) == (patch, told)


def test_abort_names_the_revision():
    item = at_canary("a", "b", **STEP)
    patch = {"metadata": {"annotations": {"modelplane.ai/abort": hash_of(item)}}}
    assert abort_patch(item) == (patch, "aborted revision 2")


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (at_canary("a", "b", promoted=True), "revision 2 has no canary: it is promoted; undo it to take it back"),
        (at_canary("a", "b", halted={"message": "m"}), "revision 2 is halted; resume or undo it"),
        (with_image(at_canary("a", "b", **STEP), "c"), "the newest spec is not observed yet"),
        (unobserved(), "the newest spec is not observed yet"),
    ],
)
@pytest.mark.parametrize("make", [promote_patch, abort_patch])
def test_without_a_canary_there_is_nothing_to_promote_or_abort(make, item, says):
    with pytest.raises(InputError, match=says):
        make(item)


def test_resume_ends_a_pause_or_a_halt():
    halted = at_canary("a", "b", halted={"message": "m"})
    names = ("modelplane.ai/abort", "modelplane.ai/promote")
    annotations = {**dict.fromkeys(names), "modelplane.ai/retry": AT}
    assert resume_patch(halted, AT) == {"metadata": {"annotations": annotations}}
    assert resume_patch(deployment("a", paused=True), AT) == {"spec": {"rollout": {"paused": False}}}
    with pytest.raises(InputError, match="the rollout is not paused"):
        resume_patch(deployment("a"), AT)


def test_a_halted_rollout_is_shown_as_one():
    item = deployment("a", "b", reason="RolloutHalted", told="revision 2: 12 of 140 requests failed")
    assert rollout_view(item) == RolloutView(RolloutPhase.HALTED, "revision 2: 12 of 140 requests failed")


def test_undo_of_a_canary_goes_back_to_what_was_promoted():
    item = at_canary("a", "b", "c", stable=deployment("a")["status"]["rollout"]["hash"])
    assert undo_patch(item)[1] == 1
    assert undo_patch({**item, "status": {**item["status"], "rollout": {}}})[1] == 2
