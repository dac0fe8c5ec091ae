"""Mistakes that schedulers like this one have made, each as the sentence that must not become true again."""

import json
import os
import re
import subprocess
import sys

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelDeployment, ModelReplica
from modelplane.compose import deployment_status, inference_cluster, model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.fleet_snapshot import cluster_of, fleet_of
from modelplane.compose.placed_replica import placed_replica
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.review import review
from modelplane.placement.request import CacheRequest
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    labelled,
    memory_at_least,
    place,
    pool,
    product_is,
    replica,
    request,
)

SERVING = {"serving": True, "created": "2026-01-01T00:00:00Z"}
WHOLE = engine(request(8))
GPU = {
    "name": "gpu",
    "claim": "DRA",
    "driver": "gpu.nvidia.com",
    "deviceClassName": "gpu.nvidia.com",
    "count": 8,
    "capacity": {"memory": {"value": "141Gi"}},
}


def plane_cluster(name="east", *, nodes=2, devices=(GPU,), pools=None, **spec):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": pools or [{"name": "h200", "className": "h200", "nodeCount": nodes}],
            **spec,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 1}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "h200", "nodes": nodes, "devices": list(devices)}],
        },
    }


def deployment(replicas=1, name="chat", cel="true", **spec):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [{"name": "gpu", "count": 8, "selectors": [{"cel": cel}]}]},
            "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "vllm", "args": ["m"]}]}}},
            **spec,
        },
    }


def composed(manifest, clusters, observed=None):
    resource = decode(ModelDeployment, manifest)
    return model_deployment.compose(ComposeRequest(resource, observed or {}, fleet=fleet_of(clusters, ())))


def seen(result):
    """What was desired, as it is observed afterwards."""
    return {
        key: Observed(Local(desired.target.manifest, desired.target.ready_when), ready=False)
        for key, desired in result.desired.items()
    }


def test_own_placements_do_not_count_against_themselves_so_a_full_fleet_is_at_rest():
    full = Fleet.of([cluster("a")], [replica("a", i, assignment("h200", claim(8)), **SERVING) for i in range(2)])
    decided = schedule(place(2, WHOLE), full)
    assert [p.decision.value for p in decided.placements] == ["Kept", "Kept"]
    assert decided.dropped == ()


def test_a_cluster_whose_name_sorts_earlier_moves_nothing():
    fleet = Fleet.of([cluster("a", pool(nodes=99)), cluster("b")], [replica("b", 0, **SERVING)])
    assert [p.replica.cluster for p in schedule(place(1), fleet).placements] == ["b"]


def test_nothing_is_placed_on_a_cluster_that_is_not_ready():
    assert schedule(place(1), Fleet.of([cluster("a", ready=False)])).pending == 1


def test_nothing_is_placed_on_a_cluster_whose_gateway_has_no_address():
    without = plane_cluster()
    without["status"]["gateway"] = {}
    assert not cluster_of(decode(InferenceCluster, without)).ready


def test_a_pool_that_scales_counts_up_to_its_maximum():
    pools = [{"name": "h200", "className": "h200", "nodeCount": 1, "minNodeCount": 0, "maxNodeCount": 4}]
    scaling = cluster_of(decode(InferenceCluster, plane_cluster(nodes=4, pools=pools)))
    assert (scaling.pools[0].nodes, scaling.pools[0].nodes_now) == (4, 1)
    assert len(schedule(place(4, WHOLE), Fleet.of([scaling])).placements) == 4


def test_devices_are_counted_on_each_node_and_not_as_one_heap():
    """Sixteen devices on four nodes of four do not serve a pod of eight."""
    scattered = cluster("a", pool(nodes=4, of=hardware(kind(count=4))))
    assert schedule(place(1, WHOLE), Fleet.of([scattered])).pending == 1


def test_a_gang_is_never_split_over_pools():
    halves = cluster("a", pool("one", 1), pool("two", 1))
    assert schedule(place(1, engine(request(8), nodes=2)), Fleet.of([halves])).pending == 1


def test_every_member_says_which_pool_it_is_pinned_to():
    result = composed(deployment(), [plane_cluster()])
    (replica,) = [d.target.manifest for d in result.desired.values() if d.target.manifest["kind"] == "ModelReplica"]
    assert [m["nodePoolName"] for e in replica["spec"]["engines"] for m in e["members"]] == ["h200"]


