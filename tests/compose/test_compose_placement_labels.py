"""Labels of a cluster's placement reach replicas, and from there endpoints."""

from modelplane.compose.contract import Local, Observed
from modelplane.compose.placement_labels import with_placement_labels
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Cluster

FLEET = Fleet.of([Cluster(name="east", placement_labels={"region": "eu", "app": "mine"})])


def stamped(cluster, labels, seen=None):
    target = Local({"kind": "ModelReplica", "metadata": {"name": "r", "labels": labels}, "spec": {}})
    observed = None if seen is None else Observed(Local({"metadata": {"labels": seen}}), ready=True)
    made = with_placement_labels(target, cluster, FLEET, observed).manifest
    assert (made["kind"], made["metadata"]["name"], made["spec"]) == ("ModelReplica", "r", {})
    return made["metadata"]["labels"]


def test_a_replica_gets_the_labels_of_its_cluster_and_its_own_win():
    assert stamped("east", {"app": "qwen"}) == {"app": "qwen", "region": "eu"}
    assert stamped("east", {}) == {"app": "mine", "region": "eu"}


def test_labels_that_the_cluster_no_longer_has_go():
    assert stamped("east", {"app": "qwen"}, {"region": "eu", "tier": "old"}) == {"app": "qwen", "region": "eu"}


def test_labels_stay_while_the_cluster_is_not_known():
    assert stamped("gone", {"app": "qwen"}, {"app": "old", "region": "eu"}) == {"app": "qwen", "region": "eu"}
    assert stamped("gone", {"app": "qwen"}) == {"app": "qwen"}
