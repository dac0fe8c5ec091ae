import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.preempt import MAX_VICTIMS
from modelplane.placement.preempted import preempted
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    place,
    pool,
    product_is,
    replica,
    request,
)

PRIORITIES = (("gold", 100), ("silver", 10))
PRIZED = cluster("a", priorities=PRIORITIES)
SERVING = {"serving": True, "created": "2026-01-01T00:00:00Z"}
WHOLE = engine(request(8))


def gold(*engines, **fields):
    return place(1, *(engines or (WHOLE,)), priority="gold", may_preempt=True, **fields)


def victims(decided):
    return [(victim.deployment.name, victim.index) for victim in decided.preemption.victims]


def test_those_whose_leaving_does_not_help_are_spared():
    """The least important one is on a pool that is too small, so it would leave for nothing."""
    small = pool("small", 1, hardware(kind(count=1)))
    fleet = Fleet.of(
        [cluster("a", small, pool("h200", 1), priorities=PRIORITIES)],
        [
            replica("a", 0, assignment("small"), name="least", **SERVING),
            replica("a", 0, assignment("h200", claim(8)), name="low", priority="silver", **SERVING),
        ],
    )
    assert victims(schedule(gold(), fleet)) == [("low", 0)]


def test_the_youngest_of_equal_priority_goes():
    held = [
        replica("a", i, assignment("h200", claim(8)), name="low", serving=True, created=f"2026-01-0{day}T00:00:00Z")
        for i, day in enumerate((2, 3, 1))
    ]
    fleet = Fleet.of([cluster("a", pool(nodes=3), priorities=PRIORITIES)], held)
    assert victims(schedule(gold(), fleet)) == [("low", 1)]
    unknown = fleet.with_replicas([msgspec.structs.replace(held[0], created="")])
    assert victims(schedule(gold(), unknown)) == [("low", 0)]


def test_room_is_made_for_all_engines_of_a_replica():
    fleet = Fleet.of(
        [cluster("a", pool("one", 1), pool("two", 1), priorities=PRIORITIES)],
        [replica("a", i, assignment(name, claim(8)), name="low", **SERVING) for i, name in enumerate(("one", "two"))],
    )
    asked = gold(engine(request(8), name="decode"), engine(request(8), name="prefill"))
    first = schedule(asked, fleet)
    assert victims(first) == [("low", 1), ("low", 0)]
    told = msgspec.structs.replace(asked, nominated_victims=frozenset(first.preemption.digests))
    (placed,) = schedule(told, fleet).placements
    assert [s.pool for s in placed.replica.assignments] == ["one", "two"]


def test_each_engine_gets_its_own_pool_when_room_is_made():
    pools = [pool(name, 1, hardware(kind(product=name))) for name in ("one", "two")]
    low = replica("a", 0, assignment("one", claim(8)), name="low", **SERVING)
    fleet = Fleet.of([cluster("a", *pools, priorities=PRIORITIES)], [low])
    asked = gold(*(engine(request(8, product_is(name)), name=f"on-{name}") for name in ("two", "one")))
    told = msgspec.structs.replace(asked, nominated_victims=frozenset({low.digest}))
    (placed,) = schedule(told, fleet).placements
    assert [(s.engine, s.pool) for s in placed.replica.assignments] == [("on-two", "two"), ("on-one", "one")]


def test_the_cluster_whose_victims_matter_least_is_taken():
    fleet = Fleet.of(
        [cluster(name, pool(nodes=1), priorities=PRIORITIES) for name in ("a", "b")],
        [
            replica("a", 0, assignment("h200", claim(8)), name="low", priority="silver", **SERVING),
            replica("b", 0, assignment("h200", claim(8)), name="least", **SERVING),
        ],
    )
    assert victims(schedule(gold(), fleet)) == [("least", 0)]


def test_fewer_victims_are_better_where_they_matter_as_much():
    """Cluster b holds one that matters less, whose leaving does not help, and two that have to leave together."""
    small = pool("small", 1, hardware(kind(count=1)))
    low = {"name": "low", "priority": "silver", **SERVING}
    fleet = Fleet.of(
        [
            cluster("a", pool(nodes=1), priorities=PRIORITIES),
            cluster("b", small, pool(nodes=1), priorities=PRIORITIES),
        ],
        [
            replica("a", 0, assignment("h200", claim(8)), **low),
            replica("b", 0, assignment("small"), name="least", **SERVING),
            *(replica("b", at, assignment("h200", claim(4)), **low) for at in (1, 2)),
        ],
    )
    found = schedule(gold(), fleet)
    assert (found.preemption.cluster, victims(found)) == ("a", [("low", 0)])


def test_a_cluster_that_holds_important_replicas_beside_may_have_the_least_important_victim():
    """Nothing on cluster a matters as much as what stays on b, and its victim matters more than that of b."""
    ranks = ("gold", 100), ("silver", 10), ("iron", 1)
    whole = assignment("h200", claim(8))
    fleet = Fleet.of(
        [cluster("a", pool(nodes=1), priorities=ranks), cluster("b", pool(nodes=2), priorities=ranks)],
        [
            replica("a", 0, whole, name="low", priority="silver", **SERVING),
            replica("b", 0, whole, name="high", priority="gold", **SERVING),
            replica("b", 0, whole, name="least", priority="iron", **SERVING),
        ],
    )
    assert victims(schedule(gold(), fleet)) == [("least", 0)]


