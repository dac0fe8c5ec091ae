"""Each filter by itself: whom it refuses, with which code and in which words."""

import msgspec
import pytest

from modelplane.framework import RefusalCode
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import (
    AffinityFilter,
    BackendFilter,
    CachesFilter,
    CapacityFilter,
    ClusterReadyFilter,
    ClusterSelectorFilter,
    ClusterTaintsFilter,
    CordonedFilter,
    DevicesFilter,
    PoolTaintsFilter,
    PrioritiesFilter,
    QueueFilter,
    QuotaFilter,
    SpreadFilter,
    fit_engine,
)
from modelplane.placement.offers import ClusterView, OfferedAssignment, PlacementOption, PoolView
from modelplane.placement.plugins import is_steady
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.request import CacheRequest, SpreadRule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo, NamespaceQueues, QueueInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    labelled,
    packed,
    place,
    pool,
    replica,
    request,
    taint,
    tolerate,
)

WEST = {"region": "west"}
CACHE = CacheInfo(namespace="team", name="weights", staged=frozenset({"b"}), selector=labelled(region="none"))
NEEDS_CACHE = place(caches=(CacheRequest("weights"),))


def cycle(asked, *clusters, caches=()):
    return SchedulingCycle(asked, Fleet.of(clusters, (), caches), 0.0)


def said(refusal):
    return None if refusal is None else (refusal.filter, refusal.code, refusal.reason)


def now(name, reason):
    return name, RefusalCode.UNSCHEDULABLE, reason


def never(name, reason):
    return name, RefusalCode.UNRESOLVABLE, reason


@pytest.mark.parametrize(
    ("plugin", "asked", "seen", "expected"),
    [
        (ClusterSelectorFilter(), place(), cluster("a"), None),
        (ClusterSelectorFilter(), place(cluster_selector=labelled(**WEST)), cluster("a", labels=WEST), None),
        (
            ClusterSelectorFilter(),
            place(cluster_selector=labelled(**WEST)),
            cluster("a"),
            never("ClusterSelector", "its labels do not match the clusterSelector"),
        ),
        (AffinityFilter(), place(required=(labelled(tier="x"), labelled(**WEST))), cluster("a", labels=WEST), None),
        (
            AffinityFilter(),
            place(required=(labelled(tier="x"), labelled(tier="y"))),
            cluster("a"),
            never("Affinity", "its labels match none of the 2 required selectors"),
        ),
        (CachesFilter(), place(caches=(CacheRequest("none", required=False),)), cluster("a"), None),
        (CachesFilter(), NEEDS_CACHE, cluster("b"), None),
        (
            CachesFilter(),
            place(caches=(CacheRequest("none"),)),
            cluster("a"),
            never("Caches", "ModelCache team/none does not exist: create it, or correct its name"),
        ),
        (PrioritiesFilter(), place(priority="gold"), cluster("a"), None),
        (PrioritiesFilter(), place(priority="gold"), cluster("a", priorities=(("gold", 5),)), None),
        (
            PrioritiesFilter(),
            place(priority="gold"),
            cluster("a", priorities=(("iron", 1), ("tin", 0))),
            never("Priority", "priority gold is not one of the 2 that the cluster allows"),
        ),
        (ClusterTaintsFilter(), place(tolerations=(tolerate("t"),)), cluster("a", taints=(taint("t"),)), None),
        (
            ClusterTaintsFilter(),
            place(),
            cluster("a", taints=(taint("t"),)),
            never("ClusterTaints", "taint t (NoSchedule) is not tolerated"),
        ),
        (CordonedFilter(), place(), cluster("a"), None),
        (CordonedFilter(), place(), cluster("a", cordoned=True), now("Cordoned", "the cluster is cordoned")),
        (ClusterReadyFilter(), place(), cluster("a"), None),
        (ClusterReadyFilter(), place(), cluster("a", ready=False), now("ClusterReady", "the cluster is not ready")),
        (
            ClusterReadyFilter(),
            place(),
            cluster("a", ready=False, deletion="in use by ModelReplica r"),
            never("ClusterReady", "the cluster is being deleted: in use by ModelReplica r"),
        ),
        (
            ClusterReadyFilter(),
            place(),
            cluster("a", fault="spec: no pools"),
            now("ClusterReady", "the cluster cannot be read: spec: no pools"),
        ),
    ],
)
def test_filters_of_clusters(plugin, asked, seen, expected):
    state = cycle(asked, seen, caches=[CACHE])
    assert said(plugin.refuse(state, ClusterView(make_cluster_info(seen).profile, (), seen))) == expected


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        (CACHE, never("Caches", "cache weights is not staged here, and its clusterSelector does not match")),
        (msgspec.structs.replace(CACHE, fault="no size"), now("Caches", "cache weights cannot be read: no size")),
        (msgspec.structs.replace(CACHE, selector=labelled()), None),
    ],
)
def test_a_cache_is_staged_will_be_or_is_not(cache, expected):
    seen = cluster("a")
    refusal = CachesFilter().refuse(cycle(NEEDS_CACHE, seen, caches=[cache]), ClusterView(None, (), seen))
    assert said(refusal) == expected


