"""Deployments that decide at once, from views that are out of date: nothing stays promised twice.

A writer reads the fleet, decides, and writes later; others read and write in between. Every interleaving of two writers
is tried, and random ones of three. When the storm is over, each looks once more at what is really there.
"""

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.placement.repair import is_oversubscribed
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import cluster, engine, place, pool, request

MAX_ROUNDS = 10


class Plane:
    """Objects as they are, and writers with views of their own."""

    def __init__(self, clusters, asks):
        self.fleet = Fleet.of(clusters)
        self.asks = asks
        self.views = {}
        self.decisions = {}
        self.moment = 0

    def read(self, writer):
        self.views[writer] = self.fleet

    def write(self, writer):
        """Decide on the view that was read, and make it so: what is not in the result is deleted."""
        asked = self.asks[writer]
        decided = schedule(asked, self.views.get(writer, self.fleet))
        there = {held.id: held for held in self.fleet.owned_by(asked.deployment)}
        wanted = {p.replica.id: p.replica for p in decided.placements}
        self.moment += 1
        come = [
            msgspec.structs.replace(wanted[i], created=f"2026-01-01T00:00:{self.moment:02}Z")
            for i in wanted
            if i not in there
        ]
        self.fleet = self.fleet.with_replicas(come, [i for i in there if i not in wanted])
        return bool(come) or there.keys() != wanted.keys()

    def serve(self):
        """Clusters start what fits: whoever came first serves, where its pool is not crowded."""
        for name, info in self.fleet.infos.items():
            if not is_oversubscribed(info):
                held = [msgspec.structs.replace(h, serving=True) for h in self.fleet.infos[name].held.values()]
                self.fleet = self.fleet.with_replicas(held)

    def calm(self):
        """Everyone looks at what is there, in turn, until nobody changes anything. Returns how many rounds it took."""
        for rounds in range(MAX_ROUNDS):
            changed = False
            for writer in range(len(self.asks)):
                self.read(writer)
                changed = self.write(writer) or changed
            self.serve()
            if not changed:
                return rounds
        return MAX_ROUNDS

    def promised_twice(self):
        return [name for name, info in self.fleet.infos.items() if is_oversubscribed(info)]


def interleavings(passes):
    """Every order of two writers' steps: read, write, read, write ..."""
    steps = [("read" if at % 2 == 0 else "write") for at in range(2 * passes)]
    for firsts in itertools.combinations(range(4 * passes), 2 * passes):
        mine, theirs = iter(steps), iter(steps)
        yield [(next(mine), 0) if at in firsts else (next(theirs), 1) for at in range(4 * passes)]


@pytest.mark.parametrize(
    ("nodes", "replicas", "size"),
    [
        pytest.param(1, 1, 8, id="the last node"),
        pytest.param(2, 2, 8, id="the last two nodes"),
        pytest.param(1, 2, 4, id="halves of one node"),
    ],
)
def test_two_writers_settle_in_every_interleaving(nodes, replicas, size):
    asks = [place(replicas, engine(request(size)), name=name, priority=None) for name in ("one", "two")]
    for order in interleavings(2):
        plane = Plane([cluster("a", pool(nodes=nodes)), cluster("b", pool(nodes=nodes), ready=False)], asks)
        for step, writer in order:
            getattr(plane, step)(writer)
        rounds = plane.calm()
        assert rounds < MAX_ROUNDS, order
        assert plane.promised_twice() == [], order
        placed = sum(len(plane.fleet.owned_by(a.deployment)) for a in asks)
        assert placed == min(2 * replicas, nodes * 8 // size), order


steps = st.lists(st.tuples(st.sampled_from(["read", "write", "serve"]), st.integers(0, 2)), max_size=24)
sizes = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=60)
@given(steps, st.lists(st.tuples(st.integers(1, 4), sizes, st.sampled_from([None, "gold"])), min_size=3, max_size=3))
def test_three_writers_settle_with_nothing_promised_twice(order, wanted):
    prized = (("gold", 10),)
    clusters = [cluster(name, pool(nodes=2), priorities=prized) for name in ("a", "b")]
    asks = [
        place(replicas, engine(request(size)), name=f"w{at}", priority=priority)
        for at, (replicas, size, priority) in enumerate(wanted)
    ]
    plane = Plane(clusters, asks)
    for step, writer in order:
        if step == "serve":
            plane.serve()
        else:
            getattr(plane, step)(writer)
    assert plane.calm() < MAX_ROUNDS
    assert plane.promised_twice() == []


def test_of_two_who_took_the_last_node_the_more_important_keeps_it():
    asks = [place(1, engine(request(8)), name=name, priority=name) for name in ("low", "high")]
    plane = Plane([cluster("a", pool(nodes=1), priorities=(("low", 1), ("high", 2)))], asks)
    for step in ("read", "write"):
        for writer in (0, 1):
            getattr(plane, step)(writer)
    assert plane.promised_twice() == ["a"]
    plane.calm()
    assert [h.deployment.name for h in plane.fleet.replicas] == ["high"]


def test_what_serves_is_never_taken_back():
    asks = [place(1, engine(request(8)), name=name, priority=name) for name in ("low", "high")]
    plane = Plane([cluster("a", pool(nodes=1), priorities=(("low", 1), ("high", 2)))], asks)
    plane.read(1)
    plane.write(0)
    plane.serve()
    plane.write(1)
    plane.calm()
    assert [h.deployment.name for h in plane.fleet.replicas] == ["low"]
