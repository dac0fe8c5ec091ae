"""ModelDeployment: whole results, placement messages with numbers, lost clusters, endpoints that follow replicas."""

import copy

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionType, fails, holds, unknown
from modelplane.api.models import (
    Candidate,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelDeploymentStatusCluster,
    NotReady,
    StatusPlacement,
    StatusRollout,
    TemplateRevision,
)
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp
from modelplane.compose import deployment_status, model_deployment, replica_endpoints
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Event,
    EventType,
    Local,
    Observed,
    ReadyWhen,
    Requirement,
)
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.revisions import pack, template_hash, template_of
from modelplane.placement import selector_budget

POD = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
SINCE = "2026-01-01T00:00:00Z"
NOW = 1767225600.0


def cluster(name, *, nodes=1, pool=None, region="east"):
    return {
        "metadata": {"name": name, "labels": {"region": region}},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": nodes}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "nodes": nodes, "devices": [GPU], **(pool or {})}],
        },
    }


def deployment(replicas, devices, region="east"):
    wanted = [{"name": "gpu", "count": devices, "selectors": [{"cel": 'device.driver == "d"'}]}]
    spec = {"replicas": replicas, "nodeSelector": {"devices": wanted}, "workers": {"template": POD}}
    return decode(
        ModelDeployment,
        {
            "metadata": {"name": "chat", "namespace": "team", "uid": "u"},
            "spec": {**spec, "clusterSelector": {"matchLabels": {"region": region} if region else {}}},
        },
    )


def running(result, *, ready):
    """The replicas of a result as they are observed, since some time ago."""
    for key, desired in result.desired.items():
        manifest = dict(desired.target.manifest)
        manifest["metadata"] = {**manifest["metadata"], "creationTimestamp": SINCE}
        condition = {"type": "Ready", "status": str(ready), "reason": "Starting", "lastTransitionTime": SINCE}
        yield key, {**manifest, "status": {"conditions": [condition]}}


def scheduled(asked, clusters, replicas=(), now=NOW):
    found = dict(replicas)
    observed = {key: Observed(Local(item, ReadyWhen.READY), ready=False) for key, item in found.items()}
    request = ComposeRequest(asked, observed, fleet=fleet_of(clusters, found.values()), now=now)
    result = model_deployment.compose(request)
    condition = result.conditions[0]
    return result, (condition.status.value, condition.reason, condition.message)


def stuck(placed, number, why):
    return f"{placed} replicas placed, {number} of them must move and no other pool has capacity ({why})"


TOO_FEW = "its pool has too few free devices for its new request"
NO_NODE = "; Capacity: needs 1 free node; 0 of 1 nodes are free"
NONE_SELECTED = ": 0 of 1 clusters match the selectors"
NOT_SELECTED = "its cluster no longer matches the clusterSelector"


def test_all_are_placed():
    _, told = scheduled(deployment(1, 4), [cluster("a")])
    assert told == ("True", "AllPlaced", "1 of 1 replicas placed")


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        pytest.param(
            deployment(2, 8),
            (
                "False",
                "InsufficientCapacity",
                stuck("2 of 2", 2, TOO_FEW) + NO_NODE,
            ),
            id="asked to grow beyond the room",
        ),
        pytest.param(
            deployment(2, 4, region="west"),
            ("False", "NoClusters", stuck("2 of 2", 2, NOT_SELECTED) + NONE_SELECTED),
            id="selected away from every cluster",
        ),
        pytest.param(
            deployment(3, 8, region="west"),
            ("False", "NoClusters", stuck("2 of 3", 2, NOT_SELECTED) + NONE_SELECTED),
            id="and one more is asked for",
        ),
    ],
)
def test_replicas_with_nowhere_to_go_are_told_with_the_numbers(edited, told):
    before, _ = scheduled(deployment(2, 4), [cluster("a")])
    after, found = scheduled(edited, [cluster("a")], running(before, ready=True))
    assert found == told
    assert after.desired.keys() >= {key for key in before.desired if key.startswith("replica-")}
    assert after.ready.status.value == "False"


def test_a_pool_that_is_out_of_stock_is_left_after_the_grace_and_otherwise_named():
    before, _ = scheduled(deployment(1, 8), [cluster("a")])
    empty = cluster("a", pool={"nodes": 0, "observedNodes": 0, "shortSince": SINCE})
    replicas = dict(running(before, ready=False))
    early, told = scheduled(deployment(1, 8), [empty, cluster("b")], replicas, NOW + 299)
    assert (told[1], early.requeue_after_s) == ("AllPlaced", 1.0)
    late, told = scheduled(deployment(1, 8), [empty, cluster("b")], replicas, NOW + 300)
    assert (told[1], sorted(late.desired)) == ("AllPlaced", ["replica-b-0"])
    stays, told = scheduled(deployment(1, 8), [empty], replicas, NOW + 300)
    lacks = stuck("1 of 1", 1, "it cannot run: pool gpus has 0 of 1 nodes")
    assert told == (
        "False",
        "InsufficientCapacity",
        f"{lacks}; Capacity: needs 1 free node; 0 of 0 nodes are free; 1 node is missing",
    )
    assert sorted(stays.desired) == ["replica-a-0"]
    back = cluster("a")
    _, told = scheduled(deployment(1, 8), [back], replicas, NOW + 999)
    assert told[:2] == ("True", "AllPlaced")


