"""Everything at once: writers with views that are out of date, while nodes go, clusters fail and deployments change.

Whatever one of them decides on its view promises nothing twice and leaves alone what is well; and when the storm is
over all of them come to rest, with nobody left who should give way.
"""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.labels import selects
from modelplane.placement.decisions import DropReason, ReplicaDecision
from modelplane.placement.pool_usage import fits
from modelplane.placement.repair import resolve_conflicts
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Packing, QueueInfo
from modelplane.testing.fleets import (
    cluster,
    engine,
    hardware,
    kind,
    labelled,
    place,
    pool,
    product_is,
    request,
    taint,
)

KINDS = (
    hardware(kind(count=8)),
    hardware(kind(count=4, product="H100")),
    hardware(kind("gpu", 2), kind("old", 2, product="H100")),
)
MAX_ROUNDS = 40
but = msgspec.structs.replace


def any_cluster(random, name):
    pools = [
        but(
            pool(f"p{at}", random.randint(1, 3), random.choice(KINDS), price=random.choice([None, 10.0])),
            held_by_others=random.choice([(), (), (("gpu", 2),)]),
        )
        for at in range(random.randint(1, 2))
    ]
    return cluster(
        name,
        *pools,
        labels={"region": random.choice("ew")},
        priorities=(("gold", 100), ("silver", 10)),
        quotas=random.choice([(), (), (("team", 12),)]),
        queue=random.choice([None, None, QueueInfo("q", 16, 3)]),
        packing=random.choice([Packing.ANY, Packing.ANY, Packing.BIN_PACK]),
    )


def any_ask(random, name):
    chosen = random.choice([(), (), (product_is("H200"),)])
    engines = [engine(request(random.choice([1, 2, 4]), *chosen), nodes=random.choice([1, 1, 2]))]
    engines += [engine(request(1), name="prefill")] if random.random() < 0.3 else []
    return place(
        random.randint(0, 5),
        *engines,
        name=name,
        priority=random.choice([None, "gold", "silver"]),
        may_preempt=random.random() < 0.3,
        protected=random.random() < 0.2,
        cluster_selector=random.choice([None, None, labelled(region="e")]),
    )


class Storm:
    def __init__(self, random):
        self.random, self.now = random, 1000.0
        self.calm_clusters = {name: any_cluster(random, name) for name in "abc"[: random.randint(1, 3)]}
        self.asks = {name: any_ask(random, name) for name in "xyz"}
        self.fleet, self.views = Fleet.of(self.calm_clusters.values()), {}

    def write(self, name, *, fresh):
        asked, view = self.asks[name], self.fleet if fresh else self.views.get(name, self.fleet)
        decided = schedule(asked, view, self.now)
        check(asked, view, decided)
        self.now += 1
        there = {held.id: held for held in self.fleet.owned_by(asked.deployment)}
        wanted = {p.replica.id: p.replica for p in decided.placements}
        come = [
            but(held, created=f"{self.now}", idle_since=self.now) for key, held in wanted.items() if key not in there
        ]
        come += [
            but(
                there[key],
                assignments=held.assignments,
                priority=held.priority,
                protected=held.protected,
                preempts=held.preempts,
            )
            for key, held in wanted.items()
            if key in there
        ]
        come = [held for held in come if there.get(held.id) != held]
        gone = [key for key in there if key not in wanted]
        self.fleet = self.fleet.with_replicas(come, gone)
        told = frozenset(decided.preemption.digests if decided.preemption and not decided.preemption.acted else ())
        changed = bool(come or gone) or told != asked.nominated_victims
        self.asks[name] = but(asked, nominated_victims=told)
        return changed

    def serve(self, chance=1.0):
        for info in list(self.fleet.infos.values()):
            runs = zip(info.kinds, info.usages, strict=True)
            if info.profile.ready and all(fits(k.counts, k.nodes, use, packed=True) for k, use in runs):
                up = [held for held in info.held.values() if not held.serving and self.random.random() < chance]
                self.fleet = self.fleet.with_replicas([but(held, serving=True, idle_since=None) for held in up])

    def trouble(self):
        random, name = self.random, self.random.choice(sorted(self.calm_clusters))
        found = self.fleet.cluster(name) or self.calm_clusters[name]
        first, *rest = found.pools
        fewer = but(
            first, nodes=max(first.nodes - 1, 0), desired_nodes=first.desired_nodes or first.nodes, short_since=self.now
        )
        changes = [
            but(found, pools=(fewer, *rest)),
            but(found, pools=(but(first, held_by_others=(("gpu", random.randint(0, 4)),)), *rest)),
            but(found, ready=False, unready_since=self.now),
            but(found, cordoned=not found.cordoned),
            but(found, labels={"region": random.choice("ew")}),
            but(found, taints=(taint("x", random.choice(["NoSchedule", "NoExecute"])),)),
            self.calm_clusters[name],
        ]
        self.now += random.choice([0, 0, 400])
        self.fleet = self.fleet.with_cluster(random.choice(changes))
        if random.random() < 0.3:
            edited = random.choice("xyz")
            self.asks[edited] = any_ask(random, edited)

    def settles(self):
        self.now += 1e6
        for _ in range(MAX_ROUNDS):
            before = [self.write(name, fresh=True) for name in self.asks]
            served, _ = self.fleet, self.serve()
            if not any(before) and list(served.replicas) == list(self.fleet.replicas):
                return True
        return False


