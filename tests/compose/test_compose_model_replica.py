import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.models import ModelReplicaStatus
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import EventType, Observed, Remote, Requirement, Use

KINDS = ("Accepted", "Scheduled", "CachesReady", "SecretsReady", "WorkloadReady", "RouteReady")


def told(result) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status.value, condition.reason) for condition in result.conditions}


def observe(made, *, ready: bool = True, **changes) -> None:
    """Everything that is desired, seen on its cluster."""
    for key, desired in made.compose().desired.items():
        if desired.target.shared:
            continue
        item = {**desired.target.manifest, **changes.get(key.replace("-", "_"), {})}
        made.observed[key] = Observed(Remote(desired.target.cluster, item, desired.target.ready_when), ready)


def test_a_fresh_replica_asks_for_its_cluster_and_caches_and_does_nothing(scene):
    made = scene("tensor-8")
    made.required = {}
    result = made.compose()
    assert result.desired == {}
    assert result.conditions[0].message == "the cluster or a cache is missing; running pods stay"
    assert told(result) == {
        "Accepted": ("Unknown", "Unresolved"),
        "Scheduled": ("Unknown", "Unresolved"),
        "CachesReady": ("Unknown", "Unresolved"),
        "SecretsReady": ("True", "NoSecrets"),
        "WorkloadReady": ("False", "WaitingForCaches"),
        "RouteReady": ("Unknown", "Unresolved"),
    }
    api, labels = "modelplane.ai/v1alpha1", {"modelplane.ai/replica": made.replica.metadata.name}
    assert result.requirements == {
        "cluster": Requirement(api, "InferenceCluster", name="east"),
        "cache-llama-70b": Requirement(api, "ModelCache", name="llama-70b", namespace="chat"),
        "pods": Requirement("v1", "Pod", namespace=remote_namespace("chat"), labels=labels, cluster="east"),
    }


def test_what_must_outlive_the_replica_is_said(scene):
    assert scene("tensor-8").compose().uses == (
        Use("modelplane.ai/v1alpha1", "InferenceCluster", "east", reason="a replica runs on the cluster"),
        Use("modelplane.ai/v1alpha1", "ModelCache", "llama-70b", "chat", "a replica mounts the cache"),
    )


def test_conditions_follow_what_was_observed(scene):
    made = scene("tensor-8")
    assert told(made.compose())["WorkloadReady"] == ("False", "WorkloadStarting")
    observe(made)
    result = made.compose()
    assert told(result) == {
        "Accepted": ("True", "Accepted"),
        "Scheduled": ("True", "Placed"),
        "CachesReady": ("True", "CachesStaged"),
        "SecretsReady": ("True", "NoSecrets"),
        "WorkloadReady": ("True", "WorkloadAvailable"),
        "RouteReady": ("True", "RouteConfigured"),
    }
    assert result.ready.status is ConditionStatus.TRUE
    assert result.status == ModelReplicaStatus(address="http://192.0.2.1", reason="Serving", listed=True)


def test_a_replica_is_listed_once_its_route_on_the_cluster_takes_lists(scene):
    """A route that an earlier release wrote is there until the cluster answers: a list would lead nowhere."""
    made = scene("tensor-8")
    assert made.compose().status.listed is None
    observe(made, ready=False)
    assert made.compose().status.listed is None
    observe(made)
    rule = made.observed["route"].manifest["spec"]["rules"][0]
    matches, rule["matches"] = rule["matches"], rule["matches"][:1]
    assert made.compose().status.listed is None
    rule["matches"] = matches
    result = made.compose()
    assert result.status.listed is True
    made.replica = msgspec.structs.replace(made.replica, status=result.status)
    del made.observed["route"]
    assert made.compose().status.listed is True


@pytest.mark.parametrize("phase", ["Pending", "Hydrating", "Failed"])
def test_pods_wait_for_their_caches(scene, phase):
    made = scene("tensor-8")
    made.required["cache-llama-70b"][0]["status"]["clusters"][0]["phase"] = phase
    result = made.compose()
    assert not any(key.startswith("workload-") for key in result.desired)
    assert told(result)["WorkloadReady"] == ("False", "WaitingForCaches")
    assert told(result)["CachesReady"][1] == ("CacheFailed" if phase == "Failed" else "CacheStaging")


