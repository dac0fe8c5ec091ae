import msgspec
import pytest

from modelplane.api.conditions import ConditionType, fails, holds
from modelplane.api.models import ModelReplicaStatus
from modelplane.api.reasons import Reason
from modelplane.compose import model_replica
from modelplane.compose.contract import ComposeRequest, EventType, Observed, Remote, keep
from modelplane.compose.replica_causes import replica_status

NOW, SINCE = 1_800_000_000.0, "2026-11-16T08:24:51Z"
ENGINE = {"modelplane.ai/engine": "main"}
REFUSED = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "chat-0" is forbidden: exceeded quota: gpus',
    "lastTransitionTime": SINCE,
}
OVERDUE = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "chat-5d" has timed out progressing.',
}


def waiting_pod(reason, message, labels=None):
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "metadata": {"name": "p", "labels": ENGINE if labels is None else labels},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}],
            "containerStatuses": [{"name": "engine", "image": "i", "ready": False, "state": state}],
        },
    }


def observe(made, *, ready=False, **statuses):
    for key, desired in made.compose().desired.items():
        item = {**desired.target.manifest, "status": statuses.get(key.replace("-", "_"), {})}
        if not desired.target.shared:
            made.observed[key] = Observed(Remote("east", item, desired.target.ready_when), ready)


def compose(made, now=NOW):
    request = ComposeRequest(made.replica, observed=made.observed, required=made.required, now=now)
    return model_replica.compose(request)


def lose(made):
    made.required["cluster"][0]["status"]["conditions"] = [
        {"type": "ClusterReady", "status": "False", "reason": "ClusterLost", "lastTransitionTime": SINCE}
    ]


CASES = {
    "a pod's own words": (
        [waiting_pod("ErrImagePull", "i: not found")],
        {},
        ("ImagePullFailed", "1 of 1 pod: container engine: i: not found", SINCE),
    ),
    "a quota before the pods that are there": (
        [waiting_pod("ContainerCreating", "")],
        {"conditions": [REFUSED]},
        ("QuotaExceeded", 'pods "chat-0" is forbidden: exceeded quota: gpus', SINCE),
    ),
    "the pods before a deadline": (
        [waiting_pod("CreateContainerConfigError", 'secret "hf" not found')],
        {"conditions": [OVERDUE]},
        ("SecretMissing", '1 of 1 pod: container engine: secret "hf" not found', SINCE),
    ),
    "no pods that the host can see": (
        None,
        {"conditions": [OVERDUE]},
        ("WorkloadFailed", 'ReplicaSet "chat-5d" has timed out progressing.', "2027-01-15T08:00:00Z"),
    ),
}


@pytest.mark.parametrize(("pods", "status", "expected"), CASES.values(), ids=CASES.keys())
def test_the_replica_has_the_worst_cause_in_its_own_words(scene, pods, status, expected):
    made = scene("single-gpu")
    observe(made, workload_main_deployment=status)
    if pods is not None:
        made.required["pods"] = tuple(pods)
    result = compose(made)
    condition = result.conditions[4]
    assert (condition.type, condition.reason, condition.message) == ("WorkloadReady", *expected[:2])
    assert (result.ready.reason, result.ready.message) == expected[:2]
    assert (result.status.reason, result.status.message, result.status.since) == expected


def test_a_fault_is_one_warning_and_a_stage_is_none(scene):
    made = scene("single-gpu")
    observe(made)
    made.required["pods"] = (waiting_pod("ContainerCreating", ""),)
    first = compose(made)
    made.replica = msgspec.structs.replace(made.replica, status=ModelReplicaStatus(conditions=first.conditions))
    made.required["pods"] = (waiting_pod("ErrImagePull", "i: not found"),)
    second = compose(made)
    assert first.events == ()
    assert [(event.type, event.reason) for event in second.events] == [(EventType.WARNING, "ImagePullFailed")]
    made.replica = msgspec.structs.replace(made.replica, status=ModelReplicaStatus(conditions=second.conditions))
    made.required["pods"] = (waiting_pod("ImagePullBackOff", "Back-off pulling image"),)
    assert compose(made).events == ()


