"""Whole calls in plain types: what Crossplane is told for a composite."""

import pytest

from modelplane.api.conditions import ConditionType, fails, holds
from modelplane.api.reasons import Reason
from modelplane.compose.contract import Requirement
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import RESYNC_S, CannotCompose, FunctionCall, NoFleetCache, answer

API = "modelplane.ai/v1alpha1"
CLASS = {
    "apiVersion": API,
    "kind": "InferenceClass",
    "metadata": {"name": "h200"},
    "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}]},
}
CLUSTER = {
    "apiVersion": API,
    "kind": "InferenceCluster",
    "metadata": {"name": "east", "uid": "c1", "generation": 1},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east-kubeconfig", "key": "kubeconfig"}}},
        "nodePools": [{"name": "pool", "className": "h200", "nodeCount": 2}],
    },
}
FETCHED = {"class-h200": (CLASS,), "replicas": ()}


def told(found):
    return {condition.type: (str(condition.status), condition.reason) for condition in found.conditions}


def as_observed(found, **there):
    """What was asked for, with the manifests that a provider reported."""
    return {
        key: {**composed.manifest, "status": {"atProvider": {"manifest": there[key]}} if key in there else {}}
        for key, composed in found.resources.items()
    }


def test_a_cluster_gets_its_provider_configuration_and_gateway(problems):
    found = answer(FunctionCall(CLUSTER, required=FETCHED), now=0.0)
    kinds = {key: composed.manifest["kind"] for key, composed in found.resources.items()}
    assert kinds == {
        "namespace": "Object",
        "gateway": "Object",
        "access-kubernetes": "ClusterProviderConfig",
        "usage-inferenceclass--h200": "ClusterUsage",
    }
    assert found.resources["access-kubernetes"].manifest["spec"] == {
        "credentials": {
            "source": "Secret",
            "secretRef": {"namespace": "modelplane-system", "name": "east-kubeconfig", "key": "kubeconfig"},
        }
    }
    assert [problems(composed.manifest) for composed in found.resources.values()] == [[]] * 4
    assert found.status["nodes"] == 2
    assert not found.ready
    assert found.ttl_s == RESYNC_S


def test_helm_gets_access_too_where_it_is_installed():
    found = answer(FunctionCall(CLUSTER, required=FETCHED), now=0.0, helm=True)
    assert found.resources["access-helm"].manifest["apiVersion"] == "helm.m.crossplane.io/v1beta1"


def test_a_cluster_is_ready_when_its_gateway_has_an_address():
    first = answer(FunctionCall(CLUSTER, required=FETCHED), now=0.0)
    gateway = {"kind": "Gateway", "metadata": {"name": "g"}, "status": {"addresses": [{"value": "192.0.2.7"}]}}
    seen = as_observed(first, gateway=gateway, namespace={"kind": "Namespace", "metadata": {"name": "n"}})
    found = answer(FunctionCall(CLUSTER, seen, FETCHED), now=0.0)
    assert found.ready
    assert found.status["gateway"] == {"address": "192.0.2.7"}
    assert told(found)["GatewayReady"] == ("True", "GatewayRunning")


CORDONED = {**CLUSTER, "spec": {**CLUSTER["spec"], "cordoned": True}}


@pytest.mark.parametrize("cluster", [pytest.param(CLUSTER, id="in service"), pytest.param(CORDONED, id="cordoned")])
@pytest.mark.parametrize(
    "replicas",
    [
        pytest.param({}, id="not read"),
        pytest.param({"replicas": ()}, id="empty"),
        pytest.param({"replicas": ({"metadata": {"name": "r", "namespace": "team-b"}},)}, id="short"),
        pytest.param({"replicas": ({}, {"metadata": 7})}, id="garbled"),
    ],
)
def test_a_cluster_holds_the_namespaces_of_its_tenants_whatever_the_list_of_replicas_is(cluster, replicas):
    busy = {**FETCHED, "replicas": (_replica("a"), _replica("b"))}
    first = answer(FunctionCall(cluster, required=busy), now=0.0)
    held = first.resources["tenant-team-a"].manifest
    assert held["spec"]["managementPolicies"] == ["*"]
    assert held["spec"]["forProvider"]["manifest"]["metadata"]["labels"]["modelplane.ai/tenant"] == "team-a"
    seen = as_observed(first)
    then = answer(FunctionCall(cluster, seen, {"class-h200": (CLASS,), **replicas}), now=0.0)
    assert then.resources["tenant-team-a"].manifest == held