def test_of_evictions_that_do_as_much_harm_the_one_on_the_first_cluster_is_taken():
    """Cluster b holds one that matters less, whose leaving does not help."""
    low = {"name": "low", "priority": "silver", **SERVING}
    small = pool("small", 1, hardware(kind(count=1)))
    fleet = Fleet.of(
        [
            cluster("a", pool(nodes=1), priorities=PRIORITIES),
            cluster("b", small, pool(nodes=1), priorities=PRIORITIES),
        ],
        [
            replica("a", 0, assignment("h200", claim(8)), **low),
            replica("b", 0, assignment("small"), name="least", **SERVING),
            replica("b", 1, assignment("h200", claim(8)), **low),
        ],
    )
    assert victims(schedule(gold(), fleet)) == [("low", 0)]


def test_the_highest_of_several_victims_counts():
    """One of the two that would leave cluster a matters as much as the one of cluster b."""
    low = {"name": "low", "priority": "silver", **SERVING}
    fleet = Fleet.of(
        [cluster(name, pool(nodes=1), priorities=PRIORITIES) for name in ("a", "b")],
        [
            replica("a", 0, assignment("h200", claim(4)), name="least", **SERVING),
            replica("a", 0, assignment("h200", claim(4)), **low),
            replica("b", 1, assignment("h200", claim(8)), **low),
        ],
    )
    assert victims(schedule(gold(), fleet)) == [("low", 1)]


def test_nobody_is_evicted_from_a_cluster_that_is_not_listed():
    held = [replica(name, 0, assignment("h200", claim(8)), name="low", **SERVING) for name in ("gone", "here")]
    found = schedule(gold(), Fleet.of([cluster("here", pool(nodes=1), priorities=PRIORITIES)], held)).preemption
    assert (found.cluster, found.victims) == ("here", (held[1],))


def test_the_first_pool_with_room_is_taken():
    both = (assignment("one", claim(8), engine_name="x"), assignment("two", claim(16), engine_name="y"))
    low = replica("a", 0, *both, name="low", **SERVING)
    pools = pool("one", 1), pool("two", 1, hardware(kind(count=16)))
    fleet = Fleet.of([cluster("a", *pools, priorities=PRIORITIES)], [low])
    (placed,) = schedule(gold(nominated_victims=frozenset({low.digest})), fleet).placements
    assert placed.replica.assignments == (assignment("one", claim(8)),)


def test_nobody_is_evicted_where_the_replica_may_not_go_or_would_not_fit():
    low = [replica("a", 0, assignment("h200", claim(8)), name="low", **SERVING)]
    cordoned = cluster("a", pool(nodes=1), priorities=PRIORITIES, cordoned=True)
    assert schedule(gold(), Fleet.of([cordoned], low)).preemption is None
    tiny = cluster("a", pool(nodes=1), priorities=PRIORITIES)
    assert schedule(gold(engine(request(8), nodes=2)), Fleet.of([tiny], low)).preemption is None
    limited = cluster("a", pool(nodes=1), priorities=PRIORITIES, quotas=(("team", 4),))
    assert schedule(gold(), Fleet.of([limited], low)).preemption is None


def test_nobody_is_evicted_for_a_deployment_that_does_not_ask_for_it():
    low = replica("a", 0, assignment("h200", claim(8)), name="low", priority="silver", **SERVING)
    fleet = Fleet.of([cluster("a", pool(nodes=1), priorities=PRIORITIES)], [low])
    decided = schedule(place(1, WHOLE, priority="gold"), fleet)
    assert (decided.pending, decided.preemption) == (1, None)


def test_an_eviction_is_forgotten_once_its_victims_are_gone():
    fleet = Fleet.of([cluster("a", pool(nodes=1), priorities=PRIORITIES)])
    low = replica("a", 0, assignment("h200", claim(8)), name="low", **SERVING)
    winner = replica("a", 0, assignment("h200", claim(8)), priority="gold", preempts=(low.digest,), **SERVING)
    both = fleet.with_replicas([low, winner])
    (kept,) = schedule(gold(), both).placements
    assert (kept.decision, kept.replica.preempts) == (ReplicaDecision.KEPT, (low.digest,))
    (alone,) = schedule(gold(), both.with_replicas(removed=[low.id])).placements
    assert alone.replica.preempts == ()


def test_nobody_is_preempted_once_the_one_that_did_is_gone():
    low = replica("a", 0, assignment("h200", claim(8)), name="low", **SERVING)
    winner = replica("a", 0, assignment("h200", claim(8)), priority="gold", preempts=(low.digest,), **SERVING)
    info = make_cluster_info(cluster("a", pool(nodes=1), priorities=PRIORITIES), [low, winner])
    assert (preempted(info), preempted(info.with_replicas(removed=[winner.id]))) == ({low.id}, set())
    assert preempted(make_cluster_info(None, [low]).with_replicas([winner])) == set()