def test_a_device_count_of_0_is_not_read_as_1():
    none = cluster_of(decode(InferenceCluster, plane_cluster(devices=[{**GPU, "count": 0}])))
    assert none.pools[0].hardware.claimable == 0
    assert schedule(place(1), Fleet.of([none])).pending == 1


def test_a_pool_of_0_nodes_is_not_read_as_1():
    assert schedule(place(1), Fleet.of([cluster("a", pool(nodes=0))])).pending == 1


def test_a_replica_pinned_to_a_deleted_pool_is_charged_to_no_other_pool():
    fleet = Fleet.of(
        [cluster("a", pool(nodes=1))], [replica("a", 0, assignment("gone", claim(8)), name="other", **SERVING)]
    )
    assert schedule(place(1, WHOLE), fleet).pending == 0


def test_two_replicas_of_a_deployment_share_a_cluster():
    decided = schedule(place(2), Fleet.of([cluster("a")]))
    assert [(p.replica.cluster, p.replica.index) for p in decided.placements] == [("a", 0), ("a", 1)]


@pytest.mark.parametrize("name", ["a" * 63, "a" * 50 + "-suffix-that-is-cut", "model.v1.2", "0-starts-with-a-digit"])
def test_names_are_dns_1035_and_short_and_tell_replicas_and_tenants_apart(name):
    names = set()
    for namespace in ("team", "rivals"):
        manifest = deployment(2, name=name)
        manifest["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
        result = composed(manifest, [plane_cluster("east"), plane_cluster("west")])
        names |= {d.target.manifest["metadata"]["name"] for d in result.desired.values()}
    assert len(names) == 4
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,49}[a-z0-9])?", found) for found in names)