def test_not_fetched_is_not_absent():
    waiting = answer(FunctionCall(CLUSTER), now=0.0)
    assert told(waiting)["ClusterReady"] == ("Unknown", "Unresolved")
    assert waiting.requirements["class-h200"] == Requirement(API, "InferenceClass", name="h200")
    missing = answer(FunctionCall(CLUSTER, required={"class-h200": (), "replicas": ()}), now=0.0)
    assert told(missing)["ClusterReady"] == ("False", "ClassMissing")
    assert missing.requirements == waiting.requirements


def test_what_is_on_the_workload_cluster_is_not_asked_of_crossplane():
    found = answer(FunctionCall(CLUSTER, required=FETCHED), now=0.0)
    assert {name for name in found.requirements if name.startswith("observed-")} == set()


def test_what_the_host_knows_is_not_asked_of_crossplane():
    class Cache(NoFleetCache):
        def find(self, requirement):
            return (CLASS,) if requirement.kind == "InferenceClass" else None

    found = answer(FunctionCall(CLUSTER, required={"replicas": ()}), 0.0, Cache())
    assert told(found)["ClusterReady"] != ("Unknown", "Unresolved")
    assert set(found.requirements) == {"replicas", "telemetry-destinations"}


def test_what_a_composite_required_before_is_looked_up_first_and_what_it_requires_today_is_what_counts():
    class Cache(NoFleetCache):
        def __init__(self):
            self.asked = []

        def find(self, requirement):
            if requirement.kind != "InferenceClass":
                return None
            self.asked.append(requirement.name)
            return (classes[requirement.name],)

    classes = {name: {**CLASS, "metadata": {"name": name}} for name in ("h200", "b200")}
    metadata = {**CLUSTER["metadata"], "uid": "requires-once"}
    other_pools = [{"name": "pool", "className": "b200", "nodeCount": 3}]
    asked, caches = [], FunctionCaches()
    for spec in (CLUSTER["spec"], CLUSTER["spec"], {**CLUSTER["spec"], "nodePools": other_pools}):
        host = Cache()
        given = {"replicas": (), "telemetry-destinations": ()}
        call = FunctionCall({**CLUSTER, "metadata": metadata, "spec": spec}, required=given)
        found = answer(call, 0.0, host, caches=caches)
        asked.append((host.asked, found.status["nodes"], set(found.requirements)))
    assert asked == [
        (["h200"], 2, set(given)),
        (["h200"], 2, set(given)),
        (["h200", "b200"], 3, set(given)),
    ]


def test_a_status_that_the_composer_leaves_alone_is_returned_as_it_was():
    cache = {
        "apiVersion": API,
        "kind": "ModelCache",
        "metadata": {"name": "c", "namespace": "team-a", "uid": "u"},
        "spec": {"artifact": {"kind": "Weights"}, "source": "HuggingFace", "huggingFace": {"repo": "a/b"}},
        "status": {"clusters": [{"name": "east", "phase": "Ready"}], "conditions": [], "crossplane": {}},
    }
    assert answer(FunctionCall(cache), now=0.0).status == {"clusters": [{"name": "east", "phase": "Ready"}]}