def test_a_lost_cluster_is_the_cause_of_all_that_is_on_it(scene):
    made = scene("single-gpu")
    observe(made)
    made.required["pods"] = (waiting_pod("ErrImagePull", "i: not found"),)
    lose(made)
    result = compose(made)
    assert [(each.type, each.reason) for each in result.conditions[4:]] == [
        ("WorkloadReady", "ClusterLost"),
        ("RouteReady", "ClusterLost"),
    ]
    assert (result.status.reason, result.status.message, result.status.since) == (
        "ClusterLost",
        "cluster east does not answer",
        SINCE,
    )


def test_a_replica_that_mounts_nothing_is_not_created_before_its_cluster_is_read(scene):
    made = scene("single-gpu")
    made.replica = msgspec.structs.replace(made.replica, spec=msgspec.structs.replace(made.replica.spec, caches=()))
    del made.required["cluster"]
    found = {each.type: (each.status, each.reason, each.message) for each in compose(made).conditions}
    assert found["WorkloadReady"] == ("False", "Creating", "the workload is not created yet")
    assert found["RouteReady"] == ("Unknown", "Unresolved", "cluster east is not read yet")


def test_a_route_says_that_its_cluster_does_not_exist(scene):
    made = scene("single-gpu")
    made.required["cluster"] = ()
    found = {each.type: (each.status, each.reason, each.message) for each in compose(made).conditions}
    assert found["Scheduled"] == ("False", "ClusterMissing", "cluster east does not exist; running pods stay")
    assert found["RouteReady"] == ("Unknown", "Unresolved", "cluster east does not exist; running pods stay")


def test_a_workload_that_was_just_created_is_starting(scene):
    condition = compose(scene("single-gpu")).conditions[4]
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "WorkloadReady",
        "False",
        "WorkloadStarting",
        "the workload is not observed yet",
    )


def test_a_lost_cluster_is_the_cause_before_secrets_that_cannot_be_seen_there(scene):
    made = scene("gpt-oss-20b")
    lose(made)
    result = compose(made)
    found = {each.type: (each.reason, each.message) for each in result.conditions}
    assert found["SecretsReady"] == found["WorkloadReady"] == ("ClusterLost", "cluster east does not answer")
    assert (result.status.reason, result.ready.reason) == ("ClusterLost", "ClusterLost")
    assert set(result.desired) >= {"secret-engine", "configmap-engine"}


def test_a_replica_that_is_seen_to_serve_is_not_lost(scene):
    made = scene("single-gpu")
    observe(made, ready=True)
    lose(made)
    result = compose(made)
    assert result.status.reason == "Serving"
    assert all(condition.status == "True" for condition in result.conditions)


AWAY = {
    "type": "AgentConnected",
    "status": "False",
    "reason": "AgentDisconnected",
    "message": "the agent is not connected since then",
    "lastTransitionTime": SINCE,
}
HERE = {**AWAY, "status": "True", "reason": "AgentConnected", "message": "connected"}
SILENT = {**AWAY, "status": "Unknown", "reason": "AgentUnknown", "message": "the hub is silent"}
AVAILABLE = {
    "conditions": [{"type": "Available", "status": "True"}],
    "availableReplicas": 1,
    "readyReplicas": 1,
}
ROUTED = {
    "parents": [
        {"conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]},
    ]
}


def behind_a_tunnel(made, condition):
    cluster = made.required["cluster"][0]
    cluster["spec"]["cluster"] = {
        "source": "Existing",
        "existing": {"secretRef": {"name": "east-kubeconfig"}, "connection": "Agent"},
    }
    cluster["status"]["conditions"] = [condition]


@pytest.mark.parametrize(
    ("condition", "reason", "message"),
    [
        (AWAY, "AgentDisconnected", "cluster east is not reached: the agent is not connected since then"),
        (SILENT, "AgentUnknown", "cluster east is not reached: the hub is silent"),
        (HERE, "Unresolved", "objects on cluster east cannot be read"),
    ],
    ids=["away", "silent", "connected"],
)
def test_what_a_broken_tunnel_hides_is_unknown_and_not_denied(scene, condition, reason, message):
    """The objects were ready when they were read last, so requests go on."""
    made = scene("single-gpu")
    observe(made, workload_main_deployment=AVAILABLE, route=ROUTED)
    behind_a_tunnel(made, condition)
    result = compose(made)
    assert [(each.type, each.status, each.reason, each.message) for each in result.conditions[4:]] == [
        ("WorkloadReady", "Unknown", reason, message),
        ("RouteReady", "Unknown", reason, message),
    ]
    assert (result.status.reason, result.status.message) == (reason, message)
    assert result.desired.keys() >= made.observed.keys()


def test_one_workload_that_cannot_be_read_is_enough_for_not_knowing(scene):
    made = scene("prefill-decode")
    observe(made, workload_prefill_deployment=AVAILABLE)
    behind_a_tunnel(made, SILENT)
    assert compose(made).conditions[4].reason == "AgentUnknown"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [(AWAY, "AgentDisconnected"), (SILENT, "ImagePullFailed"), (HERE, "ImagePullFailed")],
    ids=["away", "silent", "connected"],
)
def test_pods_that_are_seen_to_fail_fail_behind_a_tunnel_too(scene, condition, reason):
    made = scene("single-gpu")
    observe(made)
    made.required["pods"] = (waiting_pod("ErrImagePull", "i: not found"),)
    behind_a_tunnel(made, condition)
    assert compose(made).status.reason == reason


