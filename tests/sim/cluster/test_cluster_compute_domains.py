"""A ComputeDomain's channel on a simulated cluster: pods that claim it wait for the domain, and start with it."""

from modelplane.api.objects import manifest
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster

POOLS = [gpu_pool("h200", 1, gpus=2)]
CHANNEL = {"name": "compute-domain", "resourceClaimTemplateName": "model-channel"}


def with_channel():
    made = deployment()
    made["spec"]["template"]["spec"]["resourceClaims"].append(CHANNEL)
    return made


def domain():
    channel = {"resourceClaimTemplate": {"name": "model-channel"}, "allocationMode": "Single"}
    return manifest(
        "resource.nvidia.com/v1beta1",
        "ComputeDomain",
        "model-channel",
        namespace=TENANT_NAMESPACE,
        spec={"numNodes": 0, "channel": channel},
    )


def test_a_pod_waits_for_its_compute_domain():
    async def main(lab):
        lab.apply(claim_template(), with_channel())
        await lab.settle()
        before = [pod["spec"].get("nodeName") for pod in lab.pods()]
        lab.apply(domain())
        await lab.settle()
        return before, [pod["spec"].get("nodeName") for pod in lab.pods()], len(lab.claims())

    assert run_cluster(main, pools=POOLS) == ([None], ["h200-0"], 2)
