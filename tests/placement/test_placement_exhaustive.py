"""The scheduler against a solver that tries every pool for every engine of every replica, on small fleets."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.placement.offers import first_fit
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import QueueInfo
from modelplane.testing.fleets import cluster, engine, place, pool, product_is, request
from tests.placement.test_placement_properties import KINDS, worlds

pytestmark = pytest.mark.slow


class Solver:
    """The most replicas that a cluster can take."""

    def __init__(self, info, engines):
        self._kinds = info.kinds
        self._engines = engines
        self._known = {}

    def most(self, usages, replicas):
        if not replicas:
            return 0
        state = repr(usages), replicas
        if state not in self._known:
            self._known[state] = max((1 + self.most(after, replicas - 1) for after in self._placed(usages)), default=0)
        return self._known[state]

    def _placed(self, usages, first=0):
        """Each usage of the pools that one more replica can lead to."""
        if first == len(self._engines):
            yield usages
            return
        for at, kind in enumerate(self._kinds):
            fit = None if kind.taints else first_fit(self._engines[first], kind, usages[at])
            if fit is not None:
                yield from self._placed((*usages[:at], fit.after, *usages[at + 1 :]), first + 1)


def devices_of(asked):
    return sum(
        each.copies * member.nodes * wanted.count
        for each in asked.engines
        for member in each.members
        for wanted in member.requests
    )


def room(asked, info):
    """What the pools can take, within the namespace's quota and queue."""
    if asked.cluster_selector is not None and info.cluster.labels["region"] != "east":
        return 0
    quota, queue = info.profile.quota_left("team"), info.profile.queue_left("team")
    limits = [left for left in (None if quota is None else quota[0], queue) if left is not None]
    allowed = min((max(0, left) // devices_of(asked) for left in limits), default=asked.replicas)
    return Solver(info, asked.engines).most(tuple(info.usages), min(asked.replicas, allowed))


limited = st.lists(
    st.tuples(
        st.sampled_from([(), (("team", 6),), (("*", 9),)]),
        st.sampled_from([None, None, QueueInfo("q", 12, 4)]),
    ),
    min_size=5,
    max_size=5,
)


@settings(max_examples=60)
@given(worlds(calm=True), limited)
def test_what_a_solver_can_place_is_placed(world, limits):
    """Exactly, with one engine. With two, a replica may take the pool that the next one would need (below)."""
    asked, found, held = world
    found = [
        msgspec.structs.replace(each, quotas=quotas, queue=queue)
        for each, (quotas, queue) in zip(found, limits, strict=False)
    ]
    fleet = Fleet.of(found, held)
    best = min(asked.replicas, sum(room(asked, info) for info in fleet.infos.values()))
    placed = len(schedule(asked, fleet).placements)
    assert placed <= best
    assert placed == best or (len(asked.engines) > 1 and placed >= 1)


def test_known_a_replica_of_two_engines_may_take_the_pool_that_the_next_one_needs():
    """Replicas are placed one after the other, and one that is placed is not moved for the next."""
    asked = place(2, engine(request(3), copies=2), engine(request(1, product_is("H200")), name="prefill"))
    fleet = Fleet.of([cluster("c", pool("p0", 2, KINDS[2]), pool("p2", 3, KINDS[2]))], [])
    (info,) = fleet.infos.values()
    decided = schedule(asked, fleet)
    assert (len(decided.placements), decided.pending, room(asked, info)) == (1, 1, 2)
    reasons = [each.reason for each in decided.trace.candidates() if each.pool == "p0" and each.filter == "Capacity"]
    why = "needs 2 pods with 3 devices each; 1 fit wherever the cluster puts its pods; 1 of 8 devices are held"
    assert reasons == [f"{why}; it fits if the cluster packs its pods (spec.scheduling.packing: BinPack)"]