def test_a_picker_that_does_not_start_is_told_by_the_route(scene):
    made = scene("kimi-k2-5p3d")
    observe(made, ready=True)
    made.observed["picker"] = Observed(made.observed["picker"].target, ready=False)
    made.required["pods"] = (waiting_pod("ErrImagePull", "p: not found", labels={}),)
    condition = compose(made).conditions[5]
    assert (condition.reason, condition.message) == (
        "ImagePullFailed",
        "picker: 1 of 1 pod: container engine: image i: p: not found",
    )


@pytest.mark.parametrize(("available", "reason"), [(True, "RouteRejected"), (False, "RoutePending")])
def test_the_gateway_says_why_it_rejects_a_route(scene, available, reason):
    made = scene("single-gpu")
    observe(made, ready=True)
    said = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound", "message": "no such Service"}
    route = {**made.observed["route"].manifest, "status": {"parents": [{"conditions": [said]}]}}
    made.observed["route"] = Observed(Remote("east", route), ready=False)
    if not available:
        workload = made.observed["workload-main-deployment"]
        made.observed["workload-main-deployment"] = Observed(workload.target, ready=False)
    condition = compose(made).conditions[5]
    assert (condition.reason, condition.message) == (reason, "BackendNotFound: no such Service")


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (
            {"name": "east", "phase": "Hydrating", "stagedBytes": 3 * 2**29, "totalBytes": 4 * 2**30},
            "CacheStaging",
            "cache llama-70b on east: Hydrating, 1.5 of 4.0 GiB",
        ),
        (
            {"name": "east", "phase": "Hydrating", "stagedBytes": 0, "totalBytes": 4 * 2**30},
            "CacheStaging",
            "cache llama-70b on east: Hydrating, 0.0 of 4.0 GiB",
        ),
        (
            {"name": "east", "phase": "Hydrating", "totalBytes": 4 * 2**30},
            "CacheStaging",
            "cache llama-70b on east: Hydrating",
        ),
        (
            {"name": "east", "phase": "Hydrating", "stagedBytes": 2**30},
            "CacheStaging",
            "cache llama-70b on east: Hydrating",
        ),
        (
            {"name": "east", "phase": "Pending", "message": "no StorageClass"},
            "CacheStaging",
            "cache llama-70b on east: Pending: no StorageClass",
        ),
        (
            {"name": "east", "phase": "Pending", "reason": "WaitingForVolume", "message": "it is not bound yet"},
            "CacheStaging",
            "cache llama-70b on east: WaitingForVolume: it is not bound yet",
        ),
        (
            {"name": "east", "phase": "Hydrating", "reason": "SourceUnreachable", "message": "no route to the host"},
            "CacheFailed",
            "cache llama-70b on east: SourceUnreachable: no route to the host",
        ),
        (
            {"name": "east", "phase": "Hydrating", "reason": "ImagePullFailed", "message": "no such image"},
            "CacheFailed",
            "cache llama-70b on east: ImagePullFailed: no such image",
        ),
        ({"name": "east", "phase": "Failed"}, "CacheFailed", "cache llama-70b on east: staging failed"),
        ({"name": "west", "phase": "Ready"}, "CacheStaging", "cache llama-70b on east: Pending"),
    ],
)
def test_staging_is_told_with_bytes(scene, status, reason, message):
    made = scene("tensor-8")
    made.required["cache-llama-70b"][0]["status"]["clusters"] = [status]
    result = compose(made)
    assert (result.status.reason, result.status.message) == (reason, message)


