"""What a replica holds, and whether it serves."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelReplica
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
