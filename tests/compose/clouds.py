"""Clusters on clouds, one for each cloud and type of pool."""

from copy import deepcopy

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Observed

GPU = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
BLOCKS = {
    "GKE": {"gke": {"region": "us-central1", "project": "team-models"}},
    "EKS": {"eks": {"region": "us-east-1"}},
    "AKS": {"aks": {"location": "eastus2", "credentials": {"name": "team"}}},
    "Nebius": {"nebius": {"projectId": "project-e00team", "identitySecretRef": {"name": "nebius-account"}}},
    "Vultr": {"vultr": {"region": "ewr"}},
    "Civo": {"civo": {"region": "LON1"}},
    "K3s": {
        "k3s": {
            "controlPlane": {"host": "192.0.2.10"},
            "agents": [
                *({"name": f"gpu-{at}", "host": f"192.0.2.{20 + at}", "pool": "fixed"} for at in range(4)),
                {"name": "spare-0", "host": "spare.example.org", "port": 2222, "pool": "spare"},
            ],
        }
    },
}
MACHINES = {
    "GKE": {"gke": {"machineType": "a3-highgpu-8g", "accelerator": {"type": "nvidia-h100-80gb", "count": 8}}},
    "EKS": {"eks": {"instanceType": "p5.48xlarge", "diskSizeGb": 500, "accelerator": {"type": "h100", "count": 8}}},
    "AKS": {"aks": {"vmSize": "Standard_ND96isr_H100_v5", "accelerator": {"type": "h100", "count": 8}}},
    "Nebius": {
        "nebius": {
            "platform": "gpu-h100-sxm",
            "preset": "8gpu-128vcpu-1600gb",
            "accelerator": {"type": "h100", "count": 8},
        }
    },
    "Vultr": {"vultr": {"plan": "vcg-h100-8x", "accelerator": {"type": "h100", "count": 8}}},
    "Civo": {"civo": {"size": "an.g1.h100.kube.x8", "accelerator": {"type": "h100", "count": 8}}},
}
ZONES = {
    "GKE": ["us-central1-a", "us-central1-c"],
    "EKS": ["us-east-1b", "us-east-1d"],
    "AKS": ["eastus2-1"],
    "Nebius": [],
    "Vultr": [],
    "Civo": [],
    "K3s": [],
}
POOLS = {
    "fixed": {"nodeCount": 4},
    "scaling": {"nodeCount": 1, "minNodeCount": 0, "maxNodeCount": 8},
    "reserved": {"nodeCount": 2, "capacityReservation": {"name": "h100-block"}},
    "fabric": {
        "nodeCount": 2,
        "fabric": {"type": "InfiniBand", "name": "fabric-4"},
        "capacityReservation": {"name": "capacityblockgroup-1"},
    },
    "efa": {"nodeCount": 2, "zones": ["us-east-1b"], "fabric": {"type": "EFA"}},
    "block": {
        "nodeCount": 2,
        "zones": ["us-east-1b"],
        "fabric": {"type": "EFA"},
        "capacityBlock": {"capacityReservationId": "cr-0b1c"},
    },
    "amd": {"nodeCount": 2},
    "spare": {"nodeCount": 1},
    "growing": {"nodeCount": 1, "minNodeCount": 1, "maxNodeCount": 8},
    "targeted": {"nodeCount": 2, "zones": ["us-east-1b"], "capacityReservation": {"name": "cr-0d0e"}},
}


AMD = {**GPU, "driver": "gpu.amd.com", "deviceClassName": "gpu.amd.com"}


def machine_class(source, name="h100", **spec):
    provisioning = {"provider": source, **deepcopy(MACHINES[source])} if source in MACHINES else None
    return {"metadata": {"name": name}, "spec": {"devices": [GPU], "provisioning": provisioning, **spec}}


SECOND = {"Vultr": "growing", "Civo": "spare", "K3s": "spare"}
"""A second type of pool besides `fixed`, where pools of a cloud do not scale, or not from zero."""


def second(source):
    return SECOND.get(source, "scaling")


def make_cloud(source, *pools, **spec):
    made = [{"name": name, "className": "h100", "zones": ZONES[source], **POOLS[name]} for name in pools]
    block = deepcopy(BLOCKS[source])
    if "k3s" in block:
        block["k3s"]["agents"] = [agent for agent in block["k3s"]["agents"] if agent["pool"] in pools]
    body = {"cluster": {"source": source, **block}, "nodePools": made, **spec}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": deepcopy(body),
    }


def compose(item, observed=None, **required):
    source, pools = item["spec"]["cluster"]["source"], {pool["name"] for pool in item["spec"]["nodePools"]}
    found = machine_class(source, devices=[AMD]) if "amd" in pools else machine_class(source)
    given = {"class-h100": (found,), "replicas": (), **required}
    return inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item), observed or {}, given))


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
STATUSES = {
    "cloud-account": {**READY, "atProvider": {"email": "east@team-models.iam.example"}},
    "cloud-network": {**READY, "atProvider": {"id": "/subscriptions/s/networks/n"}},
    "cloud-cluster": {
        **READY,
        "atProvider": {"identity": {"principalId": "p-1"}, "vpcConfig": {"clusterSecurityGroupId": "sg-c1"}},
    },
    "gateway": {"addresses": [{"value": "192.0.2.1"}]},
}


def seen(key, desired, *, ready=True, status=None):
    """An object as a host observes it once it is made."""
    target = desired.target
    if not hasattr(target, "manifest"):
        return Observed(target, ready, desired.outlives)
    metadata = dict(target.manifest["metadata"])
    if key == "cloud-files":
        metadata["annotations"] = {"crossplane.io/external-name": "fs-0123abcd"}
    there = {**target.manifest, "metadata": metadata, "status": status or STATUSES.get(key, READY)}
    made = type(target)(there, target.ready_when) if not hasattr(target, "cluster") else None
    made = made or type(target)(target.cluster, there, target.ready_when, target.shared)
    return Observed(made, ready, desired.outlives)


def settled(item, rounds=12, **required):
    """The last result of a cluster whose objects all become ready, and what is observed of them then."""
    observed, result = {}, compose(item, **required)
    for _ in range(rounds):
        known = {key: seen(key, desired) for key, desired in result.desired.items()}
        if known == observed:
            return result, observed
        observed = known
        result = compose({**item, "status": _status(result)}, observed, **required)
    raise AssertionError("the cluster does not settle")


def _status(result):
    pools = [{"name": pool.name, "className": pool.class_name, "nodes": pool.nodes} for pool in result.status.gpu_pools]
    return {"gpuPools": pools}