def test_a_replica_waits_for_the_source_that_it_is_to_mount(scene):
    made = scene("tensor-8")
    mounts = tuple(msgspec.structs.replace(mount, key="new") for mount in made.replica.spec.caches)
    spec = msgspec.structs.replace(made.replica.spec, caches=mounts)
    made.replica = msgspec.structs.replace(made.replica, spec=spec)
    status = made.required["cache-llama-70b"][0]["status"]
    status["clusters"] = [{"name": "east", "phase": "Hydrating", "stagedKeys": ["old"]}]
    assert compose(made).status.reason == "CacheStaging"
    status["clusters"] = [{"name": "east", "phase": "Hydrating", "stagedKeys": ["newer", "new"]}]
    assert compose(made).status.reason == "WorkloadStarting"


def test_a_cache_without_a_source_changes_no_workload(scene):
    made = scene("tensor-8")
    observe(made, ready=True)
    made.required["cache-llama-70b"][0]["spec"] = {}
    result = compose(made)
    assert result.desired == {key: keep(seen) for key, seen in made.observed.items()}


def test_since_stays_while_the_reason_does(scene):
    made = scene("single-gpu")
    observe(made)
    first = compose(made)
    assert (first.status.reason, first.status.since) == ("WorkloadStarting", "2027-01-15T08:00:00Z")
    made.replica = msgspec.structs.replace(made.replica, status=first.status)
    assert compose(made, NOW + 60).status.since == "2027-01-15T08:00:00Z"
    observe(made, ready=True)
    assert compose(made, NOW + 60).status == ModelReplicaStatus(
        address="http://192.0.2.1", reason="Serving", since="2027-01-15T08:01:00Z", listed=True
    )


@pytest.mark.parametrize(("others", "message"), [("True", None), ("False", "CachesReady: a cache is staged anew")])
def test_a_replica_that_serves_says_what_it_lacks_all_the_same(scene, others, message):
    serving = [
        holds(kind, Reason.WORKLOAD_AVAILABLE) for kind in (ConditionType.WORKLOAD_READY, ConditionType.ROUTE_READY)
    ]
    make = holds if others == "True" else fails
    ready = make(ConditionType.READY, Reason.CACHE_STAGING, "CachesReady: a cache is staged anew")
    found = replica_status(scene("single-gpu").replica, serving, ready, None, NOW)
    assert (found.reason, found.message) == ("Serving", message)


def test_the_message_of_a_replica_is_as_long_as_the_api_allows(scene):
    ready = fails(ConditionType.READY, Reason.CACHE_STAGING, "m" * 2000)
    assert replica_status(scene("single-gpu").replica, (), ready, None, NOW).message == "m" * 1024


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("ClusterReady", "Provisioning"), ("ClusterReady", "ClusterUnreachable"), ("Ready", "ClusterLost")],
)
@pytest.mark.parametrize(("ready", "expected"), [(True, "Serving"), (False, "WorkloadStarting")])
def test_a_cluster_that_is_not_ready_is_not_lost(scene, kind, reason, ready, expected):
    made = scene("single-gpu")
    observe(made, ready=ready)
    made.required["cluster"][0]["status"]["conditions"] = [{"type": kind, "status": "False", "reason": reason}]
    assert compose(made).status.reason == expected


