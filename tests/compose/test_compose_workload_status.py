"""What the status of a workload says of its pods, and what a lost one does not say."""

import pytest

from modelplane.compose.workload_status import gave_up, has_status, progress, rejection, rolled_out

DONE = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3}


def workload(kind, status, replicas=3):
    return {"kind": kind, "metadata": {"generation": 2}, "spec": {"replicas": replicas}, "status": status}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(workload("Deployment", DONE), True, id="all pods are new"),
        pytest.param(workload("Deployment", {**DONE, "updatedReplicas": 2}), False, id="one is not"),
        pytest.param(workload("Deployment", {**DONE, "observedGeneration": 1}), False, id="not seen by its controller"),
        pytest.param(workload("Deployment", {"observedGeneration": 2}, 0), True, id="no pods are wanted"),
        pytest.param(workload("Deployment", {"observedGeneration": 2}), False, id="the counts are lost"),
        pytest.param(workload("LeaderWorkerSet", {}), False, id="the status is lost"),
        pytest.param(workload("LLMInferenceService", {"conditions": []}), True, id="a kind that does not count"),
    ],
)
def test_pods_are_new_when_they_are_counted_as_such(item, expected):
    assert rolled_out(item) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, False),
        ({}, False),
        ({"metadata": None}, False),
        (DONE, True),
        ({"conditions": [{"type": "Ready"}]}, True),
        ({"replicas": 3}, True),
        ({"updatedReplicas": 3}, True),
    ],
)
def test_a_status_has_conditions_or_counts(status, expected):
    assert has_status(workload("Deployment", status)) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"readyReplicas": 2}, "Deployment chat: 2 of 3 ready"),
        ({}, "Deployment chat: 0 of 3 ready"),
        ({"conditions": [{"type": "Ready", "message": "waits for a pod"}]}, "Deployment chat: waits for a pod"),
        ({"conditions": [{"type": "Ready"}, {"type": "Other", "message": "x"}]}, "Deployment chat: 0 of 3 ready"),
    ],
)
def test_how_far_a_workload_is(status, expected):
    item = workload("Deployment", status)
    item["metadata"]["name"] = "chat"
    assert progress(item) == expected


def condition(kind, status, reason, message="m", **fields):
    return {"type": kind, "status": status, "reason": reason, "message": message, **fields}


SINCE = "2026-11-16T08:24:51Z"
LATE = condition("Progressing", "False", "ProgressDeadlineExceeded", lastTransitionTime=SINCE)


@pytest.mark.parametrize(
    ("conditions", "rejected", "late"),
    [
        ([], None, None),
        ([condition("ReplicaFailure", "True", "FailedCreate", "denied")], ("denied", None), None),
        ([condition("ReplicaFailure", "True", "FailedCreate", "")], ("FailedCreate", None), None),
        ([condition("ReplicaFailure", "False", "FailedCreate")], None, None),
        ([LATE], None, ("m", SINCE)),
        ([condition("Progressing", "True", "NewReplicaSetAvailable"), LATE], None, ("m", SINCE)),
        ([condition("Progressing", "False", "Paused")], None, None),
    ],
)
def test_what_a_workload_says_against_its_pods(conditions, rejected, late):
    item = workload("Deployment", {"conditions": conditions})
    assert (rejection(item), gave_up(item)) == (rejected, late)