def check(asked, view, decided):
    mine = {held.id: held for held in view.owned_by(asked.deployment)}
    acted = decided.preemption is not None and decided.preemption.acted
    evicted = [victim.id for victim in decided.preemption.victims] if acted else []
    after = view.with_replicas([p.replica for p in decided.placements], [*mine, *evicted])
    for name, was in view.infos.items():
        for where, use, before in zip(was.kinds, after.infos[name].usages, was.usages, strict=True):
            more = any(number > dict(before).get(shape, 0) for shape, number in use)
            assert not more or fits(where.counts, where.nodes, use, packed=where.packed)
    fates = {p.replica.id: p.decision for p in decided.placements}
    reasons = {d.replica.id: d.reason for d in decided.dropped}
    for key, held in mine.items():
        if is_well(asked, view, held):
            fine = fates.get(key) is ReplicaDecision.KEPT or reasons.get(key) in {
                DropReason.SCALED_DOWN,
                DropReason.PREEMPTED,
            }
            assert fine, (key, fates.get(key), reasons.get(key))


def is_well(asked, view, held):
    """It serves, on a cluster where nothing is amiss, what the deployment asks for today."""
    where = view.cluster(held.cluster)
    calm = where is not None and where.ready and not where.taints and selects(asked.cluster_selector, where.labels)
    wanted = {e.name: (e.members[0].nodes, e.members[0].requests[0]) for e in asked.engines}
    has = {s.engine: (s.members[0].pods, s.members[0].claims[0]) for s in held.assignments}
    same = wanted.keys() == has.keys() and all(
        (nodes, asked_for.count, asked_for.selectors) == (has[name][0], has[name][1].count, has[name][1].selectors)
        for name, (nodes, asked_for) in wanted.items()
    )
    return held.serving and calm and same


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_storm_promises_nothing_twice_leaves_alone_what_is_well_and_ends(random):
    storm = Storm(random)
    for _ in range(25):
        name, step = random.choice("xyz"), random.random()
        if step < 0.2:
            storm.views[name] = storm.fleet
        elif step < 0.55:
            storm.write(name, fresh=random.random() < 0.3)
        elif step < 0.7:
            storm.serve(0.6)
        else:
            storm.trouble()
    assert storm.settles()
    assert all(resolve_conflicts(info) == frozenset() for info in storm.fleet.infos.values())
