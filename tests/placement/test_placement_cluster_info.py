"""What a cluster is to the scheduler, and what its replicas hold of it."""

import msgspec
import pytest

from modelplane.placement.cluster_info import (
    ClusterProfile,
    PoolShape,
    QueueState,
    QuotaState,
    charges,
    held_by_others_usage,
    make_cluster_info,
)
from modelplane.placement.hardware import Domain
from modelplane.placement.matching import DOMAIN
from modelplane.placement.values import MemberAssignment, NamespaceQueues, QueueInfo
from modelplane.testing.fleets import assignment, claim, cluster, hardware, kind, packed, pool, replica, taint

GPU = hardware()
ONE, EIGHT = ((1, 1),), ((8, 1),)
"""Shapes of pods that claim 1 and 8 devices of the only kind."""
TWO_KINDS = hardware(kind("big", 2), kind("small", 4, product="H100"), kind("fake", 1, device_class=None))


def usages(info):
    return dict(zip([pool.name for pool in info.pools], info.usages, strict=True))


def test_pools_are_in_the_order_of_their_names_and_keep_their_shape():
    away = msgspec.structs.replace(pool("b", 3), desired_nodes=5)
    info = make_cluster_info(packed("east", away, pool("a", 2, taints=(taint("t"),))))
    assert [found.name for found in info.pools] == ["a", "b"]
    assert info.kinds == (
        PoolShape(GPU, (8,), 2, (taint("t"),), None, packed=True),
        PoolShape(GPU, (8,), 3, (), None, packed=True, missing_nodes=2),
    )
    assert [shape.devices for shape in info.kinds] == [16, 24]
    assert [shape.whole for shape in info.kinds] == [info.kinds[0], PoolShape(GPU, (8,), 5, (), None, packed=True)]
    assert (info.position("b"), info.position("c"), info.usages, info.preempting) == (1, None, ((), ()), False)


def test_only_a_cluster_that_exists_has_places():
    there = cluster("east")
    assert make_cluster_info(there).existing is there
    with pytest.raises(LookupError, match="the cluster does not exist"):
        _ = make_cluster_info(None).existing


def test_a_cluster_that_does_not_exist_keeps_its_replicas_and_has_no_pools():
    info = make_cluster_info(None, [replica("gone")])
    assert (info.cluster, list(info.held), info.pools) == (None, [replica("gone").id], ())
    assert info.profile == ClusterProfile(ready=False, cordoned=False)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(replica("a"), [(0, ((ONE, 1),))], id="one device"),
        pytest.param(replica("a", 0, assignment("h200", claim(8), pods=2)), [(0, ((EIGHT, 2),))], id="two whole nodes"),
        pytest.param(replica("a", 0, assignment("gone")), [], id="a pool that is gone is charged nothing"),
        pytest.param(
            replica("a", 0, assignment("h200", claim(1, device_class=None))), [(0, ())], id="synthetic devices are free"
        ),
        pytest.param(
            replica("a", 0, assignment(engine_name="x"), assignment(engine_name="y")),
            [(0, ((ONE, 1),)), (0, ((ONE, 1),))],
            id="two engines on one pool",
        ),
    ],
)
def test_a_replica_is_charged_to_its_pools(held, expected):
    assert charges(held, (pool(),)) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param((), (), id="no member"),
        pytest.param((MemberAssignment(2, (claim(8),)),), ((DOMAIN, 2),), id="two copies"),
        pytest.param(
            (MemberAssignment(3, (claim(8),)), MemberAssignment(1, ())),
            ((DOMAIN, 1),),
            id="the fewest pods of a member",
        ),
    ],
)
def test_a_pool_that_is_counted_in_domains_is_charged_one_for_each_copy(members, expected):
    racks = pool("h200", 4, msgspec.structs.replace(GPU, domain=Domain("rack", 2)))
    held = replica("a", 0, msgspec.structs.replace(assignment("h200"), members=members))
    assert charges(held, (racks,)) == [(0, expected)]


def test_devices_of_others_are_charged_one_by_one_and_only_those_that_can_be_claimed():
    shared = msgspec.structs.replace(pool("p", 2, TWO_KINDS), held_by_others=(("small", 3), ("fake", 1), ("none", 9)))
    assert held_by_others_usage(shared) == ((((1, 4),), 3),)
    assert usages(make_cluster_info(cluster("a", shared))) == {"p": ((((1, 4),), 3),)}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ((("gpu", 8, 1),), ((ONE, 3), (EIGHT, 1))),
        ((("gpu", 8, 9),), ((ONE, 3), (EIGHT, 1))),
        ((("gpu", 3, 1), ("gpu", 2, 2), ("nic", 8, 1)), ((ONE, 4), (((2, 1),), 2), (((3, 1),), 1))),
        ((("gpu", 11, 1),), ((EIGHT, 1),)),
    ],
    ids=["one claim of eight", "more claims than devices", "several sizes, and another kind", "larger than a node"],
)
def test_devices_that_others_hold_by_one_claim_are_on_one_node(claims, expected):
    shared = msgspec.structs.replace(pool("p", 2), held_by_others=(("gpu", 11),), claims_of_others=claims)
    assert held_by_others_usage(shared) == expected
    several = tuple((shape, number) for shape, number in expected if shape != ONE)
    assert make_cluster_info(cluster("a", shared)).kinds[0].foreign == several


