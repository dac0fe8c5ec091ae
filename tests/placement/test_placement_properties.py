"""What holds of every schedule, on fleets made up at random."""

from collections import Counter

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from modelplane.framework import Weighted
from modelplane.placement.decisions import DropReason, ReplicaDecision
from modelplane.placement.matching import Unmatched, engine_allocations
from modelplane.placement.offers import first_fit
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.pool_usage import fits
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.repair import is_oversubscribed, resolve_conflicts
from modelplane.placement.request import CacheRequest, SpreadRule
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateVerdict
from modelplane.placement.values import CacheInfo, QueueInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    key,
    kind,
    labelled,
    place,
    pool,
    product_is,
    replica,
    request,
    taint,
)

KINDS = (
    hardware(kind(count=8, product="H200")),
    hardware(kind(count=4, product="H100")),
    hardware(kind("gpu", 2, product="H200"), kind("old", 2, product="H100")),
    hardware(kind("gpu", 4, product="H200"), kind("fabric", 1, product="fabric", device_class=None)),
)
REGIONS = ("east", "west", "north")
PRIORITIES = (("gold", 100), ("silver", 10))
heavy = settings(max_examples=50)
names = st.sampled_from(["a", "b", "c", "d", "e"])


@st.composite
def pools(draw):
    count = draw(st.integers(1, 3))
    return tuple(
        pool(
            f"p{at}",
            draw(st.integers(0, 3)),
            draw(st.sampled_from(KINDS)),
            price=draw(st.sampled_from([None, 10.0, 30.0])),
            taints=draw(st.sampled_from([(), (), (taint("team"),)])),
        )
        for at in range(count)
    )


@st.composite
def clusters(draw, *, calm=False):
    found = []
    for name in sorted(draw(st.sets(names, min_size=1, max_size=4))):
        made = cluster(name, *draw(pools()), labels={"region": draw(st.sampled_from(REGIONS))}, priorities=PRIORITIES)
        if not calm:
            made = msgspec.structs.replace(
                made,
                ready=draw(st.sampled_from([True, True, False])),
                cordoned=draw(st.sampled_from([False, False, True])),
                quotas=draw(st.sampled_from([(), (("team", 6),), (("*", 9),)])),
                queue=draw(st.sampled_from([None, None, QueueInfo("q", 12, 4)])),
                pools=tuple(
                    msgspec.structs.replace(p, held_by_others=draw(st.sampled_from([(), (), (("gpu", 3),)])))
                    for p in made.pools
                ),
            )
        found.append(made)
    return found


requests = st.builds(
    lambda count, product: request(count, *([product_is(product)] if product else [])),
    st.integers(1, 4),
    st.sampled_from([None, None, "H200", "H100"]),
)
few = st.integers(1, 2)
engines = st.builds(lambda wanted, nodes, copies: engine(wanted, nodes=nodes, copies=copies), requests, few, few)


@st.composite
def asks(draw, *, name="chat", namespace="team", single=False):
    several = not single and draw(st.booleans())
    wanted = [draw(engines)]
    if several:
        wanted.append(engine(draw(requests), name="prefill"))
    return place(
        draw(st.integers(0, 6)),
        *wanted,
        name=name,
        namespace=namespace,
        priority=draw(st.sampled_from([None, "gold", "silver"])),
        cluster_selector=draw(st.sampled_from([None, None, labelled(region="east")])),
    )


@st.composite
def others(draw, fleet_clusters):
    """Replicas of other deployments, put where there are pools; the fleet may be oversubscribed by them."""
    found = []
    for at in range(draw(st.integers(0, 6))):
        where = draw(st.sampled_from(fleet_clusters))
        found.append(
            replica(
                where.name,
                at,
                assignment(draw(st.sampled_from(where.pools)).name, claim(draw(st.integers(1, 4)))),
                name=draw(st.sampled_from(["x", "y"])),
                namespace=draw(st.sampled_from(["team", "rivals"])),
                serving=draw(st.booleans()),
                created=draw(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])),
                priority=draw(st.sampled_from([None, "gold", "silver"])),
                protected=draw(st.booleans()),
            )
        )
    return found