def test_messages_are_bounded():
    many = [cluster(f"c{number:03}", nodes=0) for number in range(300)]
    result, told = scheduled(msgspec.structs.replace(deployment(3, 8)), many)
    assert len(told[2]) <= deployment_status.MAX_SUMMARY
    assert len(result.status.placement.candidates) <= deployment_status.MAX_CANDIDATES


def compose(replicas, observed, clusters, now=0.0):
    stored = tuple(found.target.manifest for key, found in observed.items() if key.startswith("replica-"))
    required = {"clusters": tuple(clusters), "replicas": stored, "caches": ()}
    return model_deployment.compose(
        ComposeRequest(deployment(replicas, 1, region=""), observed=observed, required=required, now=now)
    )


def serving(made):
    """Everything that was wanted, as it is once it serves."""
    found = {}
    for key, wanted in made.desired.items():
        item = copy.deepcopy(wanted.target.manifest)
        item["metadata"]["creationTimestamp"] = SINCE
        held = [{"type": kind, "status": "True", "reason": "X"} for kind in ("Ready", "WorkloadReady", "RouteReady")]
        item["status"] = {"address": "http://192.0.2.1", "conditions": held}
        found[key] = Observed(Local(item, ReadyWhen.READY), ready=True)
    return found


def settled():
    observed = serving(compose(2, {}, [cluster("a", nodes=2), cluster("b", nodes=2)]))
    return serving(compose(2, observed, [cluster("a", nodes=2), cluster("b", nodes=2)]))


def test_an_empty_list_of_clusters_deletes_nothing_and_says_so():
    observed = settled()
    made = compose(2, observed, [])
    assert made.desired.keys() == observed.keys()
    assert (made.conditions[0].status, made.conditions[0].reason) == ("Unknown", "Unresolved")
    assert made.conditions[0].message == "the fleet has 0 clusters; 2 of 2 replicas stay placed where they are"


def without_endpoints(observed, *keys):
    """What is observed after endpoints were removed: these, or all."""
    return {
        key: item for key, item in observed.items() if not key.startswith("endpoint-") or (keys and key not in keys)
    }


def test_scaling_down_works_without_clusters():
    assert compose(0, settled(), []).desired.keys() == {"replica-a-0", "replica-b-0"}
    assert compose(0, without_endpoints(settled()), []).desired == {}
    assert compose(1, settled(), []).desired.keys() == {"replica-a-0", "endpoint-a-0", "replica-b-0"}


MISSING = {"type": "Scheduled", "status": "False", "reason": "ClusterMissing"}


def without_cluster(observed, *keys):
    """The observed objects after these replicas did not find their cluster."""
    for key in keys:
        observed[key].target.manifest["status"]["conditions"].append(MISSING)
    return observed


def test_a_cluster_that_is_gone_keeps_its_replica_until_the_successor_serves():
    made = compose(2, without_cluster(settled(), "replica-a-0"), [cluster("b", nodes=2)])
    assert {"replica-a-0", "endpoint-a-0", "replica-b-0", "replica-b-1"} <= made.desired.keys()
    served = compose(2, without_cluster(serving(made), "replica-a-0"), [cluster("b", nodes=2)])
    assert {"replica-a-0", "endpoint-a-0", "endpoint-b-1"} <= served.desired.keys()
    gone = without_cluster(without_endpoints(serving(served), "endpoint-a-0"), "replica-a-0")
    last = compose(2, gone, [cluster("b", nodes=2)])
    assert {key for key in last.desired if key.startswith("replica-")} == {"replica-b-0", "replica-b-1"}


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({"type": "Scheduled", "status": "True", "reason": "Placed"}, id="it reads its cluster"),
        pytest.param({**MISSING, "status": "Unknown", "reason": "Unresolved"}, id="its cluster is not read yet"),
        pytest.param({**MISSING, "reason": "Invalid"}, id="its cluster cannot be read"),
        pytest.param(None, id="it says nothing"),
    ],
)
def test_a_cluster_that_is_only_missing_from_the_list_keeps_its_replica(condition):
    observed = settled()
    observed["replica-a-0"].target.manifest["status"]["conditions"] += [condition] if condition else []
    made = compose(2, observed, [cluster("b", nodes=2)])
    assert made.desired.keys() == observed.keys()
    told = (made.conditions[0].status, made.conditions[0].reason, made.conditions[0].message)
    message = "2 of 2 replicas placed; 1 of them stay on clusters that are not listed (a)"
    assert told == ("Unknown", "Unresolved", message)


