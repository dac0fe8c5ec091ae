"""Whether a ModelReplica serves, by its conditions."""

import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelReplica
from modelplane.compose.readiness import serves

POD = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}


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
