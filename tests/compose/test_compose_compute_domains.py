"""ComputeDomains of engines that span nodes: which engines have one, and how its pods claim the channel."""

from dataclasses import replace

import pytest

from modelplane.compose.contract import Observed


def objects(result):
    return {key: item.target.manifest for key, item in result.desired.items()}


def pods(workload):
    spec = workload["spec"]
    group = spec.get("leaderWorkerTemplate", spec)
    return [group[name]["spec"] for name in ("template", "leaderTemplate", "workerTemplate") if name in group]


@pytest.mark.parametrize(
    ("shape", "backend", "expected"),
    [
        ("pipeline-4", "nvlink", ["compute-domain-main"]),
        ("pipeline-4", "racks", []),
        ("pipeline-4", "native", []),
        ("single-gpu", "nvlink", []),
        ("kimi-k2-5p3d", "nvlink", ["compute-domain-decode"]),
    ],
)
def test_engines_that_span_nodes_have_one(scene, shape, backend, expected, problems):
    made = objects(scene(shape, backend).compose())
    domains = {key: item for key, item in made.items() if key.startswith("compute-domain-")}
    assert sorted(domains) == expected
    assert [problem for item in domains.values() for problem in problems(item)] == []


def test_every_pod_of_the_group_claims_the_channel(scene):
    made = objects(scene("pipeline-4", "nvlink").compose())
    name = made["compute-domain-main"]["metadata"]["name"]
    assert made["compute-domain-main"]["spec"]["channel"]["resourceClaimTemplate"] == {"name": name}
    for pod in pods(made["workload-main-lws"]):
        channel, devices = pod["resourceClaims"][1], pod["resourceClaims"][0]
        assert (devices["name"], channel) == ("devices", {"name": "compute-domain", "resourceClaimTemplateName": name})
        engine = next(each for each in pod["containers"] if each["name"] == "engine")
        assert engine["resources"]["claims"] == [{"name": "devices"}, {"name": "compute-domain"}]


def test_it_stays_until_no_pod_needs_it(scene):
    """A pool that gives them up: its pods are replaced first."""
    first = scene("pipeline-4", "nvlink").compose()
    after = scene("pipeline-4", "racks")
    after.observed = {key: Observed(item.target, ready=True) for key, item in first.desired.items()}
    assert "compute-domain-main" in after.compose().desired
    rolled = after.compose().desired["workload-main-lws"].target
    status = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), rolled.manifest["spec"]["replicas"])
    target = replace(rolled, manifest={**rolled.manifest, "status": status})
    after.observed["workload-main-lws"] = Observed(target, ready=True)
    assert "compute-domain-main" not in after.compose().desired
