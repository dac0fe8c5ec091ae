"""A rack as a unit, as a cluster reports it and as workloads ask for it."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool, InferenceCluster, NodePool, PoolDomain
from modelplane.compose.capacity import ObservedPool, refined
from modelplane.compose.capacity.devices import Holder, PublishedDevice
from modelplane.compose.fabric_domains import fabric_type, has_compute_domains, pool_domain, topology_key
from modelplane.compose.gang import domain_fault
from modelplane.compose.gang.gang_metadata import EXCLUSIVE_TOPOLOGY
from modelplane.k8s.dra import DeviceId

KEY = "nvidia.com/gpu.clique"
POOL = {
    "name": "racks",
    "className": "gb200",
    "nodeCount": 4,
    "fabric": {"domain": {"topologyKey": KEY, "nodeCount": 2}},
}
NEEDS_VOLCANO = "spec.scheduling.version: an engine is kept in one domain of a fabric by Volcano 1.14 or newer"


def cluster(**spec):
    made = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}, "nodePools": [POOL], **spec}
    return decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": made})


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, None),
        ({"backend": {"type": "KServe"}}, "spec.backend.type: KServe cannot keep an engine in one domain of a fabric"),
        ({"scheduling": {"schedulerName": "our-scheduler"}}, None),
        (
            {"scheduling": {"schedulerName": "kai-scheduler"}},
            "spec.scheduling.type: kai-scheduler keeps an engine in one domain of a fabric only where the type is KAI",
        ),
        ({"scheduling": {"type": "KAI"}}, None),
        ({"scheduling": {"type": "KAI", "version": "0.12.0"}}, None),
        (
            {"scheduling": {"type": "KAI", "version": "0.10.2"}},
            "spec.scheduling.version: KAI before 0.12 cannot keep an engine in one domain of a fabric",
        ),
        ({"scheduling": {"type": "Kueue", "queue": "serving"}}, None),
        (
            {"scheduling": {"type": "Kueue", "version": "v0.10.4"}},
            "spec.scheduling.version: Kueue before 0.11 cannot keep an engine in one domain of a fabric",
        ),
        ({"scheduling": {"type": "Volcano", "version": "1.14.1"}}, None),
        # An older one drops the field that it does not know, and the engine would straddle racks.
        ({"scheduling": {"type": "Volcano", "version": "1.13.0"}}, NEEDS_VOLCANO),
        ({"scheduling": {"type": "Volcano"}}, NEEDS_VOLCANO),
    ],
)
def test_domains_of_a_pool(spec, fault):
    made = cluster(**spec)
    found = pool_domain(made.spec.node_pools[0], domain_fault(made))
    assert found == PoolDomain(topology_key=KEY, node_count=2, fault=fault)
    assert topology_key(made, "racks") == KEY
    assert topology_key(made, "others") is None


def test_a_pool_without_a_fabric_has_no_domains():
    made = cluster(nodePools=[{"name": "plain", "className": "x"}])
    assert pool_domain(made.spec.node_pools[0], None) is None


def observed(*racks, foreign="", ours=""):
    """Nodes by the value of their label, and where devices are held."""
    labels = {f"n{at}": {KEY: rack} if rack else {} for at, rack in enumerate(racks)}
    holders = ((Holder.OTHER, foreign), (Holder.REPLICA, ours))
    held = (PublishedDevice(DeviceId("d", "p", "gpu-0"), {}, holder, node=node) for holder, node in holders if node)
    return {"racks": ObservedPool(len(racks), tuple(held), labels)}


@pytest.mark.parametrize(
    ("seen", "complete"),
    [
        (observed("a", "a", "b", "b"), 2),
        (observed("a", "a", "b"), 1),
        (observed("a", "b", "c", "d"), 0),
        (observed("", "", "a", "a"), 1),  # nodes without the label are in no domain
        (observed("a", "a", "b", "b", foreign="n3"), 1),
        (observed("a", "a", "b", "b", ours="n3"), 2),  # a rack that replicas are on counts: placement knows them
        (observed("a", "a", "a", "b"), 1),
    ],
)
def test_domains_count_when_all_their_nodes_are_there(seen, complete):
    domain = PoolDomain(topology_key=KEY, node_count=2)
    shown = GpuPool(name="racks", nodes=4, domain=domain)
    declared = NodePool(name="racks", class_name="x", node_count=4)
    found = refined(shown, declared, seen, None, 0.0)
    assert found.domain == msgspec.structs.replace(domain, complete=complete)
    # While nothing is read the last observation counts, and a pool that scales may still complete its domains.
    assert refined(shown, declared, None, found, 0.0).domain == found.domain
    scaling = NodePool(name="racks", class_name="x", node_count=2, max_node_count=4)
    assert refined(shown, scaling, seen, None, 1.0).domain == domain


def test_what_was_observed_of_domains_of_another_label_counts_no_more():
    domain = PoolDomain(topology_key=KEY, node_count=2)
    before = GpuPool(name="racks", nodes=4, domain=PoolDomain(topology_key="rack", node_count=2, complete=2))
    shown = GpuPool(name="racks", nodes=4, domain=domain)
    assert refined(shown, NodePool(name="racks", class_name="x", node_count=4), None, before, 0.0).domain == domain


def rendered(made):
    """The LeaderWorkerSet's annotations, and the objects for the scheduler."""
    desired = made.compose().desired
    workload = next(item.target.manifest for key, item in desired.items() if key.endswith("-lws"))
    support = {item.target.manifest["kind"]: item.target for item in desired.values()}
    return workload["metadata"].get("annotations", {}), support


