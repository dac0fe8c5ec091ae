"""The fleet's objects as metric families, whole values."""

import re

import pytest

from modelplane.views.fleet_metrics import FLEET_METRICS, fleet_metrics
from modelplane.views.inputs import gather

API = "modelplane.ai/v1alpha1"
GPU = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
POOL = ("east", "h200", "h200-8x")


def condition(kind, status="True", reason="Available"):
    return {"type": kind, "status": status, "reason": reason}


CONNECTED = (condition("Ready"), condition("ClusterReady", reason="ClusterRunning"))


def cluster(name, *, devices=(), conditions=CONNECTED, lost=None, price="80", status=(), **pool):
    priced = {"pricePerNodeHour": price, "currency": "USD"} if price else {}
    shown = {"name": "h200", "className": "h200-8x", "nodes": 2, "devices": list(devices), **priced, **pool}
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {"cluster": {"source": "Existing"}, "nodePools": []},
        "status": {
            "conditions": list(conditions),
            "gpuPools": [shown],
            **({} if lost is None else {"lostDevices": lost}),
            **dict(status),
        },
    }


def replica(name, *conditions, where="east", nodes=1, **metadata):
    member = {
        "role": "Leader",
        "nodes": nodes,
        "nodePoolName": "h200",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "spec": {
            "clusterName": where,
            "index": int(name.rpartition("-")[2]),
            "deployment": {"name": name.rpartition("-")[0], "uid": "u"},
            "engines": [{"name": "main", "members": [member]}],
        },
        "status": {"conditions": list(conditions)},
    }


def deployment(name, replicas, ready):
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team", "uid": "u"},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready},
    }


def cache(name, *clusters):
    return {
        "apiVersion": API,
        "kind": "ModelCache",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"source": "S3"},
        "status": {"clusters": list(clusters)},
    }


EAST = cluster("east", devices=[{**GPU, "allocated": 4, "heldByOthers": 1, "missing": 1, "free": 10}])


def values(*manifests):
    """By the short name, only the families with a series."""
    found = fleet_metrics(gather(manifests))
    assert [family.spec for family in found] == list(FLEET_METRICS)
    return {f.spec.name.removeprefix("modelplane_"): dict(f.values) for f in found if f.values}


def test_a_fleet_without_objects_has_families_and_no_series():
    assert values() == {}


def test_a_fleet_whole():
    found = values(
        EAST,
        deployment("chat", 3, 1),
        replica("chat-0", condition("Ready")),
        replica("chat-1", condition("Ready", "False"), condition("WorkloadReady", "False", "ImagePullFailed")),
        cache(
            "weights",
            {"name": "east", "phase": "Ready", "stagedBytes": 90, "totalBytes": 90},
            {"name": "west", "phase": "Hydrating", "stagedBytes": 30},
        ),
    )
    assert found == {
        "replicas_desired": {("team", "chat"): 3},
        "replicas_placed": {("team", "chat"): 2},
        "replicas_ready": {("team", "chat"): 1},
        "replicas_not_ready": {("team", "chat", "ImagePullFailed"): 1},
        "replica_gpus": {("team", "chat", "east"): 4},
        "cluster_gpus_allocatable": {POOL: 15},
        "cluster_gpus_held": {(*POOL, "replicas"): 4, (*POOL, "others"): 1},
        "cluster_gpus_free": {POOL: 10},
        "cluster_gpus_missing": {POOL: 1},
        "cluster_nodes": {POOL: 2},
        "cluster_connected": {("east",): 1.0},
        "cluster_ready": {("east",): 1.0},
        "cluster_faulty_replicas": {("east",): 0},
        "cluster_cost_per_hour": {(*POOL, "USD"): 160.0},
        "deployment_cost_per_hour": {("team", "chat", "USD"): 40.0},
        "cache_ready": {("team", "weights", "east"): 1.0, ("team", "weights", "west"): 0.0},
        "cache_staged_bytes": {("team", "weights", "east"): 90, ("team", "weights", "west"): 30},
        "cache_size_bytes": {("team", "weights", "east"): 90},
    }


def test_agents_collectors_faulty_devices_and_software_of_clusters():
    lost = condition("AgentConnected", "False", "AgentDisconnected")
    sends = condition("TelemetryReady", "True", "CollectorRunning")
    faulty = [{"replica": "d1", "message": "XID 79"}, {"replica": "d2", "message": "XID 79"}]
    found = values(
        cluster("east", conditions=(*CONNECTED, lost, sends)),
        cluster("west", status={"faultyReplicas": faulty, "software": {"phase": "Waiting"}}),
        cluster("north", conditions=(*CONNECTED, condition("AgentConnected")), status={"software": {}}),
    )
    assert {name: rows for name, rows in found.items() if name in OF_STATUS} == {
        "cluster_agent_connected": {("east",): 0.0, ("north",): 1.0},
        "cluster_telemetry_ready": {("east",): 1.0},
        "cluster_faulty_replicas": {("east",): 0, ("west",): 2, ("north",): 0},
        "cluster_software_phase": {("west", "Waiting"): 1.0},
    }


