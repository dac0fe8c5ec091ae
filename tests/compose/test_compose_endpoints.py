import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelDeployment, ModelReplica
from modelplane.api.timestamps import timestamp
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.readiness import serves

POD = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}

BROKEN = decode(
    ModelDeployment,
    {
        "metadata": {"name": "d", "namespace": "n"},
        "spec": {
            "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "device.("}]}]},
            "workers": {"template": POD},
        },
    },
)


def replica(**held: str) -> dict:
    conditions = [{"type": kind, "status": status, "reason": "X"} for kind, status in held.items()]
    item = {
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {
            "clusterName": "east",
            "engines": [{"name": "m", "members": [{"role": "Standalone", "nodePoolName": "p", "template": POD}]}],
        },
        "status": {"conditions": conditions, "address": "http://192.0.2.1"},
    }
    return encode(decode(ModelReplica, item))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, False),
        ({"WorkloadReady": "True"}, False),
        ({"WorkloadReady": "True", "RouteReady": "False"}, False),
        ({"WorkloadReady": "True", "RouteReady": "True"}, True),
        ({"WorkloadReady": "True", "RouteReady": "True", "Accepted": "False", "Ready": "False"}, True),
    ],
)
def test_a_replica_serves_while_its_workload_and_its_route_do(held, expected):
    assert serves(replica(**held)) is expected


def test_conditions_of_an_older_generation_count_for_serving():
    item = replica(WorkloadReady="True", RouteReady="True")
    item["metadata"]["generation"] = 7
    for condition in item["status"]["conditions"]:
        condition["observedGeneration"] = 6
    assert serves(item)


@pytest.mark.parametrize("route", ["True", "False"])
def test_while_nothing_can_be_decided_endpoints_still_follow_their_replicas(route):
    seen = replica(WorkloadReady="True", RouteReady=route)
    observed = {
        "replica-east-0": Observed(Local(seen), ready=True),
        "endpoint-east-0": Observed(Local({"metadata": {"name": "r"}}), ready=True),
    }
    result = model_deployment.compose(ComposeRequest(BROKEN, observed=observed))
    expected = {"replica-east-0", "endpoint-east-0"} if route == "True" else {"replica-east-0"}
    assert result.desired.keys() == expected
    assert result.conditions[0].reason == "InvalidSelector"


def stopped(since_s: float) -> dict:
    item = replica(WorkloadReady="True", RouteReady="False")
    for condition in item["status"]["conditions"]:
        condition["lastTransitionTime"] = timestamp(1000.0 - since_s)
    return item


@pytest.mark.parametrize(
    ("since_s", "now", "known", "kept"),
    [
        (0, 1000.0, True, True),
        (2, 1000.0, True, True),
        (3, 1000.0, True, False),
        (600, 1000.0, True, False),
        (0, 1000.0, False, False),
        (0, 0.0, True, False),
        (-60, 1000.0, True, False),
    ],
)
def test_a_replica_that_just_stopped_keeps_the_endpoint_it_has(since_s, now, known, kept):
    seen = stopped(since_s)
    holding = {"replica-east-0": Observed(Local(seen), ready=False)}
    endpoint = {"endpoint-east-0": Observed(Local({"metadata": {"name": "r"}}), ready=True)} if known else {}
    request = ComposeRequest(BROKEN, observed=holding | endpoint, now=now)
    assert ("endpoint-east-0" in model_deployment.compose(request).desired) is kept
