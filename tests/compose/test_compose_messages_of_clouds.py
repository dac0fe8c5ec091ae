"""What clouds say of what they cannot make, as users read it."""

import pytest

from modelplane.compose.clouds import CLOUDS
from tests.compose.clouds import ZONES, compose, make_cloud, second, seen, settled
from tests.compose.test_compose_clouds import MAKERS, condition

STOCKOUTS = {
    "GKE": "googleapi: Error 503: The zone does not have enough resources available, GCE_STOCKOUT",
    "EKS": "AsgInstanceLaunchFailures: InsufficientInstanceCapacity - We currently do not have sufficient p5 capacity",
    "AKS": "AllocationFailed: the requested VM size is not available in the zone",
    "Civo": "Error: out_of_capacity: there is not enough capacity in the region",
    "Nebius": "rpc error: code = ResourceExhausted: NotEnoughResources: no gpu-h100-sxm in the region",
    "Vultr": "error creating node pool: plan is not available in the selected region",
}
QUOTAS = {
    "GKE": "Insufficient regional quota: QUOTA_EXCEEDED for NVIDIA_H100_GPUS",
    "EKS": "You have requested more vCPU capacity than your current vCPU limit allows",
    "AKS": "Operation could not be completed as it results in exceeding approved standardNDSH100v5Family Cores quota",
    "Civo": "QuotaLimitReachedError: the CPU quota of the account is used up",
    "Nebius": "QuotaFailure: compute.instance.gpu.h100 exceeded",
    "Vultr": "error creating node pool: the instance limit of this account was reached",
}


@pytest.mark.parametrize("source", MAKERS)
@pytest.mark.parametrize("messages", [STOCKOUTS, QUOTAS], ids=["stock-out", "quota"])
def test_a_pool_that_the_cloud_has_no_nodes_for_is_named_and_takes_nothing(source, messages):
    name = second(source)
    item = make_cloud(source, "fixed", name)
    _, observed = settled(item)
    trouble = {"conditions": [{"type": "LastAsyncOperation", "status": "False", "message": messages[source]}]}
    pool = seen(f"cloud-pool-{name}", observed[f"cloud-pool-{name}"], ready=False, status=trouble)
    result = compose(item, {**observed, f"cloud-pool-{name}": pool})
    status, reason, message = condition(result, "Provisioned")
    accelerator = "nvidia-h100-80gb" if source == "GKE" else "h100"
    assert (status, reason) == ("False", "InsufficientCapacity")
    where = ", ".join(ZONES[source]) or "the region"
    assert message == f"pool {name}: no {accelerator} in {where}: {messages[source]}"
    assert {pool.name: pool.nodes for pool in result.status.gpu_pools} == {"fixed": 4, name: 0}
    assert result.ready.status.value == "True"
    assert [(event.type, event.reason) for event in result.events if event.reason == reason]


@pytest.mark.parametrize("source", CLOUDS)
def test_another_refusal_of_a_cloud_is_shown_in_its_words(source):
    item = make_cloud(source, "fixed")
    _, observed = settled(item)
    trouble = {"conditions": [{"type": "Synced", "status": "False", "message": "create failed: forbidden"}]}
    broken = seen("cloud-cluster", observed["cloud-cluster"], ready=False, status=trouble)
    result = compose(item, {**observed, "cloud-cluster": broken})
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", "cluster: create failed: forbidden")


def failing(observed, count, message):
    """So many resources of a cluster that the cloud cannot make."""
    trouble = {"conditions": [{"type": "Synced", "status": "False", "message": message}]}
    keys = [key for key in observed if key.startswith("cloud-") and key != "cloud-activation"][:count]
    assert len(keys) == count
    return {**observed, **{key: seen(key, observed[key], ready=False, status=trouble) for key in keys}}


@pytest.mark.parametrize("said", [300, 301])
def test_of_what_a_cloud_says_of_one_resource_300_characters_are_shown(said):
    item = make_cloud("GKE", "fixed")
    _, observed = settled(item)
    message = condition(compose(item, failing(observed, 1, "x" * said)), "Provisioned")[2]
    assert message.partition(": ")[2] == "x" * 300
    pool = seen(
        "cloud-pool-fixed",
        observed["cloud-pool-fixed"],
        ready=False,
        status={"conditions": [{"type": "Synced", "status": "False", "message": "no capacity".ljust(said, "x")}]},
    )
    empty = condition(compose(item, {**observed, "cloud-pool-fixed": pool}), "Provisioned")[2]
    assert empty.endswith(": no capacity" + "x" * 289)


def test_a_message_names_five_resources_and_has_1024_characters_at_most():
    item = make_cloud("GKE", "fixed")
    _, observed = settled(item)
    short = condition(compose(item, failing(observed, 6, "no")), "Provisioned")[2]
    assert [part.partition(": ")[2] for part in short.split("; ")] == ["no"] * 5
    assert len(condition(compose(item, failing(observed, 6, "x" * 300)), "Provisioned")[2]) == 1024
