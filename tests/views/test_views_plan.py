"""Plans and explanations on whole sets of manifests."""

import copy
import json
from collections import Counter

import msgspec
import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.views.explain import explain
from modelplane.views.inputs import gather, merge
from modelplane.views.plan import plan
from modelplane.views.replay import decide, replay, snapshot_document
from modelplane.views.shapes import Action, FitAnswer
from tests.compose.clouds import machine_class, make_cloud

CLASS = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceClass",
    "metadata": {"name": "h200"},
    "spec": {
        "devices": [
            {
                "name": "gpu",
                "driver": "gpu.nvidia.com",
                "deviceClassName": "gpu.nvidia.com",
                "count": 8,
                "capacity": {"memory": {"value": "141Gi"}},
            }
        ],
        "cost": {"pricePerNodeHour": "80"},
    },
}


def make_cluster(name, nodes=2, **pool):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name, "labels": {"region": name}},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": nodes, **pool}],
        },
    }


def drained(name):
    made = make_cluster(name)
    return {**made, "spec": {**made["spec"], "drain": {}}}


def make_deployment(replicas=1, count=8, name="chat", memory="80Gi", **spec):
    cel = f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{memory}")) >= 0'
    engine = {
        "name": "engine",
        "image": "vllm",
        "env": [{"name": "TOKEN", "value": "canary"}],
        "args": ["m", "--secret"],
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": {"note": "canary"}},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": cel}]}]},
            "workers": {"template": {"spec": {"containers": [engine]}}},
            **spec,
        },
    }


def make_replica(cluster, index=0, name="chat"):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": f"{name}-{cluster}-{index}",
            "namespace": "team",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "clusterName": cluster,
            "index": index,
            "deployment": {"name": name, "uid": f"uid-{name}"},
            "engines": [
                {
                    "name": "main",
                    "members": [
                        {
                            "role": "Standalone",
                            "nodePoolName": "gpus",
                            "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 8}],
                            "template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}},
                        }
                    ],
                }
            ],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]},
    }


FLEET = [CLASS, make_cluster("east"), make_cluster("west")]


def rows(found):
    return [
        (row.action.value, row.deployment, row.cluster, row.index, row.replicas)
        for one in found.deployments
        for row in one.rows
    ]


def test_a_plan_says_where_replicas_go_at_which_price_and_how_soon():
    found = plan(gather([*FLEET, make_deployment(2, count=4)]))
    assert json.loads(msgspec.json.encode(found)) == {
        "deployments": [
            {
                "deployment": "team/chat",
                "replicas": 2,
                "answer": "FitsNow",
                "rows": [
                    {
                        "action": "place",
                        "deployment": "team/chat",
                        "cluster": name,
                        "pools": ["gpus"],
                        "index": 0,
                        "pricePerHour": 40.0,
                        "currency": "USD",
                        "readyInS": 60.0,
                    }
                    for name in ("east", "west")
                ],
            }
        ],
        "pricePerHour": {"USD": 80.0},
    }


@pytest.mark.parametrize(
    ("manifests", "answer"),
    [
        pytest.param([*FLEET, make_deployment(4)], FitAnswer.FITS_NOW, id="every node is there"),
        pytest.param(
            [CLASS, make_cluster("east", 1, minNodeCount=0, maxNodeCount=3), make_deployment(2)],
            FitAnswer.FITS_AFTER_SCALE_UP,
            id="a pool has to grow",
        ),
        pytest.param([*FLEET, make_deployment(5)], FitAnswer.WAITS_FOR_ROOM, id="all nodes are taken"),
        pytest.param([*FLEET, make_deployment(1, memory="1Ti")], FitAnswer.FITS_NOWHERE, id="no such device"),
        pytest.param([*FLEET, make_deployment(1, count=9)], FitAnswer.FITS_NOWHERE, id="no such node"),
        pytest.param([make_deployment(1)], FitAnswer.FITS_NOWHERE, id="no fleet"),
        pytest.param(
            [CLASS, make_cluster("east"), drained("west"), make_deployment(1, count=9), make_replica("west")],
            FitAnswer.FITS_NOWHERE,
            id="no such node, and a cluster that its replica leaves is drained",
        ),
        pytest.param(
            [CLASS, make_cluster("east", 1), drained("west"), make_deployment(2)],
            FitAnswer.WAITS_FOR_ROOM,
            id="a cluster is drained that would take it",
        ),
    ],
)
def test_a_plan_answers_whether_it_fits(manifests, answer):
    assert plan(gather(manifests)).answer is answer
    assert explain(gather(manifests), "chat").answer is answer