def _older(item, outlives):
    """A composed object that nobody asks for any longer."""
    metadata = item["metadata"]
    annotations = {**metadata["annotations"], "modelplane.ai/outlives": outlives}
    return {**item, "metadata": {**metadata, "name": f"old-{metadata['name']}", "annotations": annotations}}


@pytest.mark.parametrize(
    ("outlives", "is_there", "is_held"),
    [
        pytest.param("route-gone", True, True, id="a route that goes, too, and is still there"),
        pytest.param("route-gone", False, False, id="a route that has gone"),
        pytest.param("route", True, False, id="a route that stays, and leads elsewhere"),
    ],
)
def test_what_must_outlive_something_that_goes_is_held_until_that_is_gone(outlives, is_there, is_held):
    replica, required = _replica("engine-a"), {"cluster": ({**CLUSTER, "status": {"gateway": {"address": "a"}}},)}
    seen = as_observed(answer(FunctionCall(replica, required=required), now=0.0))
    workload = next(key for key in seen if key.startswith("workload"))
    seen["workload-gone"] = _older(seen[workload], outlives)
    if is_there:
        seen["route-gone"] = _older(seen["route"], "")
    found = answer(FunctionCall(replica, seen, required), now=0.0).resources
    assert ("workload-gone" in found) is is_held
    assert "route-gone" not in found


def test_usages_are_asked_for_once_both_objects_are_there(problems):
    replica, required = _replica("engine-a"), {"cluster": ({**CLUSTER, "status": {"gateway": {"address": "a"}}},)}
    first = answer(FunctionCall(replica, required=required), now=0.0)
    assert not [key for key in first.resources if key.startswith("usage-")]
    then = answer(FunctionCall(replica, as_observed(first), required), now=0.0)
    made = {key: item.manifest for key, item in then.resources.items() if key.startswith("usage-")}
    workload = next(key for key in first.resources if key.startswith("workload"))
    assert made.keys() == {f"usage-{workload}-by-route", "usage-service-by-route"}
    between = made[f"usage-{workload}-by-route"]
    assert between["metadata"]["namespace"] == "team-a"
    assert between["spec"]["of"]["resourceRef"]["name"] == first.resources[workload].manifest["metadata"]["name"]
    assert between["spec"]["by"]["resourceRef"]["name"] == first.resources["route"].manifest["metadata"]["name"]
    assert [problems(item) for item in made.values()] == [[]] * len(made)


@pytest.mark.parametrize(
    ("required", "damage"),
    [
        pytest.param({}, {}, id="the cluster is not read"),
        pytest.param({"cluster": ()}, {}, id="the cluster is missing"),
        pytest.param({"cluster": ({"metadata": 7},)}, {}, id="the cluster cannot be read"),
        pytest.param(None, {"status": {"atProvider": {"manifest": {"x": 1}}}}, id="the observed route is garbled"),
    ],
)
def test_a_usage_that_exists_stays_while_its_objects_do(required, damage):
    replica, whole = _replica("engine-a"), {"cluster": ({**CLUSTER, "status": {"gateway": {"address": "a"}}},)}
    seen: dict = {}
    for _ in range(3):
        before = answer(FunctionCall(replica, seen, whole), now=0.0).resources
        seen = {key: {**composed.manifest, "status": {}} for key, composed in before.items()}
    seen["route"] |= damage
    then = answer(FunctionCall(replica, seen, whole if required is None else required), now=0.0).resources
    assert {key: item.manifest for key, item in then.items()} == {key: item.manifest for key, item in before.items()}


def test_a_cache_that_is_mounted_is_protected_within_its_namespace(problems):
    replica = _replica("engine-a")
    replica["spec"] = {**replica["spec"], "caches": [{"name": "weights", "mountPath": "/models"}]}
    found = answer(FunctionCall(replica, required={"cluster": (CLUSTER,), "cache-weights": ()}), now=0.0)
    usage = found.resources["usage-modelcache-team-a-weights"].manifest
    assert usage["metadata"]["namespace"] == "team-a"
    assert usage["spec"]["of"] == {"apiVersion": API, "kind": "ModelCache", "resourceRef": {"name": "weights"}}
    assert problems(usage) == []


