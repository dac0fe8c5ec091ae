"""A rack as a unit, as a cluster reports it and as workloads ask for it."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool, InferenceCluster, NodePool, PoolDomain
from modelplane.compose.backends.lws import leader_worker_set
from modelplane.compose.capacity import ObservedPool, refined
from modelplane.compose.capacity.devices import Holder, PublishedDevice
from modelplane.compose.context import Context
from modelplane.compose.fabric_domains import EXCLUSIVE_TOPOLOGY, pool_domain, topology_key
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.k8s.dra import DeviceId

KEY = "nvidia.com/gpu.clique"
POOL = {
    "name": "racks",
    "className": "gb200",
    "nodeCount": 4,
    "fabric": {"domain": {"topologyKey": KEY, "nodeCount": 2}},
}


def cluster(**spec):
    made = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}, "nodePools": [POOL], **spec}
    return decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": made})


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, None),
        ({"backend": {"type": "KServe"}}, "a domain of a fabric cannot be asked for with backend KServe"),
        (
            {"scheduling": {"type": "KAI"}},
            "a domain of a fabric cannot be asked for together with gang scheduling by KAI",
        ),
    ],
)
def test_domains_of_a_pool(spec, fault):
    made = cluster(**spec)
    found = pool_domain(made, made.spec.node_pools[0])
    assert found == PoolDomain(topology_key=KEY, node_count=2, fault=fault)
    assert topology_key(made, "racks") == KEY
    assert topology_key(made, "others") is None


def test_a_pool_without_a_fabric_has_no_domains():
    made = cluster(nodePools=[{"name": "plain", "className": "x"}])
    assert pool_domain(made, made.spec.node_pools[0]) is None


def observed(*racks, foreign=""):
    """Nodes by the value of their label."""
    labels = {f"n{at}": {KEY: rack} if rack else {} for at, rack in enumerate(racks)}
    held = PublishedDevice(DeviceId("d", "p", "gpu-0"), {}, Holder.OTHER, node=foreign)
    return {"racks": ObservedPool(len(racks), (held,) if foreign else (), labels)}


@pytest.mark.parametrize(
    ("seen", "complete"),
    [
        (observed("a", "a", "b", "b"), 2),
        (observed("a", "a", "b"), 1),
        (observed("a", "b", "c", "d"), 0),
        (observed("", "", "a", "a"), 1),  # nodes without the label are in no domain
        (observed("a", "a", "b", "b", foreign="n3"), 1),
        (observed("a", "a", "a", "b"), 1),
    ],
)
def test_domains_count_when_all_their_nodes_are_there(seen, complete):
    domain = PoolDomain(topology_key=KEY, node_count=2)
    shown = GpuPool(name="racks", nodes=4, domain=domain)
    declared = NodePool(name="racks", class_name="x", node_count=4)
    found = refined(shown, declared, seen, None)
    assert found.domain == msgspec.structs.replace(domain, complete=complete)
    # While nothing is read the last observation counts, and a pool that scales may still complete its domains.
    assert refined(shown, declared, None, found).domain == found.domain
    scaling = NodePool(name="racks", class_name="x", node_count=2, max_node_count=4)
    assert refined(shown, scaling, seen, None, 1.0).domain == domain


def test_a_group_asks_for_a_domain_of_its_own(scene):
    made = scene("v03-gang")
    named = made.replica.spec.engines[0].members[0].node_pool_name
    plain = decode(InferenceCluster, made.required["cluster"][0])
    pools = (decode(NodePool, {**POOL, "name": named}),)
    racks = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, node_pools=pools))

    def annotations(found):
        context = Context(made.replica, found)
        remote = leader_worker_set(context, made.replica.spec.engines[0], GangMetadata())
        return remote.manifest["metadata"].get("annotations", {})

    assert annotations(racks) == {**annotations(plain), EXCLUSIVE_TOPOLOGY: KEY}
