"""Several pickers before one pool: how many, how they find each other, and what keeps them apart."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.picker_peers import picker_count
from tests.compose.conftest import make_cluster

NAMED = {"images": {"picker": "llm-d/epp:v1"}}


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ({}, 2),
        ({"pickerReplicas": 1}, 1),
        ({"pickerReplicas": 5}, 5),
        (NAMED, 1),
        ({**NAMED, "pickerReplicas": 3}, 3),
        ({"images": {"routingSidecar": "s:1"}}, 2),
    ],
)
def test_how_many_pickers(backend, expected):
    made = make_cluster()
    made["spec"] = {**made["spec"], "backend": backend}
    assert picker_count(decode(InferenceCluster, made)) == expected


def rendered(scene, **backend):
    made = scene("single-gpu", "pool")
    (cluster,) = made.required["cluster"]
    cluster["spec"]["backend"] = {**cluster["spec"]["backend"], **backend}
    return {key: item.target.manifest for key, item in made.compose().desired.items()}


def test_pickers_find_each_other_by_a_service_that_selects_them(scene, problems):
    objects = rendered(scene)
    deployment, service, budget = (objects[key] for key in ("picker", "picker-peers", "picker-disruption"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selector = service["spec"]["selector"]
    assert selector.items() <= labels.items()
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    where = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert [word for word in container["args"] if "peer" in word] == [f"--peers={where}:9004", "--peer-port=9004"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert budget["spec"]["selector"]["matchLabels"] == selector
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == selector
    assert [problem for item in (deployment, service, budget) for problem in problems(item)] == []


def test_the_network_policy_lets_them_reach_each_other(scene):
    objects = rendered(scene)
    (among, _) = objects["policy"]["spec"]["ingress"]
    labels = objects["picker"]["spec"]["template"]["metadata"]["labels"]
    assert among["from"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    assert "ports" not in among


def test_one_picker_has_neither_peers_nor_a_budget(scene):
    objects = rendered(scene, **NAMED)
    assert {"picker-peers", "picker-disruption"} & objects.keys() == set()
    (container,) = objects["picker"]["spec"]["template"]["spec"]["containers"]
    assert [word for word in container["args"] if "peer" in word] == []
    assert "topologySpreadConstraints" not in objects["picker"]["spec"]["template"]["spec"]