@st.composite
def worlds(draw, *, calm=False, single=False):
    found = draw(clusters(calm=calm))
    return draw(asks(single=single)), found, draw(others(found))


def value(decided):
    return decided.placements, decided.dropped, decided.pending, decided.trace.candidates(), decided.preemption


def applied(fleet, decided, asked, **changes):
    """The fleet once the schedule is in force."""
    wanted = [msgspec.structs.replace(p.replica, **changes) for p in decided.placements]
    gone = [held.id for held in fleet.owned_by(asked.deployment)]
    return fleet.with_replicas(wanted, gone)


@pytest.mark.slow
@heavy
@given(worlds(), st.randoms(use_true_random=False))
def test_equal_inputs_in_any_order_give_equal_schedules(world, random):
    asked, found, held = world
    first = schedule(asked, Fleet.of(found, held))
    random.shuffle(found)
    random.shuffle(held)
    again = [msgspec.structs.replace(c, pools=tuple(random.sample(c.pools, len(c.pools)))) for c in found]
    assert value(schedule(asked, Fleet.of(again, held))) == value(first)


@pytest.mark.slow
@given(worlds())
def test_nothing_is_promised_twice(world):
    asked, found, held = world
    before = Fleet.of(found, held)
    after = applied(before, schedule(asked, before), asked)
    for name, info in after.infos.items():
        was = before.infos[name]
        for kind_, use, before_use in zip(info.kinds, info.usages, was.usages, strict=True):
            assert use == before_use or fits(kind_.counts, kind_.nodes, use, packed=kind_.packed)


@pytest.mark.slow
@given(worlds())
def test_no_quota_is_exceeded_by_what_is_placed(world):
    asked, found, held = world
    before = Fleet.of(found, held)
    after = applied(before, schedule(asked, before), asked)
    for name, info in after.infos.items():
        if info.held != before.infos[name].held:
            left = info.profile.quota_left("team")
            assert left is None or left[0] >= 0


@pytest.mark.slow
@given(worlds())
def test_a_schedule_in_force_is_its_own_answer(world):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    decided = schedule(asked, fleet)
    fleet = applied(fleet, decided, asked, serving=True, created="2026-03-01T00:00:00Z")
    again = schedule(asked, fleet)
    assert [p.replica.id for p in again.placements] == [p.replica.id for p in decided.placements]
    assert all(p.decision is ReplicaDecision.KEPT for p in again.placements)
    assert again.dropped == ()


@pytest.mark.slow
@given(worlds())
def test_no_more_is_placed_than_asked_for_and_the_rest_is_pending(world):
    asked, found, held = world
    decided = schedule(asked, Fleet.of(found, held))
    assert len(decided.placements) + decided.pending == asked.replicas
    assert decided.dropped == ()


@pytest.mark.slow
@given(worlds())
def test_every_replica_has_a_place_of_its_own_and_the_lowest_indexes(world):
    asked, found, held = world
    decided = schedule(asked, Fleet.of(found, held))
    for name in {p.replica.cluster for p in decided.placements}:
        indexes = sorted(p.replica.index for p in decided.placements if p.replica.cluster == name)
        assert indexes == list(range(len(indexes)))


@pytest.mark.slow
@given(worlds())
def test_engines_of_a_replica_are_on_pools_of_its_cluster_that_match(world):
    asked, found, held = world
    for placement in schedule(asked, Fleet.of(found, held)).placements:
        (where,) = [c for c in found if c.name == placement.replica.cluster]
        assert where.ready
        assert not where.cordoned
        for wanted, sat in zip(asked.engines, placement.replica.assignments, strict=True):
            assert not isinstance(engine_allocations(wanted, where.pool(sat.pool).hardware), Unmatched)
            assert not where.pool(sat.pool).taints


@heavy
@given(worlds(calm=True, single=True))
def test_as_many_are_placed_as_the_fleet_can_take(world):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    room = 0
    for info in fleet.infos.values():
        if asked.cluster_selector is not None and info.cluster.labels["region"] != "east":
            continue
        for kind_, first_use in zip(info.kinds, info.usages, strict=True):
            use = first_use
            while room < 50 and not kind_.taints and (fit := first_fit(asked.engines[0], kind_, use)) is not None:
                use, room = fit.after, room + 1
    assert len(schedule(asked, fleet).placements) == min(asked.replicas, room)


