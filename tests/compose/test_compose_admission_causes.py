"""Kueue's Workloads as it writes them, and the cause that pods behind a gate have."""

import pytest

from modelplane.api.reasons import Reason
from modelplane.compose.admission_causes import admission_cause, queue_cause, trimmed_workload
from modelplane.compose.causes import Cause

SINCE = "2026-11-16T08:24:51Z"


def workload(message, *, owner="chat-0", status="False", **metadata):
    reserved = {"type": "QuotaReserved", "status": status, "reason": "Pending", "message": message}
    return {
        "metadata": {
            "name": f"pod-{owner}-1a2b3",
            "namespace": "mp-team",
            "ownerReferences": [{"name": owner}],
            **metadata,
        },
        "spec": {"queueName": "serving", "podSets": [{"template": {"spec": {"containers": []}}}]},
        "status": {"conditions": [{**reserved, "lastTransitionTime": SINCE}, {"type": "Evicted", "status": "False"}]},
    }


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("LocalQueue serving doesn't exist", Reason.QUEUE_MISSING),
        ("ClusterQueue serving is inactive: FlavorNotFound", Reason.QUEUE_MISSING),
        (
            "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor h200, 1 more needed",
            Reason.QUOTA_EXCEEDED,
        ),
        ("an older workload of the line is pending", Reason.SCHEDULING_GATED),
    ],
)
def test_the_queue_says_why_it_admits_nothing(message, reason):
    assert admission_cause([workload(message)], ["chat-0"]) == Cause(reason, f"Kueue: {message}", SINCE)


def test_only_workloads_of_the_replica_that_wait_count():
    others = workload("LocalQueue serving doesn't exist", owner="other-0")
    admitted = workload("Quota reserved in ClusterQueue serving", status="True")
    assert admission_cause([others, admitted, {}], ["chat-0"]) is None
    assert admission_cause([others, workload("x"), admitted], ["chat-0", "chat"]).message == "Kueue: x"


def test_what_is_kept_of_a_workload_has_the_same_cause():
    whole = workload("LocalQueue serving doesn't exist", resourceVersion="7", labels={"a": "b"})
    kept = trimmed_workload(whole)
    assert admission_cause([kept], ["chat-0"]) == admission_cause([whole], ["chat-0"])
    assert trimmed_workload(kept) == kept
    reserved = {"type": "QuotaReserved", "status": "False", "message": "LocalQueue serving doesn't exist"}
    assert kept == {
        "metadata": {"name": "pod-chat-0-1a2b3", "namespace": "mp-team", "ownerReferences": [{"name": "chat-0"}]},
        "status": {"conditions": [{**reserved, "lastTransitionTime": SINCE}]},
    }


def test_of_a_condition_without_its_time_the_rest_is_kept():
    reserved = {"type": "QuotaReserved", "status": "False", "message": "m"}
    assert trimmed_workload({"status": {"conditions": [reserved]}})["status"] == {"conditions": [reserved]}


def local_queue(status, reason, message):
    """As Kueue 0.19 writes it. Of the ClusterQueue that is missing it says nothing on its Workloads."""
    active = {"type": "Active", "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}
    return {
        "metadata": {"name": "serving", "namespace": "mp-team"},
        "spec": {"clusterQueue": "serving"},
        "status": {"conditions": [active], "pendingWorkloads": 1},
    }


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
        ("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
    ],
)
def test_a_local_queue_says_what_no_workload_does(reason, message):
    words = f"Kueue: LocalQueue serving of ClusterQueue serving is not active: {reason}: {message}"
    assert queue_cause(local_queue("False", reason, message)) == Cause(Reason.QUEUE_MISSING, words, SINCE)


def test_a_local_queue_that_admits_or_has_not_said_is_no_cause():
    assert queue_cause(local_queue("True", "Ready", "Can submit new workloads to localQueue")) is None
    assert queue_cause({"metadata": {"name": "serving"}}) is None