def test_pods_that_run_stay_when_a_cache_is_staged_anew(scene):
    made = scene("tensor-8")
    observe(made)
    made.required["cache-llama-70b"][0]["status"]["clusters"][0]["phase"] = "Hydrating"
    result = made.compose()
    assert result.desired["workload-main-deployment"].ready
    assert told(result)["WorkloadReady"][0] == "True"
    assert result.ready.reason == "CacheStaging"


def spoil_cluster(made):
    made.required["cluster"] = ()


def spoil_backend(made):
    made.required["cluster"][0]["spec"]["backend"] = {"type": "Unknown"}


def spoil_cache(made):
    made.required["cache-llama-70b"] = ()


def spoil_cache_body(made):
    made.required["cache-llama-70b"][0]["spec"]["source"] = "Carrier pigeon"


def spoil_labels(made):
    made.required["cluster"][0]["spec"]["scheduling"]["defaultLabels"] = {"team": "{{ .Team }}"}


def spoil_label_result(made):
    made.required["cluster"][0]["spec"]["scheduling"]["defaultLabels"] = {"team": "{{ .Namespace }}/{{ .Name }}"}


def spoil_cluster_name(made):
    del made.required["cluster"][0]["metadata"]


def spoil_cache_name(made):
    made.required["cache-llama-70b"][0]["metadata"]["namespace"] = "other"


def unread_cluster(made):
    del made.required["cluster"]


@pytest.mark.parametrize(
    ("spoil", "kind", "reason"),
    [
        (spoil_cluster, "Scheduled", "ClusterMissing"),
        (spoil_backend, "Scheduled", "Invalid"),
        (spoil_cache, "CachesReady", "CacheMissing"),
        (spoil_cache_body, "CachesReady", "Invalid"),
        (spoil_labels, "Accepted", "Invalid"),
        (spoil_label_result, "Accepted", "Invalid"),
        (unread_cluster, "Scheduled", "Unresolved"),
        (spoil_cluster_name, "Scheduled", "Invalid"),
        (spoil_cache_name, "CachesReady", "Invalid"),
    ],
)
def test_a_missing_or_broken_input_keeps_what_runs_and_says_why(scene, spoil, kind, reason):
    made = scene("tensor-8")
    observe(made)
    made.replica = msgspec.structs.replace(made.replica, status=ModelReplicaStatus(address="http://192.0.2.1"))
    spoil(made)
    result = made.compose()
    assert {key: desired.target for key, desired in result.desired.items()} == {
        key: seen.target for key, seen in made.observed.items()
    }
    assert told(result)[kind][1] == reason
    assert result.ready.status is not ConditionStatus.TRUE
    assert told(result)["WorkloadReady"] == ("True", "WorkloadAvailable")
    assert told(result)["RouteReady"] == ("True", "RouteConfigured")


@pytest.mark.parametrize(
    "garbled",
    [
        {"gateway": None},
        {"gateway": 7},
        {"gateway": {}},
        {"gateway": {"address": 7}},
        {"inClusterScheduler": {"type": "Auto"}},
        {"inClusterScheduler": {"type": "Slurm"}},
    ],
)
def test_a_garbled_status_of_the_cluster_changes_no_object(scene, garbled):
    made = scene("tensor-8")
    observe(made)
    wanted = {key: item.target for key, item in made.compose().desired.items()}
    made.replica = msgspec.structs.replace(made.replica, status=ModelReplicaStatus(address="http://192.0.2.1"))
    made.required["cluster"][0]["status"] = garbled
    result = made.compose()
    assert {key: item.target for key, item in result.desired.items()} == wanted
    assert told(result)["Scheduled"] == ("True", "Placed")
    assert told(result)["RouteReady"] == ("True", "RouteConfigured")


def test_a_replica_is_called_by_https_where_its_cluster_lets_in_fleet_gateways_only(scene):
    made = scene("tensor-8")
    observe(made)
    gateway = {"address": "192.0.2.1", "hostname": "c.internal", "caCertificate": "pem"}
    made.required["cluster"][0]["status"] = {"gateway": gateway}
    assert made.compose().status.address == "https://192.0.2.1"


