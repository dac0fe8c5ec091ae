import pytest

from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.meta import ObjectMeta
from modelplane.api.models import ModelDeploymentStatus, ModelReplicaStatus
from modelplane.views.health import ObjectHealth, object_health, reported_health, state_since

SINCE = "2026-11-16T08:24:51Z"
HERE, LEAVING = ObjectMeta(name="x"), ObjectMeta(name="x", deletion_timestamp=SINCE)


def condition(kind, status, reason, message=""):
    return Condition(type=kind, status=ConditionStatus(status), reason=reason, message=message)


CREATING = condition("Ready", "False", "Creating", "Unready resources: replica-east-0")
HELD = condition("Deletable", "False", "InUse", "in use by ModelReplica chat-1")


@pytest.mark.parametrize(
    ("metadata", "conditions", "health"),
    [
        (HERE, [], ObjectHealth("Unknown", "nothing was decided yet")),
        (HERE, [condition("Ready", "True", "Available", "fine")], ObjectHealth("Ready", "")),
        (
            HERE,
            [condition("RouteReady", "True", "ProviderNotReached", "refused"), condition("Ready", "True", "Available")],
            ObjectHealth("Ready", "ProviderNotReached: refused"),
        ),
        (HERE, [condition("Ready", "False", "ClusterLost", "gone")], ObjectHealth("NotReady", "ClusterLost: gone")),
        (HERE, [condition("Ready", "Unknown", "Unresolved")], ObjectHealth("Unknown", "Unresolved")),
        (LEAVING, [condition("Ready", "True", "Available")], ObjectHealth("Deleting", "")),
        (LEAVING, [HELD, condition("Ready", "True", "X")], ObjectHealth("Deleting", f"InUse: {HELD.message}")),
        (LEAVING, [condition("Ready", "False", "Deleting", "w")], ObjectHealth("Deleting", "Deleting: w")),
        (HERE, [HELD], ObjectHealth("Deleting", f"InUse: {HELD.message}")),
    ],
)
def test_an_object_says_how_it_is(metadata, conditions, health):
    assert object_health(metadata, conditions) == health


@pytest.mark.parametrize(
    ("status", "health"),
    [
        (
            ModelReplicaStatus(conditions=(CREATING,), reason="ImagePullFailed", message="i: not found", since=SINCE),
            ObjectHealth("NotReady", f"ImagePullFailed: i: not found (since {SINCE})"),
        ),
        (
            ModelDeploymentStatus(conditions=(CREATING,), reason="ClusterLost", message="2 of 4 lost"),
            ObjectHealth("NotReady", "ClusterLost: 2 of 4 lost"),
        ),
        (
            ModelReplicaStatus(conditions=(CREATING,), reason="Serving"),
            ObjectHealth("NotReady", f"Creating: {CREATING.message}"),
        ),
        (
            ModelReplicaStatus(conditions=(condition("Ready", "True", "X"),), reason="Serving"),
            ObjectHealth("Ready", ""),
        ),
        (ModelReplicaStatus(reason="LoadingWeights"), ObjectHealth("Unknown", "LoadingWeights")),
    ],
)
def test_a_status_with_a_reason_of_its_own_comes_first(status, health):
    assert reported_health(HERE, status) == health


AT = "2026-11-16T08:00:00Z"


def timed(kind, status):
    return Condition(type=kind, status=ConditionStatus(status), reason="R", last_transition_time=AT)


@pytest.mark.parametrize(
    ("metadata", "conditions", "since"),
    [
        (HERE, [], ""),
        (HERE, [condition("Ready", "True", "Available")], ""),
        (HERE, [timed("Accepted", "True"), timed("Ready", "False")], AT),
        (HERE, [timed("Deletable", "False"), condition("Ready", "True", "Available")], AT),
        (HERE, [condition("Deletable", "True", "Free"), timed("Ready", "True")], AT),
        (LEAVING, [timed("Ready", "True")], SINCE),
    ],
)
def test_an_object_says_since_when(metadata, conditions, since):
    assert state_since(metadata, conditions) == since