@heavy
@given(worlds(calm=True))
def test_a_cluster_has_two_more_than_another_only_where_that_one_is_full(world):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    decided = schedule(asked, fleet)
    load = Counter(p.replica.cluster for p in decided.placements)
    full = applied(fleet, decided, asked)
    other = msgspec.structs.replace(asked, deployment=key("another"), replicas=1)
    for where in found:
        if load[where.name] + 1 < max(load.values(), default=0):
            alone = full
            for name in [c.name for c in found if c is not where]:
                alone = alone.without_cluster(name)
            assert schedule(other, alone).pending == 1


@heavy
@given(worlds(calm=True, single=True), pools())
def test_more_capacity_never_places_less(world, more):
    asked, found, held = world
    before = schedule(asked, Fleet.of(found, held))
    wider = [*found, cluster("zz", *more, labels={"region": "east"})]
    deeper = [
        msgspec.structs.replace(c, pools=tuple(msgspec.structs.replace(p, nodes=p.nodes + 1) for p in c.pools))
        for c in found
    ]
    for grown in (wider, deeper):
        assert len(schedule(asked, Fleet.of(grown, held)).placements) >= len(before.placements)


@heavy
@given(worlds(), pools())
def test_a_new_cluster_moves_no_healthy_replica(world, more):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    fleet = applied(fleet, schedule(asked, fleet), asked, serving=True, created="2026-03-01T00:00:00Z")
    mine = {found.id for found in fleet.owned_by(asked.deployment)}
    after = schedule(asked, fleet.with_cluster(cluster("0", *more, labels={"region": "east"})))
    assert mine <= {p.replica.id for p in after.placements}


@pytest.mark.slow
@heavy
@given(worlds(), st.integers(0, 6))
def test_scaling_down_takes_from_the_fullest_cluster(world, fewer):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    fleet = applied(fleet, schedule(asked, fleet), asked, serving=True, created="2026-03-01T00:00:00Z")
    assume(fewer < asked.replicas)
    after = schedule(msgspec.structs.replace(asked, replicas=fewer), fleet)
    loads = {}
    for placement in after.placements:
        loads[placement.replica.cluster] = loads.get(placement.replica.cluster, 0) + 1
    emptied = {d.replica.cluster for d in after.dropped} - loads.keys()
    assert not emptied or max(loads.values(), default=0) <= 1
    for dropped in after.dropped:
        kept = [p.replica.index for p in after.placements if p.replica.cluster == dropped.replica.cluster]
        assert dropped.replica.index > max(kept, default=-1)


@pytest.mark.slow
@given(clusters(calm=True), st.integers(1, 8), st.integers(1, 3))
def test_replicas_stay_within_the_skew_that_is_allowed(found, replicas, skew):
    asked = place(replicas, spread=(SpreadRule("region", skew),))
    decided = schedule(asked, Fleet.of(found))
    able = {c.labels["region"] for c in found if any(p.nodes and not p.taints for p in c.pools)}
    counts = dict.fromkeys(able, 0)
    where = {c.name: c.labels["region"] for c in found}
    for placement in decided.placements:
        counts[where[placement.replica.cluster]] += 1
    assert not counts or max(counts.values()) - min(counts.values()) <= skew


@pytest.mark.slow
@heavy
@given(worlds())
def test_the_trace_covers_every_candidate(world):
    asked, found, held = world
    found = [*found, cluster("bare", pools=()), cluster("broken", pools=(), fault="status: not an object")]
    decided = survey(asked, Fleet.of(found, held))
    told = {(c.cluster, c.pool) for c in decided.trace.candidates()}
    for each in found:
        assert (each.name, None) in told or (each.pools and all((each.name, p.name) in told for p in each.pools))