def test_a_plan_shows_what_is_kept_dropped_and_left_waiting():
    there = gather([*FLEET, make_deployment(2), make_replica("east"), make_replica("west")])
    fewer = merge(there, gather([make_deployment(1)]))
    assert rows(plan(fewer)) == [("keep", "team/chat", "east", 0, 0), ("drop", "team/chat", "west", 0, 0)]
    more = merge(there, gather([make_deployment(6)]))
    assert rows(plan(more)) == [
        ("keep", "team/chat", "east", 0, 0),
        ("place", "team/chat", "east", 1, 0),
        ("keep", "team/chat", "west", 0, 0),
        ("place", "team/chat", "west", 1, 0),
        ("wait", "team/chat", "", None, 2),
    ]


def test_deployments_of_a_plan_do_not_take_the_same_node():
    found = plan(gather([CLASS, make_cluster("east"), make_deployment(2, name="a"), make_deployment(1, name="b")]))
    assert [one.answer for one in found.deployments] == [FitAnswer.FITS_NOW, FitAnswer.WAITS_FOR_ROOM]


def test_a_plan_shows_who_would_be_evicted():
    prized = make_cluster("east", 1)
    prized["spec"]["scheduling"] = {"priorities": [{"name": "gold", "value": 9}]}
    asked = make_deployment(1, name="vip", priority="gold", preemptionPolicy="PreemptLowerPriority")
    found = plan(gather([CLASS, prized, make_replica("east"), asked]))
    assert [(row.action, row.deployment) for row in found.deployments[0].rows] == [
        (Action.PLACE, "team/vip"),
        (Action.EVICT, "team/chat"),
    ]
    assert found.answer is FitAnswer.FITS_NOW


def test_a_plan_evicts_as_often_as_a_plane_would_and_plans_anew_for_who_was_evicted():
    prized = make_cluster("east", 4)
    prized["spec"]["scheduling"] = {"priorities": [{"name": "gold", "value": 9}]}
    there = [make_replica("east", at) for at in range(4)]
    asked = make_deployment(3, name="vip", priority="gold", preemptionPolicy="PreemptLowerPriority")
    found = plan(gather([CLASS, prized, make_cluster("west", 1), *there, make_deployment(4), asked]))
    counted = [
        (one.deployment, one.answer.value, Counter(row.action.value for row in one.rows)) for one in found.deployments
    ]
    assert counted == [
        ("team/chat", "WaitsForRoom", {"keep": 2, "wait": 1}),
        ("team/vip", "FitsNow", {"place": 3, "evict": 2}),
    ]
    assert found.deployments[0].rows[-1].replicas == 2


def make_cache(status=None):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 100}},
        **({"status": status} if status else {}),
    }


def test_a_cache_that_failed_is_waited_for():
    failed = {"phase": "Failed", "reason": "NoSpace", "cause": "10 GiB are missing"}
    status = {"clusters": [{"name": name, **failed} for name in ("east", "west")]}
    found = gather([*FLEET, make_cache(status), make_deployment(1, caches=[{"name": "w"}])])
    (one,) = plan(found).deployments
    told = "2 x Caches: cache w cannot be staged here: NoSpace: 10 GiB are missing"
    assert (one.answer, one.rows[0].reason, one.rows[0].ready_in_s) == (FitAnswer.WAITS_FOR_CACHES, told, None)
    assert explain(found, "chat").answer is FitAnswer.WAITS_FOR_CACHES


def test_a_cache_that_is_being_fetched_takes_as_long_as_it_says():
    status = {"clusters": [{"name": name, "phase": "Hydrating", "etaSeconds": 90} for name in ("east", "west")]}
    (one,) = plan(gather([*FLEET, make_cache(status), make_deployment(1, caches=[{"name": "w"}])])).deployments
    assert (one.answer, one.rows[0].ready_in_s) == (FitAnswer.FITS_NOW, 150.0)


def test_a_replica_that_serves_waits_for_no_cache():
    wanted = make_deployment(1, caches=[{"name": "w"}])
    found = plan(gather([*FLEET, make_cache(), wanted, make_replica("east")]))
    assert found.answer is FitAnswer.FITS_NOW


def test_a_pool_that_shrank_below_what_is_held_does_not_fit():
    held = [make_replica("east", index) for index in range(3)]
    found = gather([CLASS, make_cluster("east", 2), make_deployment(3), *held])
    (one,) = plan(found).deployments
    assert (one.answer, {row.action for row in one.rows}) == (FitAnswer.WAITS_FOR_ROOM, {Action.KEEP})
    assert {row.reason for row in one.rows} == {"pool gpus has 16 devices, and its replicas hold more"}
    assert explain(found, "chat").answer is FitAnswer.WAITS_FOR_ROOM
    large = gather([CLASS, make_cluster("east", 3), make_deployment(3), *held])
    assert plan(large).answer is FitAnswer.FITS_NOW


