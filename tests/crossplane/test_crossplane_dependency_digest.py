"""A replica depends on what it is made from, and on nothing else of its cluster."""

import pytest

from modelplane.crossplane import dependency_digest
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import NamespaceQueues, Packing, QueueInfo
from modelplane.testing.fleets import cluster, key, pool, replica, taint

CLUSTER = {
    "spec": {"backend": {"type": "Native"}, "crossplane": {"resourceRefs": [{"name": "a"}]}},
    "status": {"gateway": {"address": "192.0.2.1"}},
}


def changed(**spec):
    return {**CLUSTER, "spec": {**CLUSTER["spec"], **spec}}


def with_agent(status, message=""):
    condition = {"type": "AgentConnected", "status": status, "reason": "Agent", "message": message}
    return {**CLUSTER, "status": {**CLUSTER["status"], "conditions": [condition]}}


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (changed(), False),
        (changed(crossplane={"resourceRefs": [{"name": "a"}, {"name": "b"}]}), False),
        (changed(cordoned=True), False),
        (changed(backend={"type": "KServe"}), True),
        ({**CLUSTER, "status": {"gateway": {"address": "192.0.2.2"}}}, True),
        (None, True),
        (with_agent("True", "connected, last heartbeat now"), False),
        (with_agent("False"), True),
        (with_agent("Unknown"), True),
    ],
)
def test_the_digest_of_a_replica_changes_with_what_it_is_made_from(after, changes):
    before, changed_to = (dependency_digest.of_replica(each, (), "east") for each in (CLUSTER, after))
    assert (before != changed_to) is changes


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},
        {"cordoned": True},
        {"labels": {"region": "east"}},
        {"pools": (pool(nodes=3),)},
        {"taints": (taint("team"),)},
        {"packing": Packing.BIN_PACK},
        {"quotas": (("team", 8),)},
        {"queue": QueueInfo("q", 8)},
        {"queue": QueueInfo("q", 8, others=1)},
        {"namespace_queues": NamespaceQueues("{{ .Namespace }}", (QueueInfo("team", 8),))},
    ],
    ids=str,
)
def test_a_deployment_that_waits_depends_on_all_that_decides_whether_it_fits(fields):
    before, after = Fleet.of([cluster("a")]), Fleet.of([cluster("a", **fields)])
    waiting = [dependency_digest.of_deployment(fleet, key(), waiting=True) for fleet in (before, after)]
    placed = [dependency_digest.of_deployment(fleet, key(), waiting=False) for fleet in (before, after)]
    assert waiting[0] != waiting[1]
    assert placed[0] == placed[1]


WELL = cluster("a")
DRAINED = taint("drain", "NoExecute")


@pytest.mark.parametrize(
    ("after", "held", "waiting", "changes"),
    [
        pytest.param(cluster("a", rendering=b"x"), True, False, False, id="what it can run: the replica says so"),
        pytest.param(cluster("a", rendering=b"x"), False, True, True, id="what it can run, while replicas wait"),
        pytest.param(cluster("a", taints=(DRAINED,)), True, False, True, id="a taint"),
        pytest.param(cluster("a", taints=(DRAINED,)), False, True, True, id="a taint, while replicas wait"),
        pytest.param(cluster("a", pool(taints=(DRAINED,))), True, False, True, id="a taint of a pool"),
        pytest.param(cluster("a", pool(taints=(DRAINED,))), False, False, False, id="of a cluster it is not on"),
    ],
)
def test_the_digest_of_a_deployment_changes_with_what_moves_its_replicas(after, held, waiting, changes):
    replicas = [replica("a")] if held else []
    one, other = (
        dependency_digest.of_deployment(Fleet.of([each], replicas), key(), waiting=waiting) for each in (WELL, after)
    )
    assert (one != other) is changes


def test_the_time_of_a_taint_counts():
    seen = (cluster("a", taints=(taint("drain", "NoExecute", since=since),)) for since in (None, 5.0))
    one, other = (
        dependency_digest.of_deployment(Fleet.of([each], [replica("a")]), key(), waiting=False) for each in seen
    )
    assert one != other


def _cache_cluster(**change):
    metadata = {"name": "east", "labels": {"tier": "a"}}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodes": 1}
    return {"metadata": metadata, "spec": {"storage": {}}, "status": status, **change}


def _mounting(key="k", name="w"):
    return {"metadata": {"name": "r"}, "spec": {"clusterName": "east", "caches": [{"name": name, "key": key}]}}


def _other(**entry):
    return {"metadata": {"name": "x"}, "spec": {}, "status": {"clusters": [{"name": "east", **entry}]}}


@pytest.mark.parametrize(
    ("clusters", "replicas", "others", "changes"),
    [
        ([_cache_cluster()], [_mounting()], [_other(phase="Hydrating", stagedBytes=2)], False),
        ([_cache_cluster(status={"conditions": [{"type": "Ready", "status": "True"}], "nodes": 9})], None, None, False),
        ([_cache_cluster(status={})], None, None, True),
        ([_cache_cluster(spec={"storage": {"storageClassName": "a"}})], None, None, True),
        (None, [_mounting(), _mounting(name="other")], None, False),
        (None, [_mounting("new")], None, True),
        (None, [_mounting() | {"status": {"reason": "CrashLooping", "since": "2027-01-15T08:00:00Z"}}], None, False),
        (None, [_mounting() | {"status": {"reason": "CacheIncomplete", "since": "2027-01-15T08:00:00Z"}}], None, True),
        (None, None, [_other(phase="Ready")], True),
    ],
)
def test_what_a_cache_depends_on(clusters, replicas, others, changes):
    usual = ([_cache_cluster()], [_mounting()], [_other(phase="Hydrating", stagedBytes=1)])
    given = [one if one is not None else other for one, other in zip((clusters, replicas, others), usual, strict=True)]
    digests = [dependency_digest.of_cache("w", *each) for each in (usual, given)]
    assert (digests[0] != digests[1]) is changes
