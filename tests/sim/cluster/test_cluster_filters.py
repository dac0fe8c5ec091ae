import pytest

from modelplane.sim.cluster.filters import (
    CORDONED,
    NOT_SELECTED,
    TAINTED,
    TOO_MANY_PODS,
    NodeState,
    is_within,
    refusal,
)
from modelplane.sim.cluster.node_lifecycle import tolerates

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(*, taints=(), unschedulable=False, labels=None):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels or {"pool": "h200"}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": {"pods": "2"}},
    }


def pod(*, selector=None, tolerations=(), affinity=None):
    spec = {"nodeSelector": selector or {}, "tolerations": list(tolerations)}
    return {"spec": {**spec, **({"affinity": {"nodeAffinity": affinity}} if affinity else {})}}


def required(operator, *values):
    term = {"matchExpressions": [{"key": "pool", "operator": operator, "values": list(values)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


@pytest.mark.parametrize(
    ("case", "wanted", "found", "expected"),
    [
        ("fits", pod(), node(), None),
        ("cordoned", pod(), node(unschedulable=True), CORDONED),
        ("cordoned comes before tainted", pod(), node(unschedulable=True, taints=[GPU]), CORDONED),
        ("tainted", pod(), node(taints=[GPU]), TAINTED),
        ("tainted comes before the selector", pod(selector={"pool": "x"}), node(taints=[GPU]), TAINTED),
        ("tolerated", pod(tolerations=[{"key": GPU["key"], "operator": "Exists"}]), node(taints=[GPU]), None),
        ("a preference is no filter", pod(), node(taints=[{**GPU, "effect": "PreferNoSchedule"}]), None),
        ("selected", pod(selector={"pool": "h200"}), node(), None),
        ("not selected", pod(selector={"pool": "h100"}), node(), NOT_SELECTED),
        ("affinity holds", pod(affinity=required("In", "h200")), node(), None),
        ("affinity fails", pod(affinity=required("NotIn", "h200")), node(), NOT_SELECTED),
    ],
)
def test_the_first_filter_that_refuses_gives_the_reason(case, wanted, found, expected):
    assert refusal(wanted, NodeState(found, 1)) == expected, case


def test_a_node_takes_as_many_pods_as_its_kubelet_admits():
    assert refusal(pod(), NodeState(node(), 1)) is None
    assert refusal(pod(), NodeState(node(), 2)) == TOO_MANY_PODS


def test_a_tolerated_cordon():
    everything = pod(tolerations=[{"operator": "Exists"}])
    assert refusal(everything, NodeState(node(unschedulable=True, taints=[GPU]), 0)) is None


def test_an_allocation_says_where_its_pod_may_run():
    pinned = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    assert is_within(None, node())
    assert is_within(pinned, node())
    assert not is_within(pinned, {**node(), "metadata": {"name": "other"}})


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "absent"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "present"}, False),
    ],
)
def test_tolerations(toleration, expected):
    assert tolerates(toleration, GPU) is expected
