"""What a replica holds, and whether it serves."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelReplica
from modelplane.api.timestamps import epoch_s
from modelplane.compose.placed_replica import placed_replica


@pytest.mark.parametrize(
    ("conditions", "serving"),
    [
        ([], False),
        ([("Ready", "True")], True),
        ([("WorkloadReady", "True"), ("RouteReady", "True"), ("Ready", "False")], True),
        ([("WorkloadReady", "True")], False),
    ],
)
def test_what_a_replica_holds_and_whether_it_serves(conditions, serving):
    manifest = {
        "metadata": {"name": "r", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "clusterName": "east",
            "index": 2,
            "protected": True,
            "preempts": ["r-abc"],
            "deployment": {"name": "chat", "uid": "u"},
            "engines": [
                {
                    "name": "main",
                    "copies": 3,
                    "members": [
                        {
                            "role": "Worker",
                            "nodes": 2,
                            "nodePoolName": "gpus",
                            "deviceRequests": [{"name": "gpu", "deviceClassName": "c", "count": 4}],
                            "template": {"spec": {"containers": []}},
                        }
                    ],
                }
            ],
        },
        "status": {"conditions": [{"type": kind, "status": value, "reason": "x"} for kind, value in conditions]},
    }
    held = placed_replica(decode(ModelReplica, manifest))
    assert (str(held.deployment), held.cluster, held.index, held.devices) == ("team/chat", "east", 2, 24)
    assert (held.serving, held.protected, held.preempts, held.leaving) == (serving, True, ("r-abc",), False)


def at(second):
    return f"2026-01-01T00:00:{second:02}Z"


WORKLOAD, ROUTE, READY = "WorkloadReady", "RouteReady", "Ready"


@pytest.mark.parametrize(
    ("conditions", "second"),
    [
        pytest.param([], 5, id="since it exists"),
        pytest.param([(WORKLOAD, "False", at(10)), (ROUTE, "False", at(20))], 10, id="since the first part stopped"),
        pytest.param([(WORKLOAD, "False", at(10)), (ROUTE, "False", None)], 10, id="a part without a time"),
        pytest.param([(WORKLOAD, "True", at(10)), (ROUTE, "False", at(20))], 20, id="a part that serves"),
        pytest.param([(WORKLOAD, "False", at(10)), (READY, "False", at(30))], 30, id="since it was ready last"),
        pytest.param([(WORKLOAD, "False", at(10)), (READY, "Unknown", at(8))], 10, id="what came last counts"),
        pytest.param([(WORKLOAD, "False", at(1))], 5, id="a time before it existed"),
    ],
)
def test_since_when_a_replica_does_not_serve(conditions, second):
    told = [
        {"type": kind, "status": value, "reason": "x", **({"lastTransitionTime": time} if time else {})}
        for kind, value, time in conditions
    ]
    item = {
        "metadata": {"name": "r", "namespace": "team", "creationTimestamp": at(5)},
        "spec": {"clusterName": "east", "index": 0, "engines": []},
        "status": {"conditions": told},
    }
    assert placed_replica(decode(ModelReplica, item)).idle_since == epoch_s(at(second))