def view(asked, where, *held):
    info = make_cluster_info(where, held)
    return PoolView(asked, info.kinds[0], info.usages[0])


FULL = [replica("a", at, assignment("h200", claim(8)), name="other") for at in range(2)]
ONES = [replica("a", at, name="other") for at in range(16)]
FIVES = [replica("a", at, assignment("h200", claim(5)), name="other") for at in range(2)]
LOST = msgspec.structs.replace(pool(nodes=1), desired_nodes=2)
NINE = never("Devices", "needs 9 x gpu; a node has 8 x gpu")
TWO_KINDS = hardware(kind("big", 4), kind("small", 4, product="H100"))


@pytest.mark.parametrize(
    ("plugin", "seen", "expected"),
    [
        (DevicesFilter(), view(engine(request(8)), cluster("a")), None),
        (
            DevicesFilter(),
            view(engine(request(9)), cluster("a")),
            NINE,
        ),
        (CapacityFilter(), view(engine(request(8)), cluster("a")), None),
        (
            CapacityFilter(),
            view(engine(request(1)), cluster("a"), *ONES),
            now("Capacity", "0 of 2 nodes have 1 free GPU; 16 of 16 GPUs are held"),
        ),
        (
            CapacityFilter(),
            view(engine(request(8)), cluster("a"), FULL[0]),
            None,
        ),
        (
            CapacityFilter(),
            view(engine(request(8), nodes=2), cluster("a"), FULL[0]),
            now("Capacity", "needs 2 free nodes; 1 of 2 nodes is free"),
        ),
        (
            CapacityFilter(),
            view(engine(request(8), nodes=3), cluster("a")),
            never("Capacity", "needs 3 free nodes; 2 of 2 nodes are free"),
        ),
        (
            CapacityFilter(),
            view(engine(request(8), nodes=2), cluster("a", LOST)),
            now("Capacity", "needs 2 free nodes; 1 of 1 nodes is free; 1 node is missing"),
        ),
        (
            CapacityFilter(),
            view(engine(request(4)), cluster("a"), *FIVES),
            now(
                "Capacity",
                "needs 1 pod with 4 GPUs each; 0 fit wherever the cluster puts its pods; 10 of 16 GPUs are held",
            ),
        ),
        (
            CapacityFilter(),
            view(engine(request(4)), packed("a"), *FIVES),
            now("Capacity", "needs 1 pod with 4 GPUs each; 0 can be packed; 10 of 16 GPUs are held"),
        ),
        (
            CapacityFilter(),
            view(engine(request(3), nodes=9), cluster("a", pool("p", 2, TWO_KINDS))),
            never(
                "Capacity",
                "needs 9 pods with 3 devices each; 4 fit wherever the cluster puts its pods; 0 of 16 devices are held",
            ),
        ),
    ],
)
def test_filters_of_pools(plugin, seen, expected):
    assert said(plugin.refuse(None, seen)) == expected
    fit = fit_engine(seen.engine, seen.kind, seen.usage)
    assert (said(fit) == expected) if expected else fit.after


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (place(tolerations=(tolerate("t"),)), None),
        (place(), never("PoolTaints", "taint t (NoSchedule) is not tolerated")),
    ],
)
def test_taints_of_a_pool_are_tolerated_or_not(asked, expected):
    seen = view(engine(), cluster("a", pool(taints=(taint("t"),))))
    assert said(PoolTaintsFilter().refuse(cycle(asked), seen)) == expected