def test_replicas_come_and_go_and_a_new_one_takes_the_place_of_its_older_self():
    first, second = replica("a", 0), replica("a", 1, assignment("h200", claim(8)))
    info = make_cluster_info(cluster("a"), [first])
    both = info.with_replicas([second])
    assert usages(both) == {"h200": ((ONE, 1), (EIGHT, 1))}
    grown = both.with_replicas([msgspec.structs.replace(first, assignments=second.assignments)])
    assert usages(grown) == {"h200": ((EIGHT, 2),)}
    assert usages(grown.with_replicas(removed=[first.id, second.id])) == {"h200": ()}
    assert usages(info) == {"h200": ((ONE, 1),)}
    assert both.with_replicas(removed=[("nobody", "a", 7)]).held == both.held


def test_a_cluster_remembers_that_a_replica_preempts_others():
    info = make_cluster_info(cluster("a"))
    preempting = info.with_replicas([replica("a", preempts=("r-1",))])
    assert (info.preempting, preempting.preempting) == (False, True)
    assert preempting.with_replicas(removed=[replica("a").id]).preempting
    assert info.with_replicas([replica("a"), replica("a", 1, preempts=("r-1",))]).preempting
    assert not info.with_replicas([replica("a")]).with_replicas(removed=[replica("a").id]).preempting


@pytest.mark.parametrize(
    ("fields", "held", "expected"),
    [
        pytest.param({}, [], ClusterProfile(ready=True, cordoned=False), id="plain"),
        pytest.param(
            {"ready": False, "cordoned": True, "taints": (taint("t"),), "priorities": (("gold", 5),)},
            [],
            ClusterProfile(ready=False, cordoned=True, taints=(taint("t"),), priorities=(("gold", 5),)),
            id="as the cluster says",
        ),
        pytest.param(
            {"fault": "no status", "quotas": (("team", 4),)},
            [],
            ClusterProfile(ready=True, cordoned=False, fault="no status"),
            id="one that cannot be read has no quotas",
        ),
        pytest.param(
            {"quotas": (("team", 4), ("*", 10))},
            [replica("a"), replica("a", name="x", namespace="b")],
            ClusterProfile(
                ready=True,
                cordoned=False,
                quotas=(QuotaState("*", 10, 0), QuotaState("b", 10, 1), QuotaState("team", 4, 1)),
            ),
            id="quotas of namespaces",
        ),
        pytest.param(
            {"queue": QueueInfo("q", 8, others=2)},
            [replica("a", 0, assignment("h200", claim(4)))],
            ClusterProfile(ready=True, cordoned=False, queue=QueueState("q", 8, 2)),
            id="a queue",
        ),
        pytest.param(
            {
                "namespace_queues": NamespaceQueues(
                    "q-{{ .Namespace }}", (QueueInfo("q-team", 8, 2), QueueInfo("q-b", -1))
                )
            },
            [replica("a", 0, assignment("h200", claim(4))), replica("a", name="x", namespace="b")],
            ClusterProfile(
                ready=True,
                cordoned=False,
                queue_template="q-{{ .Namespace }}",
                namespace_queues=(QueueState("q-team", 8, 2), QueueState("q-b", -1, 0)),
            ),
            id="a queue for each namespace",
        ),
        pytest.param(
            {"queue": QueueInfo("q", -1)}, [], ClusterProfile(ready=True, cordoned=False), id="a queue without a limit"
        ),
    ],
)
def test_a_profile_has_what_decisions_depend_on(fields, held, expected):
    info = make_cluster_info(cluster("a", **fields))
    assert info.with_replicas(held).profile == make_cluster_info(cluster("a", **fields), held).profile == expected


def test_a_quota_is_that_of_the_namespace_or_that_of_all_others():
    profile = make_cluster_info(cluster("a", quotas=(("team", 4), ("*", 10))), [replica("a")]).profile
    assert [profile.quota_left(name) for name in ("team", "other")] == [(3, 4), (10, 10)]
    assert make_cluster_info(cluster("a", quotas=(("team", 4),))).profile.quota_left("other") is None


QUEUES = NamespaceQueues("{{ .Namespace }}", (QueueInfo("team", 8, 2), QueueInfo("free", -1)), complete=True)


@pytest.mark.parametrize(
    ("fields", "namespace", "expected"),
    [
        pytest.param({"queue": QueueInfo("q", 8, 2)}, "any", QueueState("q", 8, 6), id="one for all"),
        pytest.param({"namespace_queues": QUEUES}, "team", QueueState("team", 8, 6), id="its own"),
        pytest.param({"namespace_queues": QUEUES}, "free", None, id="without a limit"),
        pytest.param(
            {"namespace_queues": QUEUES}, "other", QueueState("other", 0, 0, missing=True), id="one that does not exist"
        ),
    ],
)
def test_the_queue_of_a_namespace(fields, namespace, expected):
    assert make_cluster_info(cluster("a", **fields)).profile.queue_of(namespace) == expected
