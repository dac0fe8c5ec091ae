"""Claims made from templates, held, shared and released."""

import pytest

from modelplane.api.objects import manifest, name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.claims import _base_name, claim_names
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster

POOLS = [gpu_pool("h200", 1, gpus=2)]


def test_the_claim_of_a_pod_is_made_from_the_template_and_allocated():
    async def main(lab):
        template = claim_template(gpus=2)
        template["spec"]["metadata"] = {"labels": {"team": "x"}, "annotations": {"why": "because"}}
        lab.apply(template, deployment())
        await lab.settle()
        (pod,) = lab.pods()
        (claim,) = lab.claims()
        return pod, claim, template

    pod, claim, template = run_cluster(main, pools=POOLS)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": pod["metadata"]["uid"]}
    name = name_of(claim)
    assert name.startswith(f"{name_of(pod)}-devices-")
    assert len(name) == len(f"{name_of(pod)}-devices-") + 5
    assert claim["metadata"]["labels"] == {"team": "x"}
    assert claim["metadata"]["annotations"] == {"why": "because", "resource.kubernetes.io/pod-claim-name": "devices"}
    assert claim["metadata"]["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["spec"] == template["spec"]["spec"]
    device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "h200-0"}
    match = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["h200-0"]}]}
    assert claim["status"] == {
        "allocation": {
            "devices": {"results": [{**device, "device": "gpu-0"}, {**device, "device": "gpu-1"}]},
            "nodeSelector": {"nodeSelectorTerms": [match]},
            "allocationTimestamp": "2025-06-15T15:06:40Z",
        },
        "reservedFor": [{"resource": "pods", "name": name_of(pod), "uid": pod["metadata"]["uid"]}],
    }
    assert pod["status"]["resourceClaimStatuses"] == [{"name": "devices", "resourceClaimName": name}]


def test_a_pod_waits_for_its_template():
    async def main(lab):
        lab.apply(deployment())
        await lab.settle()
        (pod,) = lab.pods()
        waiting = pod["status"]["conditions"]
        lab.apply(claim_template())
        await lab.settle()
        (pod,) = lab.pods()
        return name_of(pod), waiting, pod["spec"].get("nodeName")

    name, waiting, node = run_cluster(main, pools=POOLS)
    assert waiting == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f'0/1 nodes are available: pod "team/{name}": ResourceClaim not created yet.',
            "lastTransitionTime": "2025-06-15T15:06:40Z",
        }
    ]
    assert node == "h200-0"


def test_a_template_that_is_missing_is_told_by_an_event():
    async def main(lab):
        lab.apply(deployment())
        await lab.settle()
        (pod,) = lab.pods()
        return name_of(pod), [(item["reason"], item["message"]) for item in lab.store.list("", "Event")]

    name, events = run_cluster(main, pools=POOLS)
    missing = 'resourceclaimtemplate.resource.k8s.io "model" not found'
    assert sorted(events) == [
        ("FailedResourceClaimCreation", f'PodResourceClaim devices: resource claim template "model": {missing}'),
        ("FailedScheduling", f'0/1 nodes are available: pod "team/{name}": ResourceClaim not created yet.'),
    ]


def test_a_claim_that_a_pod_names_and_that_is_missing_is_told():
    made = deployment()
    made["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": "shared"}]

    async def main(lab):
        lab.apply(made)
        await lab.settle()
        (pod,) = lab.pods()
        return pod["status"]["conditions"][0]["message"]

    assert run_cluster(main, pools=POOLS) == '0/1 nodes are available: resourceclaim "shared" not found.'


def test_a_claim_goes_with_its_pod_and_frees_the_devices():
    async def main(lab):
        lab.apply(claim_template(gpus=2), deployment())
        await lab.settle()
        lab.store.delete(ref_of(lab.get(deployment())))
        await lab.settle()
        gone = lab.pods(), lab.claims()
        lab.apply(deployment("other"), claim_template("other", gpus=2))
        await lab.settle()
        return gone, [pod["status"]["phase"] for pod in lab.pods()]

    assert run_cluster(main, pools=POOLS) == (((), ()), ["Running"])


def shared_pods(count):
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    claims = [{"name": "devices", "resourceClaimName": "shared"}]
    for number in range(count):
        spec = {"containers": [{"name": "c"}], "tolerations": tolerations, "resourceClaims": claims}
        yield manifest("v1", "Pod", f"p{number}", namespace=TENANT_NAMESPACE, spec=spec)


def test_a_shared_claim_is_held_by_all_and_freed_by_the_last():
    async def main(lab):
        spec = claim_template(gpus=1)["spec"]["spec"]
        lab.apply(manifest("resource.k8s.io/v1", "ResourceClaim", "shared", namespace=TENANT_NAMESPACE, spec=spec))
        pods = list(shared_pods(2))
        lab.apply(*pods)
        await lab.settle()
        (claim,) = lab.claims()
        holders = [holder["name"] for holder in claim["status"]["reservedFor"]]
        nodes = {pod["spec"]["nodeName"] for pod in lab.pods()}
        seen = []
        for pod in pods:
            lab.store.delete(ref_of(pod))
            await lab.settle()
            (claim,) = lab.claims()
            left = [holder["name"] for holder in claim["status"].get("reservedFor", [])]
            seen.append((left, "allocation" in claim["status"], claim["metadata"].get("finalizers")))
        return holders, nodes, seen

    holders, nodes, seen = run_cluster(main, pools=[gpu_pool("h200", 3)])
    assert holders == ["p0", "p1"]
    assert len(nodes) == 1
    assert seen == [(["p1"], True, ["resource.kubernetes.io/delete-protection"]), ([], False, None)]


def test_names_of_claims_are_known_once_they_are_made():
    pod = {
        "spec": {
            "resourceClaims": [
                {"name": "a", "resourceClaimTemplateName": "t"},
                {"name": "b", "resourceClaimTemplateName": "t"},
                {"name": "c", "resourceClaimName": "given"},
            ]
        },
        "status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "a-1"}]},
    }
    assert claim_names(pod) == {"a": "a-1", "b": None, "c": "given"}


@pytest.mark.parametrize(
    ("pod", "claim", "expected"),
    [
        ("web-1", "gpu", "web-1-gpu-"),
        ("p" * 60, "devices", "p" * 49 + "-" + "devic"),
    ],
)
def test_long_names_are_shortened_in_proportion(pod, claim, expected):
    assert _base_name(pod, claim) == expected
