"""Gangs whose pods must share a domain of nodes: a rack is filled before the next, and no gang straddles two."""

from collections import Counter
from dataclasses import replace

import pytest

from modelplane.api.models import FabricDomain
from modelplane.api.objects import labels_of, manifest, name_of, text_at, with_metadata
from modelplane.sim.cluster.gang_topology import Subgroup, subgroups
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    gpu_pool,
    leader_worker_set,
    run_cluster,
)

KEY = "nvidia.com/gpu.clique"
CLAIMS = claim_template(gpus=8)
TOPOLOGY = manifest("kai.scheduler/v1alpha1", "Topology", "racks", spec={"levels": [{"nodeLabel": KEY}]})
QUEUES = (
    manifest("scheduling.run.ai/v2", "Queue", "team", spec={"resources": {"gpu": {"quota": -1, "limit": -1}}}),
    manifest("scheduling.volcano.sh/v1beta1", "Queue", "team", spec={"weight": 1}),
)
POLICY = {
    "name": "main",
    "subGroupSize": 2,
    "labelSelector": {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": "gang"}},
    "matchLabelKeys": ["leaderworkerset.sigs.k8s.io/group-index"],
    "networkTopology": {"mode": "hard", "highestTierName": KEY},
}


def marked(item, scheduler, annotations):
    template = dict(item["spec"]["leaderWorkerTemplate"])
    for part in ("leaderTemplate", "workerTemplate"):
        pod = with_spec(template[part], schedulerName=scheduler)
        known = pod.get("metadata", {})
        labels = {**known.get("labels", {}), "kai.scheduler/queue": "team"}
        template[part] = {**pod, "metadata": {**known, "labels": labels, "annotations": annotations}}
    return with_spec(item, leaderWorkerTemplate=template)


def kai(item, level=KEY):
    wanted = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": level}
    return (with_metadata(marked(item, "kai-scheduler", {}), annotations=wanted),)


def volcano(item, pods, **policy):
    spec = {"minMember": pods, "queue": "team", "subGroupPolicy": [{**POLICY, **policy}]}
    group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "gang", namespace=TENANT_NAMESPACE, spec=spec)
    return group, marked(item, "volcano", {"scheduling.k8s.io/group-name": "gang"})


def racks(lab):
    """The racks of each group's pods; an empty text for a pod that waits."""
    nodes = {name_of(node): labels_of(node).get(KEY, "") for node in lab.store.list("", "Node")}
    found = {}
    for pod in lab.pods():
        group = labels_of(pod)["leaderworkerset.sigs.k8s.io/group-index"]
        found.setdefault(group, Counter())[nodes.get(text_at(pod, "spec", "nodeName"), "")] += 1
    return [dict(found[group]) for group in sorted(found)]


def on_racks(items, nodes, size, later=()):
    """The racks after the items, and those after what comes later; why the first pod that waits does."""

    async def main(lab):
        lab.apply(CLAIMS, *QUEUES, *items)
        await lab.settle()
        first = racks(lab)
        lab.apply(*later)
        await lab.settle()
        waits = [pod for pod in lab.pods() if not text_at(pod, "spec", "nodeName")]
        why = str(condition_of(waits[0], "PodScheduled").get("message")) if waits else ""
        return first, racks(lab), why

    domain = FabricDomain(topology_key=KEY, node_count=size)
    return run_cluster(main, pools=[replace(gpu_pool(nodes=nodes), domain=domain)])


@pytest.mark.parametrize("scheduler", ["KAI", "Volcano"])
def test_a_group_is_in_one_rack(scheduler):
    """Racks of three nodes and groups of two: nodes would be filled one after the other, and straddle."""
    item = leader_worker_set(replicas=2, size=2)
    items = (TOPOLOGY, *kai(item)) if scheduler == "KAI" else volcano(item, 4)
    placed, _, _ = on_racks(items, nodes=6, size=3)
    assert placed == [{"h200-domain-0": 2}, {"h200-domain-1": 2}]


def test_a_rack_is_filled_before_the_next():
    placed, _, _ = on_racks((TOPOLOGY, *kai(leader_worker_set(replicas=3, size=2))), nodes=8, size=4)
    assert placed == [{"h200-domain-0": 2}, {"h200-domain-0": 2}, {"h200-domain-1": 2}]


@pytest.mark.parametrize("scheduler", ["KAI", "Volcano"])
def test_a_group_that_no_rack_has_room_for_waits_whole(scheduler):
    """Four nodes are free, and no rack has three of them."""
    item = leader_worker_set(replicas=1, size=3)
    items = (TOPOLOGY, *kai(item)) if scheduler == "KAI" else volcano(item, 3, subGroupSize=3)
    placed, _, why = on_racks(items, nodes=4, size=2)
    assert placed == [{"": 3}]
    assert f"no domain of {KEY} has room for 3 pods: 0/2 nodes are available" in why


@pytest.mark.parametrize(
    ("level", "after", "why"),
    [(KEY, {"h200-domain-0": 2}, ""), ("zone", {"": 2}, "the topology racks has no level zone")],
)
def test_kai_places_nothing_before_the_topology_exists(level, after, why):
    first, then, said = on_racks(kai(leader_worker_set(size=2), level), nodes=2, size=2, later=[TOPOLOGY])
    assert (first, then) == ([{"": 2}], [after])
    assert why in said


def test_a_topology_that_is_missing_is_named():
    _, _, why = on_racks(kai(leader_worker_set(size=2)), nodes=2, size=2)
    assert why.endswith("Requested topology racks does not exist")


@pytest.mark.parametrize(
    "policy",
    [
        {"networkTopology": {"mode": "soft", "highestTierName": KEY}},
        {"labelSelector": {"matchLabels": {"a": "b"}}},
        {"matchLabelKeys": ["a"]},
    ],
)
def test_pods_of_volcano_that_no_hard_policy_selects_may_be_anywhere(policy):
    """Three pods on racks of two nodes."""
    (placed,), _, _ = on_racks(volcano(leader_worker_set(size=3), 3, **policy), nodes=3, size=2)
    assert placed == {"h200-domain-0": 2, "h200-domain-1": 1}


def node(name, rack):
    return manifest("v1", "Node", name, labels={KEY: rack} if rack else {})


NODES = {name: node(name, rack) for name, rack in (("a", "1"), ("b", "1"), ("c", "2"), ("d", ""))}


@pytest.mark.parametrize(
    ("bound", "pods", "found"),
    [
        (set(), {}, [{"a", "b"}, {"c"}]),
        (set(), {"c": 1}, [{"c"}, {"a", "b"}]),
        ({"b"}, {"c": 3}, [{"a", "b"}]),  # a pod that replaces another goes where the rest of its group is
    ],
)
def test_domains_in_the_order_in_which_they_are_tried(bound, pods, found):
    made = Subgroup(KEY, nodes=bound).domains(NODES, pods)
    assert [set(each) for each in made] == found


def test_pods_of_a_gang_without_a_group_are_bound_by_nothing():
    pod = manifest("v1", "Pod", "a", namespace=TENANT_NAMESPACE)
    (found,) = subgroups(None, [pod], [], None)
    assert (found.key, found.waiting) == ("", [pod])
