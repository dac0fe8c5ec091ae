"""Kueue's Workloads as it writes them, and the cause that pods behind a gate have."""

import pytest

from modelplane.api.reasons import Reason
from modelplane.compose.admission_causes import admission_cause, trimmed_workload
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
    assert "spec" not in kept
