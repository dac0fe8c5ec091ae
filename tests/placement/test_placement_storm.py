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
from modelplane.placement.repair import giving_way
from modelplane.placement.room import fits
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Packing, QueueInfo
from modelplane.testing.fleets import ask, cluster, engine, hardware, kind, labelled, pool, product_is, request, taint

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
            others_held=random.choice([(), (), (("gpu", 2),)]),
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
    return ask(
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
        wanted = {p.holding.id: p.holding for p in decided.placements}
        come = [
            but(held, created=f"{self.now}", idle_since=self.now) for key, held in wanted.items() if key not in there
        ]
        come += [
            but(there[key], seats=held.seats, priority=held.priority, protected=held.protected, preempts=held.preempts)
            for key, held in wanted.items()
            if key in there
        ]
        come = [held for held in come if there.get(held.id) != held]
        gone = [key for key in there if key not in wanted]
        self.fleet = self.fleet.with_holdings(come, gone)
        told = frozenset(decided.preemption.digests if decided.preemption and not decided.preemption.acted else ())
        changed = bool(come or gone) or told != asked.announced
        self.asks[name] = but(asked, announced=told)
        return changed

    def serve(self, chance=1.0):
        for site in list(self.fleet.sites.values()):
            runs = zip(site.kinds, site.uses, strict=True)
            if site.traits.ready and all(fits(k.counts, k.nodes, use, packed=True) for k, use in runs):
                up = [held for held in site.held.values() if not held.serving and self.random.random() < chance]
                self.fleet = self.fleet.with_holdings([but(held, serving=True, idle_since=None) for held in up])

    def trouble(self):
        random, name = self.random, self.random.choice(sorted(self.calm_clusters))
        found = self.fleet.cluster(name) or self.calm_clusters[name]
        first, *rest = found.pools
        fewer = but(first, nodes=max(first.nodes - 1, 0), meant=first.meant or first.nodes, short_since=self.now)
        changes = [
            but(found, pools=(fewer, *rest)),
            but(found, pools=(but(first, others_held=(("gpu", random.randint(0, 4)),)), *rest)),
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
            if not any(before) and list(served.holdings) == list(self.fleet.holdings):
                return True
        return False


def check(asked, view, decided):
    mine = {held.id: held for held in view.owned_by(asked.deployment)}
    acted = decided.preemption is not None and decided.preemption.acted
    evicted = [victim.id for victim in decided.preemption.victims] if acted else []
    after = view.with_holdings([p.holding for p in decided.placements], [*mine, *evicted])
    for name, was in view.sites.items():
        for where, use, before in zip(was.kinds, after.sites[name].uses, was.uses, strict=True):
            more = any(number > dict(before).get(shape, 0) for shape, number in use)
            assert not more or fits(where.counts, where.nodes, use, packed=where.packed)
    fates = {p.holding.id: p.fate for p in decided.placements}
    reasons = {d.holding.id: d.reason for d in decided.dropped}
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
    has = {s.engine: (s.members[0].pods, s.members[0].claims[0]) for s in held.seats}
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
    assert all(giving_way(site) == frozenset() for site in storm.fleet.sites.values())
