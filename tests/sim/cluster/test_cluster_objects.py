import pytest

from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.objects import (
    annotated,
    controller_ref,
    controller_reference,
    merged_conditions,
    seconds_of,
    selector_matches,
)

EPOCH = 1_750_000_000.0
NOW = "2025-06-15T15:06:40Z"


def test_a_transition_is_a_change_of_status():
    known = [
        {"type": "Ready", "status": "False", "reason": "Old", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "Other", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
    ]
    wanted = [
        {"type": "Ready", "status": "False", "reason": "New"},
        {"type": "Fresh", "status": "True"},
    ]
    assert merged_conditions(known, wanted, EPOCH) == [
        {"type": "Ready", "status": "False", "reason": "New", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "Other", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "Fresh", "status": "True", "lastTransitionTime": NOW},
    ]
    turned = merged_conditions(known, [{"type": "Ready", "status": "True"}], EPOCH)
    assert turned[0] == {"type": "Ready", "status": "True", "lastTransitionTime": NOW}


def test_moments_are_read_as_kubernetes_writes_them():
    assert seconds_of(NOW) == EPOCH
    assert seconds_of("None") == 0.0


def test_a_controller_is_found_by_its_reference():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "uid": "u1"}}
    reference = controller_reference(owner)
    assert reference == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "ownerReferences": [reference]}}
    assert controller_ref(pod) == ObjectRef("apps", "ReplicaSet", "a", "web-1")
    assert controller_ref({"metadata": {"ownerReferences": [{**reference, "controller": False}]}}) is None


def test_annotations_come_and_go():
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "1"}}}
    assert annotated(item, "b", "2")["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert annotated(item, "a", None)["metadata"]["annotations"] == {}
    assert ref_of(item) == ObjectRef("", "Pod", "", "p")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, False),
    ],
)
def test_label_selectors(selector, expected):
    assert selector_matches(selector, {"a": "1"}) is expected