def test_a_replica_that_says_that_its_cluster_is_missing_stays_while_the_cluster_is_listed():
    observed = without_cluster(settled(), "replica-a-0", "replica-b-0")
    assert compose(2, observed, NODES).desired.keys() == observed.keys()


LAGS = [
    pytest.param(lambda item: edited(item, clusterName="0", index=4), id="on another cluster"),
    pytest.param(lambda item: edited(item, index=9), id="under another index"),
    pytest.param(lambda item: edited(item, engines=[]), id="without engines"),
    pytest.param(lambda item: edited(item, engines=7), id="unreadable"),
    pytest.param(lambda item: with_pool(item, "old"), id="on a pool that is gone"),
    pytest.param(
        lambda item: {**item, "metadata": {**item["metadata"], "deletionTimestamp": SINCE}}, id="as being deleted"
    ),
    pytest.param(lambda item: {**item, "status": {"conditions": [MISSING]}}, id="without its cluster"),
]


def with_pool(item, name):
    item = copy.deepcopy(item)
    item["spec"]["engines"][0]["members"][0]["nodePoolName"] = name
    return item


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("change", LAGS)
def test_a_replica_that_the_fleet_shows_otherwise_than_it_is_observed_stays(change, passes, live):
    observed = settled()
    shown = [change(listed(observed)[0]), listed(observed)[1]]
    for _ in range(passes):
        lists = {"clusters": (EMPTY, *NODES), "replicas": tuple(shown), "caches": ()}
        inputs = {"fleet": fleet_of([EMPTY, *NODES], shown)} if live else {"required": lists}
        made = model_deployment.compose(ComposeRequest(deployment(2, 1, region=""), observed, **inputs))
        assert made.desired.keys() == settled().keys()
        observed = serving(made)


def test_of_two_replicas_the_one_that_lost_its_status_is_not_the_one_that_goes():
    observed = settled()
    observed["replica-a-0"].target.manifest["status"] = {"conditions": [{"type": "Synced", "status": "True"}]}
    starting = {key: item for key, item in observed.items() if key != "endpoint-b-0"}
    starting["replica-b-0"].target.manifest["status"]["conditions"] = [
        {"type": "WorkloadReady", "status": "False", "reason": "X"}
    ]
    assert answered(starting, (), wanted=1).desired.keys() == {"replica-a-0", "endpoint-a-0"}


def test_a_cluster_that_cannot_be_read_keeps_its_replicas_and_stops_nobody():
    broken = cluster("a", nodes=2)
    broken["status"]["gpuPools"][0]["nodes"] = "two"
    made = compose(3, settled(), [broken, cluster("b", nodes=2)])
    assert {key for key in made.desired if key.startswith("replica-")} == {"replica-a-0", "replica-b-0", "replica-b-1"}
    told = {found.cluster: found.reason for found in made.status.placement.candidates if found.filter_}
    assert told["a"].startswith("the cluster cannot be read: ")


