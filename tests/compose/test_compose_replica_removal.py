"""A dropped replica goes after its endpoint, and that after the endpoints of its successors."""

import copy

import pytest

from modelplane.compose.contract import Local, Observed, ReadyWhen
from tests.compose.test_compose_model_deployment import (
    NODES,
    answered,
    cluster,
    compose,
    serving,
    settled,
    without_endpoints,
)


def drained(**drain):
    nodes = copy.deepcopy(NODES)
    nodes[1]["spec"]["drain"] = drain
    return nodes


def keys(result, index="b-0"):
    return sorted(result.desired.keys() & {f"replica-{index}", f"endpoint-{index}"})


def test_a_dropped_replica_goes_after_its_endpoint_and_is_told_of_then():
    both = compose(1, settled(), NODES)
    assert (both.desired.keys() & {"replica-b-0", "endpoint-b-0"}, both.requeue_after_s) == ({"replica-b-0"}, 1.0)
    assert both.events == ()
    last = compose(1, without_endpoints(settled(), "endpoint-b-0"), NODES)
    assert last.desired.keys() == {"replica-a-0", "endpoint-a-0"}
    assert [event.reason.value for event in last.events] == ["Removed"]


def test_a_replaced_replica_keeps_its_endpoint_until_its_successor_has_one_that_is_ready():
    clusters = drained()
    placed = compose(2, settled(), clusters)
    assert keys(placed) == ["endpoint-b-0", "replica-b-0"]
    served = compose(2, serving(placed), clusters)
    assert keys(served) == ["endpoint-b-0", "replica-b-0"]
    assert "endpoint-a-1" in served.desired

    observed = serving(served)
    unready = {**observed, "endpoint-a-1": Observed(observed["endpoint-a-1"].target, ready=False)}
    assert keys(compose(2, unready, clusters)) == ["endpoint-b-0", "replica-b-0"]
    assert keys(compose(2, observed, clusters)) == ["replica-b-0"]
    assert keys(compose(2, without_endpoints(observed, "endpoint-b-0"), clusters)) == []


def test_a_successor_that_serves_by_the_fleet_alone_has_no_endpoint_yet():
    """The list of replicas may be newer than what is observed: the decision goes by it, and endpoints cannot yet."""
    clusters = drained()
    observed = serving(compose(2, settled(), clusters))
    listed = [item.target.manifest for key, item in observed.items() if key.startswith("replica-")]
    starting = copy.deepcopy(observed["replica-a-1"].target.manifest)
    starting["status"] = {"conditions": [{"type": "WorkloadReady", "status": "False", "reason": "WorkloadStarting"}]}
    older = {**observed, "replica-a-1": Observed(Local(starting, ReadyWhen.READY), ready=False)}
    assert keys(answered(older, listed, clusters)) == ["endpoint-b-0", "replica-b-0"]


def test_a_replica_that_must_go_waits_for_nobodys_endpoint():
    late = copy.deepcopy(drained(deadlineSeconds=60))
    late[1]["status"]["noExecuteTaints"] = [{"key": "modelplane.ai/drain", "timeAdded": "2026-01-01T00:00:00Z"}]
    observed = without_endpoints(settled(), "endpoint-a-0")
    late_s = 1767225600.0 + 60
    first = answered(observed, (), late, now=late_s)
    assert keys(first) == ["endpoint-b-0", "replica-b-0"]
    marked = {**observed, "endpoint-b-0": Observed(first.desired["endpoint-b-0"].target, ready=True)}
    assert keys(answered(marked, (), late, now=late_s + 5)) == ["replica-b-0"]


def test_services_have_time_to_drop_an_endpoint_before_it_is_deleted():
    """The mark stays at its time, what the host added is left out, and the replica goes after the endpoint."""
    nodes, before = [cluster("a", nodes=2), cluster("b", nodes=2)], settled()
    own = copy.deepcopy(before["endpoint-b-0"].target.manifest)
    seen = copy.deepcopy(own)
    seen["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    seen["metadata"]["labels"]["crossplane.io/composite"] = "up"
    seen["spec"]["crossplane"] = {"resourceRefs": []}
    observed = {**before, "endpoint-b-0": Observed(Local(seen, ReadyWhen.READY), ready=True)}
    first = compose(1, observed, nodes, now=1767225600.0)
    target = first.desired["endpoint-b-0"].target
    since = {"modelplane.ai/leaving-since": "2026-01-01T00:00:00Z"}
    metadata = {name: own["metadata"][name] for name in ("name", "namespace", "labels")}
    kind = {name: own[name] for name in ("apiVersion", "kind", "spec")}
    assert target == Local({**kind, "metadata": {**metadata, "annotations": since}}, ReadyWhen.READY)
    assert first.requeue_after_s == 1.0
    # `rollout status` says that it is done when no other replica is left.
    alone = {key: seen for key, seen in observed.items() if key.endswith("a-0")}
    assert not first.status.rollout.complete
    assert compose(1, alone, nodes, now=1767225606.0).status.rollout.complete
    marked = {**observed, "endpoint-b-0": Observed(target, ready=True)}
    for now in (1767225600.0, 1767225604.0):
        assert compose(1, marked, nodes, now=now).desired["endpoint-b-0"].target == target
    assert keys(compose(1, marked, nodes, now=1767225605.0)) == ["replica-b-0"]
    # A clock that went back is not waited for.
    assert keys(compose(1, marked, nodes, now=1767225000.0)) == ["replica-b-0"]
    assert (
        "annotations"
        not in compose(2, marked, nodes, now=1767225604.0).desired["endpoint-b-0"].target.manifest["metadata"]
    )


@pytest.mark.parametrize("wanted", [0, 1])
def test_what_is_not_wanted_any_more_waits_for_nobodys_endpoint(wanted):
    observed = without_endpoints(settled(), "endpoint-a-0")
    assert keys(compose(wanted, observed, [cluster("a", nodes=2), cluster("b", nodes=2)])) == ["replica-b-0"]


def two_pools(nodes, **spec):
    """Cluster a with so many nodes in its first pool and two in its second."""
    made = cluster("a", nodes=nodes)
    (declared,), (shown,) = made["spec"]["nodePools"], made["status"]["gpuPools"]
    made["spec"] |= {"nodePools": [declared, {**declared, "name": "more", "nodeCount": 2}], **spec}
    made["status"]["gpuPools"] = [shown, {**shown, "name": "more", "nodes": 2}]
    return made


QUOTA = {"quotas": [{"namespace": "team", "devices": 1}]}


@pytest.mark.parametrize(
    ("after", "composed", "why"),
    [
        pytest.param(
            two_pools(0),
            {"replica-a-0", "replica-a-1"},
            "the ModelReplica is not observed yet",
            id="its successor has another pool",
        ),
        pytest.param(
            two_pools(0, **QUOTA),
            {"replica-a-0"},
            "the ModelReplica is created when the one that leaves its place is gone",
            id="both would be too many for their quota",
        ),
    ],
)
def test_a_successor_waits_for_the_removal_only_where_the_two_are_too_many(after, composed, why):
    """The pool of a replica that starts loses its nodes."""
    observed = serving(compose(1, serving(compose(1, {}, [cluster("a")])), [cluster("a")]))
    starting = observed["replica-a-0"].target.manifest
    starting["status"]["conditions"] = [{"type": "WorkloadReady", "status": "False", "reason": "WorkloadStarting"}]
    made = compose(1, observed, [after])
    assert made.desired.keys() == composed
    assert made.conditions[0].reason == "AllPlaced"
    assert made.conditions[1].message == f"0 of 1 replicas serve; 1 of 1 Creating on a: {why}"