@pytest.mark.slow
@given(worlds())
def test_whatever_is_refused_names_its_rule_and_reason(world):
    asked, found, held = world
    for candidate in survey(asked, Fleet.of(found, held)).trace.candidates():
        assert (candidate.verdict is CandidateVerdict.REFUSED) is bool(candidate.filter)
        assert candidate.verdict is not CandidateVerdict.REFUSED or candidate.reason


@heavy
@given(worlds())
def test_every_score_lies_between_0_and_1(world):
    asked, found, held = world
    for candidate in survey(asked, Fleet.of(found, held)).trace.candidates():
        if candidate.score is not None:
            assert 0.0 <= candidate.score <= 1.0
            assert all(0.0 <= part <= 1.0 for _, part in candidate.parts)


@pytest.mark.slow
@given(worlds(single=True))
def test_while_a_replica_waits_no_place_is_eligible(world):
    asked, found, held = world
    decided = schedule(asked, Fleet.of(found, held))
    if decided.pending:
        assert all(c.verdict is not CandidateVerdict.ELIGIBLE for c in decided.trace.candidates())


@pytest.mark.slow
@given(worlds(), st.integers(1, 12))
def test_the_trace_of_a_status_is_bounded_and_says_what_it_leaves_out(world, limit):
    asked, found, held = world
    trace = survey(asked, Fleet.of(found, held)).trace
    shown, omitted = trace.shown(limit)
    assert len(shown) <= limit
    assert omitted == max(trace.total - len(shown), 0)


@pytest.mark.slow
@given(worlds())
def test_a_deployment_of_the_same_name_elsewhere_changes_nothing_but_the_room(world):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    twin = msgspec.structs.replace(asked, deployment=place(name="chat", namespace="elsewhere").deployment)
    fleet = applied(fleet, schedule(twin, fleet), twin, serving=True, created="2026-03-01T00:00:00Z")
    decided = schedule(asked, fleet)
    assert all(
        p.decision is ReplicaDecision.NEW and p.replica.deployment == asked.deployment for p in decided.placements
    )
    assert decided.dropped == ()


@pytest.mark.slow
@given(worlds())
def test_those_who_give_way_do_not_serve_and_leave_nothing_promised_twice(world):
    _, found, held = world
    for info in Fleet.of(found, held).infos.values():
        losers = resolve_conflicts(info)
        assert not any(info.held[loser].serving for loser in losers)
        left = info.with_replicas(removed=losers)
        if not any(h.serving for h in info.held.values()):
            assert not is_oversubscribed(left)
        assert resolve_conflicts(left) == frozenset()


@pytest.mark.slow
@given(worlds())
def test_all_observers_name_the_same_losers(world):
    _, found, held = world
    fleet = Fleet.of(found, held)
    named = set()
    for owner in {h.deployment for h in held}:
        mine = [h for h in held if h.deployment == owner]
        wanted = place(len(mine), engine(request(1)), name=owner.name, namespace=owner.namespace)
        decided = schedule(wanted, fleet)
        named |= {d.replica.id for d in decided.dropped if d.reason is DropReason.OVERSUBSCRIBED}
    assert named == {loser for info in fleet.infos.values() for loser in resolve_conflicts(info)}


@pytest.mark.slow
@given(worlds())
def test_preemption_takes_only_from_those_below_and_never_from_the_protected(world):
    asked, found, held = world
    asked = msgspec.structs.replace(asked, priority="gold", may_preempt=True)
    preemption = schedule(asked, Fleet.of(found, held)).preemption
    if preemption is not None:
        values = dict(PRIORITIES)
        assert preemption.victims
        assert all(values.get(v.priority, 0) < values["gold"] and not v.protected for v in preemption.victims)
        assert all(v.cluster == preemption.cluster for v in preemption.victims)


@st.composite
def crowded(draw):
    """A cluster that low priorities fill, and one who asks for more than is left."""
    nodes = draw(st.integers(1, 3))
    full = Fleet.of([cluster("a", pool("p0", nodes, KINDS[0]), priorities=PRIORITIES)])
    for name in ("x", "y"):
        low = place(9, engine(request(draw(st.sampled_from([1, 2, 4, 8])))), name=name, priority="silver")
        full = applied(full, schedule(low, full), low, serving=draw(st.booleans()), created="2026-01-01T00:00:00Z")
    wanted = engine(request(draw(st.sampled_from([4, 8]))), nodes=draw(st.integers(1, nodes)))
    return place(1, wanted, priority="gold", may_preempt=True), full


