"""Affinity between pods, in kube-scheduler's words."""

import pytest

from modelplane.sim.cluster.pod_affinity import ANTI_AFFINITY, NO_AFFINITY, affinity_refusal


def pod(group=None, *, namespace="team", **affinity):
    labels = {"group": group} if group else {}
    made = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack", "labelSelector": selector}]}
        for kind, selector in affinity.items()
    }
    return {"metadata": {"namespace": namespace, "labels": labels}, "spec": {"affinity": made}}


def node(rack=None):
    return {"metadata": {"labels": {"rack": rack} if rack else {}}}


def where(operator, *values):
    return {"matchExpressions": [{"key": "group", "operator": operator, **({"values": values} if values else {})}]}


WITH_A = pod("a", podAffinity=where("In", "a"))
NOT_OTHERS = pod("a", podAntiAffinity={"matchExpressions": [
    {"key": "group", "operator": "Exists"}, {"key": "group", "operator": "NotIn", "values": ["a"]},
]})  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "at", "placed", "refused"),
    [
        (pod("a"), node(), [], None),
        (WITH_A, node("1"), [], None),  # the first of its group
        (WITH_A, node(), [], NO_AFFINITY),
        (WITH_A, node("1"), [(pod("a"), node("1"))], None),
        (WITH_A, node("2"), [(pod("a"), node("1"))], NO_AFFINITY),
        (pod("b", podAffinity=where("In", "a")), node("1"), [], NO_AFFINITY),
        (WITH_A, node("2"), [(pod("a", namespace="other"), node("1"))], None),
        (NOT_OTHERS, node("1"), [(pod("b"), node("1"))], ANTI_AFFINITY),
        (NOT_OTHERS, node("2"), [(pod("b"), node("1"))], None),
        (NOT_OTHERS, node("1"), [(pod("a"), node("1")), (pod(), node("1"))], None),
        (pod("a", podAntiAffinity=where("DoesNotExist")), node("1"), [(pod(), node("1"))], ANTI_AFFINITY),
    ],
)
def test_pods_keep_together_and_apart(asked, at, placed, refused):
    assert affinity_refusal(asked, at, placed) == refused
