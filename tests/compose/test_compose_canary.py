"""Canaries: when the others may follow."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment, RolloutHalt
from modelplane.api.timestamps import timestamp
from modelplane.compose.canary import CanaryState, canary_state, outdated_count
from modelplane.compose.contract import ComposeRequest, Local, Observed

NOW = 1_767_225_600.0
SINCE = "2026-01-01T00:00:00Z"
BAKING = {"bakeSeconds": 120}


def replica(revision, *, serves=True, leaving=False, since=SINCE):
    conditions = [
        {"type": kind, "status": str(serves), "reason": "X", "lastTransitionTime": since}
        for kind in ("WorkloadReady", "RouteReady")
    ]
    metadata = {"labels": {"modelplane.ai/revision": revision}, **({"deletionTimestamp": SINCE} if leaving else {})}
    return {"metadata": metadata, "status": {"conditions": conditions}}


def request(*revisions, age_s=0.0, canary=None, before=None, replicas=3, annotations=None, traffic=None):
    """`traffic`: requests and errors of each revision's endpoints, measured now."""
    found = [replica(each) if isinstance(each, str) else each for each in revisions]
    spec = {"replicas": replicas, "rollout": {"canary": canary} if canary is not None else {}}
    metadata = {"name": "chat", "annotations": annotations or {}}
    item = {"metadata": metadata, "spec": spec, "status": {"rollout": before} if before else {}}
    observed = {f"replica-east-{at}": Observed(Local(each), ready=True) for at, each in enumerate(found)}
    if traffic is not None:
        observed |= {
            f"endpoint-east-{at}": Observed(Local(measured(each, traffic, NOW + age_s)), ready=True)
            for at, each in enumerate(found)
        }
    return ComposeRequest(decode(ModelDeployment, item), observed, now=NOW + age_s)


def measured(item, traffic, now):
    revision = item["metadata"]["labels"]["modelplane.ai/revision"]
    requests, errors = traffic.get(revision, (0, 0))
    found = {"revision": revision, "windowSeconds": 60, "requests": requests, "errors": errors}
    return {**item, "status": {"traffic": {**found, "measuredAt": timestamp(now)}}}


LATE = replica("new", since="2026-01-01T00:00:40Z")
"""A canary that began to serve 40 s after the others."""


def baking(**state):
    return CanaryState(**{"promoted": False, "limit": 1, "stable": "old", **state})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(request("old", "new"), CanaryState(stable="old"), id="no canary is asked for"),
        pytest.param(request("new", "new", canary=BAKING), CanaryState(), id="every replica has the revision"),
        pytest.param(request("old", "old", canary=BAKING), baking(), id="no replica has it yet"),
        pytest.param(
            request("old", replica("new", serves=False), canary=BAKING), baking(), id="the canary does not serve"
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=100.0), baking(left_s=20.0, serving=True), id="the canary serves"
        ),
        pytest.param(
            request("old", LATE, "new", canary={**BAKING, "replicas": 2}, age_s=100.0),
            baking(limit=2, left_s=20.0, serving=True),
            id="the first of two is waited for",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=120.0),
            CanaryState(baked=1, stable="old"),
            id="it served for long enough",
        ),
        pytest.param(
            request("old", "new", canary={**BAKING, "replicas": 2}, age_s=120.0),
            baking(limit=2, baked=1),
            id="one of two did",
        ),
        pytest.param(
            request("old", "new", canary={**BAKING, "replicas": 2}, age_s=120.0, replicas=1),
            CanaryState(baked=1, stable="old"),
            id="more canaries than replicas",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, before={"hash": "new", "promoted": True}),
            CanaryState(stable="old"),
            id="promoted once, promoted for good",
        ),
        pytest.param(
            request("old", "old", canary=BAKING, before={"hash": "old", "promoted": True, "stable": "old"}),
            baking(),
            id="that was another revision",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, before={"hash": "old", "stable": "new"}),
            CanaryState(stable="new"),
            id="back to the revision that was promoted last",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=-NOW),
            baking(left_s=NOW + 120.0, serving=True),
            id="no time is known",
        ),
        pytest.param(
            request("old", "older", "old", "new", canary=BAKING, replicas=4),
            baking(left_s=120.0, serving=True),
            id="the stable revision is the one that most of the others have",
        ),
    ],
)
def test_when_the_others_follow(given, expected):
    assert canary_state(given, "new") == expected