UNCOMPILED = decode(
    ModelDeployment,
    {
        "metadata": {"name": "d", "namespace": "n"},
        "spec": {
            "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "device.("}]}]},
            "workers": {"template": POD},
        },
    },
)


def replica(route: str, since_s: float = 600) -> Observed:
    """A ModelReplica whose RouteReady is `route`, since so long before second 1000."""
    conditions = [
        {"type": kind, "status": status, "reason": "X", "lastTransitionTime": timestamp(1000.0 - since_s)}
        for kind, status in (("WorkloadReady", "True"), ("RouteReady", route))
    ]
    return Observed(Local({"metadata": {"name": "r"}, "status": {"conditions": conditions}}), ready=True)


ENDPOINT = {"endpoint-east-0": Observed(Local({"metadata": {"name": "r"}}), ready=True)}


@pytest.mark.parametrize("route", ["True", "False"])
def test_while_nothing_can_be_decided_endpoints_still_follow_their_replicas(route):
    result = model_deployment.compose(ComposeRequest(UNCOMPILED, {"replica-east-0": replica(route), **ENDPOINT}))
    expected = {"replica-east-0", "endpoint-east-0"} if route == "True" else {"replica-east-0"}
    assert result.desired.keys() == expected


@pytest.mark.parametrize(
    ("since_s", "now", "known", "kept"),
    [
        (0, 1000.0, True, True),
        (2, 1000.0, True, True),
        (replica_endpoints.ENDPOINT_GRACE_S, 1000.0, True, False),
        (600, 1000.0, True, False),
        (0, 1000.0, False, False),
        (0, 0.0, True, False),
        (-1, 1000.0, True, True),
        (-2, 1000.0, True, False),
        (-60, 1000.0, True, False),
    ],
)
def test_a_replica_that_just_stopped_keeps_its_endpoint_for_the_grace(since_s, now, known, kept):
    observed = {"replica-east-0": replica("False", since_s), **(ENDPOINT if known else {})}
    result = model_deployment.compose(ComposeRequest(UNCOMPILED, observed, now=now))
    assert ("endpoint-east-0" in result.desired) is kept


API = "modelplane.ai/v1alpha1"
FAULT = "engine main, device request gpu: 1:8: syntax error: unexpected (, wanted 'identifier'"
TEMPLATE = template_of(deployment(1, 4).spec)
HASH = template_hash(TEMPLATE)
LABELS = {
    "modelplane.ai/revision": HASH,
    "modelplane.ai/deployment": "chat",
    "modelplane.ai/cluster": "a",
    "modelplane.ai/replica-index": "0",
}
REPLICA = {
    "apiVersion": API,
    "kind": "ModelReplica",
    "metadata": {"name": "chat-6w72m3e736", "namespace": "team", "labels": LABELS},
    "spec": {
        "clusterName": "a",
        "deployment": {"name": "chat", "uid": "u"},
        "serving": {},
        "engines": [
            {
                "name": "main",
                "type": "vLLM",
                "topology": {},
                "members": [
                    {
                        "role": "Standalone",
                        "nodePoolName": "gpus",
                        "deviceRequests": [
                            {
                                "name": "gpu",
                                "deviceClassName": "c",
                                "count": 4,
                                "selectors": [{"cel": 'device.driver == "d"'}],
                            }
                        ],
                        "template": POD,
                    }
                ],
            }
        ],
    },
    "status": {},
}
SERVING = {
    "address": "http://192.0.2.1",
    "conditions": [{"type": kind, "status": "True", "reason": "X"} for kind in ("WorkloadReady", "RouteReady")],
}
SERVED = {**REPLICA, "status": SERVING}
ENDPOINT_OF_REPLICA = {
    "apiVersion": API,
    "kind": "ModelEndpoint",
    "metadata": {
        "name": "chat-6w72m3e736",
        "namespace": "team",
        "labels": {**LABELS, "modelplane.ai/replica": "chat-6w72m3e736"},
    },
    "spec": {"url": "http://192.0.2.1", "model": "m", "replica": {"name": "chat-6w72m3e736", "clusterName": "a"}},
}


def requirements(namespace):
    return {
        "clusters": Requirement(API, "InferenceCluster"),
        "replicas": Requirement(API, "ModelReplica"),
        "caches": Requirement(API, "ModelCache", namespace=namespace),
    }


def undecided(condition, namespace, events=()):
    ready = msgspec.structs.replace(condition, type=ConditionType.READY)
    return ComposeResult(conditions=(condition,), ready=ready, requirements=requirements(namespace), events=events)


UNSEEN = "the ModelReplica is not observed yet"
CREATING = f"0 of 1 replicas serve; 1 of 1 Creating on a: {UNSEEN}"


def progressing(reason, updated, ready):
    wanted = max(updated, ready)
    message = f"revision 1: {updated} of {wanted} replicas updated, {ready} of {wanted} ready"
    return holds(ConditionType.PROGRESSING, reason, message)


def status(placed, serving, **told):
    return ModelDeploymentStatus(
        replicas=placed,
        ready_replicas=serving,
        updated_replicas=placed,
        rollout=StatusRollout(
            revision=1,
            hash_=HASH,
            updated_replicas=placed,
            ready_replicas=serving,
            promoted=True,
            complete=placed == serving,
            stable=HASH,
        ),
        revisions=(TemplateRevision(revision=1, hash_=HASH, images=("i",), template=pack(TEMPLATE)),),
        selector="modelplane.ai/deployment=chat",
        **told,
        clusters=(ModelDeploymentStatusCluster(name="a", replicas=placed, ready=serving),) if placed else (),
        placement=StatusPlacement(
            summary="1 on a" if placed else "0 placed",
            candidates=(Candidate(cluster="a", pool="gpus", verdict="Chosen", reason="holds a replica"),)
            if placed
            else (),
        ),
    )


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(
            ComposeRequest(UNCOMPILED),
            undecided(
                fails(ConditionType.REPLICAS_SCHEDULED, Reason.INVALID_SELECTOR, FAULT),
                "n",
                (Event(EventType.WARNING, Reason.INVALID_SELECTOR, f"ReplicasScheduled: {FAULT}"),),
            ),
            id="a selector does not compile",
        ),
        pytest.param(
            ComposeRequest(deployment(1, 4)),
            undecided(
                unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, "the fleet is not read yet"), "team"
            ),
            id="the fleet is not read",
        ),
        pytest.param(
            ComposeRequest(deployment(0, 4), fleet=fleet_of([cluster("a")], ())),
            ComposeResult(
                status=status(0, 0, reason=Reason.SCALED_TO_ZERO),
                conditions=(
                    holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, "0 of 0 replicas placed"),
                    holds(ConditionType.REPLICAS_READY, Reason.SCALED_TO_ZERO, "spec.replicas is 0"),
                    progressing(Reason.ROLLOUT_COMPLETE, 0, 0),
                ),
                ready=holds(ConditionType.READY, Reason.AVAILABLE, "spec.replicas is 0"),
            ),
            id="scaled to zero",
        ),
        pytest.param(
            ComposeRequest(deployment(1, 4), fleet=fleet_of([cluster("a")], ())),
            ComposeResult(
                desired={"replica-a-0": Desired(Local(REPLICA, ReadyWhen.READY))},
                status=status(
                    1,
                    0,
                    reason=Reason.CREATING,
                    message=CREATING,
                    not_ready=(NotReady(reason="Creating", replicas=1, cluster="a", message=UNSEEN),),
                ),
                conditions=(
                    holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, "1 of 1 replicas placed"),
                    fails(ConditionType.REPLICAS_READY, Reason.CREATING, CREATING),
                    progressing(Reason.ROLLING_OUT, 1, 0),
                ),
                ready=fails(ConditionType.READY, Reason.CREATING, CREATING),
                events=(Event(EventType.NORMAL, Reason.PLACED, "replica 0 is placed on cluster a"),),
            ),
            id="placed",
        ),
        pytest.param(
            ComposeRequest(
                deployment(1, 4),
                {"replica-a-0": Observed(Local(SERVED, ReadyWhen.READY), ready=True)},
                fleet=fleet_of([cluster("a")], [SERVED]),
            ),
            ComposeResult(
                desired={
                    "replica-a-0": Desired(Local(REPLICA, ReadyWhen.READY), ready=True),
                    "endpoint-a-0": Desired(Local(ENDPOINT_OF_REPLICA, ReadyWhen.READY)),
                },
                status=status(1, 1, reason=Reason.ALL_READY),
                conditions=(
                    holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, "1 of 1 replicas placed"),
                    holds(ConditionType.REPLICAS_READY, Reason.ALL_READY, "1 of 1 replicas serve"),
                    progressing(Reason.ROLLOUT_COMPLETE, 1, 1),
                ),
                ready=holds(ConditionType.READY, Reason.AVAILABLE, "1 of 1 replicas serve"),
            ),
            id="serving",
        ),
    ],
)
def test_whole_results(request_, expected):
    assert model_deployment.compose(request_) == expected