OF_STATUS = {"cluster_agent_connected", "cluster_telemetry_ready", "cluster_faulty_replicas", "cluster_software_phase"}


@pytest.mark.parametrize(
    ("conditions", "lost", "connected"),
    [
        ((), None, 0.0),
        ((condition("ClusterReady", "False", "WaitingForCluster"),), None, 0.0),
        ((condition("ClusterReady", "Unknown", "Unresolved"),), None, 0.0),
        ((condition("ClusterReady", "False", "ClusterLost"),), 14, 0.0),
        (CONNECTED, 14, 0.0),
        ((condition("ClusterReady", "False", "ClassMissing"),), None, 1.0),
        (CONNECTED, None, 1.0),
    ],
)
def test_a_cluster_is_connected_while_it_answers(conditions, lost, connected):
    assert values(cluster("east", conditions=conditions, lost=lost))["cluster_connected"] == {("east",): connected}


def test_devices_of_a_cluster_that_does_not_answer_are_not_free():
    held = [{**GPU, "allocated": 4, "free": 0}]
    found = values(cluster("east", devices=held, lost=12))
    assert (found["cluster_gpus_allocatable"], found["cluster_gpus_free"]) == ({POOL: 16}, {POOL: 0})


def test_what_is_not_known_has_no_series():
    shared = [{**GPU, "allocated": 4, "free": 4, "allowMultipleAllocations": True}]
    found = values(cluster("east", devices=shared, price=None), deployment("chat", 1, 0), replica("chat-0"))
    assert found["cluster_gpus_held"] == {(*POOL, "others"): 0}
    assert {"cluster_cost_per_hour", "deployment_cost_per_hour"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("conditions", "metadata", "reason"),
    [
        ((), {}, "Starting"),
        ((condition("CachesReady", "False", "CacheStaging"), condition("RouteReady", "False")), {}, "CacheStaging"),
        ((condition("Accepted"), condition("RouteReady", "Unknown", "RoutePending")), {}, "RoutePending"),
        ((condition("WorkloadReady", "False", "whatever a cluster says"),), {}, "Other"),
        ((condition("Ready"),), {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Deleting"),
    ],
)  # fmt: skip
def test_a_replica_that_does_not_serve_counts_by_its_first_failing_stage(conditions, metadata, reason):
    assert values(replica("chat-0", *conditions, **metadata))["replicas_not_ready"] == {("team", "chat", reason): 1}


def test_gangs_are_replicas_of_several_nodes():
    found = values(
        replica("one-0", condition("WorkloadReady", "False")),
        replica("two-0", condition("WorkloadReady", "False"), nodes=2),
        replica("two-1", nodes=2),
        replica("whole-0", condition("WorkloadReady"), nodes=4),
    )
    assert found["gang_incomplete"] == {("team", "two"): 2, ("team", "whole"): 0}


def test_a_replica_with_one_engine_of_several_nodes_is_a_gang():
    split = replica("split-0", nodes=2)
    (decode,) = split["spec"]["engines"]
    prefill = {"name": "prefill", "members": [{**decode["members"][0], "nodes": 1}]}
    split["spec"]["engines"].append(prefill)
    assert values(split)["gang_incomplete"] == {("team", "split"): 1}


def test_a_broken_object_hides_no_other():
    broken = {"apiVersion": API, "kind": "ModelReplica", "metadata": {"name": "b", "namespace": "team"}, "spec": 5}
    found = values(EAST, broken, deployment("chat", 1, 1), replica("chat-0", condition("Ready")))
    assert found["replicas_placed"] == {("team", "chat"): 1}


def test_names_and_units_are_those_of_openmetrics():
    for spec in FLEET_METRICS:
        assert re.fullmatch(r"modelplane_[a-z]+(_[a-z]+)*", spec.name)
        assert spec.unit == "" or spec.name.endswith(f"_{spec.unit}")
        assert spec.help.endswith(".")
        assert not spec.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert len({spec.name for spec in FLEET_METRICS}) == len(FLEET_METRICS)


def test_labels_are_names_of_what_people_create_and_words_of_closed_sets():
    known = {"namespace", "deployment", "cluster", "pool", "class", "cache", "currency", "holder", "reason", "phase"}
    assert {label for spec in FLEET_METRICS for label in spec.labels} == known