def test_replicas_that_leave_do_not_count():
    assert outdated_count(request("old", "new", replica("old", leaving=True)), "new") == 1


STEPS = {"steps": [{"weight": 10, "pauseSeconds": 60}, {"weight": 50, "untilPromoted": True}]}
ANALYSED = {**STEPS, "analysis": {"minRequests": 20, "maxErrorRate": "2%"}}
EARLIER = "2025-12-31T23:59:00Z"


def at_step(step, since=SINCE, **more):
    return {"hash": "new", "stable": "old", "promoted": False, "canary": {"step": step, "since": since}, **more}


def step_one(**state):
    return baking(**{"step": 1, "steps": 2, "weight": 10, "since": NOW, "serving": True, **state})


def step_two(**state):
    return baking(**{"step": 2, "steps": 2, "weight": 50, "limit": 2, "since": NOW, **state})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            request("old", "old", "old", "old", canary=STEPS, replicas=4),
            step_one(serving=False),
            id="the first step begins",
        ),
        pytest.param(
            request("old", "old", "old", "new", canary=STEPS, replicas=4, age_s=20.0, before=at_step(1)),
            step_one(left_s=40.0),
            id="its pause lasts",
        ),
        pytest.param(
            request("old", "old", "old", "new", canary=STEPS, replicas=4, age_s=60.0, before=at_step(1, EARLIER)),
            step_two(since=NOW + 60.0, left_s=1.0),
            id="its pause is over",
        ),
        pytest.param(
            request("old", "old", "old", "new", canary=STEPS, replicas=4, age_s=30.0, before=at_step(1, EARLIER)),
            step_one(since=NOW - 60.0, left_s=30.0),
            id="a canary that served anew begins anew",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, age_s=40.0,
                before=at_step(1, "2026-01-01T00:00:30Z"),
            ),
            step_one(since=NOW + 30.0, left_s=50.0),
            id="a canary that served before the step begins with it",
        ),
        pytest.param(
            request("old", "old", "new", "new", canary=STEPS, replicas=4, age_s=9000.0, before=at_step(2)),
            step_two(serving=True),
            id="it waits for a user",
        ),
        pytest.param(
            request(
                "old", "old", "new", "new", canary=STEPS, replicas=4, before=at_step(2),
                annotations={"modelplane.ai/promote": "new/2"},
            ),
            CanaryState(stable="old"),
            id="a user promotes the last step",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/promote": "new/1"},
            ),
            step_two(left_s=1.0),
            id="a user promotes the first step",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/promote": "new/2"},
            ),
            step_two(left_s=1.0),
            id="a user promotes both steps, one after the other",
        ),
        pytest.param(
            request(
                "old", "old", "new", "new", canary=STEPS, replicas=4, before=at_step(2),
                annotations={"modelplane.ai/promote": "new/1"},
            ),
            step_two(serving=True),
            id="that was the step before",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/promote": "new/all"},
            ),
            CanaryState(stable="old"),
            id="a user promotes all steps",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/promote": "other/all"},
            ),
            step_one(left_s=60.0),
            id="that was another revision",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/promote": "new/soon"},
            ),
            step_one(left_s=60.0),
            id="that was no step",
        ),
        pytest.param(
            request("old", "new", "new", canary={**STEPS, "replicas": 3}, replicas=3, before=at_step(2)),
            step_two(limit=2, serving=True),
            id="all but one have it",
        ),
        pytest.param(
            request("old", "new", canary=STEPS, replicas=2, before=at_step(2)),
            step_two(limit=1, serving=True),
            id="one replica stays stable",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4, before=at_step(1),
                annotations={"modelplane.ai/abort": "new"},
            ),
            step_one(
                left_s=60.0, limit=0, weight=0,
                halt=RolloutHalt(at=SINCE, weight=10, message="aborted by a user; stopped at 10 %"),
            ),
            id="a user aborts it",
        ),
        pytest.param(
            request("old", "old", "old", "new", canary=STEPS, before=at_step(1, halted={"at": SINCE, "message": "m"})),
            baking(limit=0, weight=0, halt=RolloutHalt(at=SINCE, message="m")),
            id="halted, it stays so",
        ),
        pytest.param(
            request(
                "old", "old", "old", "new", canary=STEPS, replicas=4,
                before={"hash": "new", "stable": "old", "promoted": False, "halted": {"at": SINCE, "message": "m"}},
                annotations={"modelplane.ai/retry": SINCE},
            ),
            step_one(left_s=60.0),
            id="resumed, it begins anew",
        ),
    ],
)  # fmt: skip
def test_what_a_step_does(given, expected):
    assert canary_state(given, "new") == expected