NODES = [cluster("a", nodes=2), cluster("b", nodes=2)]
EMPTY = cluster("0", nodes=2)
"""Where placement would put a replica that it does not know of."""


def listed(observed):
    return tuple(copy.deepcopy(found.target.manifest) for key, found in observed.items() if key.startswith("replica-"))


def answered(observed, replicas, clusters=(EMPTY, *NODES), wanted=2, now=0.0):
    """The result for observed objects and a list of replicas that may differ from them."""
    required = {"clusters": tuple(clusters), "replicas": tuple(replicas), "caches": ()}
    return model_deployment.compose(ComposeRequest(deployment(wanted, 1, region=""), observed, required, now=now))


def edited(item, **spec):
    return {**item, "spec": {**item["spec"], **spec}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: (), id="empty"),
        pytest.param(lambda found: found[:1], id="short"),
        pytest.param(lambda found: found[1:], id="short of another"),
        pytest.param(lambda found: (*found, *found), id="each twice"),
        pytest.param(lambda found: (*found, found[0]), id="one twice"),
        pytest.param(lambda found: [edited(item, engines=7) for item in found], id="unreadable engines"),
        pytest.param(lambda found: [edited(item, index="x") for item in found], id="unreadable index"),
        pytest.param(lambda found: [edited(item, clusterName="b", index=7) for item in found], id="another place"),
        pytest.param(
            lambda found: [edited(item, deployment={"name": "chat", "uid": "old"}) for item in found], id="uid"
        ),
        pytest.param(lambda found: [{**item, "status": {}} for item in found], id="no status"),
        pytest.param(lambda _: [{}, {"metadata": 7}, {"spec": []}], id="garbage"),
    ],
)
def test_a_list_of_replicas_that_differs_from_what_is_observed_moves_nothing(change):
    observed = settled()
    made = answered(observed, change(listed(observed)))
    assert made.desired.keys() == observed.keys()
    assert made.conditions == answered(observed, listed(observed)).conditions
    assert made.events == ()


@pytest.mark.parametrize("known", [0, 1])
def test_a_live_fleet_that_lags_moves_nothing(known):
    observed = settled()
    fleet = fleet_of([EMPTY, *NODES], listed(observed)[:known])
    made = model_deployment.compose(ComposeRequest(deployment(2, 1, region=""), observed, fleet=fleet))
    assert made.desired.keys() == observed.keys()
    assert made.conditions[0].message == "2 of 2 replicas placed"


def test_an_observed_replica_that_is_not_listed_is_charged_for_its_devices():
    one_node = [cluster("a")]
    request = ComposeRequest(deployment(1, 8), required={"clusters": tuple(one_node), "replicas": (), "caches": ()})
    observed = serving(model_deployment.compose(request))
    required = {"clusters": (*one_node, cluster("b")), "replicas": (), "caches": ()}
    made = model_deployment.compose(ComposeRequest(deployment(2, 8), observed, required))
    assert {key for key in made.desired if key.startswith("replica-")} == {"replica-a-0", "replica-b-0"}