@given(
    missing=st.sets(st.sampled_from(["cluster", "cache-qwen3-coder", "cache-sql", "cache-rust"])),
    absent=st.booleans(),
    backend=st.sampled_from(["native", "kserve"]),
)
def test_desired_state_never_shrinks_because_an_input_is_missing(scene, missing, absent, backend):
    made = scene("qwen3-coder-lora", backend)
    observe(made)
    for name in missing:
        if absent:
            made.required[name] = ()
        else:
            del made.required[name]
    assert made.observed.keys() <= made.compose().desired.keys()


def test_other_devices_make_another_template_and_the_old_one_stays_while_pods_need_it(scene):
    made = scene("single-gpu")
    observe(made)
    (old,) = [key for key in made.observed if key.startswith("claims-")]
    text = msgspec.json.encode(made.replica).replace(b"40Gi", b"80Gi")
    made.replica = msgspec.json.decode(text, type=type(made.replica))
    first = made.compose()
    (new,) = [key for key in first.desired if key.startswith("claims-") and key != old]
    assert old in first.desired
    assert first.desired[old].outlives == ("workload-main-deployment",)

    rolling = first.desired["workload-main-deployment"].target.manifest
    status = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1}
    item = {**rolling, "metadata": {**rolling["metadata"], "generation": 2}, "status": status}
    made.observed["workload-main-deployment"] = Observed(Remote("east", item), ready=True)
    assert old in made.compose().desired

    done = {**item, "status": {**status, "updatedReplicas": 2}}
    made.observed["workload-main-deployment"] = Observed(Remote("east", done), ready=True)
    last = made.compose().desired
    assert old not in last
    assert new in last

    for status in ({}, None, {"metadata": None}, {"conditions": [7]}):
        made.observed["workload-main-deployment"] = Observed(Remote("east", {**item, "status": status}), ready=True)
        assert old in made.compose().desired
    del made.observed["workload-main-deployment"]
    assert old in made.compose().desired


@pytest.mark.parametrize("rolls", [True, False], ids=["it rolls", "it has rolled"])
def test_an_earlier_configuration_stays_while_a_picker_may_mount_it(scene, rolls):
    made = scene("gpt-oss-20b", "pool")
    observe(made)
    for key, seen in made.observed.items():
        replicas = seen.manifest.get("spec", {}).get("replicas")
        counts = {"replicas": replicas, "updatedReplicas": 0 if key == "picker" and rolls else replicas}
        item = {**seen.manifest, "status": counts}
        made.observed[key] = Observed(Remote("east", item, seen.target.ready_when), ready=True)
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "earlier", "namespace": "n"}}
    made.observed["picker-config-earlier"] = Observed(Remote("east", old), ready=True)
    assert ("picker-config-earlier" in made.compose().desired) is rolls


def test_a_workload_goes_at_once_where_another_kind_of_workload_comes(scene):
    """Only what pods refer to stays for them."""
    made = scene("pipeline-2")
    observe(made)
    made.replica = scene("single-gpu").replica
    found = made.compose().desired
    kept = {key for key in found if key in made.observed and key.startswith("claims-")}
    assert kept == {key for key in made.observed if key.startswith("claims-")} != set()
    assert [key for key in found if key.startswith("workload-")] == ["workload-main-deployment"]


def test_the_cluster_says_in_its_own_words_why_pods_do_not_start(scene):
    made = scene("tensor-8")
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no PriorityClass"}
    observe(made, ready=False, workload_main_deployment={"status": {"conditions": [refused]}})
    condition = made.compose().conditions[4]
    assert (condition.reason, condition.message) == ("WorkloadFailed", "no PriorityClass")


@pytest.mark.parametrize(
    ("pods", "words"),
    [({"pods": ()}, ": 1 of 2 ready"), ({}, ": 1 of 2 ready; its pods are not observed")],
    ids=["the host sees no pods there", "the host does not see the pods"],
)
def test_progress_is_counted(scene, pods, words):
    made = scene("single-gpu")
    made.required.update(pods)
    observe(made, ready=False, workload_main_deployment={"status": {"readyReplicas": 1}})
    condition = made.compose().conditions[4]
    assert condition.reason == "WorkloadStarting"
    assert condition.message.endswith(words)


