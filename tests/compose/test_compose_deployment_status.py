"""What a deployment says of its placement: with the numbers, and never that all is well when it is not."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen
from modelplane.compose.fleet_snapshot import fleet_of

POD = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
SINCE = "2026-01-01T00:00:00Z"
NOW = 1767225600.0


def cluster(name, *, nodes=1, pool=None, region="east"):
    return {
        "metadata": {"name": name, "labels": {"region": region}},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": nodes}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "nodes": nodes, "devices": [GPU], **(pool or {})}],
        },
    }


def deployment(replicas, devices, region="east"):
    wanted = [{"name": "gpu", "count": devices, "selectors": [{"cel": 'device.driver == "d"'}]}]
    spec = {"replicas": replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": POD}}
    return decode(
        ModelDeployment,
        {
            "metadata": {"name": "chat", "namespace": "team", "uid": "u"},
            "spec": {**spec, "clusterSelector": {"matchLabels": {"region": region}}},
        },
    )


def running(result, *, ready):
    """The replicas of a result as they are observed, since some time ago."""
    for key, desired in result.desired.items():
        manifest = dict(desired.target.manifest)
        manifest["metadata"] = {**manifest["metadata"], "creationTimestamp": SINCE}
        condition = {"type": "Ready", "status": str(ready), "reason": "Starting", "lastTransitionTime": SINCE}
        yield key, {**manifest, "status": {"conditions": [condition]}}


def scheduled(asked, clusters, replicas=(), now=NOW):
    found = dict(replicas)
    observed = {key: Observed(Local(item, ReadyWhen.READY), ready=False) for key, item in found.items()}
    request = ComposeRequest(asked, observed, fleet=fleet_of(clusters, found.values()), now=now)
    result = model_deployment.compose(request)
    condition = result.conditions[0]
    return result, (condition.status.value, condition.reason, condition.message)


def stuck(placed, number, why):
    return f"{placed} replicas placed, {number} of them must move and no other pool has capacity ({why})"


TOO_FEW = "its pool has too few free devices for its new request"
NO_NODE = "; Capacity: needs 1 free node; 0 of 1 nodes are free"
NONE_SELECTED = ": 0 of 1 clusters match the selectors"
NOT_SELECTED = "its cluster no longer matches the clusterSelector"


def test_all_are_placed():
    _, told = scheduled(deployment(1, 4), [cluster("a")])
    assert told == ("True", "AllPlaced", "1 of 1 replicas placed")


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        pytest.param(
            deployment(2, 8),
            (
                "False",
                "InsufficientCapacity",
                stuck("2 of 2", 2, TOO_FEW) + NO_NODE,
            ),
            id="asked to grow beyond the room",
        ),
        pytest.param(
            deployment(2, 4, region="west"),
            ("False", "NoClusters", stuck("2 of 2", 2, NOT_SELECTED) + NONE_SELECTED),
            id="selected away from every cluster",
        ),
        pytest.param(
            deployment(3, 8, region="west"),
            ("False", "NoClusters", stuck("2 of 3", 2, NOT_SELECTED) + NONE_SELECTED),
            id="and one more is asked for",
        ),
    ],
)
def test_replicas_with_nowhere_to_go_are_told_with_the_numbers(edited, told):
    before, _ = scheduled(deployment(2, 4), [cluster("a")])
    after, found = scheduled(edited, [cluster("a")], running(before, ready=True))
    assert found == told
    assert after.desired.keys() >= {key for key in before.desired if key.startswith("replica-")}
    assert after.ready.status.value == "False"


def test_a_pool_that_is_out_of_stock_is_left_after_the_grace_and_otherwise_named():
    before, _ = scheduled(deployment(1, 8), [cluster("a")])
    empty = cluster("a", pool={"nodes": 0, "observedNodes": 0, "shortSince": SINCE})
    replicas = dict(running(before, ready=False))
    early, told = scheduled(deployment(1, 8), [empty, cluster("b")], replicas, NOW + 299)
    assert (told[1], early.requeue_after_s) == ("AllPlaced", 1.0)
    late, told = scheduled(deployment(1, 8), [empty, cluster("b")], replicas, NOW + 300)
    assert (told[1], sorted(late.desired)) == ("AllPlaced", ["replica-b-0"])
    stays, told = scheduled(deployment(1, 8), [empty], replicas, NOW + 300)
    lacks = stuck("1 of 1", 1, "it cannot run: pool gpus has 0 of 1 nodes")
    assert told == (
        "False",
        "InsufficientCapacity",
        f"{lacks}; Capacity: needs 1 free node; 0 of 0 nodes are free; 1 node is missing",
    )
    assert sorted(stays.desired) == ["replica-a-0"]
    back = cluster("a")
    _, told = scheduled(deployment(1, 8), [back], replicas, NOW + 999)
    assert told[:2] == ("True", "AllPlaced")


def test_messages_are_bounded():
    many = [cluster(f"c{number:03}", nodes=0) for number in range(300)]
    result, told = scheduled(msgspec.structs.replace(deployment(3, 8)), many)
    assert len(told[2]) <= model_deployment.MAX_SUMMARY
    assert len(result.status.placement.candidates) <= model_deployment.MAX_CANDIDATES
