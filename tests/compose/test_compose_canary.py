"""Canaries: when the others may follow."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment
from modelplane.compose.canary import CanaryState, canary_state, outdated_count
from modelplane.compose.contract import ComposeRequest, Local, Observed

NOW = 1_767_225_600.0
SINCE = "2026-01-01T00:00:00Z"
BAKING = {"bakeSeconds": 120}


def replica(revision, *, serves=True, leaving=False):
    conditions = [
        {"type": kind, "status": str(serves), "reason": "X", "lastTransitionTime": SINCE}
        for kind in ("WorkloadReady", "RouteReady")
    ]
    metadata = {"labels": {"modelplane.ai/revision": revision}, **({"deletionTimestamp": SINCE} if leaving else {})}
    return {"metadata": metadata, "status": {"conditions": conditions}}


def request(*revisions, age_s=0.0, canary=None, before=None, replicas=3):
    found = [replica(each) if isinstance(each, str) else each for each in revisions]
    spec = {"replicas": replicas, "rollout": {"canary": canary} if canary is not None else {}}
    item = {"metadata": {"name": "chat"}, "spec": spec, "status": {"rollout": before} if before else {}}
    observed = {f"replica-east-{at}": Observed(Local(each), ready=True) for at, each in enumerate(found)}
    return ComposeRequest(decode(ModelDeployment, item), observed, now=NOW + age_s)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(request("old", "new"), CanaryState(), id="no canary is asked for"),
        pytest.param(request("new", "new", canary=BAKING), CanaryState(), id="every replica has the revision"),
        pytest.param(
            request("old", "old", canary=BAKING), CanaryState(promoted=False, limit=1), id="no replica has it yet"
        ),
        pytest.param(
            request("old", replica("new", serves=False), canary=BAKING),
            CanaryState(promoted=False, limit=1),
            id="the canary does not serve",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=100.0),
            CanaryState(promoted=False, limit=1, left_s=20.0),
            id="the canary serves",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=120.0), CanaryState(baked=1), id="it served for long enough"
        ),
        pytest.param(
            request("old", "new", canary={**BAKING, "replicas": 2}, age_s=120.0),
            CanaryState(promoted=False, limit=2, baked=1),
            id="one of two did",
        ),
        pytest.param(
            request("old", "new", canary={**BAKING, "replicas": 2}, age_s=120.0, replicas=1),
            CanaryState(baked=1),
            id="more canaries than replicas",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, before={"hash": "new", "promoted": True}),
            CanaryState(),
            id="promoted once, promoted for good",
        ),
        pytest.param(
            request("old", "old", canary=BAKING, before={"hash": "old", "promoted": True}),
            CanaryState(promoted=False, limit=1),
            id="that was another revision",
        ),
        pytest.param(
            request("old", "new", canary=BAKING, age_s=-NOW), CanaryState(promoted=False, limit=1, left_s=NOW + 120.0),
            id="no time is known",
        ),
    ],
)  # fmt: skip
def test_when_the_others_follow(given, expected):
    assert canary_state(given, "new") == expected


def test_replicas_that_leave_do_not_count():
    assert outdated_count(request("old", "new", replica("old", leaving=True)), "new") == 1
