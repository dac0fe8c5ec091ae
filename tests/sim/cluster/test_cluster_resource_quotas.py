"""ResourceQuotas: which pods they forbid, and what the owners of those pods say."""

import pytest

from modelplane.api.objects import manifest
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.objects import condition_of
from modelplane.sim.cluster.resource_quotas import quota_refusal
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gpu_pool,
    leader_worker_set,
    run_cluster,
)

POOLS = [gpu_pool("h200", 1)]


class Objects:
    def __init__(self, quotas=(), pods=()):
        self._items = {"ResourceQuota": tuple(quotas), "Pod": tuple(pods)}

    def list(self, _group, kind, *, namespace):
        assert namespace == "team"
        return self._items[kind]


def quota(**hard):
    amounts = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    return manifest("v1", "ResourceQuota", "compute", namespace=TENANT_NAMESPACE, spec={"hard": amounts})


def pod(memory=None, request=None, phase="Running"):
    resources = {}
    if memory:
        resources["limits"] = {"memory": memory}
    if request:
        resources["requests"] = {"memory": request}
    return {
        "metadata": {"generateName": "p-", "namespace": "team"},
        "spec": {"containers": [{"name": "engine", "resources": resources}]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("hard", "held", "wanted", "exceeded"),
    [
        ({"pods": "2"}, [pod()], pod(), None),
        ({"pods": "1"}, [pod()], pod(), "requested: pods=1, used: pods=1, limited: pods=1"),
        ({"pods": "1"}, [pod(phase="Failed")], pod(), None),
        ({"count__pods": "0"}, [], pod(), "requested: count/pods=1, used: count/pods=0, limited: count/pods=0"),
        (
            {"limits_memory": "10Gi"},
            [pod("6Gi")],
            pod("6Gi"),
            "requested: limits.memory=6Gi, used: limits.memory=6Gi, limited: limits.memory=10Gi",
        ),
        ({"requests_memory": "10Gi"}, [pod("6Gi", "1Gi")], pod("6Gi"), None),
        (
            {"memory": "10Gi", "pods": "1"},
            [pod("6Gi")],
            pod("6Gi"),
            "requested: memory=6Gi,pods=1, used: memory=6Gi,pods=1, limited: memory=10Gi,pods=1",
        ),
        ({"limits_memory": "1Gi"}, [], pod(), None),
        ({"pods": "few"}, [], pod(), None),
    ],
)
def test_what_a_quota_forbids(hard, held, wanted, exceeded):
    expected = f'pods "p-" is forbidden: exceeded quota: compute, {exceeded}' if exceeded else None
    assert quota_refusal(Objects([quota(**hard)], held), wanted) == expected


def test_without_a_quota_everything_is_allowed():
    assert quota_refusal(Objects(), pod()) is None


def events(lab, kind):
    found = lab.store.list("", "Event")
    return [(item["reason"], item["message"]) for item in found if item["involvedObject"]["kind"] == kind]


def test_a_deployment_says_why_its_pods_are_not_created_until_they_are():
    async def main(lab):
        lab.apply(quota(pods="1"), deployment(replicas=2, claims=False, pool="h200"))
        await lab.clock.sleep(5)
        made = lab.get(deployment())
        before = len(lab.pods()), condition_of(made, "ReplicaFailure"), events(lab, "ReplicaSet")
        lab.apply({**lab.get(quota()), "spec": {"hard": {"pods": "2"}}})
        await lab.clock.sleep(5)
        return before, len(lab.pods()), condition_of(lab.get(deployment()), "ReplicaFailure")

    pools = [gpu_pool("h200", 1, gpus=0)]
    (pods, failure, told), after, cleared = run_cluster(main, pools=pools)
    assert (pods, after, dict(cleared)) == (1, 2, {})
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    words = "exceeded quota: compute, requested: pods=1, used: pods=1, limited: pods=1"
    assert failure["message"].endswith(f"is forbidden: {words}")
    assert told == [("FailedCreate", f"Error creating: {failure['message']}")]


def test_a_group_waits_for_its_quota():
    async def main(lab):
        lab.apply(quota(pods="0"), leader_worker_set(gpus_from=None))
        await lab.clock.sleep(5)
        before = len(lab.pods()), events(lab, "StatefulSet")
        lab.store.delete(ref_of(quota()))
        await lab.clock.sleep(30)
        return before, len(lab.pods())

    (pods, told), after = run_cluster(main, pools=POOLS)
    words = 'pods "gang-0" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=0, limited: pods=0'
    assert (pods, after) == (0, 2)
    assert told == [("FailedCreate", f"create Pod gang-0 in StatefulSet gang failed error: {words}")]


def test_devices_of_claims_are_counted_by_their_class():
    hard = {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "3"}}
    devices = manifest("v1", "ResourceQuota", "compute", namespace=TENANT_NAMESPACE, spec=hard)

    async def main(lab):
        lab.apply(devices, claim_template(gpus=2), deployment(replicas=2))
        await lab.clock.sleep(5)
        before = len(lab.claims()), events(lab, "Pod")
        lab.apply({**lab.get(devices), "spec": {"hard": {}}})
        await lab.clock.sleep(30)
        return before, len(lab.claims()), [bool(pod["spec"].get("nodeName")) for pod in lab.pods()]

    (held, told), after, bound = run_cluster(main, pools=POOLS)
    assert (held, after, bound) == (1, 2, [True, True])
    ((reason, message),) = told
    name = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    words = f"exceeded quota: compute, requested: {name}=2, used: {name}=2, limited: {name}=3"
    assert reason == "FailedResourceClaimCreation"
    assert message.startswith(
        "PodResourceClaim devices: failed to create ResourceClaim: resourceclaims.resource.k8s.io"
    )
    assert message.endswith(f"is forbidden: {words}")
