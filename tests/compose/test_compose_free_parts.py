"""What a pool can still give of partitions and shares."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool, InferenceCluster, ModelReplica
from modelplane.compose.free_parts import counted_once, with_free_parts

SETS = [{"name": "gpu", "count": 2, "counters": {"slices": {"value": "7"}}}]


def device(name, count, drawn, **fields):
    consumed = [{"counterSet": "gpu", "counters": {"slices": {"value": str(drawn)}}}]
    attributes = {"type": {"string": name}}
    return {
        "name": name,
        "driver": "d",
        "deviceClassName": "c",
        "count": count,
        "attributes": attributes,
        "consumesCounters": consumed,
        **fields,
    }


def cluster(pool):
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
        "nodePools": [{"name": "gpus", "className": "h100", "nodeCount": 2}],
    }
    return decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": spec, "status": {"gpuPools": [pool]}})


def replica(at, kind):
    request = {
        "name": "gpu",
        "deviceClassName": "c",
        "selectors": [{"cel": f'device.attributes["d"].type == "{kind}"'}],
    }
    member = {
        "role": "Standalone",
        "nodePoolName": "gpus",
        "deviceRequests": [request],
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }
    spec = {
        "clusterName": "east",
        "index": at,
        "deployment": {"name": "chat"},
        "engines": [{"name": "main", "members": [member]}],
    }
    return decode(ModelReplica, {"metadata": {"name": f"r{at}", "namespace": "team"}, "spec": spec})


@pytest.mark.parametrize(
    ("held", "others", "free"),
    [
        ([], 0, {"gpu": 4, "mig": 28}),
        (["mig"], 0, {"gpu": 3, "mig": 27}),
        (["mig", "mig"], 0, {"gpu": 2, "mig": 26}),
        (["gpu", "mig"], 0, {"gpu": 2, "mig": 2}),
        (["gpu"] * 4, 0, {"gpu": 0, "mig": 0}),
        ([], 1, {"gpu": 3, "mig": 27}),
    ],
)
def test_a_gpu_and_its_partitions_depend_on_each_other(held, others, free):
    nic = {"name": "nic", "driver": "n", "deviceClassName": "n", "count": 4, "free": 5}
    devices = [device("gpu", 2, 7), device("mig", 14, 1, heldByOthers=others), nic]
    found = cluster({"name": "gpus", "nodes": 2, "sharedCounters": SETS, "devices": devices})
    pools = with_free_parts(found, found.status.gpu_pools, [replica(at, kind) for at, kind in enumerate(held)])
    assert {each.name: each.free for each in pools[0].devices} == {**free, "nic": 5}


def test_a_replica_that_cannot_be_read_holds_nothing_that_is_known():
    found = cluster({"name": "gpus", "nodes": 2, "sharedCounters": SETS, "devices": [device("gpu", 2, 7)]})
    broken = replica(0, "gpu")
    engine = msgspec.structs.replace(broken.spec.engines[0], members=())
    broken = msgspec.structs.replace(broken, spec=msgspec.structs.replace(broken.spec, engines=(engine,)))
    pools = with_free_parts(found, found.status.gpu_pools, [broken, replica(1, "gpu")])
    assert [(each.name, each.free) for each in pools[0].devices] == [("gpu", 3)]


def test_a_gpu_and_its_partitions_are_counted_once():
    pool = cluster(
        {
            "name": "gpus",
            "nodes": 2,
            "sharedCounters": SETS,
            "devices": [
                device("mig", 14, 1),
                device("gpu", 2, 7),
                device("half", 2, 3),
                {"name": "nic", "driver": "n", "deviceClassName": "c", "count": 4},
                {"name": "fabric", "driver": "f", "claim": "Synthetic", "count": 1},
            ],
        }
    ).status.gpu_pools[0]
    assert [(each.name, each.count) for each in counted_once(pool.devices)] == [("nic", 4), ("gpu", 2)]


def test_other_pools_stay_as_they_are():
    plain = {"name": "gpus", "nodes": 2, "devices": [{"name": "gpu", "driver": "d", "count": 8, "free": 3}]}
    found = cluster(plain)
    assert with_free_parts(found, found.status.gpu_pools, ()) is found.status.gpu_pools
    mixed = (found.status.gpu_pools[0], decode(GpuPool, {"name": "x", "nodes": 0, "devices": [device("gpu", 2, 7)]}))
    assert with_free_parts(found, mixed, ())[0] == mixed[0]
    unread = decode(GpuPool, {"name": "y", "nodes": 1, "devices": []})
    assert with_free_parts(found, (*mixed, unread), ())[2] == unread
