from collections import Counter

import pytest

from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.tiers import tier_of
from modelplane.testing.fleets import assignment, claim, cluster, engine, labelled, place, pool, replica, request

WHOLE = engine(request(8))
TIERS = labelled(tier="owned"), labelled(tier="reserved"), labelled(tier="spot")
SERVING = {"serving": True, "created": "2026-01-01T00:00:00Z"}


def tiered(replicas, **fields):
    return place(replicas, WHOLE, tiers=TIERS, **fields)


def in_tier(name, tier, nodes=2, price=None):
    return cluster(name, pool("p", nodes, price=price), labels={"tier": tier})


FLEET = [
    in_tier("a-spot", "spot", price=1.0),
    in_tier("b-reserved", "reserved", price=50.0),
    in_tier("c-owned", "owned", price=99.0),
    in_tier("d-owned", "owned", price=99.0),
    in_tier("e-other", "other", price=0.5),
]


def load(decided):
    return dict(Counter(p.replica.cluster for p in decided.placements))


def held(*clusters, **fields):
    counts = Counter()
    found = []
    for name in clusters:
        found.append(replica(name, counts[name], assignment("p", claim(8)), **{**SERVING, **fields}))
        counts[name] += 1
    return found


@pytest.mark.parametrize(
    ("wanted", "expected", "pending"),
    [
        (1, {"c-owned": 1}, 0),
        (2, {"c-owned": 1, "d-owned": 1}, 0),
        (5, {"c-owned": 2, "d-owned": 2, "b-reserved": 1}, 0),
        (7, {"c-owned": 2, "d-owned": 2, "b-reserved": 2, "a-spot": 1}, 0),
        (9, {"c-owned": 2, "d-owned": 2, "b-reserved": 2, "a-spot": 2}, 1),
    ],
)
def test_a_tier_is_filled_evenly_before_the_next(wanted, expected, pending):
    decided = schedule(tiered(wanted), Fleet.of(FLEET))
    assert (load(decided), decided.pending) == (expected, pending)


def test_replicas_leave_the_last_tier_first():
    fleet = Fleet.of(FLEET, held("c-owned", "c-owned", "d-owned", "b-reserved", "a-spot"))
    gone = [[d.replica.cluster for d in schedule(tiered(wanted), fleet).dropped] for wanted in (4, 3, 2)]
    assert gone == [["a-spot"], ["a-spot", "b-reserved"], ["a-spot", "b-reserved", "c-owned"]]


def test_a_replica_that_does_not_serve_leaves_before_one_that_does():
    fleet = Fleet.of(FLEET, [*held("a-spot"), *held("c-owned", serving=False)])
    assert [d.replica.cluster for d in schedule(tiered(1), fleet).dropped] == ["c-owned"]


def test_a_cluster_in_no_tier_is_refused_and_what_is_there_moves():
    fleet = Fleet.of(FLEET, held("e-other"))
    decided = schedule(tiered(1), fleet)
    assert [(p.replica.cluster, p.why) for p in decided.placements] == [
        ("c-owned", ""),
        ("e-other", "its cluster matches none of the tiers"),
    ]
    (refused,) = [c for c in survey(tiered(1), Fleet.of(FLEET)).trace.candidates() if c.cluster == "e-other"]
    assert (refused.filter, refused.reason) == ("Tiers", "its labels match none of the 3 tiers")


def test_a_cluster_is_in_the_first_tier_that_matches_it():
    asked = tiered(1)
    assert [tier_of(asked, {"tier": name}) for name in ("owned", "reserved", "spot", "other")] == [0, 1, 2, None]
    both = place(1, tiers=(labelled(region="east"), labelled()))
    assert [tier_of(both, {"region": name}) for name in ("east", "west")] == [0, 1]
    assert tier_of(place(1), {}) == 0