def test_ties_do_not_depend_on_the_hash_seed_of_the_process():
    program = (
        "from modelplane.placement.schedule import schedule; from modelplane.placement.snapshot import Fleet;"
        "from modelplane.testing.fleets import *;"
        "c=[cluster(n, labels={'region': n[0]}) for n in ('b1','a2','c3','a1')];"
        "print([p.replica.id for p in schedule(place(3), Fleet.of(c)).placements])"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_a_replica_never_lands_where_its_cache_is_not_and_will_not_be_staged():
    cache = CacheInfo(namespace="team", name="w", staged=frozenset({"b"}), selector=labelled(region="none"))
    fleet = Fleet.of([cluster("a"), cluster("b")], (), [cache])
    assert [p.replica.cluster for p in schedule(place(1, caches=(CacheRequest("w"),)), fleet).placements] == ["b"]


def test_a_cache_that_cannot_be_read_is_told_and_keeps_new_replicas_waiting():
    broken = CacheInfo(namespace="team", name="weights", fault="spec.clusterSelector: expected an object")
    asked, running = place(2, caches=(CacheRequest("weights"),)), replica("east", 0, **SERVING)
    decided = schedule(asked, Fleet.of([cluster("east")], [running], [broken]))
    assert [p.decision.value for p in decided.placements] == ["Kept"]
    (told,) = [c for c in decided.trace.candidates() if c.filter]
    assert (told.filter, told.may_pass) == ("Caches", True)
    assert told.reason == "cache weights cannot be read: spec.clusterSelector: expected an object"


def test_selectors_of_cache_and_deployment_are_both_kept_and_a_contradiction_has_no_candidates():
    cache = CacheInfo(namespace="team", name="w", selector=labelled(tier="dev"))
    clusters = [cluster("dev", labels={"tier": "dev"}), cluster("prod", labels={"tier": "prod"})]
    decided = schedule(
        place(1, cluster_selector=labelled(tier="prod"), caches=(CacheRequest("w"),)),
        Fleet.of(clusters, (), [cache]),
    )
    assert decided.pending == 1
    assert {(c.cluster, c.filter) for c in decided.trace.candidates()} == {
        ("dev", "ClusterSelector"),
        ("prod", "Caches"),
    }


@pytest.mark.parametrize("counts", [{"minNodeCount": 3, "maxNodeCount": 2}, {"nodeCount": 3, "maxNodeCount": 2}])
def test_a_most_below_a_least_is_refused(counts):
    pool = {"name": "h200", "className": "h200", **counts}
    source = {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}
    manifest = plane_cluster(pools=[pool], cluster=source)
    del manifest["status"]
    found = review(list(parse_documents(json.dumps(manifest).encode(), source="cluster.yaml")))
    assert any("must not be greater than maxNodeCount" in str(finding.problem) for finding in found.findings)


def test_where_the_host_keeps_the_fleet_no_message_grows_with_it():
    resource = decode(ModelDeployment, deployment(1))
    many = fleet_of([plane_cluster(f"c{number}") for number in range(500)], ())
    result = model_deployment.compose(ComposeRequest(resource, fleet=many))
    assert result.requirements == {}
    assert len(result.desired) == 1
    assert len(result.status.placement.candidates) <= deployment_status.MAX_CANDIDATES


@pytest.mark.parametrize("replicas", [0, 1, 9])
def test_each_condition_has_one_writer(replicas):
    result = composed(deployment(replicas), [plane_cluster()])
    types = [condition.type for condition in result.conditions]
    assert len(types) == len(set(types))
    assert result.ready is not None


def test_zero_replicas_is_zero_and_not_one():
    assert schedule(place(0), Fleet.of([cluster("a")])).placements == ()


def test_status_is_written_on_every_pass():
    first = composed(deployment(), [plane_cluster()])
    again = composed(deployment(), [plane_cluster()], seen(first))
    for result in (first, again):
        assert result.status.replicas == 1
        assert result.status.placement.summary == "1 on east"
        assert result.status.clusters[0].name == "east"


def test_replicas_of_a_deployment_with_the_same_name_in_another_namespace_are_not_ours():
    rival = replica("a", 0, assignment("h200", claim(8)), namespace="rivals", **SERVING)
    fleet = Fleet.of([cluster("a")], [rival])
    for namespace, expected in (("team", "New"), ("rivals", "Kept")):
        (placement,) = schedule(place(1, WHOLE, namespace=namespace), fleet).placements
        assert (placement.decision.value, placement.replica.deployment.namespace) == (expected, namespace)


def test_replicas_of_a_deployment_that_was_deleted_and_made_again_are_not_ours():
    old = msgspec.structs.replace(
        replica("a", 0, **SERVING), deployment=msgspec.structs.replace(place(), replicas=1).deployment
    )
    reborn = msgspec.structs.replace(place(1), deployment=type(old.deployment)("team", "chat", "uid-2"))
    (placement,) = schedule(reborn, Fleet.of([cluster("a")], [old])).placements
    assert placement.decision.value == "New"


def test_a_selector_that_does_not_compile_deletes_nothing():
    before = composed(deployment(2), [plane_cluster()])
    after = composed(deployment(2, cel="device.nothing ==="), [plane_cluster()], seen(before))
    assert after.desired.keys() == before.desired.keys()
    assert [c.reason for c in after.conditions] == ["InvalidSelector"]


def test_clusters_that_were_all_relabelled_by_mistake_lose_nothing():
    chosen = {"clusterSelector": {"matchLabels": {"tier": "prod"}}}
    labelled_cluster = plane_cluster()
    labelled_cluster["metadata"]["labels"] = {"tier": "prod"}
    before = composed(deployment(2, **chosen), [labelled_cluster])
    replicas = [d.target.manifest for d in before.desired.values()]
    fleet = fleet_of([plane_cluster()], replicas)
    resource = decode(ModelDeployment, deployment(2, **chosen))
    after = model_deployment.compose(ComposeRequest(resource, seen(before), fleet=fleet))
    assert after.desired.keys() == before.desired.keys()


def test_a_broad_request_listed_before_a_narrow_one_is_not_refused():
    mixed = cluster("a", pool(nodes=1, of=hardware(kind("a", 1, product="H100"), kind("b", 1, product="H200"))))
    broad, narrow = request(1, name="broad"), request(1, product_is("H200"), name="narrow")
    for order in ((broad, narrow), (narrow, broad)):
        assert schedule(place(1, engine(*order)), Fleet.of([mixed])).pending == 0


def test_an_edited_selector_evicts_nobody_before_a_successor_serves():
    """Three replicas move one after the other at most, and never fewer than three serve."""
    clusters = [cluster("a", pool("h100", 3, hardware(kind(memory="80Gi")))), cluster("b", pool("h200", 3))]
    fleet = Fleet.of(clusters, [replica("a", i, assignment("h100", claim(8)), **SERVING) for i in range(3)])
    edited = place(3, engine(request(8, memory_at_least("141Gi"))))
    for _ in range(8):
        decided = schedule(edited, fleet)
        kept = [p.replica for p in decided.placements]
        assert sum(h.serving for h in kept) >= 3
        fleet = fleet.with_replicas(
            [msgspec.structs.replace(h, serving=True, created="2026-02-01T00:00:00Z") for h in kept],
            [h.id for h in fleet.owned_by(edited.deployment)],
        )
    assert {h.cluster for h in fleet.owned_by(edited.deployment)} == {"b"}


def test_a_device_fact_that_cannot_be_read_is_told_and_loses_nothing():
    broken = plane_cluster(devices=[{**GPU, "capacity": {"memory": {"value": "lots"}}}])
    fleet = Fleet.of([cluster_of(decode(InferenceCluster, broken))], [replica("east", 0, **SERVING)])
    (kept,) = schedule(place(1), fleet).placements
    assert kept.decision.value == "Kept"
    (refused,) = [c for c in schedule(place(1, name="other"), fleet).trace.candidates() if c.pool]
    assert refused.filter == "Devices"
    assert refused.reason.startswith("device gpu: capacity[memory].value: ")


def test_observed_nodes_refine_declared_ones():
    fewer = plane_cluster(nodes=3)
    fewer["status"]["gpuPools"][0]["observedNodes"] = 1
    assert cluster_of(decode(InferenceCluster, fewer)).pools[0].nodes == 1


def test_devices_that_others_hold_are_not_promised():
    """Others hold four; four are a replica's, which is counted by itself."""
    seen_cluster = plane_cluster(nodes=2, devices=[{**GPU, "allocated": 4, "heldByOthers": 4}])
    seen_cluster["status"]["gpuPools"][0]["observedNodes"] = 2
    observed = cluster_of(decode(InferenceCluster, seen_cluster))
    fleet = Fleet.of([observed], [replica("east", 0, assignment("h200", claim(4)), name="other", **SERVING)])
    assert schedule(place(9, engine(request(1)), name="small"), fleet).pending == 4
    assert schedule(place(1, WHOLE), fleet).pending == 1
    assert schedule(place(13, engine(request(1)), name="small"), Fleet.of([observed])).pending == 1


def test_a_pool_whose_class_was_deleted_keeps_what_was_known_of_it():
    known = decode(InferenceCluster, plane_cluster())
    result = inference_cluster.compose(ComposeRequest(known, required={"class-h200": (), "replicas": ()}))
    assert result.status.gpu_pools == known.status.gpu_pools


def test_a_replica_that_was_rendered_is_read_back_as_the_place_that_it_holds():
    result = composed(deployment(1), [plane_cluster()])
    (replica,) = [d.target.manifest for d in result.desired.values() if d.target.manifest["kind"] == "ModelReplica"]
    held = placed_replica(decode(ModelReplica, replica))
    (placement,) = schedule(ask_of_manifest(deployment(1)), fleet_of([plane_cluster()], [replica])).placements
    assert (placement.replica, placement.decision.value) == (held, "Kept")


def ask_of_manifest(manifest):
    from modelplane.compose.placement_request import placement_request

    return placement_request(decode(ModelDeployment, manifest))


def test_selectors_that_are_too_expensive_for_the_fleet_delete_nothing_and_are_named():
    ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    loops = "".join(f"{ten}.all(x{level}, " for level in range(5)) + "x0 + x1 >= 0" + ")" * 5
    before = composed(deployment(2), [plane_cluster()])
    changed = deployment(2)
    request_ = changed["spec"]["nodeSelector"]["devices"][0]
    request_["selectors"] = [{"cel": loops + " " * number} for number in range(8)]
    after = composed(changed, [plane_cluster()], seen(before))
    assert after.desired.keys() == before.desired.keys()
    (condition,) = after.conditions
    assert condition.reason == "InvalidSelector"
    assert condition.message.startswith("engine main, device request gpu, selector 6 of 8 is too expensive")
