"""New deployments and new clusters: how long replicas are held back, which, and what is said of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import LabelSelector, ModelDeployment
from modelplane.api.timestamps import timestamp
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.startup import STARTUP_WAIT_S, StartupWait, hold_back, startup_wait, with_wait
from modelplane.placement.request import CacheRequest
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import assignment, claim, engine, place, pool, replica, request
from modelplane.testing.fleets import cluster as placeable

NOW = 1_767_225_600.0
POD = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["m"]}]}}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
READY = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
    "gateway": {"address": "192.0.2.1"},
    "gpuPools": [{"name": "gpus", "nodes": 4, "devices": [GPU]}],
}


def cluster(name, *, ready, age=0.0, region="east", **spec):
    source = {"source": "Existing", "existing": {"secretRef": {"name": name}}}
    pools = [{"name": "gpus", "className": "h200", "nodeCount": 4}]
    return {
        "metadata": {"name": name, "labels": {"region": region}, "creationTimestamp": timestamp(NOW - age)},
        "spec": {"cluster": source, "nodePools": pools, **spec},
        "status": READY if ready else {},
    }


def deployment(replicas, *, age=0.0, **spec):
    devices = [{"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "d"'}]}]
    return decode(
        ModelDeployment,
        {
            "metadata": {"name": "chat", "namespace": "team", "uid": "u", "creationTimestamp": timestamp(NOW - age)},
            "spec": {
                "replicas": replicas,
                "nodeSelector": {"devices": devices},
                "workers": {"template": POD},
                **spec,
            },
        },
    )


def composed(asked, clusters, before=None, now=NOW):
    desired = before.desired if before else {}
    observed = {
        key: Observed(Local(item.target.manifest, ReadyWhen.READY), ready=False) for key, item in desired.items()
    }
    replicas = [item.target.manifest for item in desired.values()]
    return model_deployment.compose(ComposeRequest(asked, observed, fleet=fleet_of(clusters, replicas), now=now))


def told(result):
    condition = result.conditions[0]
    return sorted(result.desired), condition.reason, condition.message


EAST, WEST = cluster("east", ready=True), cluster("west", ready=False)


def test_a_new_cluster_gets_its_share_when_it_is_ready():
    first = composed(deployment(2), [EAST, WEST])
    until = timestamp(NOW + STARTUP_WAIT_S)
    assert told(first) == (
        ["replica-east-0"],
        "WaitingForClusters",
        f"1 of 2 replicas placed; 1 waits until {until} at most for clusters that are starting: west",
    )
    assert (first.ready.status.value, first.ready.reason) == ("False", "WaitingForClusters")
    assert first.status.placement.summary == "1 on east; 1 held for starting clusters"
    assert first.requeue_after_s == STARTUP_WAIT_S
    second = composed(deployment(2), [EAST, cluster("west", ready=True)], first)
    assert told(second) == (["replica-east-0", "replica-west-0"], "AllPlaced", "2 of 2 replicas placed")


def test_replicas_without_any_ready_cluster_wait_and_nobody_is_warned():
    starting = [cluster("east", ready=False), WEST]
    first = composed(deployment(2), starting)
    until = timestamp(NOW + STARTUP_WAIT_S)
    message = f"0 of 2 replicas placed; 2 wait until {until} at most for clusters that are starting: east, west"
    assert told(first) == ([], "WaitingForClusters", message)
    assert (first.status.reason, first.status.message.startswith(message)) == ("WaitingForClusters", True)
    assert first.status.placement.summary == "0 placed; 2 held for starting clusters"
    assert first.events == ()
    late = composed(deployment(2), starting, first, NOW + STARTUP_WAIT_S)
    assert told(late)[1] == "InsufficientCapacity"
    assert [(event.type, event.reason) for event in late.events] == [("Warning", "InsufficientCapacity")]


def test_what_no_cluster_could_run_is_said_at_once():
    nine = {"devices": [{"name": "gpu", "count": 9, "selectors": [{"cel": 'device.driver == "d"'}]}]}
    found = composed(deployment(1, nodeSelector=nine), [EAST])
    assert told(found)[1] == "FitsNowhere"


def test_what_no_known_cluster_could_run_waits_for_one_that_is_not_known_yet():
    nine = {"devices": [{"name": "gpu", "count": 9, "selectors": [{"cel": 'device.driver == "d"'}]}]}
    assert told(composed(deployment(1, nodeSelector=nine), [EAST, WEST]))[1] == "WaitingForClusters"
    known = {**WEST, "status": {"gpuPools": READY["gpuPools"]}}
    assert told(composed(deployment(1, nodeSelector=nine), [EAST, known]))[1] == "FitsNowhere"


def test_a_reason_that_no_new_cluster_changes_stays_beside_a_wait():
    result = composed(deployment(1), [])
    scheduled = result.conditions[0]
    assert told(result)[1] == "NoClusters"
    assert with_wait(scheduled, None, 0) == (scheduled, None)
    assert with_wait(scheduled, StartupWait(("west",), NOW + 10, wanted=1, unplaced=1), 0) == (scheduled, None)


def test_what_is_held_back_is_placed_in_time_beside_a_reason_that_stays():
    """The replica on the cluster that is not listed is Unresolved. Another is held for west, which never gets ready."""
    before = composed(deployment(1), [cluster("gone", ready=True)])
    first = composed(deployment(4), [EAST, WEST], before)
    placed = ["replica-east-0", "replica-east-1", "replica-gone-0"]
    absent = "1 of them stay on clusters that are not listed (gone)"
    assert told(first) == (placed, "Unresolved", f"3 of 4 replicas placed; {absent}")
    assert first.status.placement.summary == "2 on east, 1 on gone; 1 held for starting clusters"
    assert first.requeue_after_s == STARTUP_WAIT_S
    late = composed(deployment(4), [EAST, WEST], first, NOW + first.requeue_after_s)
    assert told(late)[::2] == (sorted([*placed, "replica-east-2"]), f"4 of 4 replicas placed; {absent}")


def test_what_is_held_and_what_has_no_place_are_both_said():
    """Six are wanted, east has four nodes, and its share of the two clusters is three."""
    whole = {"devices": [{"name": "gpu", "count": 8, "selectors": [{"cel": 'device.driver == "d"'}]}]}
    for wanted, share, pending in ((5, 3, 1), (6, 3, 2)):
        found = composed(deployment(wanted, nodeSelector=whole), [EAST, WEST])
        assert told(found)[1] == "WaitingForClusters"
        assert found.status.placement.summary == (
            f"{share} on east; {pending} wait for capacity; {4 - share} held for starting clusters"
        )


def test_a_wait_is_no_event_of_each_pass():
    first = composed(deployment(2), [EAST, WEST])
    known = tuple(first.conditions)
    status = msgspec.structs.replace(deployment(2).status, conditions=known)
    again = composed(msgspec.structs.replace(deployment(2), status=status), [EAST, WEST], first)
    assert [event.reason for event in again.events] == []


def test_the_wait_ends():
    first = composed(deployment(2), [EAST, WEST])
    late = composed(deployment(2), [EAST, WEST], first, NOW + STARTUP_WAIT_S)
    assert told(late) == (["replica-east-0", "replica-east-1"], "AllPlaced", "2 of 2 replicas placed")


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        pytest.param(deployment(2, age=31), WEST, id="the deployment is not new"),
        pytest.param(deployment(2, age=30), WEST, id="the time of the deployment is over"),
        pytest.param(deployment(2), cluster("west", ready=False, age=31), id="the cluster is not new"),
        pytest.param(deployment(2), cluster("west", ready=False, age=30), id="the time of the cluster is over"),
        pytest.param(deployment(2), cluster("west", ready=False, cordoned=True), id="it is cordoned"),
        pytest.param(
            deployment(2),
            cluster("west", ready=False, taints=[{"key": "a", "effect": "NoSchedule"}]),
            id="its taint is not tolerated",
        ),
        pytest.param(
            deployment(2, clusterSelector={"matchLabels": {"region": "east"}}),
            cluster("west", ready=False, region="west"),
            id="it is not selected",
        ),
        pytest.param(
            deployment(2, placement={"required": [{"matchLabels": {"region": "east"}}]}),
            cluster("west", ready=False, region="west"),
            id="it is not among the required ones",
        ),
    ],
)
def test_nothing_is_held_back_for_clusters_that_do_not_count(asked, other):
    assert told(composed(asked, [EAST, other]))[:2] == (["replica-east-0", "replica-east-1"], "AllPlaced")


def test_a_host_without_a_clock_does_not_wait():
    assert told(composed(deployment(2), [EAST, WEST], now=0.0))[1] == "AllPlaced"


def test_a_cluster_that_one_of_the_required_selectors_matches_is_waited_for():
    either = tuple(LabelSelector(match_labels={"region": region}) for region in ("north", "west"))
    starting = [placeable(region, ready=False, created=NOW, labels={"region": region}) for region in ("west", "south")]
    found = startup_wait(deployment(2), place(2, required=either), Fleet.of(starting), NOW)
    assert found == StartupWait(("west",), NOW + STARTUP_WAIT_S, wanted=2)


@pytest.mark.parametrize(("age", "until"), [(0, NOW + 20), (15, NOW + 15)])
def test_the_wait_ends_with_the_newest_cluster_and_with_the_deployment_s_own_time(age, until):
    starting = [placeable(name, ready=False, created=NOW - old) for name, old in (("a", 10), ("b", 20))]
    found = startup_wait(deployment(2, age=age), place(2), Fleet.of(starting), NOW)
    assert found == StartupWait(("a", "b"), until, wanted=2)


fleets = st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=5).map(
    lambda found: [cluster(f"c{n}", ready=ready, age=age) for n, (ready, age) in enumerate(found)]
)


@given(fleets, st.integers(0, 8), st.integers(0, 40), st.integers(0, 8))
def test_what_exists_stays_and_the_rest_comes_in_time(clusters, replicas, age, grown):
    """Growing never loses a replica; when the time is over, the decision is the one without any wait."""
    first = composed(deployment(replicas, age=age), clusters)
    second = composed(deployment(replicas + grown, age=age), clusters, first)
    assert first.desired.keys() <= second.desired.keys()
    end = NOW + STARTUP_WAIT_S
    late = composed(deployment(replicas + grown, age=age), clusters, second, end)
    able = any("gpuPools" in each["status"] for each in clusters)
    assert len(late.desired) == (replicas + grown if able else 0)
    assert late.conditions[0].reason != "WaitingForClusters"
    if second.conditions[0].reason == "WaitingForClusters":
        assert 0 < second.requeue_after_s <= STARTUP_WAIT_S


CACHED = place(2, caches=(CacheRequest("weights"), CacheRequest("tokenizer"), CacheRequest("adapter", required=False)))


@pytest.mark.parametrize(
    ("awaited", "other", "expected"),
    [
        pytest.param({"weights": {"b"}}, {}, ("b",), id="a cluster that fetches"),
        pytest.param({"weights": {"b"}, "tokenizer": set()}, {}, ("b",), id="a cluster that fetches one of two"),
        pytest.param({"weights": {"c"}}, {}, (), id="another cluster fetches"),
        pytest.param({"adapter": {"b"}}, {}, (), id="a cache that is not required"),
        pytest.param({}, {}, (), id="nothing is fetched"),
        pytest.param({"weights": {"b"}}, {"ready": False}, (), id="the cluster is not ready"),
        pytest.param({"weights": {"b"}}, {"cordoned": True}, (), id="the cluster may not be used"),
    ],
)
def test_a_cluster_that_fetches_a_required_cache_counts_as_starting(awaited, other, expected):
    clusters = [placeable("a"), placeable("b", **other)]
    caches = [CacheInfo(namespace="team", name=name, awaited=frozenset(where)) for name, where in awaited.items()]
    found = startup_wait(deployment(2), CACHED, Fleet.of(clusters, (), caches), NOW)
    assert found == (StartupWait(expected, NOW + STARTUP_WAIT_S, wanted=2) if expected else None)


def test_nothing_is_held_back_where_replicas_are_dropped():
    """Two start on a node for one: the second loses its place, and both of the others go to b."""
    whole = [replica("a", at, assignment("h200", claim(8))) for at in (0, 1)]
    fleet = Fleet.of([placeable("a", pool(nodes=1)), placeable("b", pool(nodes=4))], whole)
    decided = schedule(place(3, engine(request(8))), fleet)
    wait = StartupWait(("c",), NOW + 10, wanted=3)
    assert [(found.replica.cluster, found.replica.index) for found in decided.dropped] == [("a", 1)]
    assert hold_back(decided, wait, ()) == (decided, None)
    undropped = msgspec.structs.replace(decided, dropped=())
    held, left = hold_back(undropped, wait, ())
    assert (len(held.placements), left.replicas) == (2, 1)


def test_a_new_replica_that_is_observed_already_is_not_held_back():
    """The list of replicas is older than what is observed: the cluster has both."""
    decided = schedule(place(2, engine(request(8))), Fleet.of([placeable("a", pool("p", nodes=4))]))
    wait = StartupWait(("b",), NOW + 10, wanted=2)
    held, _ = hold_back(decided, wait, ())
    assert [placement.replica.index for placement in held.placements] == [0]
    both = ("replica-a-0", "replica-a-1")
    assert hold_back(decided, wait, both) == (decided, None)


@pytest.mark.parametrize(("names", "shown"), [("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")])
def test_three_of_the_clusters_that_it_waits_for_are_named(names, shown):
    found = StartupWait(tuple(names), NOW, wanted=2, held=1)
    assert found.condition(1).message == (
        "1 of 2 replicas placed; 1 waits until 2026-01-01T00:00:00Z at most for clusters that are starting: " + shown
    )