@pytest.mark.parametrize(
    ("replicas", "cluster", "held_before", "held"),
    [
        pytest.param((), CLUSTER, True, True, id="none is listed"),
        pytest.param((), CLUSTER, False, False, id="none was ever listed"),
        pytest.param((), CORDONED, True, False, id="none is listed, and cordoned"),
        pytest.param(({"metadata": {"name": "r"}},), CLUSTER, False, True, id="one is listed"),
        pytest.param(({"metadata": {"name": "r"}},), CORDONED, True, True, id="one is listed, and cordoned"),
        pytest.param(({},), CORDONED, True, True, id="one is listed that cannot be read, and cordoned"),
        pytest.param(None, CLUSTER, True, True, id="not known, and held"),
        pytest.param(None, CORDONED, True, True, id="not known, cordoned, and held"),
        pytest.param(None, CLUSTER, False, False, id="not known, and not held"),
    ],
)
def test_a_cluster_that_replicas_ran_on_protects_itself_until_it_is_cordoned(
    replicas, cluster, held_before, held, problems
):
    before = {"usage-of-itself": {"apiVersion": "protection.crossplane.io/v1beta1", "kind": "ClusterUsage"}}
    required = {"class-h200": (CLASS,), **({} if replicas is None else {"replicas": replicas})}
    found = answer(FunctionCall(cluster, before if held_before else {}, required), now=0.0)
    assert ("usage-of-itself" in found.resources) is held
    if held:
        usage = found.resources["usage-of-itself"].manifest
        of = {"apiVersion": API, "kind": "InferenceCluster", "resourceRef": {"name": "east"}}
        assert usage["kind"] == "ClusterUsage"
        reason = "replicas ran on this cluster; delete them and set spec.cordoned before you delete it"
        assert usage["spec"] == {"of": of, "reason": reason, "replayDeletion": True}
        assert problems(usage) == []


ATTEMPT = "usage.crossplane.io/deletion-attempt-with-policy"
ITSELF = {"usage-of-itself": {"apiVersion": "protection.crossplane.io/v1beta1", "kind": "ClusterUsage"}}
CACHE = {
    "apiVersion": API,
    "kind": "ModelCache",
    "metadata": {"name": "weights", "namespace": "team-a", "generation": 1},
    "spec": {"source": "HuggingFace", "huggingFace": {"repo": "org/model"}},
}


def attempted(item, **spec):
    """As Crossplane's webhook leaves an object whose deletion it refused."""
    metadata = {**item["metadata"], "annotations": {ATTEMPT: "Background"}}
    return {**item, "metadata": metadata, "spec": {**item["spec"], **spec}}


def user(name, namespace="team-a", **spec):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


ON_EAST = tuple(user(f"r{at}", clusterName="east") for at in range(5))
HELD = {
    "a cluster with replicas": (
        attempted(CLUSTER),
        ITSELF,
        {"ModelReplica": (*ON_EAST, user("other", clusterName="west"))},
        "being deleted; in use by ModelReplica team-a/r0, team-a/r1, team-a/r2 and 2 more",
    ),
    "a cluster whose replicas are not read": (
        attempted(CLUSTER),
        ITSELF,
        {},
        "being deleted; the objects of kind ModelReplica that may use it are not read yet",
    ),
    "a cluster with a gateway": (
        attempted(CLUSTER, cordoned=True),
        ITSELF,
        {
            "ModelReplica": (),
            "InferenceGateway": (user("eu", "", clusterName="east"), user("us", "", clusterName="west")),
        },
        "being deleted; in use by InferenceGateway eu",
    ),
    "a cluster whose gateways are not read": (
        attempted(CLUSTER, cordoned=True),
        ITSELF,
        {"ModelReplica": ()},
        "being deleted; the objects of kind InferenceGateway that may use it are not read yet",
    ),
    "a cluster that had replicas": (
        attempted(CLUSTER),
        ITSELF,
        {"ModelReplica": (), "InferenceGateway": ()},
        "being deleted; no replica is left, so set spec.cordoned",
    ),
    "a class": (
        attempted(CLASS),
        {},
        {"InferenceCluster": (user("east", "", nodePools=[{"className": "h200"}]), user("west", "", nodePools=[]))},
        "being deleted; in use by InferenceCluster east",
    ),
    "a cache": (
        attempted(CACHE),
        {},
        {"ModelReplica": (user("r0", caches=[{"name": "weights"}]), user("r1", caches=[]))},
        "being deleted; in use by ModelReplica team-a/r0",
    ),
}