@pytest.mark.parametrize("scheduler", ["none", "kueue"])
def test_a_group_asks_for_a_domain_of_its_own(scene, scheduler):
    plain, _ = rendered(scene("v03-gang", "native", scheduler))
    found, _ = rendered(scene("v03-gang", "racks", scheduler))
    assert found == {**plain, EXCLUSIVE_TOPOLOGY: KEY}


@pytest.mark.parametrize("shape", ["v03-gang", "kimi-k2-5p3d"])
def test_kai_is_told_of_the_domain_by_a_topology(scene, shape):
    found, support = rendered(scene(shape, "racks", "kai"))
    name = support["Topology"].manifest["metadata"]["name"]
    assert (found["kai.scheduler/topology"], found["kai.scheduler/topology-required-placement"]) == (name, KEY)
    assert support["Topology"].manifest["spec"] == {"levels": [{"nodeLabel": KEY}]}
    assert support["Topology"].shared
    # Its grouper makes the groups: a PodGroup of ours cannot tell one group of a LeaderWorkerSet from another.
    assert "PodGroup" not in support
    assert EXCLUSIVE_TOPOLOGY not in found


def test_volcano_is_told_of_the_domain_of_each_group(scene):
    plain, _ = rendered(scene("kimi-k2-5p3d", "native", "volcano"))
    found, support = rendered(scene("kimi-k2-5p3d", "racks", "volcano"))
    assert found == plain
    spec = support["PodGroup"].manifest["spec"]
    assert spec["minMember"] == 11
    (decode_,) = spec["subGroupPolicy"]
    assert (decode_["name"], decode_["subGroupSize"]) == ("decode", 2)
    assert decode_["labelSelector"] == {"matchLabels": {"modelplane.ai/engine": "decode"}}
    assert decode_["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
    assert decode_["networkTopology"] == {"mode": "hard", "highestTierName": KEY}


@pytest.mark.parametrize(
    ("scheduler", "version", "words"),
    [
        ("kai", "0.11.0", "spec.scheduling.version: KAI before 0.12"),
        ("volcano", "1.13.1", "spec.scheduling.version: an engine is kept in one domain"),
    ],
)
def test_a_replica_is_refused_where_its_rack_cannot_be_kept(scene, scheduler, version, words):
    result = scene("v03-gang", "racks", scheduler, version=version).compose()
    (accepted,) = (found for found in result.conditions if found.type == "Accepted")
    assert (accepted.status, accepted.reason) == ("False", "NotSupported")
    assert "cluster east" in accepted.message
    assert words in accepted.message
    # An engine of one pod is in no domain, and the same cluster runs it.
    single = scene("single-gpu", "racks", scheduler, version=version).compose()
    assert single.desired


def test_a_pool_has_compute_domains_where_it_says_so_itself():
    domain = {"topologyKey": KEY, "nodeCount": 2, "computeDomains": True}
    found = cluster(nodePools=[POOL, {**POOL, "name": "nvlink", "fabric": {"domain": domain}}])
    assert {name: has_compute_domains(found, name) for name in ("racks", "nvlink", "none")} == {
        "racks": False,
        "nvlink": True,
        "none": False,
    }


def test_a_pool_has_the_network_that_it_says_itself():
    plain = {"name": "plain", "className": "x"}
    found = cluster(nodePools=[plain, {**plain, "name": "fast", "fabric": {"type": "InfiniBand"}}, POOL])
    assert {name: fabric_type(found, name) for name in ("plain", "fast", "gone")} == {
        "plain": "None",
        "fast": "InfiniBand",
        "gone": "None",
    }
