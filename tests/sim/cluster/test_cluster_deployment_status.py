import pytest

from modelplane.sim.cluster.deployment_status import RolloutState, deployment_status, progress_due_s

EPOCH = 1_750_000_000.0
NOW, EARLIER = "2025-06-15T15:06:40Z", "2025-06-15T15:00:00Z"


def replica_set(name="new", *, replicas, ready=0, actual=None):
    counts = {"replicas": replicas if actual is None else actual, "readyReplicas": ready, "availableReplicas": ready}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": counts}


def made(*, replicas=2, status=None, deadline=None):
    spec = {"replicas": replicas, **({"progressDeadlineSeconds": deadline} if deadline else {})}
    return {"metadata": {"name": "model", "generation": 3}, "spec": spec, "status": status or {}}


def progressing(reason, *, status="True", updated=EARLIER):
    told = {"type": "Progressing", "status": status, "reason": reason, "message": "old"}
    return {**told, "lastUpdateTime": updated, "lastTransitionTime": EARLIER}


def progress(deployment, sets, new, **more):
    found = deployment_status(deployment, RolloutState(sets, new, least_available=0, **more), EPOCH)
    return next((c for c in found["conditions"] if c["type"] == "Progressing"), None)


NEW = replica_set(replicas=2, ready=1)
DONE = replica_set(replicas=2, ready=2)
SAME = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("case", "deployment", "found", "created", "expected"),
    [
        ("just made", made(), replica_set(replicas=2, actual=0), True, ("True", "NewReplicaSetCreated", NOW, NOW)),
        ("found", made(), replica_set(replicas=2, actual=0), False, ("True", "FoundNewReplicaSet", NOW, NOW)),
        (
            "progress",
            made(status={"conditions": [progressing("NewReplicaSetCreated")]}),
            NEW,
            False,
            ("True", "ReplicaSetUpdated", NOW, EARLIER),
        ),
        (
            "more progress moves the update only",
            made(status={"conditions": [progressing("ReplicaSetUpdated")]}),
            NEW,
            False,
            ("True", "ReplicaSetUpdated", NOW, EARLIER),
        ),
        (
            "no progress",
            made(status={**SAME, "conditions": [progressing("ReplicaSetUpdated")]}),
            NEW,
            False,
            ("True", "ReplicaSetUpdated", EARLIER, EARLIER),
        ),
        (
            "complete",
            made(status={**SAME, "conditions": [progressing("ReplicaSetUpdated")]}),
            DONE,
            False,
            ("True", "NewReplicaSetAvailable", NOW, EARLIER),
        ),
        (
            "a complete rollout that loses a pod stays complete",
            made(status={**SAME, "conditions": [progressing("NewReplicaSetAvailable")]}),
            NEW,
            False,
            ("True", "NewReplicaSetAvailable", EARLIER, EARLIER),
        ),
        (
            "stalled for too long",
            made(deadline=60, status={**SAME, "conditions": [progressing("ReplicaSetUpdated")]}),
            NEW,
            False,
            ("False", "ProgressDeadlineExceeded", NOW, NOW),
        ),
        (
            "still stalled",
            made(status={**SAME, "conditions": [progressing("ProgressDeadlineExceeded", status="False")]}),
            NEW,
            False,
            ("False", "ProgressDeadlineExceeded", EARLIER, EARLIER),
        ),
        (
            "progress after all",
            made(status={"conditions": [progressing("ProgressDeadlineExceeded", status="False")]}),
            NEW,
            False,
            ("True", "ReplicaSetUpdated", NOW, NOW),
        ),
    ],
)
def test_progress(case, deployment, found, created, expected):
    condition = progress(deployment, [found], found, created=created)
    fields = ("status", "reason", "lastUpdateTime", "lastTransitionTime")
    assert tuple(condition[field] for field in fields) == expected, case


def test_without_a_revision_there_is_no_progress():
    assert progress(made(), [], None) is None


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (1, ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")),
        (2, ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")),
    ],
)
def test_availability(least, expected):
    found = deployment_status(made(), RolloutState([NEW], NEW, least_available=least), EPOCH)
    condition = next(c for c in found["conditions"] if c["type"] == "Available")
    assert (condition["status"], condition["reason"], condition["message"]) == expected


def test_counts_are_sums_over_the_replica_sets():
    old = replica_set("old", replicas=1, ready=1, actual=2)
    found = deployment_status(made(), RolloutState([old, NEW], NEW, least_available=1), EPOCH)
    assert {k: v for k, v in found.items() if k != "conditions"} == {
        "observedGeneration": 3,
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "unavailableReplicas": 1,
        "terminatingReplicas": 0,
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, None),
        ({"conditions": [progressing("ReplicaSetUpdated", updated=NOW)]}, EPOCH + 601),
        ({"conditions": [progressing("NewReplicaSetAvailable", updated=NOW)]}, None),
        ({"conditions": [progressing("ProgressDeadlineExceeded", updated=NOW)]}, None),
    ],
)
def test_when_to_look_for_a_stall(status, expected):
    assert progress_due_s(made(status=status)) == expected