def option(where, devices, *held):
    info = make_cluster_info(where, held)
    fit = fit_engine(engine(request(devices)), info.kinds[0], info.usages[0])
    return PlacementOption(
        ClusterView(info.profile, (), where), (("a", 0),), (OfferedAssignment(info.kinds[0], 0, fit),)
    )


LIMITED = cluster("a", quotas=(("team", 4), ("*", 100)))
QUEUED = cluster("a", queue=QueueInfo("serving", 8, others=5))
TEAM_QUEUES = NamespaceQueues("q-{{ .Namespace }}", (QueueInfo("q-team", 8, others=5), QueueInfo("q-rivals", 8)))
PER_TEAM = cluster("a", namespace_queues=TEAM_QUEUES)
NO_QUEUE_LEFT = NamespaceQueues("q-{{ .Namespace }}", (QueueInfo("q-team", 0),))
OTHERS_ONLY = NamespaceQueues("{{ .Namespace }}", (QueueInfo("rivals", 8),), complete=True)


@pytest.mark.parametrize(
    ("plugin", "seen", "expected"),
    [
        (QuotaFilter(), option(cluster("a"), 8), None),
        (QuotaFilter(), option(LIMITED, 4), None),
        (
            QuotaFilter(),
            option(LIMITED, 4, replica("a", name="mine")),
            now("Quota", "needs 4 devices; namespace team has 3 of 4 left in its quota"),
        ),
        (
            QuotaFilter(),
            option(LIMITED, 5),
            never("Quota", "needs 5 devices; namespace team has 4 of 4 left in its quota"),
        ),
        (
            QuotaFilter(),
            option(LIMITED, 4, replica("a", 0, assignment("h200", claim(5)), name="mine")),
            now("Quota", "needs 4 devices; namespace team has 0 of 4 left in its quota"),
        ),
        (QueueFilter(), option(cluster("a"), 8), None),
        (QueueFilter(), option(QUEUED, 3), None),
        (QueueFilter(), option(QUEUED, 4), now("Queue", "needs 4 devices; the cluster's queue has 3 of 8 left")),
        (QueueFilter(), option(PER_TEAM, 3, replica("a", name="x", namespace="rivals")), None),
        (QueueFilter(), option(PER_TEAM, 4), now("Queue", "needs 4 devices; queue q-team has 3 of 8 left")),
        (
            QueueFilter(),
            option(PER_TEAM, 3, replica("a", name="mine")),
            now("Queue", "needs 3 devices; queue q-team has 2 of 8 left"),
        ),
        (
            QueueFilter(),
            option(cluster("a", namespace_queues=NO_QUEUE_LEFT), 1),
            never("Queue", "needs 1 devices; queue q-team has 0 of 0 left"),
        ),
        (
            QueueFilter(),
            option(cluster("a", namespace_queues=OTHERS_ONLY), 1),
            now("Queue", "the cluster has no queue team"),
        ),
        (
            QueueFilter(),
            option(cluster("a", namespace_queues=msgspec.structs.replace(OTHERS_ONLY, complete=False)), 1),
            None,
        ),
    ],
)
def test_filters_of_whole_options(plugin, seen, expected):
    assert said(plugin.refuse(cycle(place()), seen)) == expected
    assert expected is None or plugin.applies(cycle(place()), [seen.view.profile])


@pytest.mark.parametrize(
    ("plugin", "limited"), [(QuotaFilter(), LIMITED), (QueueFilter(), QUEUED), (QueueFilter(), PER_TEAM)]
)
def test_a_limit_of_one_cluster_is_checked_beside_clusters_without_any(plugin, limited):
    free, bound = (make_cluster_info(found).profile for found in (cluster("b"), limited))
    fleets = [], [free], [free, bound], [bound]
    assert [plugin.applies(cycle(place()), profiles) for profiles in fleets] == [False, False, True, True]


@pytest.mark.parametrize(("hard", "expected"), [((), False), ((False,), False), ((True, False), True), ((True,), True)])
def test_one_hard_spread_rule_is_checked_beside_others(hard, expected):
    rules = tuple(SpreadRule(f"label-{at}", hard=each) for at, each in enumerate(hard))
    assert SpreadFilter().applies(cycle(place(spread=rules)), ()) is expected