def test_a_replica_waits_for_the_address_of_its_cluster(scene):
    made = scene("single-gpu")
    made.required["cluster"][0]["status"]["gateway"] = {}
    route = compose(made).conditions[5]
    assert (route.status, route.reason, route.message) == (
        "False",
        "WaitingForGateway",
        "the cluster's gateway has no address",
    )


def test_without_a_clock_nothing_has_a_time(scene):
    made = scene("single-gpu")
    assert replica_status(made.replica, (), compose(made).ready, None, 0.0).since is None


def test_a_queue_that_is_missing_is_told_where_only_the_local_queue_says_so(scene):
    """Kueue writes nothing on the Workload of a group whose ClusterQueue does not exist; what is there is old."""
    made = scene("v03-gang", "native", "kueue")
    observe(made)
    item = made.compose().desired["queue"].target.manifest
    words = "Can't submit new workloads to clusterQueue"
    active = {"type": "Active", "status": "False", "reason": "ClusterQueueDoesNotExist", "message": words}
    status = {"conditions": [{**active, "lastTransitionTime": SINCE}]}
    made.observed["queue"] = Observed(Remote("east", {**item, "status": status}, shared=True), True)
    gated = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    made.required["pods"] = ({"metadata": {"name": "p", "labels": ENGINE}, "spec": gated, "status": {}},)
    old = {"type": "QuotaReserved", "status": "False", "message": 'ResourceClaimTemplate "main" not found'}
    workload = {"metadata": {"name": "w", "ownerReferences": [{"name": "p"}]}, "status": {"conditions": [old]}}
    made.required["admissions"] = (workload,)
    told = "Kueue: LocalQueue serving of ClusterQueue serving is not active: ClusterQueueDoesNotExist: "
    status = compose(made).status
    assert (status.reason, status.message, status.since) == ("QueueMissing", told + words, SINCE)
    del made.observed["queue"]
    assert compose(made).status.reason == "ClaimPending"
    del made.required["admissions"]
    assert compose(made).status.reason == "SchedulingGated"


WEBHOOK = (
    'admission webhook "validatepodgroup.volcano.sh" denied the request: '
    'unable to find queue: queues.scheduling.volcano.sh "serving" not found'
)


@pytest.mark.parametrize(
    ("key", "refused", "reason"),
    [
        pytest.param("route", WEBHOOK, "QueueMissing", id="an object beside the workload"),
        pytest.param("workload-main-deployment", "exceeded quota: pods", "QuotaExceeded", id="a quota"),
        pytest.param("workload-main-deployment", "deployments.apps is forbidden", "WorkloadFailed", id="a right"),
    ],
)
def test_what_its_cluster_refuses_is_the_cause_in_the_clusters_words(scene, key, refused, reason):
    made = scene("single-gpu")
    observe(made)
    seen = made.observed[key]
    made.observed[key] = Observed(seen.target, ready=False, refused=refused)
    status = compose(made).status
    name = f"{seen.manifest['kind']} {seen.manifest['metadata']['name']}"
    assert (status.reason, status.message) == (reason, f"{name} is refused: {refused}")


def test_a_workload_that_is_refused_is_the_cause_before_what_stands_beside_it(scene):
    made = scene("single-gpu")
    observe(made)
    for key, refused in (("service", "services is forbidden"), ("workload-main-deployment", "exceeded quota: pods")):
        made.observed[key] = Observed(made.observed[key].target, ready=False, refused=refused)
    assert compose(made).status.reason == "QuotaExceeded"


def test_an_object_that_the_clusters_words_name_is_not_named_twice(scene):
    made = scene("single-gpu")
    observe(made)
    seen = made.observed["workload-main-deployment"]
    said = f'deployments.apps "{seen.manifest["metadata"]["name"]}" is forbidden'
    made.observed["workload-main-deployment"] = Observed(seen.target, ready=False, refused=said)
    assert compose(made).status.message == said


def test_a_replica_that_serves_goes_on_while_a_change_is_refused(scene):
    made = scene("single-gpu")
    observe(made, ready=True)
    before = compose(made).status.reason
    made.observed = {key: Observed(item.target, ready=True, refused="denied") for key, item in made.observed.items()}
    assert compose(made).status.reason == before
