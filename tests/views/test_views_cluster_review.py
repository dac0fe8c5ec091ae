from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceClass, InferenceCluster
from modelplane.catalog.stack import load_stack
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.yaml import to_yaml_documents
from modelplane.views.cluster_review import ClusterInventory, propose_pools, proposed_cluster, review_cluster
from modelplane.views.manifest_review import validate

MEMORY = {"memory": {"value": "81559Mi"}}


def device(index, product="NVIDIA H100 80GB HBM3", **attributes):
    stated = {"productName": {"string": product}, "uuid": {"string": f"u-{index}"}, **attributes}
    return {"name": f"gpu-{index}", "attributes": stated, "capacity": MEMORY}


def published(node, count=8, product="NVIDIA H100 80GB HBM3", driver="gpu.nvidia.com"):
    spec = {"driver": driver, "nodeName": node, "devices": [device(index, product) for index in range(count)]}
    return {"metadata": {"name": f"{node}-slice"}, "spec": spec}


def node(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


def signs(*lacking):
    found = {"APIService": set(), "DeviceClass": set(), "GatewayClass": set()}
    for component in load_stack().components:
        for item in component.provides.objects() if component.name not in lacking else ():
            found[item.kind].add(item.name)
    return {kind: frozenset(names) for kind, names in found.items()}


def inventory(version="v1.35.1-gke.100", nodes=("a", "b"), lacking=(), **labels):
    found = tuple(node(name, **labels) for name in nodes)
    return ClusterInventory(version, found, tuple(published(name) for name in nodes), signs(*lacking))


def test_a_cluster_that_has_everything():
    found = inventory(**{"modelplane.ai/pool": "h100"})
    assert [finding.what for finding in review_cluster(found) if finding.fault] == []
    assert [(pool.name, pool.nodes, pool.unlabelled) for pool in propose_pools(found)] == [("h100", ("a", "b"), ())]


@pytest.mark.parametrize(
    ("found", "what", "fault"),
    [
        (inventory(version="v1.33.4"), "Kubernetes", "1.34.2 or newer is needed"),
        (inventory(version="new"), "Kubernetes", "1.34.2 or newer is needed, and the version cannot be read"),
        (
            inventory(lacking=("leader-worker-set",)),
            "leader-worker-set",
            "install it; it brings leaderworkerset.x-k8s.io/v1",
        ),
        (
            inventory(lacking=("dra-driver-nvidia",)),
            "dra-driver-nvidia",
            "install it; it brings DeviceClass gpu.nvidia.com",
        ),
        (
            inventory(),
            "pool nvidia-h100-80gb-hbm3",
            "2 nodes lack the label modelplane.ai/pool=nvidia-h100-80gb-hbm3: a, b",
        ),
        (ClusterInventory("v1.35.0", (), (), signs()), "devices", "no DRA driver publishes devices"),
        (ClusterInventory("v1.35.0", (), None, signs()), "devices", "ResourceSlices may not be read"),
    ],
)
def test_what_is_missing_is_named(found, what, fault):
    assert fault in [finding.fault for finding in review_cluster(found) if finding.what == what]


def test_a_kind_that_may_not_be_read_is_unknown_and_not_missing():
    found = ClusterInventory("v1.35.0", (), (), {**signs(), "APIService": None})
    told = {finding.what: (finding.found, finding.fault) for finding in review_cluster(found)}
    assert told["cert-manager"] == ("unknown", "APIService may not be read")


def test_what_an_inference_cluster_declares_counts():
    declared = proposed_cluster("east", "s", ())
    declared["spec"]["scheduling"] = {"type": "Kueue"}
    whats = [finding.what for finding in review_cluster(inventory(lacking=("kueue",)), declared) if finding.fault]
    assert "kueue" in whats


def test_nodes_are_grouped_by_what_they_publish():
    nodes = (node("a"), node("b", **{"modelplane.ai/pool": "fast"}), node("c"), node("d"))
    slices = (published("a"), published("b"), published("c", 4), published("d", 1, "NVIDIA L4"), published("gone"))
    pools = propose_pools(ClusterInventory("v1.35.0", nodes, slices, signs()))
    assert [(pool.name, pool.class_name, pool.nodes, pool.unlabelled) for pool in pools] == [
        ("nvidia-h100-80gb-hbm3", "nvidia-h100-80gb-hbm3-4x", ("c",), ("c",)),
        ("nvidia-l4", "nvidia-l4-1x", ("d",), ("d",)),
        ("fast", "nvidia-h100-80gb-hbm3-8x", ("a", "b"), ("a",)),
    ]


def test_what_is_proposed_is_valid():
    pools = propose_pools(inventory())
    manifests = [*(pool.inference_class() for pool in pools), proposed_cluster("east", "east-kubeconfig", pools)]
    assert [
        str(found.problem)
        for found in validate(parse_documents(to_yaml_documents(manifests).encode(), source="f")).findings
    ] == []
    (made,) = decode(InferenceClass, manifests[0]).spec.devices
    assert (made.driver, made.count, made.capacity["memory"].value) == ("gpu.nvidia.com", 8, "81559Mi")
    assert made.attributes["productName"].string == "NVIDIA H100 80GB HBM3"
    assert "uuid" not in made.attributes
    assert decode(InferenceCluster, manifests[1]).spec.node_pools[0].node_count == 2


@pytest.mark.parametrize(
    ("allocatable", "expected"),
    [
        ([("191", "2000Gi"), ("190500m", "2010Gi")], {"cpu": "190500m", "memory": "2000Gi"}),
        ([("191", "2000Gi"), (None, None)], None),
    ],
)
def test_a_proposed_class_has_what_the_smallest_node_has_for_pods(allocatable, expected):
    nodes = tuple(
        {**node(name), "status": {"allocatable": {"cpu": cpu, "memory": memory} if cpu else {}}}
        for name, (cpu, memory) in zip("ab", allocatable, strict=True)
    )
    (pool,) = propose_pools(replace(inventory(), nodes=nodes))
    assert pool.inference_class()["spec"].get("nodeResources") == expected