def test_a_route_needs_an_address_and_its_picker(scene):
    made = scene("kimi-k2-5p3d")
    observe(made)
    made.observed["picker"] = Observed(made.observed["picker"].target, ready=False)
    assert made.compose().conditions[5].message == "not ready: picker"
    made.required["cluster"][0]["status"] = {}
    assert told(made.compose())["RouteReady"] == ("False", "WaitingForGateway")


def with_status(made, conditions):
    status = ModelReplicaStatus(conditions=tuple(conditions))
    made.replica = msgspec.structs.replace(made.replica, status=status)


def test_events_tell_transitions_once(scene):
    made = scene("single-gpu")
    first = made.compose()
    assert first.events == ()
    with_status(made, first.conditions)
    observe(made)
    ready = made.compose()
    assert [(event.type, event.reason) for event in ready.events] == [
        (EventType.NORMAL, "WorkloadAvailable"),
        (EventType.NORMAL, "RouteConfigured"),
    ]
    with_status(made, ready.conditions)
    assert made.compose().events == ()
    spoil_labels(made)
    broken = made.compose()
    assert [(event.type, event.reason) for event in broken.events] == [(EventType.WARNING, "Invalid")]
    with_status(made, broken.conditions)
    assert made.compose().events == ()


def test_a_condition_of_another_composer_is_no_event(scene):
    made = scene("single-gpu")
    with_status(made, [Condition(type="Foreign", status=ConditionStatus.TRUE, reason="Whatever")])
    assert made.compose().events == ()


@pytest.mark.parametrize("shape", ["single-gpu", "kimi-k2-5p3d"])
@pytest.mark.parametrize("backend", ["native", "kserve"])
def test_routes_go_before_what_they_lead_to_and_claims_after_their_pods(scene, shape, backend):
    desired = scene(shape, backend).compose().desired
    workloads = tuple(key for key in desired if key.startswith("workload-"))
    for key, item in desired.items():
        if key.startswith("workload-"):
            assert item.outlives == ("route",)
        if key.startswith("claims-"):
            assert item.outlives == workloads
    assert desired["route"].outlives == ()
    assert next(iter(desired)) == "namespace"


def test_two_tenants_never_share_an_object(scene):
    one, other = scene("single-gpu"), scene("single-gpu")
    metadata = msgspec.structs.replace(other.replica.metadata, namespace="other")
    other.replica = msgspec.structs.replace(other.replica, metadata=metadata)

    def places(made):
        items = (desired.target.manifest for desired in made.compose().desired.values())
        return {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in items}

    assert not places(one) & places(other)
    assert all(namespace != "default" for _, namespace, _ in places(one))


def test_every_kind_of_condition_is_there_in_order(scene):
    assert tuple(condition.type for condition in scene("single-gpu").compose().conditions) == KINDS


def test_another_kind_of_workload_is_another_object(scene):
    keys = {
        key
        for shape, backend in (("single-gpu", "native"), ("pipeline-2", "native"), ("single-gpu", "kserve"))
        for key in scene(shape, backend).compose().desired
        if key.startswith("workload-")
    }
    assert keys == {"workload-main-deployment", "workload-main-lws", "workload-main-kserve"}


def test_members_may_stand_in_any_order(scene):
    made, turned = scene("pipeline-2"), scene("pipeline-2")
    engine = turned.replica.spec.engines[0]
    swapped = msgspec.structs.replace(engine, members=engine.members[::-1])
    spec = msgspec.structs.replace(turned.replica.spec, engines=(swapped,))
    turned.replica = msgspec.structs.replace(turned.replica, spec=spec)
    assert turned.compose().desired == made.compose().desired


def at_generation(made, generation: int, served: int | None) -> None:
    metadata = msgspec.structs.replace(made.replica.metadata, generation=generation)
    status = ModelReplicaStatus(served_generation=served)
    made.replica = msgspec.structs.replace(made.replica, metadata=metadata, status=status)


