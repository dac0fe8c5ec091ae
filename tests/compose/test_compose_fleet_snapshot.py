"""Objects as placement sees them."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.meta import Key
from modelplane.api.models import InferenceCluster
from modelplane.compose.fleet_snapshot import cluster_of, epoch_s, fleet_of
from modelplane.placement.values import BoundPods, Effect, NamespaceQueues, Packing, PlacementTaint, Price, QueueInfo

READY = {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 3}
DOWN = {**READY, "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
MISSING_CLASS = {**DOWN, "type": "ClusterReady", "reason": "ClassMissing"}
GATEWAY_RUNS = {**READY, "type": "GatewayReady", "reason": "GatewayRunning"}
GATEWAY_FAILS = {
    **GATEWAY_RUNS,
    "status": "False",
    "reason": "WaitingForCluster",
    "lastTransitionTime": "2026-01-01T00:01:00Z",
}
EARLY = "2025-12-31T23:00:00Z"
UNTIMED = {**DOWN, "reason": "ClusterLost", "lastTransitionTime": None}
SILENT = {"status": "Unknown", "reason": "AgentUnknown"}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}


def test_a_cluster_that_was_made_long_ago_and_lost_its_status_is_not_known_to_fail():
    manifest = {
        "metadata": {"name": "east", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}, "nodePools": []},
    }
    found = cluster_of(decode(InferenceCluster, manifest))
    assert (found.ready, found.unready_since) == (False, None)


def read(*, conditions=(READY,), address="192.0.2.1", spec=None, pool=None, declared=None, status=None, metadata=None):
    manifest = {
        "metadata": {"name": "east", "generation": 3, "labels": {"region": "east"}, **(metadata or {})},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 4, **(declared or {})}],
            **(spec or {}),
        },
        "status": {
            "conditions": list(conditions),
            "gateway": {"address": address} if address else {},
            "gpuPools": [{"name": "gpus", "nodes": 4, "devices": [GPU], **(pool or {})}],
            **(status or {}),
        },
    }
    return cluster_of(decode(InferenceCluster, manifest))


@pytest.mark.parametrize(
    ("found", "ready", "since"),
    [
        pytest.param({}, True, None, id="ready"),
        pytest.param({"address": ""}, False, None, id="no address"),
        pytest.param({"conditions": [{**READY, "observedGeneration": 2}]}, False, None, id="of an older generation"),
        pytest.param({"conditions": [DOWN]}, False, 1767225600.0, id="not ready since then"),
        pytest.param({"conditions": [GATEWAY_RUNS, READY]}, True, None, id="ready, by the last condition"),
        pytest.param({"conditions": [{**DOWN, "lastTransitionTime": None}]}, False, None, id="since when is not known"),
        pytest.param({"conditions": []}, False, None, id="never said"),
        pytest.param(
            {"conditions": [DOWN, MISSING_CLASS, GATEWAY_RUNS]},
            False,
            None,
            id="only a class is missing: no grace runs",
        ),
        pytest.param(
            {"conditions": [DOWN, {**DOWN, "type": "ClusterReady", "reason": "ClusterLost"}, GATEWAY_FAILS]},
            False,
            1767225600.0,
            id="both fail: since the first of them",
        ),
        pytest.param(
            {
                "conditions": [
                    DOWN,
                    {**GATEWAY_RUNS, "type": "ClusterReady", "lastTransitionTime": EARLY},
                    GATEWAY_FAILS,
                ]
            },
            False,
            1767225660.0,
            id="the gateway fails since then, and the cluster runs for longer",
        ),
        pytest.param(
            {"conditions": [DOWN, {**UNTIMED, "type": "ClusterReady"}, GATEWAY_FAILS]},
            False,
            1767225660.0,
            id="both fail, one since an unknown time",
        ),
        pytest.param(
            {"conditions": [DOWN, MISSING_CLASS, GATEWAY_FAILS]},
            False,
            1767225660.0,
            id="a class is missing and the gateway fails since then",
        ),
        pytest.param(
            {"conditions": [DOWN, {**DOWN, "type": "ClusterReady", "reason": "AgentDisconnected"}, GATEWAY_RUNS]},
            False,
            1767225600.0,
            id="the agent left",
        ),
        pytest.param(
            {"conditions": [DOWN, *({**DOWN, "type": kind, **SILENT} for kind in ("ClusterReady", "GatewayReady"))]},
            False,
            None,
            id="the hub is silent: no grace runs",
        ),
    ],
)
def test_whether_a_cluster_is_ready_and_since_when_it_is_not(found, ready, since):
    read_cluster = read(**found)
    assert (read_cluster.ready, read_cluster.unready_since) == (ready, since)


HELD = {"type": "Deletable", "status": "False", "reason": "InUse", "message": "in use by ModelReplica r"}
DELETING = {**DOWN, "reason": "Deleting", "message": "waiting for the deletion of 1 object"}
LEAVES = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("found", "deletion"),
    [
        pytest.param({}, "", id="it stays"),
        pytest.param({"conditions": [READY, {**HELD, "status": "True"}]}, "", id="it could be deleted"),
        pytest.param({"conditions": [READY, HELD]}, HELD["message"], id="Crossplane refused its deletion"),
        pytest.param({"conditions": [DELETING, HELD], "metadata": LEAVES}, HELD["message"], id="others use it"),
        pytest.param({"conditions": [DELETING], "metadata": LEAVES}, DELETING["message"], id="its objects are left"),
        pytest.param({"metadata": LEAVES}, "its objects are deleted", id="it says nothing yet"),
        pytest.param(
            {"conditions": [], "metadata": LEAVES}, "its objects are deleted", id="it has never said anything"
        ),
        pytest.param(
            {"conditions": [{**DOWN, "message": "no address"}], "metadata": LEAVES},
            "its objects are deleted",
            id="it says something else",
        ),
    ],
)
def test_what_the_deletion_of_a_cluster_waits_for(found, deletion):
    assert read(**found).deletion == deletion


@pytest.mark.parametrize(
    ("pool", "declared", "expected"),
    [
        pytest.param({}, {}, (4, None), id="declared"),
        pytest.param({"observedNodes": 3}, {}, (3, None), id="fewer are there"),
        pytest.param({}, {"maxNodeCount": 9, "nodeCount": 2}, (4, 2), id="scales, two to begin with"),
        pytest.param({"observedNodes": 3}, {"maxNodeCount": 9}, (4, 3), id="scales, three are there"),
        pytest.param({"observedNodes": 4}, {"maxNodeCount": 9}, (4, None), id="scales, all are there"),
        pytest.param({"observedNodes": 0}, {}, (0, None), id="none is there"),
    ],
)
def test_nodes_that_may_be_counted_on(pool, declared, expected):
    (found,) = read(pool=pool, declared=declared).pools
    assert (found.nodes, found.nodes_now) == expected


@pytest.mark.parametrize(
    ("pool", "declared", "meant"),
    [
        pytest.param({"observedNodes": 4}, {}, None, id="all are there"),
        pytest.param({"nodes": 3, "observedNodes": 3}, {}, 4, id="one is away"),
        pytest.param({"observedNodes": 1}, {"maxNodeCount": 4}, None, id="scales"),
    ],
)
def test_nodes_that_a_pool_should_have(pool, declared, meant):
    assert read(pool=pool, declared=declared).pools[0].desired_nodes == meant


def test_one_object_that_cannot_be_read_is_in_the_fleet_with_its_fault():
    broken = {"metadata": {"name": "east"}, "status": {"gpuPools": [{"name": "gpus", "nodes": "two"}]}}
    owner = {"name": "chat", "uid": "u"}
    replica = {
        "metadata": {"name": "r", "namespace": "team", "creationTimestamp": EARLY},
        "spec": {"clusterName": "east", "index": 2, "deployment": owner, "engines": "none"},
    }
    cache = {"metadata": {"name": "weights", "namespace": "team"}, "spec": {"clusterSelector": 7}}
    fleet = fleet_of([broken, {"metadata": {}}, 7], [replica, {"spec": {}}], [{"metadata": "?"}, cache])
    assert [(*key, found.staged) for key, found in fleet.caches.items()] == [("team", "weights", frozenset())]
    assert "clusterSelector" in fleet.caches["team", "weights"].fault
    (cluster,), (holding,) = fleet.clusters, fleet.replicas
    assert (cluster.name, cluster.ready, cluster.unready_since, cluster.pools) == ("east", False, None, ())
    assert (bool(cluster.fault), cluster.hardware_known) == (True, False)
    assert (holding.id, holding.assignments, holding.serving) == ((Key("team", "chat", "u"), "east", 2), (), True)
    assert ("engines" in holding.fault, holding.created) == (True, EARLY)


def test_a_replica_with_an_engine_without_members_is_in_the_fleet_with_its_fault():
    spec = {"clusterName": "east", "index": 0, "engines": [{"name": "main", "members": []}]}
    (replica,) = fleet_of([], [{"metadata": {"name": "r", "namespace": "team"}, "spec": spec}]).replicas
    assert (replica.fault, replica.serving) == ("spec.engines: engine main has no members", True)


def test_a_replica_that_cannot_be_read_and_has_no_index_is_the_first():
    broken = {"metadata": {"name": "r", "namespace": "team"}, "spec": {"clusterName": "east", "engines": "none"}}
    (replica,) = fleet_of([], [broken]).replicas
    assert (replica.index, bool(replica.fault)) == (0, True)


TWO_POOLS = [{"name": name, "className": "h200", "nodeCount": 4} for name in ("gpus", "more")]


def test_pools_that_are_declared_and_not_published():
    assert read(spec={"nodePools": TWO_POOLS}).unpublished_pools == ("more",)


@pytest.mark.parametrize("left", [{"drain": {}}, {"taints": [{"key": "k", "effect": "NoExecute"}]}])
@pytest.mark.parametrize("others", [[], TWO_POOLS[1:]], ids=["the only pool", "one of two pools"])
def test_replicas_leave_a_pool(left, others):
    (pool,) = read(spec={"nodePools": [{**TWO_POOLS[0], **left}, *others]}).pools
    assert [taint.effect for taint in pool.taints] == [Effect.NO_EXECUTE]


@pytest.mark.parametrize(
    ("placement", "labels"),
    [({"metadata": {"labels": {"region": "west"}}}, {"region": "west"}), ({"metadata": {}}, {}), ({}, {}), (None, {})],
)
def test_labels_that_placement_reads(placement, labels):
    assert read(spec={"placement": placement}).placement_labels == labels


@pytest.mark.parametrize("pools", [[], [{"name": "gpus", "nodes": 2}], [{"name": "gpus", "nodes": 2, "devices": []}]])
def test_a_pool_that_is_published_without_devices_is_not_published(pools):
    spec = {"cluster": {"source": "Existing"}, "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 2}]}
    item = {"metadata": {"name": "east"}, "spec": spec, "status": {"gpuPools": pools}}
    found = cluster_of(decode(InferenceCluster, item))
    assert (found.pools, found.unpublished_pools) == ((), ("gpus",))


@pytest.mark.parametrize(
    ("found", "known"),
    [
        pytest.param({}, True, id="the status names no class"),
        pytest.param({"pool": {"className": "h200"}}, True, id="its class"),
        pytest.param({"pool": {"className": "h200"}, "conditions": [DOWN]}, True, id="its class, and not ready"),
        pytest.param({"pool": {"className": "h100"}}, False, id="another class was declared since"),
        pytest.param({"pool": {"devices": []}}, False, id="a pool without devices"),
        pytest.param({"status": {"gpuPools": []}}, False, id="no status"),
        pytest.param({"spec": {"nodePools": []}, "status": {"gpuPools": []}}, True, id="no pools are declared"),
    ],
)
def test_whether_the_hardware_of_a_cluster_is_known(found, known):
    assert read(**found).hardware_known is known


def test_prices_taints_and_what_strangers_hold():
    taint = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    held = {"pricePerNodeHour": "84.80", "currency": "EUR", "shortSince": "2026-01-01T00:00:00Z"}
    held["devices"] = [{**GPU, "allocated": 5, "heldByOthers": 2, "missing": 1}]
    (found,) = read(pool=held, declared={"taints": [taint]}).pools
    assert found.price == Price(84.8, "EUR")
    assert read(pool={"pricePerNodeHour": "84.80"}).pools[0].price == Price(84.8, "USD")
    assert found.taints == (PlacementTaint("team", "a", Effect.NO_EXECUTE, 1767225600.0),)
    assert (found.held_by_others, found.short_since) == ((("gpu", 3),), 1767225600.0)
    assert read(pool={"devices": [{**GPU, "allocated": 5}]}).pools[0].held_by_others == ()
    assert read(pool={"pricePerNodeHour": "dear"}).pools[0].price is None


def test_what_the_cluster_says_about_its_scheduling():
    scheduling = {
        "packing": "BinPack",
        "queue": "serving",
        "defaultPriority": "silver",
        "priorities": [{"name": "silver", "value": 5}],
    }
    queues = [{"name": "other", "quota": 1}, {"name": "serving", "quota": 16, "used": 4}]
    found = read(
        spec={"scheduling": scheduling, "quotas": [{"namespace": "*", "devices": 8}], "cordoned": True},
        status={"queues": queues},
    )
    assert (found.packing, found.queue) == (Packing.BIN_PACK, QueueInfo("serving", 16, 4))
    apart = read(spec={"scheduling": scheduling}, status={"queues": [{**queues[1], "usedByOthers": 1}]})
    assert apart.queue == QueueInfo("serving", 16, 1)
    assert (found.priorities, found.default_priority) == ((("silver", 5),), "silver")
    assert (found.priority_value(None), found.priority_value("gold")) == (5, 0)
    assert (found.quota_of("anyone"), found.cordoned, found.deletion) == (8, True, "")


@pytest.mark.parametrize(
    ("queues", "complete"),
    [
        ([{"name": "team", "quota": 8, "used": 2}, {"name": "free"}], True),
        ([{"name": "team", "quota": 8}], True),
        ([], False),
        ([{"name": f"q{at}", "quota": 1} for at in range(256)], False),
    ],
    ids=["some", "one", "not read", "as many as a status lists"],
)
def test_queues_of_namespaces_are_those_that_limit(queues, complete):
    found = read(spec={"scheduling": {"type": "KAI", "queue": "{{ .Namespace }}"}}, status={"queues": queues})
    limiting = tuple(QueueInfo(each["name"], each["quota"], each.get("used", 0)) for each in queues if "quota" in each)
    assert found.namespace_queues == NamespaceQueues("{{ .Namespace }}", limiting, complete=complete)
    assert found.queue is None


def test_where_pods_are():
    pods = [{"pool": "h200", "node": "n1", "devices": 2, "pods": 3, "replica": "r-1"}]
    theirs = [{"pool": "h200", "node": "n2", "devices": 1, "device": "gpu"}]
    assert read(status={"boundPods": [*pods, *theirs]}).bound == (
        BoundPods("h200", "n1", 2, 3, "r-1"),
        BoundPods("h200", "n2", 1, 1, device="gpu"),
    )


def test_equal_pools_of_different_clusters_are_one_value():
    assert read().pools[0] is read().pools[0]
    counted = read(pool={"devices": [{**GPU, "allocated": 5, "free": 3}]})
    assert counted.pools[0] is read().pools[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("", None), ("soon", None), ("1970-01-01T00:00:10Z", 10.0), ("1970-01-01T00:00:10", 10.0)],
)
def test_moments(text, expected):
    assert epoch_s(text) == expected