@pytest.mark.parametrize(
    ("labels", "placed", "rule", "expected"),
    [
        (WEST, 0, SpreadRule("region"), None),
        (WEST, 1, SpreadRule("region", hard=False), None),
        (
            WEST,
            1,
            SpreadRule("region"),
            now("Spread", "region west would have 2 replicas more than another value; at most 1 are allowed"),
        ),
        (WEST, 1, SpreadRule("region", 2), None),
        ({}, 0, SpreadRule("region"), never("Spread", "the cluster has no label region")),
    ],
)
def test_a_spread_rule_compares_the_values_of_a_label(labels, placed, rule, expected):
    where = cluster("a", labels=labels)
    state = cycle(place(3, spread=(rule,)), where)
    state.domains[0].values.update({"west", "east"})
    for at in range(placed):
        state.reserve(replica("a", at))
    assert said(SpreadFilter().refuse(state, option(where, 1))) == expected
    assert SpreadFilter().applies(state, ()) is rule.hard


class Check:
    """Clusters that are described as small cannot run a replica with an adapter."""

    def refuse(self, rendering, artifacts, /):
        return "no room for adapters" if rendering == b"small" and "Adapter" in artifacts else None


@pytest.mark.parametrize(
    ("rendering", "artifact", "expected"),
    [
        (b"small", "Adapter", "no room for adapters"),
        (b"small", "Weights", None),
        (b"large", "Adapter", None),
    ],
)
def test_clusters_that_cannot_run_a_replica_are_refused_in_the_words_of_the_check(rendering, artifact, expected):
    cache = CacheInfo(namespace="team", name="lora", artifact=artifact)
    described = cluster("a", rendering=rendering)
    state = cycle(place(caches=(CacheRequest("lora"),), check=Check()), described, caches=(cache,))
    found = said(BackendFilter().refuse(state, ClusterView(make_cluster_info(described).profile, (), described)))
    assert found == (None if expected is None else ("Backend", RefusalCode.UNRESOLVABLE, expected))


def test_without_a_check_every_cluster_can_run_a_replica():
    described = cluster("a", rendering=b"small")
    view = ClusterView(make_cluster_info(described).profile, (), described)
    assert BackendFilter().refuse(cycle(place(), described), view) is None


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (
            {"refused": (("NoSpace: 1", frozenset({"a"})),)},
            RefusalCode.UNRESOLVABLE,
            "cannot be staged here: NoSpace: 1",
        ),
        ({"awaited": frozenset({"a"})}, RefusalCode.UNSCHEDULABLE, "is being staged here"),
        (
            {"awaited": frozenset({"a"}), "stalled": (("SourceUnreachable: no route", frozenset({"a"})),)},
            RefusalCode.UNSCHEDULABLE,
            "is not staged here: SourceUnreachable: no route",
        ),
        (
            {"awaited": frozenset({"a"}), "stalled": (("no route", frozenset({"b"})), ("no key", frozenset({"a"})))},
            RefusalCode.UNSCHEDULABLE,
            "is not staged here: no key",
        ),
        ({"settled": False}, RefusalCode.UNSCHEDULABLE, "is not reconciled yet"),
    ],
)
def test_nothing_is_placed_where_a_cache_is_not_and_will_not_be_soon(change, code, told):
    cache = msgspec.structs.replace(CACHE, selector=None, staged=frozenset(), **change)
    found = cluster("a")
    view = ClusterView(make_cluster_info(found).profile, (), found)
    for required, expected in ((True, ("Caches", code, f"cache weights {told}")), (False, None)):
        asked = place(caches=(CacheRequest("weights", required=required),))
        answer = said(CachesFilter().refuse(cycle(asked, found, caches=(cache,)), view))
        assert answer == expected


def test_clusters_that_differ_in_what_a_cache_says_of_them_are_told_apart():
    cache = CacheInfo(
        namespace="team",
        name="weights",
        staged=frozenset({"b"}),
        refused=(("NoSpace", frozenset({"a"})),),
        awaited=frozenset({"c", "d"}),
        stalled=(("SourceUnreachable", frozenset({"d"})),),
    )
    assert cache.facts == (frozenset({"b"}), frozenset({"c", "d"}), frozenset({"a"}), frozenset({"d"}))


def test_a_reservation_elsewhere_changes_no_answer_of_filters_but_that_of_a_spread():
    filters = DEFAULT_PROFILE.offer_filters
    assert [(each.name, is_steady(each)) for each in filters] == [("Quota", True), ("Queue", True), ("Spread", False)]