def test_an_observed_replica_that_is_not_listed_leaves_by_decisions_that_name_it():
    observed = without_endpoints(settled())
    down = answered(observed, (), wanted=1)
    assert {key for key in down.desired if key.startswith("replica-")} == {"replica-a-0"}
    assert [event.message for event in down.events] == [
        "replica 0 is removed from cluster b: the deployment wants 1 replicas"
    ]
    tainted = copy.deepcopy(NODES)
    tainted[1]["spec"]["taints"] = [{"key": "fire", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]
    moving = {key for key in answered(observed, (), tainted).desired if key.startswith("replica-")}
    assert moving == {"replica-a-0", "replica-a-1", "replica-b-0"}
    drained = answered(observed, (), tainted, now=1767225600.0 + 3600)
    assert {key for key in drained.desired if key.startswith("replica-")} == {"replica-a-0", "replica-a-1"}
    event, why = drained.events[-1], "taint fire drains cluster b; its deadline is over and no successor serves"
    assert (event.type.value, event.reason.value) == ("Warning", "DrainDeadline")
    assert event.message == f"replica 0 is removed from cluster b: {why}"
    observed["replica-b-0"].target.manifest["metadata"]["deletionTimestamp"] = SINCE
    assert "replica-b-0" not in answered(observed, ()).desired


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="empty"),
        pytest.param({"clusterName": "", "index": 0, "engines": []}, id="no cluster"),
        pytest.param({"clusterName": "a", "index": "x", "engines": []}, id="unreadable index"),
        pytest.param({"clusterName": "a", "index": -1, "engines": []}, id="another index"),
        pytest.param({"clusterName": "b", "index": 0, "engines": []}, id="the place of another"),
        pytest.param({"clusterName": "a", "index": 0, "engines": 7}, id="unreadable engines"),
        pytest.param(7, id="no object"),
    ],
)
@pytest.mark.parametrize("is_listed", [True, False])
def test_an_observed_replica_that_cannot_be_read_stays_as_it_is_and_is_not_replaced(spec, is_listed):
    observed = settled()
    garbled = Observed(Local({**observed["replica-a-0"].target.manifest, "spec": spec}, ReadyWhen.READY), ready=True)
    observed["replica-a-0"] = garbled
    made = answered(observed, listed(observed) if is_listed else ())
    assert made.desired.keys() == observed.keys()
    assert made.desired["replica-a-0"] == Desired(garbled.target, ready=True)
    condition = made.conditions[0]
    assert (condition.status, condition.reason) == ("Unknown", "Unresolved")
    assert condition.message.startswith(
        "2 of 2 replicas placed; 1 of them cannot be read and stay as they are (replica-a-0"
    )


def test_an_observed_replica_whose_key_names_no_place_stays_with_its_endpoint():
    observed = settled()
    observed |= {"replica-old": observed["replica-a-0"], "endpoint-old": observed["endpoint-a-0"]}
    made = answered(observed, listed(observed))
    assert made.desired.keys() == observed.keys()
    assert "replica-old: its key names no cluster and index" in made.conditions[0].message


@pytest.mark.parametrize(
    "status", [{}, {"conditions": []}, {"conditions": None}, None, 7, {"conditions": [7, {}, {"type": []}]}]
)
@pytest.mark.parametrize("is_listed", [True, False])
def test_replicas_that_were_restored_without_a_status_keep_their_endpoints(status, is_listed):
    observed = settled()
    for key in ("replica-a-0", "replica-b-0"):
        observed[key].target.manifest["status"] = status
    made = answered(observed, listed(observed) if is_listed else ())
    assert made.desired.keys() == observed.keys()


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(None, id="none"),
        pytest.param({}, id="empty"),
        pytest.param({key: value for key, value in NODES[0]["status"].items() if key != "gpuPools"}, id="no pools"),
        pytest.param({**NODES[0]["status"], "gpuPools": []}, id="0 pools"),
    ],
)
@pytest.mark.parametrize("replica_status", [True, False])
def test_a_cluster_without_published_pools_keeps_its_replicas_and_no_successor_starts(status, replica_status):
    observed = settled()
    if not replica_status:
        observed["replica-a-0"].target.manifest["status"] = {}
    blank = (
        {**NODES[0], "status": status} if status is not None else {k: v for k, v in NODES[0].items() if k != "status"}
    )
    made = answered(observed, listed(observed), [EMPTY, blank, NODES[1]])
    assert made.desired.keys() == observed.keys()
    assert made.conditions[0].message == "2 of 2 replicas placed"


def test_a_pool_that_is_removed_from_the_spec_and_the_status_is_left():
    observed = settled()
    without = copy.deepcopy(NODES[0])
    without["spec"]["nodePools"][0]["name"] = without["status"]["gpuPools"][0]["name"] = "others"
    made = answered(observed, listed(observed), [without, NODES[1]])
    assert len([key for key in made.desired if key.startswith("replica-")]) == 3


def test_a_replica_that_is_observed_to_serve_is_not_dropped_for_a_listed_status_that_is_empty():
    observed = settled()
    made = answered(observed, [{**item, "status": {}} for item in listed(observed)], [EMPTY, NODES[1]])
    assert observed.keys() <= made.desired.keys()