@pytest.mark.parametrize(
    ("weight", "replicas", "limit"), [(1, 7, 1), (42, 7, 3), (43, 7, 4), (50, 4, 2), (51, 4, 3), (99, 7, 6), (50, 1, 1)]
)
def test_a_step_has_its_share_of_the_replicas_and_never_all(weight, replicas, limit):
    given = request("old", canary={"steps": [{"weight": weight, "pauseSeconds": 60}]}, replicas=replicas)
    assert canary_state(given, "new").limit == limit


@pytest.mark.parametrize(
    ("traffic", "age_s", "step", "verdict", "halted"),
    [
        pytest.param(None, 90.0, 1, "NotMeasured", None, id="not measured, it is not promoted"),
        pytest.param({"new": (19, 0)}, 90.0, 1, "TooFewRequests", None, id="too few requests are no pass"),
        pytest.param({"new": (19, 19)}, 90.0, 1, "TooFewRequests", None, id="nor a reason to halt"),
        pytest.param({"new": (20, 0)}, 30.0, 1, "Measuring", None, id="the window is not of this step yet"),
        pytest.param({"new": (20, 0)}, 59.0, 1, "Measuring", None, id="nor a second too early"),
        pytest.param({"new": (20, 0)}, 60.0, 2, "Measuring", None, id="it is of this step"),
        pytest.param({"new": (20, 0)}, 90.0, 2, "Measuring", None, id="it passes"),
        pytest.param(
            {"new": (50, 5)}, 5.0, 1, "Failing", "5 of 50 requests failed (10.0 %, limit 2 %); stopped at 10 %",
            id="it fails, and halts at once",
        ),
        pytest.param({"old": (50, 50), "new": (50, 0)}, 90.0, 2, "Measuring", None, id="the stable one may fail"),
    ],
)  # fmt: skip
def test_what_the_analysis_does(traffic, age_s, step, verdict, halted):
    given = request("old", "old", "old", "new", canary=ANALYSED, before=at_step(1), age_s=age_s, traffic=traffic)
    found = canary_state(given, "new")
    assert (found.step, found.finding.verdict, found.halt and found.halt.message) == (step, verdict, halted)


def test_a_canary_is_compared_with_what_the_stable_revision_serves():
    analysis = {"minRequests": 20, "stable": {"maxErrorRateAbove": "1%"}}
    found = canary_state(
        request("old", "new", canary={**STEPS, "analysis": analysis}, traffic={"old": (50, 0), "new": (50, 5)}), "new"
    )
    assert found.halt.message == "5 of 50 requests failed (10.0 %, limit 1 %); stopped at 10 %"


def test_the_window_lies_in_the_step_of_the_canary_that_began_last():
    given = request("old", LATE, "new", canary=ANALYSED, before=at_step(1), age_s=90.0, traffic={"new": (20, 0)})
    assert canary_state(given, "new").finding.verdict == "Measuring"
    assert canary_state(given, "new").step == 1


def test_a_window_that_is_longer_than_the_pause_may_begin_before_the_step():
    longer = {**ANALYSED, "analysis": {**ANALYSED["analysis"], "windowSeconds": 120}}
    given = request("old", "old", "old", "new", canary=longer, before=at_step(1), age_s=60.0, traffic={"new": (20, 0)})
    assert canary_state(given, "new").step == 2


def test_a_step_that_waits_for_a_user_passes_by_what_was_measured_since_it_began():
    given = request("old", "old", "new", "new", canary=ANALYSED, before=at_step(2), traffic={"new": (20, 0)})
    assert canary_state(given, "new").finding.verdict == "Passing"


def test_what_halted_a_canary_fits_its_field():
    many = 10**300
    found = canary_state(request("old", "new", canary=ANALYSED, traffic={"new": (many, many)}), "new")
    assert len(found.halt.message) == 512


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (CanaryState(stable="old"), {"old": None, "new": None, "abandoned": None}),
        (baking(), {"old": None, "new": None, "abandoned": None}),
        (step_one(), {"old": None, "new": 10, "abandoned": 0}),
        (baking(weight=0, halt=RolloutHalt(message="m")), {"old": None, "new": 0, "abandoned": 0}),
    ],
)
def test_the_share_of_each_revision(state, expected):
    assert {each: state.endpoint_weight(each, "new") for each in expected} == expected