def test_one_that_several_name_is_preempted_where_one_of_them_may():
    named = replica("a", 0, name="low", priority="silver", **SERVING)
    winner = replica("a", 0, priority="gold", preempts=(named.digest,), **SERVING)
    upstart = replica("a", 1, preempts=(named.digest,), **SERVING)
    assert preempted(make_cluster_info(PRIZED, [named, winner, upstart])) == {named.id}


def test_naming_a_victim_of_higher_priority_or_a_protected_one_evicts_nobody():
    """What a replica says of others is not believed beyond what it may do."""
    for fields in ({"priority": "gold"}, {"protected": True}):
        named = replica("a", 0, name="other", **SERVING, **fields)
        upstart = replica("a", 0, priority="silver", preempts=(named.digest,), **SERVING)
        fleet = Fleet.of([cluster("a", priorities=PRIORITIES)], [named, upstart])
        decided = schedule(place(1, name="other", **fields), fleet)
        assert decided.dropped == ()


def test_a_successor_in_the_same_place_is_not_hit_by_an_old_eviction():
    old = replica("a", 0, name="low", **SERVING)
    winner = replica("a", 0, priority="gold", preempts=(old.digest,), **SERVING)
    again = msgspec.structs.replace(old, created="2026-02-02T00:00:00Z")
    fleet = Fleet.of([cluster("a", priorities=PRIORITIES)], [again, winner])
    assert schedule(place(1, name="low"), fleet).dropped == ()


def test_digests_do_not_tell_whose_replica_it_is():
    digest = replica("a", 0, name="secret-model", namespace="secret-team").digest
    assert "secret" not in digest
    assert digest != replica("a", 1, name="secret-model", namespace="secret-team").digest


def singles(number):
    return [
        replica("a", at, assignment("h"), name="low", **{**SERVING, "created": "2026-05-05T00:00:00Z"})
        for at in range(number)
    ]


@pytest.mark.parametrize("elsewhere", [60, 70, 700])
def test_a_victim_is_found_however_many_replicas_are_elsewhere_on_the_cluster(elsewhere):
    """The older one on pool z is last in the order of candidates, and the only one whose leaving helps."""
    shared = pool("h", 1 + elsewhere // 8)
    single = pool("z", 1, hardware(kind(count=1, product="Z")))
    on_z = replica("a", 0, assignment("z"), name="old", **SERVING)
    fleet = Fleet.of([cluster("a", shared, single, priorities=PRIORITIES)], [*singles(elsewhere), on_z])
    assert victims(schedule(gold(engine(request(1, product_is("Z")))), fleet)) == [("old", 0)]


@pytest.mark.parametrize(("nodes", "evicted"), [(9, 72), (MAX_VICTIMS // 8, MAX_VICTIMS), (MAX_VICTIMS // 8 + 1, None)])
def test_as_many_leave_as_a_status_can_name(nodes, evicted):
    fleet = Fleet.of([cluster("a", pool("h", nodes), priorities=PRIORITIES)], singles(nodes * 8))
    found = schedule(gold(engine(request(8), nodes=nodes)), fleet).preemption
    assert (found and len(found.victims)) == evicted


held_pods = st.lists(
    st.tuples(st.sampled_from(["h", "z"]), st.integers(1, 4), st.sampled_from([None, "silver"]), st.integers(1, 9)),
    max_size=9,
)


@given(held_pods, st.integers(1, 8), st.integers(1, 2))
def test_victims_are_those_of_trying_one_candidate_after_the_other(held, count, nodes):
    """And none of them could have stayed."""
    low = [
        replica("a", at, assignment(name, claim(size)), name="low", priority=rank, created=f"2026-01-0{day}T00:00:00Z")
        for at, (name, size, rank, day) in enumerate(held)
    ]
    fleet = Fleet.of([cluster("a", pool("h", 2), pool("z", 1), priorities=PRIORITIES)], low)
    asked = gold(engine(request(count), nodes=nodes))
    found = schedule(asked, fleet)
    expected = one_by_one(asked, fleet, low)
    assert (found.preemption and sorted(v.id for v in found.preemption.victims)) == expected


def one_by_one(asked, fleet, low):
    """Candidates leave one at a time, then come back one at a time."""

    def fits(gone):
        without = fleet.with_replicas(removed=[found.id for found in gone])
        return not schedule(msgspec.structs.replace(asked, may_preempt=False), without).pending

    ordered = sorted(low, key=lambda found: (found.created, found.id), reverse=True)
    ordered = sorted(ordered, key=lambda found: found.priority == "silver")
    first = next((count for count in range(len(ordered) + 1) if fits(ordered[:count])), None)
    if not first:
        return None
    gone = ordered[:first]
    for found in reversed(ordered[:first]):
        rest = [other for other in gone if other is not found]
        gone = rest if fits(rest) else gone
    return sorted(found.id for found in gone)