def test_a_status_lists_the_clusters_that_have_most(monkeypatch):
    monkeypatch.setattr(deployment_status, "MAX_CLUSTERS", 2)
    result, _ = scheduled(deployment(4, 8), [cluster("a"), cluster("b"), cluster("c", nodes=2)])
    assert [(found.name, found.replicas) for found in result.status.clusters] == [("a", 1), ("c", 2)]


@pytest.mark.parametrize("field", ["tiers", "required"])
def test_a_placement_that_matches_no_cluster_is_told_as_selectors_are(field):
    asked = msgspec.to_builtins(deployment(1, 8, region=None))
    asked["spec"]["placement"] = {field: [{"matchLabels": {"region": "west"}}]}
    _, told = scheduled(decode(ModelDeployment, asked), [cluster("a")])
    assert told == ("False", "NoClusters", f"0 of 1 replicas placed{NONE_SELECTED}")


def test_selectors_that_take_too_much_work_are_invalid(monkeypatch):
    monkeypatch.setattr(selector_budget, "MAX_SELECTOR_WORK", 5)
    clusters = [cluster(f"c{at}", pool={"devices": [{**GPU, "attributes": {"i": {"int": at}}}]}) for at in range(9)]
    _, told = scheduled(deployment(1, 1), clusters)
    why = "engine main, device request gpu is too expensive: 9 kinds of devices take more than 5 units of work"
    assert told == ("False", "InvalidSelector", why)


def test_a_listed_replica_that_cannot_be_read_and_is_not_observed_is_not_written():
    observed = settled()
    broken = edited(listed(observed)[0], index=1, engines=7)
    broken["metadata"] = {**broken["metadata"], "name": "chat-other"}
    made = answered(observed, (*listed(observed), broken), wanted=3)
    assert {key for key in made.desired if key.startswith("replica-")} == {"replica-a-0", "replica-b-0"}
    assert made.conditions[0].status == "Unknown"


def test_an_endpoint_is_made_once_its_replica_has_served_for_long_enough():
    item = msgspec.to_builtins(deployment(1, 1, region=""))
    item["spec"]["rollout"] = {"minReadySeconds": 30}
    asked, clusters = decode(ModelDeployment, item), (cluster("a"),)
    required = {"clusters": clusters, "replicas": (), "caches": ()}
    first = model_deployment.compose(ComposeRequest(asked, {}, required))
    seen = serving(first)
    for condition in seen["replica-a-0"].target.manifest["status"]["conditions"]:
        condition["lastTransitionTime"] = SINCE
    found = []
    for age_s in (10.0, 30.0):
        made = model_deployment.compose(ComposeRequest(asked, seen, required, now=NOW + age_s))
        found.append((sorted(made.desired), made.requeue_after_s))
    assert found == [(["replica-a-0"], 20.0), (["endpoint-a-0", "replica-a-0"], None)]


@pytest.mark.parametrize(("age_s", "left_s"), [(0.0, 3.0), (1.0, 2.0)])
def test_an_endpoint_whose_replica_just_stopped_is_looked_at_again_when_its_time_is_over(age_s, left_s):
    seen = settled()
    seen["replica-a-0"] = replica_that_stopped(seen["replica-a-0"])
    made = compose(2, seen, [cluster("a", nodes=2), cluster("b", nodes=2)], now=NOW + age_s)
    assert ("endpoint-a-0" in made.desired, made.requeue_after_s) == (True, left_s)


def test_the_endpoint_whose_time_is_over_first_is_waited_for():
    seen = settled()
    seen["replica-a-0"] = replica_that_stopped(seen["replica-a-0"])
    seen["replica-b-0"] = replica_that_stopped(seen["replica-b-0"], timestamp(NOW + 1))
    made = compose(2, seen, [cluster("a", nodes=2), cluster("b", nodes=2)], now=NOW + 1)
    assert made.requeue_after_s == 2.0


def replica_that_stopped(seen, at=SINCE):
    item = copy.deepcopy(seen.target.manifest)
    for condition in item["status"]["conditions"]:
        if condition["type"] != "WorkloadReady":
            condition |= {"status": "False", "lastTransitionTime": at}
    return Observed(Local(item, ReadyWhen.READY), ready=False)


@pytest.mark.parametrize(
    ("revision", "moves"),
    [(template_hash(template_of(deployment(1, 1, region="").spec)), True), ("old", False)],
    ids=["all are of one revision", "one is updated"],
)
def test_nothing_moves_for_its_price_while_an_update_goes_on(revision, moves):
    item = msgspec.to_builtins(deployment(1, 1, region=""))
    item["spec"]["placement"] = {"rebalance": {"triggers": ["Cost"]}}
    clusters = [
        cluster("a", pool={"pricePerNodeHour": "9"}),
        cluster("b", nodes=0, pool={"pricePerNodeHour": "1"}),
    ]
    observed = serving(compose(1, {}, clusters))
    observed["replica-a-0"].target.manifest["metadata"]["labels"]["modelplane.ai/revision"] = revision
    clusters[1] = cluster("b", pool={"pricePerNodeHour": "1"})
    required = {"clusters": tuple(clusters), "replicas": tuple(listed(observed)), "caches": ()}
    made = model_deployment.compose(ComposeRequest(decode(ModelDeployment, item), observed, required, now=NOW + 3600))
    assert ("replica-b-0" in made.desired) is moves


