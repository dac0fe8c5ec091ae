"""What a deployment says of replicas that do not serve: the worst reason, how many, since when, and what is next."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.models import NotReady
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.causes import WORST_FIRST, rank
from modelplane.compose.deployment_causes import MAX_GROUPS, not_ready_words, replicas_not_ready
from modelplane.placement.request import FailoverPolicy
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Cluster

LOST, ENDS = "2026-11-16T08:24:51Z", "2026-11-16T08:29:51Z"
EARLIER, LATER = "2026-11-16T08:00:00Z", "2026-11-16T09:00:00Z"
FLEET = Fleet.of([Cluster(name="east", ready=False, unready_since=epoch_s(LOST)), Cluster(name="west", ready=True)], ())
REPLACE = FailoverPolicy()
PULL = "1 of 1 pod: container engine: i: not found"


def replica(reason, message="", since=""):
    return {"status": {"reason": reason, "message": message, "since": since}}


def words(groups, wanted=4, now=0.0, failover=REPLACE):
    return not_ready_words(groups, wanted, now, failover)


def test_replicas_are_grouped_by_reason_and_cluster_and_the_worst_comes_first():
    idle = [
        ("west", replica("LoadingWeights", "container engine runs", LATER)),
        ("west", replica("ImagePullFailed", PULL, LATER)),
        ("west", replica("ImagePullFailed", PULL, EARLIER)),
        ("east", replica("ClusterLost", "cluster east does not answer", EARLIER)),
        ("west", None),
    ]
    assert replicas_not_ready(idle, FLEET, FailoverPolicy()) == (
        NotReady(
            reason="ClusterLost",
            replicas=1,
            cluster="east",
            since=LOST,
            message="cluster east does not answer",
            replaced_at=ENDS,
        ),
        NotReady(reason="ImagePullFailed", replicas=2, cluster="west", since=EARLIER, message=PULL),
        NotReady(reason="LoadingWeights", replicas=1, cluster="west", since=LATER, message="container engine runs"),
        NotReady(reason="Creating", replicas=1, cluster="west", message="the ModelReplica is not observed yet"),
    )


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({}, "Starting", "the ModelReplica says nothing yet"),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "Creating"}]}, "Starting", None),
        (
            {
                "reason": "Serving",
                "conditions": [
                    {"type": "RouteReady", "status": "False", "reason": "RoutePending", "message": "r"},
                    {"type": "Accepted", "status": "False", "reason": "NotSupported", "message": "n"},
                ],
            },
            "NotSupported",
            "n",
        ),
        (
            {
                "conditions": [
                    {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "a"},
                    {
                        "type": "WorkloadReady",
                        "status": "False",
                        "reason": "LoadingWeights",
                        "message": "w",
                        "lastTransitionTime": LATER,
                    },
                ],
            },
            "LoadingWeights",
            "w",
        ),
    ],
)
def test_a_replica_without_a_reason_speaks_by_its_conditions(status, reason, message):
    (found,) = replicas_not_ready([("west", {"status": status})], FLEET, FailoverPolicy())
    assert (found.reason, found.message) == (reason, message or "the ModelReplica says nothing yet")
    assert found.since == (LATER if reason == "LoadingWeights" else None)


STEPS = ("Accepted", "Scheduled", "CachesReady", "WorkloadReady", "RouteReady")


@pytest.mark.parametrize("first", STEPS)
def test_a_replica_speaks_by_the_first_step_that_it_has_not_taken(first):
    failing = [{"type": step, "status": "False", "reason": f"No{step}"} for step in STEPS[STEPS.index(first) :]]
    (found,) = replicas_not_ready([("west", {"status": {"conditions": failing[::-1]}})], FLEET, FailoverPolicy())
    assert found.reason == f"No{first}"


def test_only_the_worst_groups_are_listed():
    idle = [(f"c{at:02}", replica("LoadingWeights")) for at in range(17)]
    found = replicas_not_ready([*idle, ("west", replica("CrashLooping"))], FLEET, FailoverPolicy())
    assert [group.cluster for group in found] == ["west", *(f"c{at:02}" for at in range(15))]


def test_a_lost_cluster_has_the_time_of_the_replacement():
    idle = [("east", replica("ClusterLost", "", EARLIER))] * 2
    groups = replicas_not_ready(idle, FLEET, FailoverPolicy())
    assert words(groups) == f"2 of 4 lost with cluster east at {LOST}; replaced at {ENDS}"
    assert words(groups, now=epoch_s(ENDS) - 1) == words(groups)
    assert words(groups, now=epoch_s(ENDS)) == f"2 of 4 lost with cluster east at {LOST}; kept until a successor serves"
    never = FailoverPolicy(replace=False)
    groups = replicas_not_ready(idle, FLEET, never)
    assert groups[0].replaced_at is None
    assert words(groups, failover=never) == (
        f"2 of 4 lost with cluster east at {LOST}; not replaced, by spec.failover.policy"
    )


@pytest.mark.parametrize("cluster", ["west", "gone"], ids=["ready again", "not in the fleet"])
def test_a_replica_whose_cluster_is_not_known_to_be_lost_is_replaced_by_its_own_time(cluster):
    (found,) = replicas_not_ready([(cluster, replica("ClusterLost", "m", LOST))], FLEET, FailoverPolicy())
    assert (found.since, found.replaced_at) == (LOST, ENDS)


def test_a_group_speaks_by_the_replica_that_has_been_in_trouble_for_longest():
    idle = [("west", replica("Unhealthy", words, since)) for words, since in (("a", ""), ("b", LATER), ("c", EARLIER))]
    (found,) = replicas_not_ready(idle, FLEET, FailoverPolicy())
    assert (found.replicas, found.message, found.since) == (3, "c", EARLIER)


def test_a_replica_that_was_lost_at_an_unknown_time_is_replaced_after_its_grace_period():
    found = replicas_not_ready([("gone", replica("ClusterLost"))], FLEET, FailoverPolicy())
    assert words(found) == "1 of 4 lost with cluster gone; replaced after its grace period"


def test_replicas_behind_a_broken_tunnel_serve_on_until_they_are_replaced():
    idle = [("east", replica("AgentDisconnected", "m", EARLIER))] * 2
    groups = replicas_not_ready(idle, FLEET, FailoverPolicy())
    assert groups[0].replaced_at == ENDS
    assert words(groups) == f"2 of 4 AgentDisconnected on east since {LOST}: m; serving on, replaced at {ENDS}"
    silent = replicas_not_ready([("east", replica("AgentUnknown", "m", EARLIER))], FLEET, FailoverPolicy())
    assert words(silent) == f"1 of 4 AgentUnknown on east since {EARLIER}: m; serving on"


def test_what_is_next_is_said():
    pulls = NotReady(reason="ImagePullFailed", replicas=1, cluster="west", since=EARLIER, message=PULL)
    loads = NotReady(reason="LoadingWeights", replicas=2, cluster="west")
    assert words([pulls, loads]) == (
        f"1 of 4 ImagePullFailed on west since {EARLIER}: {PULL}; the node tries again; 2 of 4 LoadingWeights on west"
    )
    assert words([]) == ""


@pytest.mark.parametrize(
    ("reason", "following"),
    [
        ("CrashLooping", "the node restarts it"),
        ("OOMKilled", "the node restarts it"),
        ("SecretMissing", "it starts once the Secret is there"),
        ("ConfigMapMissing", "it starts once the ConfigMap is there"),
        ("QueueMissing", "it starts once the queue is there"),
        ("QuotaExceeded", "it starts once the quota allows it"),
        ("ClaimPending", "the scheduler tries again"),
        ("VolumePending", "the scheduler tries again"),
        ("Unschedulable", "the scheduler tries again"),
        ("CacheStaging", "its pods start once it is staged"),
        ("CacheIncomplete", "the cache is staged again, then its pods start"),
        ("NotSupported", "nothing changes until it is corrected"),
        ("Invalid", "nothing changes until it is corrected"),
    ],
)
def test_who_acts_next_is_said_for_each_reason(reason, following):
    assert words([NotReady(reason=reason, replicas=1, cluster="west")]) == f"1 of 4 {reason} on west; {following}"


def test_a_long_message_is_cut_in_a_sentence():
    groups = [NotReady(reason="Unhealthy", replicas=1, cluster="west", message=text) for text in ("m" * 256, "m" * 257)]
    assert words(groups) == f"1 of 4 Unhealthy on west: {'m' * 256}; 1 of 4 Unhealthy on west: {'m' * 255}…"


def test_clusters_with_the_same_trouble_share_a_sentence():
    groups = [
        NotReady(reason="LoadingWeights", replicas=2, cluster=f"c{at}", since=since, message="m")
        for at, since in enumerate([LATER, EARLIER, LATER, LATER, LATER])
    ]
    assert words(groups[:2], 10) == f"4 of 10 LoadingWeights on c0, c1 since {EARLIER}: m"
    assert words(groups[:3], 10) == f"6 of 10 LoadingWeights on c0, c1, c2 since {EARLIER}: m"
    assert words(groups, 10).startswith("10 of 10 LoadingWeights on c0, c1, c2 and 2 more clusters since")


def test_few_reasons_are_spelled_out():
    groups = [NotReady(reason="Unhealthy", replicas=2, cluster="c", message=f"m{at}") for at in range(5)]
    assert words(groups, 10).endswith("2 of 10 Unhealthy on c: m2; 4 more for other reasons")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["east", "west", "gone"]),
            st.none()
            | st.builds(
                replica, st.sampled_from([*WORST_FIRST, "Odd"]), st.text(max_size=900), st.sampled_from(["", LOST])
            ),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_no_replica_is_left_out_and_the_order_does_not_matter(idle, replace):
    failover = FailoverPolicy(replace=replace)
    groups = replicas_not_ready(idle, FLEET, failover)
    assert groups == replicas_not_ready(list(reversed(idle)), FLEET, failover)
    assert [rank(group.reason) for group in groups] == sorted(rank(group.reason) for group in groups)
    assert len(groups) <= MAX_GROUPS
    if len(groups) < MAX_GROUPS:
        assert sum(group.replicas for group in groups) == len(idle)
    assert all(len(group.message or "") <= 512 for group in groups)
    assert len(words(groups, 40)) <= 3 * 512 + 64
    assert msgspec.json.decode(msgspec.json.encode(groups), type=tuple[NotReady, ...]) == groups
    replaced = {Reason.CLUSTER_LOST, Reason.AGENT_DISCONNECTED}
    assert all((group.replaced_at is not None) <= (group.reason in replaced) for group in groups)
