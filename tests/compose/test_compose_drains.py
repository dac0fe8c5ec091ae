"""Drains of a cluster: when its taints were seen, and how far the drain is."""

import msgspec
import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.labels import DRAIN
from modelplane.api.models import InferenceCluster, ModelReplica, NoExecuteTaint, StatusDrain
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.drains import DrainReport, cluster_taints, report_drain, seen_taints, with_seen
from modelplane.compose.fleet_snapshot import cluster_of
from modelplane.placement.values import Effect, PlacementTaint

NOW = 1767225600.0
SEEN = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T23:59:00Z"


def make(pool=None, status=None, **spec) -> InferenceCluster:
    source = {"source": "Existing"}
    pools = [{"name": "gpu", "className": "h200", **(pool or {})}, {"name": "spare", "className": "h200"}]
    fields = {"metadata": {"name": "east"}, "spec": {"cluster": source, "nodePools": pools, **spec}}
    return decode(InferenceCluster, {**fields, "status": status or {}})


def make_replica(name="r", pool="gpu", *tolerations) -> ModelReplica:
    member = {"role": "Standalone", "nodePoolName": pool, "template": {"spec": {"containers": []}}}
    spec = {
        "clusterName": "east",
        "index": 0,
        "tolerations": list(tolerations),
        "engines": [{"name": "main", "members": [member]}],
    }
    return decode(ModelReplica, {"metadata": {"name": name, "namespace": "team"}, "spec": spec})


def no_execute(key="fire", **fields):
    return {"key": key, "effect": "NoExecute", **fields}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        pytest.param(make(), (), id="nothing"),
        pytest.param(make(taints=[{"key": "a", "effect": "NoSchedule"}]), (), id="NoSchedule"),
        pytest.param(make(drain={}), (NoExecuteTaint(key=DRAIN, time_added=SEEN),), id="a drain is seen now"),
        pytest.param(
            make({"drain": {}}), (NoExecuteTaint(pool="gpu", key=DRAIN, time_added=SEEN),), id="a drain of a pool"
        ),
        pytest.param(
            make(taints=[no_execute(timeAdded=EARLIER)]),
            (NoExecuteTaint(key="fire", time_added=EARLIER),),
            id="a taint that says when",
        ),
        pytest.param(
            make(
                {"taints": [no_execute(value="x")]},
                {
                    "noExecuteTaints": [
                        {"pool": "gpu", "key": "fire", "value": "x", "timeAdded": EARLIER},
                        {"key": "gone", "timeAdded": EARLIER},
                    ]
                },
            ),
            (NoExecuteTaint(pool="gpu", key="fire", value="x", time_added=EARLIER),),
            id="what was seen before keeps its time, what is gone is forgotten",
        ),
        pytest.param(
            make(taints=[no_execute(value="new")], status={"noExecuteTaints": [{"key": "fire", "timeAdded": EARLIER}]}),
            (NoExecuteTaint(key="fire", value="new", time_added=SEEN),),
            id="another value is another taint",
        ),
    ],
)
def test_taints_have_the_time_when_they_were_first_seen(cluster, expected):
    seen = seen_taints(cluster, NOW)
    assert seen == expected
    assert seen_taints(with_seen(cluster, seen), NOW + 60) == expected


def test_without_a_clock_no_time_is_written():
    assert seen_taints(make(drain={}), 0.0) == (NoExecuteTaint(key=DRAIN),)


GPU = {"name": "gpu", "driver": "d", "count": 8}


def test_placement_reads_the_limits_of_a_drain_and_its_time():
    status = {
        "noExecuteTaints": [{"pool": "gpu", "key": DRAIN, "timeAdded": SEEN}],
        "gpuPools": [{"name": name, "nodes": 1, "devices": [GPU]} for name in ("gpu", "spare")],
    }
    cluster = make({"drain": {"parallelism": 2, "deadlineSeconds": 90}}, status, drain={})
    found = cluster_taints(cluster)
    assert found.cluster == (PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, None, 4, None),)
    assert found.pools == {"gpu": (PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, NOW, 2, 90.0),)}
    assert [pool.taints for pool in cluster_of(cluster).pools] == [found.pools["gpu"], ()]


TOLERANT = make_replica("tolerant", "gpu", {"key": "fire", "operator": "Exists"})
PATIENT = make_replica("patient", "gpu", {"key": "fire", "operator": "Exists", "tolerationSeconds": 60})
EVERYONE = [make_replica("a"), make_replica("b", "spare"), TOLERANT, PATIENT]


@pytest.mark.parametrize(
    ("cluster", "left"),
    [
        pytest.param(make(drain={}), 4, id="the cluster: all"),
        pytest.param(make({"drain": {}}), 3, id="a pool: those on it"),
        pytest.param(make(taints=[no_execute()]), 3, id="a taint: those that do not tolerate it for good"),
        pytest.param(make({"taints": [no_execute()]}), 2, id="a taint of a pool"),
    ],
)
def test_who_has_to_leave(cluster, left):
    assert report_drain(with_seen(cluster, seen_taints(cluster, NOW)), EVERYONE, NOW).status.replicas == left