def test_a_cluster_that_this_build_does_not_render_for_takes_nothing():
    cloud = make_cluster("east")
    cloud["spec"]["stack"] = "Dynamo"
    (one,) = plan(gather([CLASS, cloud, make_deployment(1)])).deployments
    assert [(row.action, row.reason) for row in one.rows] == [
        (Action.WAIT, "Backend: spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove")
    ]


@pytest.mark.parametrize("source", ["GKE", "EKS", "AKS"])
def test_a_cluster_that_is_still_to_be_made_is_planned_as_it_will_be(source):
    cloud = make_cloud(source, "scaling")
    cloud["spec"]["nodePools"][0]["className"] = CLASS["metadata"]["name"]
    made = {**CLASS, "spec": {**CLASS["spec"], "provisioning": machine_class(source)["spec"]["provisioning"]}}
    (one,) = plan(gather([made, cloud, make_deployment(2)])).deployments
    assert [(row.action, row.cluster) for row in one.rows] == [(Action.PLACE, "east")] * 2
    with pytest.raises(InputError, match=r"pool scaling: InferenceClass .* has no spec.provisioning"):
        plan(gather([CLASS, cloud, make_deployment(2)]))


def test_weights_that_are_not_staged_take_time():
    cache = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 100}},
        "status": {"clusters": [{"name": "east", "phase": "Ready"}]},
    }
    deployment = make_deployment(2, caches=[{"name": "w"}])
    starting = {**make_replica("west"), "status": {}}
    found = plan(gather([*FLEET, cache, starting, deployment]))
    rows = found.deployments[0].rows
    assert {(row.action.value, row.cluster): row.ready_in_s for row in rows} == {
        ("place", "east"): 60.0,
        ("keep", "west"): 469.6,
    }
    alone = plan(gather([*FLEET, {**cache, "status": {}}, deployment])).deployments[0]
    assert (alone.answer, {row.ready_in_s for row in alone.rows}) == (FitAnswer.FITS_NOW, {469.6})


def test_a_class_that_is_missing_is_named():
    with pytest.raises(InputError, match="InferenceCluster east: no InferenceClass named h200"):
        plan(gather([make_cluster("east"), make_deployment()]))


def test_objects_without_a_namespace_go_to_the_default_one():
    loose = make_deployment()
    del loose["metadata"]["namespace"]
    assert plan(gather([*FLEET, loose])).deployments[0].deployment == "default/chat"


def test_an_explanation_covers_every_cluster_and_pool():
    cordoned = make_cluster("north")
    cordoned["spec"]["cordoned"] = True
    found = explain(gather([*FLEET, cordoned, make_deployment(1)]), "chat")
    assert [(c.cluster, c.pool, c.verdict, c.filter) for c in found.candidates] == [
        ("east", "gpus", "Chosen", ""),
        ("north", "", "Refused", "Cordoned"),
        ("west", "gpus", "Eligible", ""),
    ]
    assert found.summary == "1 of 1 replicas are placed; 2 places could take one more, 1 refuses it"
    west = found.candidates[-1]
    assert {part.name: part.value for part in west.scores} == {"spread": 1.0, "headroom": 0.5, "price": 1.0}


@pytest.mark.parametrize(
    ("name", "namespace", "says"),
    [
        ("nobody", None, "there is no ModelDeployment nobody"),
        ("chat", "elsewhere", "there is no ModelDeployment chat in namespace elsewhere"),
        ("twin", None, "several namespaces have a ModelDeployment twin \\(a, b\\); say which with -n"),
    ],
)
def test_a_deployment_that_cannot_be_found_is_named(name, namespace, says):
    twins = []
    for place in ("a", "b"):
        twin = make_deployment(name="twin")
        twin["metadata"]["namespace"] = place
        twins.append(twin)
    with pytest.raises((InputError, NotFoundError), match=says):
        explain(gather([*FLEET, make_deployment(), *twins]), name, namespace)


def test_a_snapshot_is_replayed_bit_for_bit():
    inputs = gather([*FLEET, make_deployment(3), make_deployment(9, name="big"), make_replica("west")], now=5.0)
    document = snapshot_document(inputs)
    again = replay(document)
    assert [(one.deployment, one.same) for one in again] == [("team/big", True), ("team/chat", True)]
    assert snapshot_document(gather([document])) == document
    assert [one.recorded for one in again] == list(decide(gather([document])))