@pytest.mark.parametrize(("composite", "composed", "users", "message"), HELD.values(), ids=HELD.keys())
def test_a_deletion_that_crossplane_refused_says_what_it_waits_for(composite, composed, users, message):
    required = {f"users-{kind}": found for kind, found in users.items()}
    found = answer(FunctionCall(composite, composed, required), now=0.0)
    assert [each for each in found.conditions if each.type == "Deletable"] == [
        fails(ConditionType.DELETABLE, Reason.IN_USE, message)
    ]
    assert required.keys() <= found.requirements.keys()


FREE = {
    "a class without users": (attempted(CLASS), {}, ()),
    "a cluster that is cordoned and empty": (attempted(CLUSTER, cordoned=True), ITSELF, ()),
    "a class that was not tried to delete": (CLASS, {}, (user("east", "", nodePools=[{"className": "h200"}]),)),
}


@pytest.mark.parametrize(("composite", "composed", "users"), FREE.values(), ids=FREE.keys())
@pytest.mark.parametrize("was_held", [True, False])
def test_what_nothing_holds_any_more_can_be_deleted(composite, composed, users, was_held):
    held = {"type": "Deletable", "status": "False", "reason": "InUse", "message": "in use"}
    known = {**composite, "status": {"conditions": [held] if was_held else []}}
    required = {f"users-{kind}": users for kind in ("InferenceCluster", "ModelReplica", "InferenceGateway")}
    found = answer(FunctionCall(known, composed, required), now=0.0)
    expected = [holds(ConditionType.DELETABLE, Reason.AVAILABLE)] if was_held else []
    assert [each for each in found.conditions if each.type == "Deletable"] == expected


@pytest.mark.parametrize(
    ("composite", "words"),
    [
        ({"kind": "Unheard", "metadata": {"name": "x"}}, "no composer for kind Unheard"),
        ({"metadata": {"name": "x"}}, "no kind or no name"),
        ({**CLUSTER, "spec": {"cluster": 7}}, "InferenceCluster east: .*spec.cluster"),
    ],
)
def test_what_cannot_be_composed_is_refused_with_a_sentence(composite, words):
    with pytest.raises(CannotCompose, match=words):
        answer(FunctionCall(composite), now=0.0)


def test_when_time_alone_changes_the_answer_the_call_comes_back_sooner():
    deployment = {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "team-a", "uid": "d1"},
        "spec": {"replicas": 1, "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "v"}]}}}},
    }
    found = answer(FunctionCall(deployment, required={"clusters": (), "replicas": (), "caches": ()}), now=0.0)
    assert found.ttl_s <= RESYNC_S
    assert set(found.requirements) == {"clusters", "replicas", "caches"}


def _replica(engine):
    member = {
        "role": "Standalone",
        "nodes": 1,
        "nodePoolName": "pool",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["m"]}]}},
    }
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": "qwen-abc", "namespace": "team-a", "uid": "r1", "generation": 1},
        "spec": {"clusterName": "east", "index": 0, "engines": [{"name": engine, "copies": 1, "members": [member]}]},
    }
