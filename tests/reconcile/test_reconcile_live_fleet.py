"""The fleet kept by listening: equal to the one built from the objects, and told of what frees room."""

import copy

import pytest

from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.reconcile.live_fleet import LiveFleet
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange

GROUP = "modelplane.ai"
CLUSTER = {
    "kind": "InferenceCluster",
    "metadata": {"name": "east", "generation": 1},
    "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 1}],
        "gateway": {"address": "192.0.2.1"},
        "gpuPools": [
            {
                "name": "gpus",
                "nodes": 2,
                "devices": [{"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8, "allocated": 0}],
            }
        ],
    },
}
REPLICA = {
    "kind": "ModelReplica",
    "metadata": {"name": "chat-0", "namespace": "team"},
    "spec": {
        "clusterName": "east",
        "deployment": {"name": "chat", "uid": "u"},
        "engines": [
            {
                "name": "main",
                "members": [
                    {
                        "role": "Standalone",
                        "nodePoolName": "gpus",
                        "deviceRequests": [{"name": "gpu", "deviceClassName": "c", "count": 8}],
                        "template": {"spec": {"containers": [{"name": "engine", "image": "i"}]}},
                    }
                ],
            }
        ],
    },
}
CACHE = {
    "kind": "ModelCache",
    "metadata": {"name": "w", "namespace": "team"},
    "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b"}},
    "status": {"clusters": [{"name": "east", "phase": "Ready"}]},
}


@pytest.fixture
def heard():
    """A live fleet, how to tell it of objects, and how often it said that room may have come."""
    woken = []
    live = LiveFleet(capacity_changed=lambda: woken.append(1))

    def tell(manifest, change=ChangeType.MODIFIED):
        metadata = manifest["metadata"]
        ref = ObjectRef(GROUP, manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        before = len(woken)
        live.apply(StoreChange(change, ref, manifest, None, 1))
        return len(woken) - before

    return live, tell


def uses(fleet):
    return {name: site.usages for name, site in fleet.infos.items()}


def test_it_is_the_fleet_that_the_objects_make(heard):
    live, tell = heard
    for manifest in (REPLICA, CLUSTER, CACHE):
        tell(manifest, ChangeType.ADDED)
    built = fleet_of([CLUSTER], [REPLICA], [CACHE])
    kept = live.snapshot()
    assert (uses(kept), list(kept.replicas), dict(kept.caches)) == (
        uses(built),
        list(built.replicas),
        dict(built.caches),
    )


def test_counts_that_a_cluster_carries_for_people_wake_nobody(heard):
    _, tell = heard
    assert tell(CLUSTER) == 1
    counted = copy.deepcopy(CLUSTER)
    counted["status"]["gpuPools"][0]["devices"][0] |= {"allocated": 8, "free": 8}
    counted["status"]["freeDevices"] = 8
    assert tell(counted) == 0
    grown = copy.deepcopy(CLUSTER)
    grown["status"]["gpuPools"][0]["nodes"] = 3
    assert tell(grown) == 1


def test_room_that_a_replica_leaves_wakes_those_who_wait(heard):
    live, tell = heard
    tell(CLUSTER)
    assert tell(REPLICA) == 0
    serving = copy.deepcopy(REPLICA)
    serving["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
    assert tell(serving) == 0
    assert [holding.serving for holding in live.snapshot().replicas] == [True]
    assert tell(serving, ChangeType.DELETED) == 1
    assert uses(live.snapshot()) == {"east": ((),)}


def test_a_replica_that_was_only_placed_holds_devices_and_preempts_nobody_until_it_is_observed(heard):
    live, tell = heard
    tell(CLUSTER)
    preemptor = copy.deepcopy(REPLICA)
    preemptor["spec"]["preempts"] = ["r-lower"]
    live.assume(ObjectRef(GROUP, "ModelReplica", "team", "chat-0"), preemptor)
    assert uses(live.snapshot()) == uses(fleet_of([CLUSTER], [REPLICA], []))
    assert [replica.preempts for replica in live.snapshot().replicas] == [()]
    assert tell(preemptor) == 1
    assert [replica.preempts for replica in live.snapshot().replicas] == [("r-lower",)]


def test_a_cache_that_is_staged_somewhere_else_wakes_those_who_wait(heard):
    live, tell = heard
    assert tell(CACHE) == 1
    assert tell(CACHE) == 0
    assert tell(CACHE, ChangeType.DELETED) == 1
    assert dict(live.snapshot().caches) == {}


def test_a_cluster_that_goes_is_gone(heard):
    live, tell = heard
    tell(CLUSTER)
    assert tell(CLUSTER, ChangeType.DELETED) == 1
    assert len(live.snapshot()) == 0


def test_other_kinds_are_none_of_its_business(heard):
    live, tell = heard
    before = live.snapshot()
    assert tell({"kind": "ModelService", "metadata": {"name": "chat", "namespace": "team"}}) == 0
    assert live.snapshot() is before