def told(report):
    return [(one.status.value, one.reason, one.message) for one in report.conditions], [
        (one.type.value, one.reason.value, one.message) for one in report.events
    ]


def test_a_drain_is_told_from_its_beginning_to_its_end():
    cluster = make(drain={"deadlineSeconds": 60})
    cluster = with_seen(cluster, seen_taints(cluster, NOW))
    steps = []
    for replicas, now in ((EVERYONE, NOW), (EVERYONE[:1], NOW + 5), (EVERYONE[:1], NOW + 60), ([], NOW + 61)):
        report = report_drain(cluster, replicas, now)
        steps.append(told(report))
        cluster = msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, drain=report.status))
    deadline = "2026-01-01T00:01:00Z"
    assert steps == [
        (
            [("False", "Draining", f"4 of 4 replicas are left; the deadline is {deadline}")],
            [("Normal", "Draining", "4 replicas have to leave")],
        ),
        ([("False", "Draining", f"1 of 4 replicas are left; the deadline is {deadline}")], []),
        (
            [
                (
                    "False",
                    "Draining",
                    f"1 of 4 replicas are left; the deadline {deadline} is over, they leave without successors",
                )
            ],
            [],
        ),
        (
            [("True", "Drained", "0 of 4 replicas are left")],
            [("Normal", "Drained", "0 of 4 replicas are left")],
        ),
    ]
    assert report.status == StatusDrain(start_time=SEEN, deadline=deadline, replicas=0, total=4, summary="0 of 4 left")


def test_a_drain_of_a_cluster_without_replicas_is_over_at_once_and_told_once():
    cluster = make(drain={})
    first = report_drain(cluster, [], NOW)
    assert told(first) == (
        [("True", "Drained", "0 of 0 replicas are left")],
        [("Normal", "Drained", "0 of 0 replicas are left")],
    )
    status = msgspec.structs.replace(cluster.status, drain=first.status)
    assert report_drain(msgspec.structs.replace(cluster, status=status), [], NOW).events == ()


def test_of_two_drains_the_first_counts():
    times = [{"key": DRAIN, "timeAdded": SEEN}, {"pool": "gpu", "key": DRAIN, "timeAdded": EARLIER}]
    cluster = make({"drain": {"deadlineSeconds": 90}}, {"noExecuteTaints": times}, drain={"deadlineSeconds": 60})
    status = report_drain(cluster, EVERYONE, NOW).status
    assert (status.start_time, status.deadline) == (EARLIER, "2026-01-01T00:00:30Z")


def test_a_taint_that_moves_nothing_is_no_drain():
    assert report_drain(make(taints=[{"key": "a", "effect": "NoSchedule"}]), EVERYONE, NOW) == DrainReport(None)


def test_an_abort_is_told_once():
    before = {"replicas": 3, "total": 4}
    report = report_drain(make(status={"drain": before}), EVERYONE, NOW)
    assert report.status is None
    assert told(report) == (
        [("Unknown", "NotDraining", "neither the cluster nor a pool of it is drained")],
        [("Normal", "NotDraining", "the drain was ended; 3 of 4 replicas stay")],
    )
    condition = {"type": "Drained", "status": "False", "reason": "NotDraining"}
    assert report_drain(make(status={"conditions": [condition]}), EVERYONE, NOW).events == ()
    other = {"type": "Ready", "status": "True", "reason": "Available"}
    for conditions in ([], [other]):
        assert report_drain(make(status={"conditions": conditions}), EVERYONE, NOW) == DrainReport(None)


@pytest.mark.parametrize(
    ("replicas", "left"),
    [
        pytest.param(None, 3, id="not fetched: as it was"),
        pytest.param((), 0, id="there is none"),
        pytest.param(({"metadata": {"name": "x"}, "spec": 7},), 1, id="one that cannot be read is left"),
        pytest.param((encode(EVERYONE[0]), {"metadata": {"name": "x"}, "spec": 7}), 2, id="one of two can be read"),
    ],
)
def test_a_cluster_is_not_drained_by_a_list_that_is_missing(replicas, left):
    cluster = make(drain={}, status={"drain": {"replicas": 3, "total": 4}})
    required = {} if replicas is None else {"replicas": replicas}
    result = inference_cluster.compose(ComposeRequest(cluster, required=required, now=NOW))
    assert result.status.drain.replicas == left
    assert ("Drained", "True") in {(one.type, one.status.value) for one in result.conditions} or left
    assert encode(result.status)["noExecuteTaints"] == [{"key": DRAIN, "timeAdded": SEEN}]