def test_a_snapshot_of_another_world_differs():
    document = snapshot_document(gather([*FLEET, make_deployment(3)]))
    changed = copy.deepcopy(document)
    changed["clusters"][0]["status"]["gpuPools"][0]["nodes"] = 1
    assert [one.same for one in replay(changed)] == [False]


def test_a_snapshot_does_not_hold_what_pods_are_told():
    text = str(snapshot_document(gather([*FLEET, make_deployment(3), make_replica("east")])))
    assert "canary" not in text
    assert "--secret" not in text


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"kind": "List"}, "this is a List, not a FleetSnapshot"),
        ({"kind": "FleetSnapshot", "clusters": 3}, "clusters must be a list"),
        ({"kind": "FleetSnapshot", "now": "soon"}, "now must be a number of seconds"),
        ({"kind": "FleetSnapshot", "decisions": [{}]}, "decisions: Object missing required field"),
        (
            {"kind": "FleetSnapshot", "decisions": [{"deployment": "a/b", "digest": "x"}]},
            "there is a decision but no deployment for a/b",
        ),
    ],
)
def test_a_snapshot_that_is_none_is_refused(document, says):
    with pytest.raises(InputError, match=says):
        replay(document)


def later(inputs, **changes):
    """The inputs of a snapshot whose first cluster was observed."""
    document = snapshot_document(inputs)
    document["clusters"][0]["status"]["gpuPools"][0].update(changes)
    return gather([document])


def test_an_edited_cluster_is_planned_with_the_pools_that_it_would_have():
    base = gather([snapshot_document(gather([CLASS, make_cluster("east")], now=7.0))])
    wanted = gather([make_cluster("east", 20), make_deployment(20)])
    assert plan(merge(base, wanted)).answer is FitAnswer.FITS_NOW
    assert plan(merge(base, gather([make_deployment(20)]))).answer is FitAnswer.WAITS_FOR_ROOM
    assert merge(base, wanted).now == 7.0


def test_an_edit_adds_its_nodes_to_those_that_were_observed_and_keeps_who_holds_what():
    gpu = {**CLASS["spec"]["devices"][0], "allocated": 3}
    base = later(gather([CLASS, make_cluster("east", 4)]), observedNodes=3, devices=[gpu])
    (manifest,) = merge(base, gather([make_cluster("east", 6)])).clusters
    (found,) = manifest["status"]["gpuPools"]
    assert (found["nodes"], found["observedNodes"]) == (6, 5)
    assert [(device["allocated"], device["free"]) for device in found["devices"]] == [(3, 45)]


def test_an_edited_class_is_planned_with_the_devices_that_it_would_have():
    base = gather([snapshot_document(gather([CLASS, make_cluster("east", 1)]))])
    bigger = copy.deepcopy(CLASS)
    bigger["spec"]["devices"][0]["count"] = 16
    assert plan(merge(base, gather([bigger, make_deployment(2)]))).answer is FitAnswer.FITS_NOW
    assert plan(merge(base, gather([make_deployment(2)]))).answer is FitAnswer.WAITS_FOR_ROOM


def test_without_its_class_an_edited_pool_keeps_its_devices_and_a_new_one_is_refused():
    document = snapshot_document(gather([CLASS, make_cluster("east", 1)]))
    del document["classes"]
    base = gather([document])
    assert plan(merge(base, gather([make_cluster("east", 3), make_deployment(3)]))).answer is FitAnswer.FITS_NOW
    with pytest.raises(InputError, match="no InferenceClass named b200"):
        merge(base, gather([make_cluster("east", 3, className="b200")]))


def test_a_cluster_that_nobody_edits_is_taken_as_it_says():
    base = later(gather(FLEET), nodes=1)
    assert merge(base, gather([make_cluster("west", 9)])).clusters[0] == base.clusters[0]


def test_objects_that_cannot_be_read_stop_no_plan_and_no_explanation():
    broken = {**make_cluster("broken"), "status": {"gpuPools": "none"}}
    cache = {"kind": "ModelCache", "metadata": {"name": "weights", "namespace": "team"}, "spec": 7}
    other = {"kind": "ModelDeployment", "metadata": {"name": "other", "namespace": "team"}, "spec": 7}
    found = gather([*FLEET, broken, cache, make_deployment(2)])
    assert plan(found).answer is FitAnswer.FITS_NOW
    told = explain(gather([*FLEET, broken, cache, other, make_deployment(2)]), "chat")
    (refused,) = [candidate for candidate in told.candidates if candidate.cluster == "broken"]
    assert (refused.filter, refused.may_pass) == ("ClusterReady", True)
    assert refused.reason.startswith("the cluster cannot be read: ")