@given(crowded())
def test_an_announced_eviction_makes_exactly_the_room_that_is_needed(world):
    asked, fleet = world
    first = schedule(asked, fleet)
    if first.preemption is None:
        assert not first.pending
        return
    victims = [victim.id for victim in first.preemption.victims]
    told = msgspec.structs.replace(asked, nominated_victims=frozenset(first.preemption.digests))
    second = schedule(told, fleet)
    assert (first.pending, second.pending) == (1, 0)
    after = applied(fleet, second, told)
    assert not is_oversubscribed(after.with_replicas(removed=victims).infos["a"])
    assert all(is_oversubscribed(after.with_replicas(removed=set(victims) - {v}).infos["a"]) for v in victims)


@given(crowded())
def test_the_evicted_leave_and_nobody_else_does(world):
    asked, fleet = world
    first = schedule(asked, fleet)
    if first.preemption is None:
        return
    told = msgspec.structs.replace(asked, nominated_victims=frozenset(first.preemption.digests))
    after = applied(fleet, schedule(told, fleet), told)
    left = set()
    for name in ("x", "y"):
        low = place(len(fleet.owned_by(place(name=name).deployment)), engine(), name=name, priority="silver")
        mine = msgspec.structs.replace(low, engines=_engines_of(fleet, low))
        left |= {d.replica.id for d in schedule(mine, after).dropped}
    assert left == {victim.id for victim in first.preemption.victims}


def _engines_of(fleet, asked):
    """What the replicas of a deployment were asked for."""
    for held in fleet.owned_by(asked.deployment):
        return (engine(request(held.assignments[0].members[0].claims[0].count)),)
    return asked.engines


@st.composite
def steps(draw):
    found = draw(clusters())
    held = draw(others(found))
    moves = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("cluster"), clusters().map(lambda many: many[0])),
                st.tuples(st.just("gone"), names),
                st.tuples(st.just("add"), st.sampled_from(held)) if held else st.nothing(),
                st.tuples(st.just("remove"), st.sampled_from(held)) if held else st.nothing(),
            ),
            max_size=6,
        )
    )
    return found, held, moves


@pytest.mark.slow
@heavy
@given(steps(), asks())
def test_a_fleet_kept_by_updates_is_the_fleet_built_anew(history, asked):
    found, held, moves = history
    known, replicas = {c.name: c for c in found}, {h.id: h for h in held}
    fleet = Fleet.of(found, held)
    schedule(asked, fleet)  # so that splits exist, which updates must keep right
    for move, thing in moves:
        if move == "cluster":
            known[thing.name] = thing
            fleet = fleet.with_cluster(thing)
        elif move == "gone":
            known.pop(thing, None)
            fleet = fleet.without_cluster(thing)
        elif move == "add":
            replicas[thing.id] = thing
            fleet = fleet.with_replicas([thing])
        else:
            replicas.pop(thing.id, None)
            fleet = fleet.with_replicas(removed=[thing.id])
    anew = Fleet.of(known.values(), replicas.values())
    assert {key: cell.places for key, cell in fleet.equivalence_classes.items()} == {
        k: c.places for k, c in anew.equivalence_classes.items()
    }
    assert list(fleet.replicas) == list(anew.replicas)
    assert list(fleet.clusters) == list(anew.clusters)
    assert value(schedule(asked, fleet)) == value(schedule(asked, anew))


@pytest.mark.slow
@given(clusters(calm=True), st.sets(names), st.integers(1, 4))
def test_replicas_go_only_where_a_required_cache_reaches(found, staged, replicas):
    cache = CacheInfo(namespace="team", name="weights", staged=frozenset(staged), selector=labelled(region="east"))
    asked = place(replicas, caches=(CacheRequest("weights"),))
    regions = {c.name: c.labels["region"] for c in found}
    for placement in schedule(asked, Fleet.of(found, (), [cache])).placements:
        name = placement.replica.cluster
        assert name in staged or regions[name] == "east"


