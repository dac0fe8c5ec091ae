"""What a voluntary eviction may take."""

import pytest

BUDGET = {
    "maxUnavailable": 1,
    "unhealthyPodEvictionPolicy": "AlwaysAllow",
}


def budgets(scene):
    desired = scene.compose().desired
    return {key: item for key, item in desired.items() if item.target.manifest["kind"] == "PodDisruptionBudget"}


@pytest.mark.parametrize(
    ("shape", "backend", "engines"),
    [
        pytest.param("tensor-8", "native", [], id="one pod: a budget would block its node or say nothing"),
        pytest.param("single-gpu", "native", ["main"], id="copies"),
        pytest.param("pipeline-2", "native", ["main"], id="a group"),
        pytest.param("kimi-k2-5p3d", "native", ["decode", "prefill"], id="each phase its own"),
        pytest.param("gpt-oss-20b", "kserve", [], id="KServe makes the pods"),
    ],
)
def test_one_pod_of_an_engine_is_evicted_at_a_time(scene, problems, shape, backend, engines):
    found = budgets(scene(shape, backend))
    assert list(found) == [f"disruption-{name}" for name in engines]
    for name, item in zip(engines, found.values(), strict=True):
        budget = item.target.manifest
        labels = {"modelplane.ai/replica": scene(shape).replica.metadata.name, "modelplane.ai/engine": name}
        assert budget["spec"] == {**BUDGET, "selector": {"matchLabels": labels}}
        assert problems(budget) == []


def test_a_budget_selects_the_pods_of_its_engine_and_not_the_picker(scene):
    desired = scene("kimi-k2-5p3d").compose().desired
    pods = {
        key: [template["metadata"]["labels"] for template in _templates(item.target.manifest)]
        for key, item in desired.items()
    }
    for name, workload in (("decode", "workload-decode-lws"), ("prefill", "workload-prefill-deployment")):
        wanted = desired[f"disruption-{name}"].target.manifest["spec"]["selector"]["matchLabels"].items()
        selected = {key: len(labels) for key, labels in pods.items() if any(wanted <= one.items() for one in labels)}
        assert selected == {workload: len(pods[workload])}


def _templates(item):
    spec = item.get("spec", {})
    group = spec.get("leaderWorkerTemplate", {})
    places = (spec.get("template"), group.get("leaderTemplate"), group.get("workerTemplate"))
    return [found for found in places if found]
