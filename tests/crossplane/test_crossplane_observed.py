"""What serves stays desired whatever the lists and statuses beside it say: whole calls with damaged input."""

import copy
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.crossplane.calls import FunctionCall, NoFleetCache, answer

API = "modelplane.ai/v1alpha1"
SINCE = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 86_400.0
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
HELD = [
    {"type": kind, "status": "True", "reason": "X", "lastTransitionTime": SINCE}
    for kind in ("Ready", "WorkloadReady", "RouteReady")
]
garbage = st.sampled_from([None, 7, "", "x", [], {}, {"metadata": None}, [{}], -1, True])
edits = st.sampled_from(["drop", "empty", "garble"])


def make_cluster(name, nodes=2):
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": nodes}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": SINCE}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "nodes": nodes, "devices": [GPU]}],
        },
    }


def make_deployment(replicas, devices):
    wanted = [{"name": "gpu", "count": devices, "selectors": [{"cel": 'device.driver == "d"'}]}]
    template = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {"replicas": replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": template}},
    }


def serving(found):
    """The composed objects of a result, as they are once everything serves."""
    made = {}
    for key, composed in found.resources.items():
        item = copy.deepcopy(dict(composed.manifest))
        item["metadata"] |= {"creationTimestamp": SINCE, "generation": 1}
        made[key] = {**item, "status": {"address": "http://192.0.2.1", "conditions": copy.deepcopy(HELD)}}
    return made


def replicas_of(composed):
    return tuple(item for item in composed.values() if item["kind"] == "ModelReplica")


@cache
def settled(names, replicas, devices):
    """A deployment, its clusters, and its composed objects when all of them serve."""
    clusters, deployment = tuple(make_cluster(name) for name in names), make_deployment(replicas, devices)
    composed = {}
    for _ in range(3):
        required = {"clusters": clusters, "replicas": replicas_of(composed), "caches": ()}
        composed = serving(answer(FunctionCall(deployment, composed, required), NOW))
    assert len(replicas_of(composed)) == replicas
    return deployment, clusters, composed


@st.composite
def damaged_item(draw, item, parts):
    """An object of which one part is lost, emptied or garbled."""
    item = copy.deepcopy(item)
    path = draw(st.sampled_from(parts))
    *above, last = path
    at = item
    for step in above:
        at = at[step]
    match draw(edits):
        case "drop":
            at.pop(last, None)
        case "empty":
            at[last] = type(at[last])() if at.get(last) is not None else None
        case "garble":
            at[last] = draw(garbage)
    return item


@st.composite
def damaged_list(draw, items, parts):
    """A list that is not read, short, in another order, with repeated, damaged or foreign objects; None: not read."""
    if draw(st.integers(0, 9)) == 0:
        return None
    found = list(draw(st.permutations(items)))[: draw(st.integers(0, len(items)))]
    found = [draw(damaged_item(item, parts)) if draw(st.booleans()) else item for item in found]
    if found and draw(st.booleans()):
        found.append(draw(st.sampled_from(found)))
    if draw(st.booleans()):
        found.append(draw(st.sampled_from([{}, {"metadata": 7}, {"metadata": {"name": "x"}, "spec": []}])))
    return tuple(found)


REPLICA_PARTS = [
    ("status",),
    ("spec",),
    ("metadata", "labels"),
    ("spec", "engines"),
    ("spec", "clusterName"),
    ("spec", "index"),
    ("spec", "deployment"),
    ("spec", "deployment", "uid"),
    ("status", "conditions"),
]
CLUSTER_PARTS = [("status",), ("status", "gpuPools"), ("status", "conditions"), ("status", "gateway")]


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_no_replica_or_endpoint_that_serves_leaves_when_a_list_or_status_is_damaged(data):
    names = data.draw(st.sampled_from(["b", "bc", "bcd"]))
    number, devices = data.draw(st.integers(1, 2 * len(names))), data.draw(st.sampled_from([1, 4, 8]))
    deployment, clusters, composed = settled(names, number, devices)
    # A cluster that came later is where a forgotten replica would go.
    everywhere = (make_cluster("a"), *clusters)
    lists = {
        "clusters": data.draw(damaged_list(everywhere, CLUSTER_PARTS)),
        "replicas": data.draw(damaged_list(replicas_of(composed), REPLICA_PARTS)),
        "caches": data.draw(st.sampled_from([None, (), ({},)])),
    }
    required = {name: found for name, found in lists.items() if found is not None}
    found = answer(FunctionCall(deployment, composed, required), NOW)
    assert composed.keys() <= found.resources.keys()


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_no_replica_that_serves_leaves_when_the_live_fleet_lags(data):
    deployment, clusters, composed = settled("bc", data.draw(st.integers(1, 4)), 8)
    # A live fleet lags and loses; that it has a replica at another place than it was composed for is not covered.
    listed = data.draw(damaged_list(replicas_of(composed), [("status",), ("spec", "engines")])) or ()
    readable = [item for item in listed if isinstance(item.get("spec"), dict)]

    class Lagging(NoFleetCache):
        def fleet(self):
            return fleet_of((make_cluster("a"), *clusters), readable)

    found = answer(FunctionCall(deployment, composed), NOW, Lagging())
    assert composed.keys() <= found.resources.keys()
