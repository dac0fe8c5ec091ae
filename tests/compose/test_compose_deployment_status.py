"""The conditions and the status of a deployment, from whole passes over a small fleet."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import Cache, ModelDeployment, NotReady
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, EventType, Local, Observed, ReadyWhen
from modelplane.compose.fleet_snapshot import fleet_of

POD = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8, "capacity": {"memory": {"value": "141Gi"}}}
LOST, ENDS, NOW = "2026-11-16T08:24:51Z", "2026-11-16T08:29:51Z", 1_794_817_500.0


def cluster(name, *, lost=False, devices=8, metadata=None, **spec):
    ready = {"type": "Ready", "status": "False" if lost else "True", "reason": "X", "lastTransitionTime": LOST}
    return {
        "metadata": {"name": name, "labels": {"region": name}, "generation": 1, **(metadata or {})},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 1}],
            **spec,
        },
        "status": {
            "conditions": [{**ready, "observedGeneration": 1}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "nodes": 1, "devices": [{**GPU, "count": devices}]}],
        },
    }


def deployment(replicas=4, *, devices=2, cel='device.driver == "d"', region=None, conditions=()):
    wanted = [{"name": "gpu", "count": devices, "selectors": [{"cel": cel}]}]
    spec = {"replicas": replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": POD}}
    if region:
        spec["clusterSelector"] = {"matchLabels": {"region": region}}
    metadata = {"name": "chat", "namespace": "team", "uid": "u"}
    return decode(ModelDeployment, {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions)}})


def compose(asked, clusters, replicas=None):
    found = replicas or {}
    observed = {key: Observed(Local(item, ReadyWhen.READY), ready=False) for key, item in found.items()}
    return model_deployment.compose(ComposeRequest(asked, observed, fleet=fleet_of(clusters, found.values()), now=NOW))


def seen(result, statuses):
    """The replicas of a result with the status that their cluster has."""
    items = {key: item.target.manifest for key, item in result.desired.items()}
    return {key: {**item, "status": statuses[item["spec"]["clusterName"]]} for key, item in items.items()}


SERVES = {
    "reason": "Serving",
    "address": "http://192.0.2.1",
    "conditions": [{"type": kind, "status": "True", "reason": "X"} for kind in ("WorkloadReady", "RouteReady")],
}


def told(result):
    return [(condition.reason, condition.message) for condition in result.conditions]


def test_two_of_four_lost_with_their_cluster():
    first = compose(deployment(), [cluster("east"), cluster("west")])
    gone = {"reason": "ClusterLost", "message": "cluster east does not answer", "since": LOST, "conditions": []}
    result = compose(
        deployment(), [cluster("east", lost=True), cluster("west")], seen(first, {"east": gone, "west": SERVES})
    )
    message = f"2 of 4 replicas serve; 2 of 4 lost with cluster east at {LOST}; replaced at {ENDS}"
    assert told(result)[1] == ("ClusterLost", message)
    assert (result.status.reason, result.status.message) == ("ClusterLost", message)
    assert result.status.not_ready == (
        NotReady(
            reason="ClusterLost",
            replicas=2,
            cluster="east",
            since=LOST,
            message="cluster east does not answer",
            replaced_at=ENDS,
        ),
    )
    assert [(event.type, event.reason) for event in result.events] == [(EventType.WARNING, "ClusterLost")]


def test_a_replica_whose_cluster_is_known_to_be_gone_leaves_nothing_unknown():
    first = compose(deployment(), [cluster("east"), cluster("west")])
    missing = {"type": "Scheduled", "status": "False", "reason": "ClusterMissing"}
    gone = {**SERVES, "conditions": [missing, *SERVES["conditions"]]}
    result = compose(deployment(), [cluster("west")], seen(first, {"east": gone, "west": SERVES}))
    assert told(result)[0] == ("AllPlaced", "6 of 4 replicas placed")


def test_a_replica_that_its_cluster_refuses_is_told():
    first = compose(deployment(1), [cluster("east")])
    refused = {"reason": "NotSupported", "message": "spec.stack: this build does not render for Dynamo"}
    result = compose(deployment(1), [cluster("east")], seen(first, {"east": refused}))
    message = (
        "0 of 1 replicas serve; 1 of 1 NotSupported on east: spec.stack: this build does not render for Dynamo; "
        "nothing changes until it is corrected"
    )
    assert told(result)[:2] == [("AllPlaced", "1 of 1 replicas placed"), ("NotSupported", message)]


def test_a_replica_that_has_no_place_is_told():
    result = compose(deployment(1, devices=16), [cluster("east")])
    assert told(result)[1] == ("NotPlaced", "0 of 1 replicas serve; 1 of 1 not placed")


NEVER = {
    "too many devices a node": deployment(1, devices=16),
    "too much memory": deployment(1, cel='device.capacity["d"].memory.compareTo(quantity("200Gi")) >= 0'),
    "an attribute that no device has": deployment(1, cel='device.attributes["d"].memroy == "x"'),
}


@pytest.mark.parametrize("asked", NEVER.values(), ids=NEVER.keys())
def test_what_fits_nowhere_is_never_called_waiting(asked):
    result = compose(asked, [cluster("east")])
    condition = result.conditions[0]
    assert (condition.reason, result.status.reason) == ("FitsNowhere", "FitsNowhere")
    assert "wait" not in condition.message
    assert result.status.placement.summary == "0 placed; 1 fit nowhere"
    assert [(event.type, event.reason) for event in result.events] == [(EventType.WARNING, "FitsNowhere")]


DELETED = {"deletionTimestamp": LOST, "finalizers": ["x"]}
CLOSED = {
    "open": {},
    "drained": {"drain": {}},
    "drained a moment ago": {"drain": {}, "metadata": {"generation": 2}},
    "cordoned": {"cordoned": True},
    "cordoned a moment ago": {"cordoned": True, "metadata": {"generation": 2}},
    "changed a moment ago": {"metadata": {"generation": 2}},
    "lost": {"lost": True},
    "deleted": {"metadata": DELETED},
    "drained and deleted": {"drain": {}, "cordoned": True, "metadata": {**DELETED, "generation": 3}},
}
_FITS, _WAITS, _GONE = "AllPlaced", "InsufficientCapacity", "FitsNowhere"


@pytest.mark.parametrize("closed", CLOSED.values(), ids=CLOSED.keys())
def test_what_no_cluster_can_hold_fits_nowhere_whatever_becomes_of_the_clusters(closed):
    result = compose(deployment(1, devices=9), [cluster("east"), cluster("west", **closed)])
    assert (result.conditions[0].reason, result.status.reason) == (_GONE, _GONE)
    assert result.status.placement.summary == "0 placed; 1 fit nowhere"
    assert [event.reason for event in result.events] == [_GONE]


@pytest.mark.parametrize(
    ("closed", "reason"),
    [*zip(CLOSED.values(), (_FITS, *[_WAITS] * 6, _GONE, _GONE), strict=True)],
    ids=CLOSED.keys(),
)
def test_what_only_one_cluster_can_hold_waits_unless_that_is_deleted(closed, reason):
    result = compose(deployment(1, devices=9), [cluster("east"), cluster("west", devices=9, **closed)])
    assert result.conditions[0].reason == reason


def test_what_a_cluster_without_a_status_has_is_waited_for():
    unknown = {**cluster("west"), "status": {}}
    result = compose(deployment(1, devices=9), [cluster("east"), unknown])
    assert (result.conditions[0].reason, result.status.placement.summary) == (_WAITS, "0 placed; 1 wait for capacity")


def test_a_fleet_without_clusters_has_no_room_to_wait_for():
    result = compose(deployment(1), [cluster("east")])
    assert result.conditions[0].reason == "AllPlaced"
    request = ComposeRequest(deployment(1), required={"clusters": (), "replicas": (), "caches": ()}, now=NOW)
    assert told(model_deployment.compose(request))[0] == (
        "NoClusters",
        "0 of 1 replicas placed: the fleet has no clusters; apply an InferenceCluster",
    )


def test_what_waits_for_others_is_called_waiting():
    result = compose(deployment(5), [cluster("east")])
    capacity = "Capacity: 0 of 1 nodes have 2 free GPUs; 8 of 8 GPUs are held"
    assert told(result)[0] == ("InsufficientCapacity", f"4 of 5 replicas placed; {capacity}")
    assert result.status.placement.summary == "4 on east; 1 wait for capacity"
    assert told(result)[1][1].endswith("; 1 of 5 not placed")
    assert result.status.message == "; ".join(message for _, message in told(result)[:2])
    assert [event.reason for event in result.events if event.type is EventType.WARNING] == ["InsufficientCapacity"]


def test_a_selector_that_matches_no_cluster_is_no_matter_of_capacity():
    result = compose(deployment(1, region="mars"), [cluster("east")])
    assert result.conditions[0].reason == "NoClusters"
    assert result.status.placement.summary == "0 placed; 1 match no cluster"


def test_an_event_is_written_once_for_a_transition():
    first = compose(deployment(5), [cluster("east")])
    again = compose(deployment(5, conditions=[*map(encoded, first.conditions)]), [cluster("east")])
    assert [event.reason for event in again.events if event.type is EventType.WARNING] == []


def encoded(condition):
    return {"type": condition.type, "status": condition.status, "reason": condition.reason}


CACHE = {
    "metadata": {"name": "weights", "namespace": "team", "uid": "u"},
    "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b"}},
}


def staging(phase, reason, **more):
    entry = {"name": "east", "phase": phase, "reason": reason, **more}
    conditions = [{"type": "Ready", "status": "False", "reason": reason}]
    return {**CACHE, "status": {"clusters": [entry], "conditions": conditions}}


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        (
            [],
            (
                "CacheMissing",
                "Caches: ModelCache team/weights does not exist: create it, or correct its name",
                "wait for a ModelCache that does not exist",
            ),
        ),
        (
            [CACHE],
            ("CacheStaging", "Caches: cache weights is not reconciled yet", "wait for a ModelCache to be staged"),
        ),
        (
            [staging("Hydrating", "Hydrating")],
            ("CacheStaging", "Caches: cache weights is being staged here", "wait for a ModelCache to be staged"),
        ),
        (
            [staging("Hydrating", "SourceUnreachable", cause="no route")],
            (
                "CacheFailed",
                "Caches: cache weights is not staged here: SourceUnreachable: no route",
                "wait for a ModelCache whose staging fails",
            ),
        ),
        (
            [staging("Failed", "Unauthorized", cause="the source answers 401")],
            (
                "CacheFailed",
                "Caches: cache weights cannot be staged here: Unauthorized: the source answers 401",
                "wait for a ModelCache whose staging fails",
            ),
        ),
    ],
    ids=["missing", "not reconciled yet", "being staged", "does not get on", "failed"],
)
def test_a_deployment_that_only_its_cache_keeps_from_being_placed_says_so(caches, expected):
    asked = msgspec.structs.replace(deployment(1))
    spec = msgspec.structs.replace(asked.spec, caches=(Cache(name="weights"),))
    asked = msgspec.structs.replace(asked, spec=spec)
    fleet = fleet_of([cluster("east")], (), caches)
    result = model_deployment.compose(ComposeRequest(asked, {}, fleet=fleet, now=NOW))
    reason, why, waits = expected
    assert told(result)[0] == (reason, f"0 of 1 replicas placed; {why}")
    assert result.status.placement.summary == f"0 placed; 1 {waits}"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "CacheMissing"),
        (staging("Hydrating", "Hydrating"), "CacheStaging"),
        (staging("Failed", "Unauthorized", cause="the source answers 401"), "CacheFailed"),
    ],
)
def test_clusters_that_are_not_selected_have_no_part_in_the_reason(found, reason):
    fleet = fleet_of([cluster("east"), cluster("west")], (), [found] if found else [])
    request = ComposeRequest(cached(deployment(1, region="east")), {}, fleet=fleet, now=NOW)
    assert model_deployment.compose(request).conditions[0].reason == reason


def cached(asked):
    spec = msgspec.structs.replace(asked.spec, caches=(Cache(name="weights"),))
    return msgspec.structs.replace(asked, spec=spec)


@pytest.mark.parametrize(
    ("west", "reason"),
    [
        pytest.param(cluster("west"), "FitsNowhere", id="no cluster could hold it with its cache"),
        pytest.param(cluster("west", devices=9), "CacheStaging", id="one could, and fetches the cache"),
    ],
)
def test_a_cache_is_waited_for_only_where_the_hardware_is_there(west, reason):
    entries = [{"name": name, "phase": "Hydrating", "reason": "Hydrating"} for name in ("east", "west")]
    cache = {**CACHE, "status": {**staging("Hydrating", "Hydrating")["status"], "clusters": entries}}
    fleet = fleet_of([cluster("east"), west], (), [cache])
    request = ComposeRequest(cached(deployment(1, devices=9)), {}, fleet=fleet, now=NOW)
    assert model_deployment.compose(request).conditions[0].reason == reason


def test_the_reason_is_that_of_the_cache_in_the_message():
    """The first cache is being staged; that the second fails is said when it is the one that is waited for."""
    failing = staging("Hydrating", "SourceUnreachable", cause="no route")
    second = {**failing, "metadata": {**failing["metadata"], "name": "adapter"}}
    spec = msgspec.structs.replace(
        deployment(1).spec, caches=(Cache(name="weights"), Cache(name="adapter", mount_path="/a"))
    )
    fleet = fleet_of([cluster("east")], (), [staging("Hydrating", "Hydrating"), second])
    asked = msgspec.structs.replace(deployment(1), spec=spec)
    result = model_deployment.compose(ComposeRequest(asked, {}, fleet=fleet, now=NOW))
    assert told(result)[0] == ("CacheStaging", "0 of 1 replicas placed; Caches: cache weights is being staged here")


def test_a_deployment_that_no_cluster_can_run_says_so():
    old = cluster("east")
    old["spec"]["backend"] = {"type": "KServe", "kserve": {"version": "0.99"}}
    refused = compose(deployment(1), [old])
    assert refused.status.placement.summary == "0 placed; 1 no cluster can run"
    reason, message = told(refused)[0]
    assert (reason, message.startswith("0 of 1 replicas placed; Backend: KServe '0.99' is not")) == (
        "NotRunnable",
        True,
    )
    assert told(compose(deployment(5), [old, cluster("west")]))[0][0] == "InsufficientCapacity"


def test_clusters_that_cannot_run_it_or_not_stage_its_cache_cannot_run_it_together():
    old = cluster("west")
    old["spec"]["backend"] = {"type": "KServe", "kserve": {"version": "0.99"}}
    fleet = fleet_of([cluster("east"), old], (), [staging("Failed", "Unauthorized")])
    result = model_deployment.compose(ComposeRequest(cached(deployment(1)), {}, fleet=fleet, now=NOW))
    assert result.conditions[0].reason == "NotRunnable"


def test_what_is_said_of_a_placement_is_as_long_as_the_api_allows():
    old = cluster("east")
    old["spec"]["backend"] = {"type": "KServe", "kserve": {"version": "9" * 2_000}}
    found = compose(deployment(1), [old])
    (candidate,) = found.status.placement.candidates
    assert (len(found.conditions[0].message), len(found.status.message), len(candidate.reason)) == (1024, 1024, 512)


def test_the_first_candidates_are_listed_and_the_others_counted():
    found = compose(deployment(1, devices=9), [cluster(f"c{at:02}") for at in range(33)]).status.placement
    assert ([each.cluster for each in found.candidates], found.omitted) == ([f"c{at:02}" for at in range(32)], 1)


def test_a_status_lists_a_thousand_clusters():
    asked = deployment(1_001, devices=8)
    result = compose(asked, [cluster(f"c{at:04}") for at in range(1_001)])
    assert [found.name for found in result.status.clusters] == [f"c{at:04}" for at in range(1_000)]


def test_victims_are_nominated_a_second_before_they_are_evicted():
    ranked = cluster("east")
    ranked["spec"]["scheduling"] = {"priorities": [{"name": "gold", "value": 9}]}
    other = compose(deployment(4), [ranked])
    items = [
        {**item.target.manifest, "metadata": {**item.target.manifest["metadata"], "namespace": "others"}}
        for item in other.desired.values()
    ]
    asked = deployment(1, devices=8)
    spec = msgspec.structs.replace(asked.spec, priority="gold", preemption_policy="PreemptLowerPriority")
    fleet = fleet_of([ranked], items)
    result = model_deployment.compose(ComposeRequest(msgspec.structs.replace(asked, spec=spec), fleet=fleet, now=NOW))
    nominated = "4 replicas of lower priority on east are nominated for preemption"
    assert result.status.placement.summary == f"0 placed; 1 wait for capacity; {nominated}"
    assert (len(result.status.placement.preemption.replicas), result.requeue_after_s) == (4, 1.0)