class Restless:
    """A plugin that does not say that it is steady, and so is asked again about everything."""

    def __init__(self, plugin):
        self._plugin = plugin
        self.name = plugin.name
        for method in ("score", "refuse", "applies", "reads", "evenly"):
            if hasattr(plugin, method):
                setattr(self, method, getattr(plugin, method))


RESTLESS = PlacementProfile(
    DEFAULT_PROFILE.name,
    DEFAULT_PROFILE.picker,
    DEFAULT_PROFILE.cluster_filters,
    DEFAULT_PROFILE.pool_filters,
    tuple(Restless(plugin) for plugin in DEFAULT_PROFILE.offer_filters),
    tuple(Weighted(Restless(known.scorer), known.weight) for known in DEFAULT_PROFILE.scorers),
    DEFAULT_PROFILE.readers,
)


@pytest.mark.slow
@heavy
@given(worlds(), st.sampled_from([(), (SpreadRule("region", 1),), (SpreadRule("region", 2, hard=False),)]))
def test_asking_plugins_again_about_everything_gives_the_same_places(world, spread):
    asked, found, held = world
    asked, fleet = msgspec.structs.replace(asked, spread=spread), Fleet.of(found, held)
    usual, restless = schedule(asked, fleet), schedule(asked, fleet, profile=RESTLESS)
    assert [p.replica for p in usual.placements] == [p.replica for p in restless.placements]
    assert usual.pending == restless.pending


@pytest.mark.slow
@heavy
@given(worlds(), clusters(), st.integers(0, 6), st.data())
def test_replicas_that_were_seated_alike_fare_as_if_each_were_looked_at_by_itself(world, changed, replicas, data):
    asked, found, held = world
    fleet = Fleet.of(found, held)
    fleet = applied(fleet, schedule(asked, fleet), asked, created="2026-03-01T00:00:00Z")
    for other in changed:
        fleet = fleet.with_cluster(other)
    mine = [msgspec.structs.replace(h, serving=data.draw(st.booleans())) for h in fleet.owned_by(asked.deployment)]
    apart = [
        msgspec.structs.replace(h, assignments=tuple(msgspec.structs.replace(s) for s in h.assignments)) for h in mine
    ]
    asked = msgspec.structs.replace(asked, replicas=replicas)
    alike = schedule(asked, fleet.with_replicas(mine), 1e12)
    assert value(schedule(asked, fleet.with_replicas(apart), 1e12)) == value(alike)


class Refuses:
    """Refuses clusters by name, which is their description."""

    def __init__(self, refused):
        self.refused = {name.encode() for name in refused}

    def refuse(self, rendering, _artifacts, /):
        return "cannot run it" if rendering in self.refused else None


@pytest.mark.slow
@heavy
@given(worlds(calm=True) | worlds(), st.sets(names), st.booleans())
@example(world=(place(1, engine(request(1))), [cluster("a", pool("p", 1))], []), refused={"a"}, serves=False)
def test_nothing_is_placed_where_it_cannot_run_and_nothing_that_serves_is_lost_for_that(world, refused, serves):
    asked, found, held = world
    described = [msgspec.structs.replace(one, rendering=one.name.encode()) for one in found]
    before = schedule(asked, Fleet.of(described, held), 10.0)
    fleet = applied(Fleet.of(described, held), before, asked, serving=serves, created="2026-01-01T00:00:00Z")
    checked = msgspec.structs.replace(asked, check=Refuses(refused))
    decided = schedule(checked, fleet, 10.0)
    first = schedule(checked, Fleet.of(described, held), 10.0)
    placed = (one for each in (first, decided) for one in each.placements if one.decision is ReplicaDecision.NEW)
    assert {one.replica.cluster for one in placed} & refused == set()
    gone = {one.replica.id for one in decided.dropped}
    left = [one for one in fleet.owned_by(asked.deployment) if one.serving and one.id not in gone]
    assert len(left) >= min(sum(one.serving for one in fleet.owned_by(asked.deployment)), asked.replicas) - 1