DONE = {"status": {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2}}
BETWEEN = {"status": {"observedGeneration": 2, "updatedReplicas": 1, "replicas": 2}}
UNBEGUN = {"status": {"observedGeneration": 2, "replicas": 2, "readyReplicas": 2}}
ANOTHER = {"metadata": {"annotations": {"modelplane.ai/rendered": "another"}}}


@pytest.mark.parametrize(
    ("ready", "workload", "known", "expected"),
    [
        pytest.param(True, DONE, None, 2, id="all its pods serve"),
        pytest.param(True, {}, 1, 1, id="its pods are not counted"),
        pytest.param(True, ANOTHER, 1, 1, id="what is observed is of the generation before"),
        pytest.param(True, BETWEEN, 1, 1, id="some pods are of the generation before"),
        pytest.param(True, UNBEGUN, 1, 1, id="all pods are of the generation before"),
        pytest.param(False, {}, 1, 1, id="it does not serve the change yet"),
        pytest.param(False, {}, 2, None, id="it ceased to serve without a change"),
        pytest.param(False, {}, None, None, id="it never served"),
    ],
)
def test_the_served_generation_is_the_newest_that_all_pods_served(scene, ready, workload, known, expected):
    made = scene("single-gpu")
    at_generation(made, 2, known)
    observe(made, ready=ready, workload_main_deployment=workload)
    assert made.compose().status.served_generation == expected


def test_a_generation_that_its_route_does_not_lead_to_is_not_served(scene):
    made = scene("single-gpu")
    at_generation(made, 2, 1)
    observe(made, workload_main_deployment=DONE)
    made.observed["route"] = Observed(made.observed["route"].target, ready=False)
    assert made.compose().status.served_generation == 1


def test_a_generation_serves_on_while_a_cache_is_staged_anew(scene):
    made = scene("tensor-8")
    at_generation(made, 2, 2)
    observe(made, workload_main_deployment=DONE)
    made.required["cache-llama-70b"][0]["status"]["clusters"][0]["phase"] = "Hydrating"
    assert made.compose().status.served_generation == 2


def test_a_change_that_is_refused_was_not_served(scene):
    made = scene("single-gpu")
    at_generation(made, 2, 1)
    observe(made)
    made.replica = msgspec.structs.replace(
        made.replica, spec=msgspec.structs.replace(made.replica.spec, priority="nobody")
    )
    made.required["cluster"][0]["spec"]["scheduling"]["priorities"] = [{"name": "production", "value": 1}]
    assert made.compose().status.served_generation == 1


def test_conditions_of_a_cluster_that_cannot_be_read_are_none(scene):
    plain, garbled = scene("single-gpu"), scene("single-gpu")
    (cluster,) = garbled.required["cluster"]
    ready = {"type": "Ready", "status": "True", "reason": "Available"}
    cluster["status"]["conditions"] = [ready, {"type": 7}, {"status": "True"}]
    assert garbled.compose().desired == plain.compose().desired


def test_what_admits_its_pods_is_read_where_the_scheduler_has_queues(scene):
    wanted = scene("single-gpu", scheduler="kueue").compose().requirements
    namespace = remote_namespace("chat")
    assert wanted["admissions"] == Requirement(
        "kueue.x-k8s.io/v1beta2", "Workload", namespace=namespace, cluster="east"
    )
    assert "admissions" not in scene("single-gpu").compose().requirements


@pytest.mark.parametrize("chosen", ["KAI", "Volcano"])
def test_a_replica_is_rendered_for_the_scheduler_that_was_found_on_its_cluster(scene, chosen):
    written, found = scene("pipeline-2", scheduler=chosen.lower()), scene("pipeline-2", scheduler=chosen.lower())
    (cluster,) = found.required["cluster"]
    cluster["spec"]["scheduling"] = {**cluster["spec"]["scheduling"], "type": "Auto"}
    cluster["status"]["inClusterScheduler"] = {"type": chosen}
    assert found.compose().desired == written.compose().desired != scene("pipeline-2").compose().desired
