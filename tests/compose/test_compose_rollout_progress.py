"""How far an update is: the condition Progressing, its numbers and its deadline."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import CanaryProgress, ModelDeployment, RolloutHalt, StatusRollout, TemplateRevision
from modelplane.compose.canary import CanaryState
from modelplane.compose.canary_analysis import CanaryFinding, Verdict
from modelplane.compose.rolling_update import Rollout
from modelplane.compose.rollout_progress import canary_words, rollout_progress

NOW = 1_767_225_600.0
SINCE = "2026-01-01T00:00:00Z"
NEWEST = TemplateRevision(revision=3, hash_="abc", template="")
BEFORE = {"revision": 3, "hash": "abc", "updatedReplicas": 1, "readyReplicas": 0, "lastProgressTime": SINCE}


def judge(updated, ready, now=NOW, before=None, replicas=2, *, leaving=False, **rules):
    spec = {"replicas": replicas, "rollout": {"progressDeadlineSeconds": 600, **rules}}
    item = {"metadata": {"name": "chat"}, "spec": spec, "status": {"rollout": before} if before else {}}
    rollout = Rollout((None,) * replicas, updated, ready)
    found = rollout_progress(decode(ModelDeployment, item), NEWEST, rollout, now, leaving=leaving)
    return found.status, (found.condition.status.value, found.condition.reason), found.requeue_after_s


def status(updated, ready, *, complete=False, since=SINCE):
    return StatusRollout(
        revision=3,
        hash_="abc",
        updated_replicas=updated,
        ready_replicas=ready,
        promoted=True,
        complete=complete,
        last_progress_time=since,
        stable="abc",
    )


ROLLING, COMPLETE = ("True", "RollingOut"), ("True", "RolloutComplete")
LATE, PAUSED = ("False", "ProgressDeadlineExceeded"), ("Unknown", "RolloutPaused")
LATER = "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"updated": 1, "ready": 0}, (status(1, 0), ROLLING, 600.0), id="it begins"),
        pytest.param(
            {"updated": 1, "ready": 0, "before": BEFORE, "now": NOW + 300},
            (status(1, 0), ROLLING, 300.0),
            id="it stands",
        ),
        pytest.param(
            {"updated": 2, "ready": 1, "before": BEFORE, "now": NOW + 300},
            (status(2, 1, since=LATER), ROLLING, 600.0),
            id="it goes on",
        ),
        pytest.param(
            {"updated": 1, "ready": 0, "before": BEFORE, "now": NOW + 600},
            (status(1, 0), LATE, None),
            id="its deadline is over",
        ),
        pytest.param(
            {"updated": 1, "ready": 0, "before": BEFORE, "now": NOW + 599},
            (status(1, 0), ROLLING, 1.0),
            id="its last second",
        ),
        pytest.param(
            {"updated": 1, "ready": 0, "before": BEFORE, "now": 0.0},
            (status(1, 0), ROLLING, None),
            id="no time is known",
        ),
        pytest.param({"updated": 2, "ready": 2}, (status(2, 2, complete=True), COMPLETE, None), id="it is complete"),
        pytest.param(
            {"updated": 2, "ready": 2, "leaving": True},
            (status(2, 2), ROLLING, 600.0),
            id="an old replica is still there",
        ),
        pytest.param(
            {"updated": 2, "ready": 1, "before": {**BEFORE, "complete": True}, "now": NOW + 9000},
            (status(2, 1, complete=True, since="2026-01-01T02:30:00Z"), COMPLETE, None),
            id="what fails later is no matter of the update",
        ),
        pytest.param(
            {"updated": 1, "ready": 0, "before": {**BEFORE, "hash": "other", "complete": True}},
            (status(1, 0), ROLLING, 600.0),
            id="another revision begins anew",
        ),
        pytest.param(
            {"updated": 1, "ready": 0, "before": BEFORE, "now": NOW + 9000, "paused": True},
            (status(1, 0), PAUSED, None),
            id="a pause has no deadline",
        ),
        pytest.param(
            {"updated": 0, "ready": 0, "replicas": 0}, (status(0, 0, complete=True), COMPLETE, None), id="no replicas"
        ),
    ],
)
def test_what_is_said_of_an_update(given, expected):
    assert judge(**given) == expected


def test_canaries_without_steps_are_one_step_and_say_what_was_measured():
    canary = CanaryState(promoted=False, limit=2, baked=1, finding=finding(Verdict.PASSING))
    assert canary_words(canary, NOW) == f"1 of 2 canaries have served for long enough; {canary.finding.message}"
    shown = progress(canary).status.canary
    assert (shown.step, shown.steps) == (1, 1)


def test_canaries_are_counted_and_looked_at_again():
    item = {"metadata": {"name": "chat"}, "spec": {"replicas": 4}}
    canary = CanaryState(promoted=False, limit=2, baked=1, left_s=20.0)
    rollout = Rollout((None,) * 4, 2, 2)
    found = rollout_progress(decode(ModelDeployment, item), NEWEST, rollout, NOW, leaving=False, canary=canary)
    assert (found.condition.reason, found.condition.message, found.requeue_after_s, found.status.promoted) == (
        "CanaryBaking",
        "revision 3: 2 of 4 replicas updated, 2 of 4 ready; 1 of 2 canaries have served for long enough",
        20.0,
        False,
    )


def stepping(**state):
    given = {"promoted": False, "limit": 1, "step": 1, "steps": 3, "weight": 10, "since": NOW - 60, "serving": True}
    return CanaryState(**{**given, **state})


def finding(verdict):
    return CanaryFinding(verdict, "0 of 84 requests failed")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (stepping(serving=False), "; next: step 2 after its canaries serve"),
        (stepping(left_s=60.0), "; next: step 2 at 2026-01-01T00:01:00Z"),
        (stepping(step=3), "; next: all replicas when it is promoted"),
        (
            stepping(baked=0, finding=finding(Verdict.TOO_FEW)),
            "; 0 of 84 requests failed; next: step 2 when it is promoted",
        ),
        (
            stepping(baked=1, finding=finding(Verdict.TOO_FEW)),
            "; 0 of 84 requests failed; next: step 2 when the analysis passes",
        ),
        (
            stepping(baked=1, finding=finding(Verdict.NOT_MEASURED)),
            "; 0 of 84 requests failed; next: step 2 when it is promoted, since it is not measured",
        ),
    ],
)
def test_a_step_says_what_happens_next_and_when(state, words):
    head = f"step {state.step} of 3: 10 % of requests since 2025-12-31T23:59:00Z"
    assert canary_words(state, NOW) == head + words


def progress(canary, now=NOW, updated=1, ready=1, **before):
    known = {**BEFORE, "readyReplicas": 1, "promoted": False, "canary": {"step": 1}, **before}
    spec = {"replicas": 4, "rollout": {"progressDeadlineSeconds": 600}}
    item = {"metadata": {"name": "chat"}, "spec": spec, "status": {"rollout": known}}
    rollout = Rollout((None,) * 4, updated, ready)
    return rollout_progress(decode(ModelDeployment, item), NEWEST, rollout, now, leaving=False, canary=canary)


def test_what_is_said_of_a_rollout_is_as_long_as_the_api_allows():
    found = progress(stepping(finding=CanaryFinding(Verdict.PASSING, "m" * 1024)))
    assert (len(found.status.canary.message), len(found.condition.message)) == (512, 1024)


def test_the_status_has_the_step():
    found = progress(stepping(left_s=60.0, stable="old")).status
    assert (found.stable, found.promoted, found.canary) == (
        "old",
        False,
        CanaryProgress(
            step=1,
            steps=3,
            weight=10,
            since="2025-12-31T23:59:00Z",
            next_at="2026-01-01T00:01:00Z",
            message=canary_words(stepping(left_s=60.0), NOW),
        ),
    )


@pytest.mark.parametrize(
    ("state", "now"), [({"serving": False}, NOW), ({}, 0.0)], ids=["a canary does not serve yet", "no clock"]
)
def test_when_the_next_step_comes_is_not_said_before_it_is_known(state, now):
    assert progress(stepping(left_s=60.0, **state), now).status.canary.next_at is None


def test_a_step_that_waits_for_a_user_has_no_deadline():
    assert progress(stepping(step=3), now=NOW + 9000).condition.reason == "CanaryBaking"
    assert progress(stepping(serving=False), now=NOW + 9000).condition.reason == "ProgressDeadlineExceeded"


def test_a_new_step_is_progress():
    assert progress(stepping(step=2), now=NOW + 60).status.last_progress_time == "2026-01-01T00:01:00Z"
    assert progress(stepping(), now=NOW + 60).status.last_progress_time == SINCE


def test_a_halt_is_said_with_its_numbers():
    halt = RolloutHalt(at=SINCE, weight=10, message="12 of 140 requests failed (8.6 %, limit 2 %); stopped at 10 %")
    found = progress(CanaryState(promoted=False, limit=0, weight=0, stable="old", halt=halt), updated=4, ready=3)
    assert (found.condition.status.value, found.condition.reason, found.condition.message) == (
        "False",
        "RolloutHalted",
        f"revision 3: {halt.message}; 3 of 4 replicas serve the revision before",
    )
    assert (found.status.halted, found.status.complete, found.status.stable) == (halt, None, "old")
    assert (found.status.updated_replicas, found.status.ready_replicas) == (0, 0)
    assert found.requeue_after_s is None
