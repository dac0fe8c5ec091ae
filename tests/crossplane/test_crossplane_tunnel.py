"""Under Crossplane a tunnel breaks: the provider reads nothing, and everything that is desired stays desired."""

import copy
import json

import pytest

from modelplane.crossplane.calls import FunctionCall, answer
from tests.support import settled

UNREAD = "observe failed: cannot get object: the agent of cluster east is not connected"
REFUSED = "observe failed: cannot get object: dial tcp 10.0.0.1:8444: connect: connection refused"
GONE = {"connected": False, "since": settled.NOW, "heartbeat": settled.NOW}
SILENT = {"connected": True, "since": settled.NOW - 900, "heartbeat": settled.NOW - 900}
AGENT = {"source": "Existing", "existing": {"secretRef": {"name": "east-kubeconfig"}, "connection": "Agent"}}
CASES = pytest.mark.parametrize(
    ("written", "words", "status", "reason"),
    [(GONE, UNREAD, "False", "AgentDisconnected"), (SILENT, REFUSED, "Unknown", "AgentUnknown")],
    ids=["the agent left", "the hub is gone"],
)


def unread(composed, words):
    """What provider-kubernetes writes; what it read last stays."""
    found = copy.deepcopy(dict(composed))
    for item in found.values():
        if item["kind"] == "Object":
            others = [each for each in item["status"]["conditions"] if each["type"] != "Synced"]
            failing = {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": words}
            item["status"]["conditions"] = [*others, failing]
    return found


def declared(cluster, written=None, conditions=()):
    made = copy.deepcopy(cluster)
    made["spec"]["cluster"] = AGENT
    made["metadata"]["annotations"] = {"modelplane.ai/agent": json.dumps(written)} if written else {}
    made["status"]["conditions"] = [*made["status"]["conditions"], *conditions]
    return made


def conditions_of(result):
    return {each.type: (str(each.status), each.reason) for each in result.conditions}


def manifests(result):
    return {key: item.manifest for key, item in result.resources.items()}


@CASES
def test_a_cluster_keeps_what_it_desires(written, words, status, reason):
    state = settled.cluster("None", "ab")
    whole = answer(FunctionCall(declared(state.composite, {**GONE, "connected": True}), *given(state)), settled.NOW)
    assert conditions_of(whole)["ClusterReady"] == ("True", "ClusterRunning")
    composed = unread(state.composed, words)
    result = answer(FunctionCall(declared(state.composite, written), composed, state.required), settled.NOW)
    assert manifests(result) == manifests(whole)
    told = conditions_of(result)
    assert {told[kind] for kind in ("AgentConnected", "ClusterReady", "GatewayReady")} == {(status, reason)}
    assert (result.ready, result.status["gateway"]) == (False, whole.status["gateway"])


def given(state):
    return state.composed, state.required


@CASES
@pytest.mark.parametrize("shape", [("single-gpu", "native"), ("kimi-k2-5p3d", "pool")], ids="-".join)
def test_a_replica_is_unknown_and_keeps_its_objects(shape, written, words, status, reason):
    del written
    state = settled.replica(*shape)
    connected = {"type": "AgentConnected", "status": status, "reason": reason, "message": "m"}
    cluster = declared(state.required["cluster"][0], conditions=[connected])
    required = {**state.required, "cluster": (cluster,)}
    whole = answer(FunctionCall(state.composite, state.composed, required), settled.NOW)
    assert conditions_of(whole)["WorkloadReady"] == ("True", "WorkloadAvailable")
    result = answer(FunctionCall(state.composite, unread(state.composed, words), required), settled.NOW)
    assert manifests(result) == manifests(whole)
    told = conditions_of(result)
    assert (told["WorkloadReady"], told["RouteReady"]) == (("Unknown", reason), ("Unknown", reason))


@pytest.mark.parametrize(
    ("status", "reason", "minutes", "stays"),
    [
        ("False", "AgentDisconnected", 4, True),
        ("False", "AgentDisconnected", 6, True),
        ("Unknown", "AgentUnknown", 600, True),
        ("False", "ClusterLost", 4, False),
    ],
)
def test_endpoints_of_replicas_behind_a_broken_tunnel_stay(status, reason, minutes, stays):
    """After the grace period a successor is placed, and the replica stays until that one serves."""
    state = settled.deployment("bc", 2, 8)
    since = {"lastTransitionTime": "2026-01-01T23:00:00Z", "status": status, "reason": reason, "message": "m"}
    now = settled.NOW - 3600 + minutes * 60
    composed, required = copy.deepcopy(dict(state.composed)), copy.deepcopy(dict(state.required))
    behind = {
        key for key, item in composed.items() if item["kind"] == "ModelReplica" and item["spec"]["clusterName"] == "b"
    }
    unknown = {**since, "status": "False" if reason == "ClusterLost" else "Unknown"}
    for key in behind:
        composed[key]["status"]["conditions"] = [{"type": kind, **unknown} for kind in ("WorkloadReady", "RouteReady")]
    for cluster in required["clusters"]:
        if cluster["metadata"]["name"] == "b":
            cluster["status"]["conditions"] = [{"type": kind, **since} for kind in ("Ready", "ClusterReady")]
    required["replicas"] = settled.replicas_of(composed)
    result = answer(FunctionCall(state.composite, composed, required), now)
    assert behind <= result.resources.keys()
    endpoints = {key.replace("replica-", "endpoint-") for key in behind}
    assert endpoints <= state.resources.keys()
    assert (endpoints <= result.resources.keys()) is stays
    successors = [key for key in result.resources if key.startswith("replica-0-")]
    assert bool(successors) is (reason == "AgentDisconnected" and minutes > 5)