def images(result):
    """The image of each replica, by its key."""
    items = {key: each.target.manifest for key, each in result.desired.items() if key.startswith("replica-")}
    return {
        key: item["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
        for key, item in items.items()
    }


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not recorded"])
def test_a_revision_that_is_aborted_goes_no_further(is_recorded):
    """The stable revision comes back where it was recorded; else replicas that have it keep it."""
    clusters = [cluster("a", nodes=2), cluster("b", nodes=2)]
    old = deployment(2, 1, region="")
    first = model_deployment.compose(ComposeRequest(old, fleet=fleet_of(clusters, ()), now=NOW))
    seen = serving(first)
    item = msgspec.to_builtins(old)
    item["spec"]["workers"]["template"] = {"spec": {"containers": [{"name": "engine", "image": "new"}]}}
    item["spec"]["rollout"] = {"canary": {"replicas": 1}}
    revision = template_hash(template_of(decode(ModelDeployment, item).spec))
    item["metadata"]["annotations"] = {"modelplane.ai/abort": revision}
    status = msgspec.to_builtins(first.status)
    item["status"] = status if is_recorded else {**status, "revisions": []}
    fleet = fleet_of(clusters, listed(seen))
    result = model_deployment.compose(ComposeRequest(decode(ModelDeployment, item), seen, fleet=fleet, now=NOW + 60))
    assert images(result) == {"replica-a-0": "i", "replica-b-0": "i"}
    assert (result.status.rollout.halted.message, result.status.revisions[-1].halted) == ("aborted by a user",) * 2
    assert result.status.revisions[-1].hash_ == revision
    told = [(event.type, event.reason.value) for event in result.events if event.message.startswith("Progressing")]
    assert told == [(EventType.WARNING, "RolloutHalted")]


def test_a_pause_is_no_event():
    """Whoever pauses knows."""
    clusters = [cluster("a", nodes=2), cluster("b", nodes=2)]
    first = compose(2, {}, clusters)
    item = msgspec.to_builtins(deployment(2, 1, region=""))
    item["spec"]["rollout"] = {"paused": True}
    item["spec"]["workers"]["template"] = {"spec": {"containers": [{"name": "engine", "image": "new"}]}}
    item["status"] = {**msgspec.to_builtins(first.status), "conditions": msgspec.to_builtins(first.conditions)}
    seen = serving(first)
    fleet = fleet_of(clusters, listed(seen))
    found = model_deployment.compose(ComposeRequest(decode(ModelDeployment, item), seen, fleet=fleet, now=NOW + 60))
    assert (found.conditions[-1].type, found.conditions[-1].status) == ("Progressing", "Unknown")
    assert [event for event in found.events if event.message.startswith("Progressing")] == []


def test_a_replica_that_serves_without_an_address_has_no_endpoint():
    seen = settled()["replica-a-0"]
    made = replica_endpoints.replica_endpoint(seen.target, "a", seen)
    assert made["spec"]["url"] == "http://192.0.2.1"
    assert "annotations" not in made["metadata"]
    seen.target.manifest["status"]["listed"] = True
    listed = replica_endpoints.replica_endpoint(seen.target, "a", seen)
    assert listed["metadata"]["annotations"] == {"modelplane.ai/listed": "true"}
    del seen.target.manifest["status"]["address"]
    assert replica_endpoints.replica_endpoint(seen.target, "a", seen) is None


@pytest.mark.parametrize(("served", "weight"), [(2, "10"), (1, "0"), (0, "10")])
def test_a_replica_that_changes_may_have_the_pods_of_another_revision(served, weight):
    seen = settled()["replica-a-0"]
    seen.target.manifest["metadata"]["generation"] = 2
    seen.target.manifest["status"]["servedGeneration"] = served
    made = replica_endpoints.replica_endpoint(seen.target, "a", seen, lambda revision: 10 if revision else 0)
    assert made["metadata"]["labels"]["modelplane.ai/canary-weight"] == weight


def test_a_replica_that_must_move_and_is_not_observed_is_written_as_it_is_placed():
    before, _ = scheduled(deployment(1, 4), [cluster("a")])
    items = dict(running(before, ready=True))
    fleet = fleet_of([cluster("a")], items.values())
    made = model_deployment.compose(ComposeRequest(deployment(1, 4, region="west"), fleet=fleet, now=NOW))
    assert sorted(made.desired) == ["replica-a-0"]
    assert made.status.placement.summary == f"1 on a; 1 must move ({NOT_SELECTED})"
