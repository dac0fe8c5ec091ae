"""The devices of a class as placement reads them."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.models import GpuPool, InferenceClass, InferenceCluster
from modelplane.compose.fleet_snapshot import cluster_of
from modelplane.compose.pool_hardware import class_kinds, pool_of
from modelplane.placement.hardware import Domain

GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}


def test_a_class_whose_devices_cannot_be_read_is_refused_with_the_place():
    broken = {
        "metadata": {"name": "h200"},
        "spec": {"devices": [{**GPU, "capacity": {"memory": {"value": "lots"}}}]},
    }
    with pytest.raises(InvalidObject, match=r"spec.devices: device gpu: capacity\[memory\].value"):
        class_kinds(decode(InferenceClass, broken))


def test_a_pool_of_domains_is_counted_in_them():
    domain = {"topologyKey": "nvidia.com/gpu.clique", "nodeCount": 18, "complete": 2, "fault": "no scheduler for it"}
    pool = {"name": "gpus", "nodes": 36, "devices": [GPU], "domain": domain}
    spec = {"cluster": {"source": "Existing"}, "nodePools": [{"name": "gpus", "className": "gb200", "nodeCount": 36}]}
    item = {"metadata": {"name": "east"}, "spec": spec, "status": {"gpuPools": [pool]}}
    (found,) = cluster_of(decode(InferenceCluster, item)).pools
    assert found.hardware.domain == Domain("nvidia.com/gpu.clique", 18, "no scheduler for it")
    assert (found.domains, found.units(found.nodes)) == (2, 2)


def test_a_pool_that_scales_and_may_have_no_nodes_has_none():
    pool = {"name": "gpus", "nodes": 0, "observedNodes": 0, "devices": [GPU]}
    spec = {
        "cluster": {"source": "Existing"},
        "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 0, "maxNodeCount": 0}],
    }
    item = {"metadata": {"name": "east"}, "spec": spec, "status": {"gpuPools": [pool]}}
    (found,) = cluster_of(decode(InferenceCluster, item)).pools
    assert (found.nodes, found.nodes_now, found.desired_nodes) == (0, None, None)


def test_a_pool_that_nobody_declares_has_no_nodes_to_come():
    found = pool_of(decode(GpuPool, {"name": "gpus", "nodes": 0, "devices": [GPU]}), None)
    assert (found.nodes, found.desired_nodes) == (0, None)
