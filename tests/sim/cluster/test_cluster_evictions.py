"""Budgets allow so many pods to be away at a time."""

import pytest

from modelplane.api.objects import manifest, name_of
from modelplane.sim.cluster.evictions import evictable


def make_pod(name, *, ready=True, deleting=False, engine="main", namespace="team"):
    item = manifest("v1", "Pod", name, namespace=namespace, labels={"replica": "r", "engine": engine})
    if deleting:
        item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**item, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def budget(most=1, engine="main", policy="AlwaysAllow"):
    selector = {"matchLabels": {"replica": "r", "engine": engine}}
    spec = {"maxUnavailable": most, "selector": selector, "unhealthyPodEvictionPolicy": policy}
    return manifest("policy/v1", "PodDisruptionBudget", engine, namespace="team", spec=spec)


A, B, C = (make_pod(name) for name in "abc")
SICK = make_pod("sick", ready=False)
GOING, COMING = make_pod("going", deleting=True), make_pod("coming", ready=False)


@pytest.mark.parametrize(
    ("pods", "everywhere", "budgets", "expected"),
    [
        pytest.param([A, B], [A, B, C], [], ["a", "b"], id="without a budget all"),
        pytest.param([A, B], [A, B, C], [budget()], ["a"], id="one at a time"),
        pytest.param([A, B, C], [A, B, C], [budget(2)], ["a", "b"], id="two at a time"),
        pytest.param([A], [A, B, SICK], [budget()], [], id="one is away already"),
        pytest.param([A, SICK], [A, B, SICK], [budget()], ["sick"], id="one that is not ready may always go"),
        pytest.param([SICK], [A, SICK], [budget(policy="IfHealthyBudget")], [], id="unless the budget says so"),
        pytest.param([A], [A, GOING], [budget()], [], id="one is being deleted"),
        pytest.param([A], [A, B, GOING, COMING], [budget(2)], ["a"], id="and the one in its place counts with it"),
        pytest.param([A], [A, B], [budget(engine="other")], ["a"], id="the budget of another engine"),
        pytest.param(
            [make_pod("x", namespace="rivals"), A],
            [A, B],
            [budget()],
            ["x", "a"],
            id="the budget of another namespace",
        ),
    ],
)
def test_who_may_be_evicted(pods, everywhere, budgets, expected):
    assert [name_of(pod) for pod in evictable(pods, everywhere, budgets)] == expected
