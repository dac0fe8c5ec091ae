"""Pools that are counted in domains: a rack that an engine must not straddle."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.placement.hardware import Domain
from modelplane.placement.request import EngineRequest, MemberRequest
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import MemberAssignment, PlacedReplica, PoolAssignment
from modelplane.testing.fleets import claim, cluster, hardware, key, kind, place, pool, request

RACK = Domain("nvidia.com/gpu.clique", 3)


def spanning(nodes, copies=1):
    """A leader and its workers."""
    wanted = (request(8),)
    members = (MemberRequest(1, wanted), MemberRequest(nodes - 1, wanted)) if nodes > 1 else (MemberRequest(1, wanted),)
    return EngineRequest("main", copies, members)


def racks(nodes, *, domain=RACK, price=None, **fields):
    made = pool("gb200", nodes, msgspec.structs.replace(hardware(kind(count=8)), domain=domain), price=price)
    return cluster("east", msgspec.structs.replace(made, **fields))


def running(index, nodes=2, copies=1, **fields):
    members = (MemberAssignment(copies, (claim(8),)), MemberAssignment(copies * (nodes - 1), (claim(8),)))
    assigned = (PoolAssignment("main", "gb200", members),)
    return PlacedReplica(deployment=key(), cluster="east", index=index, assignments=assigned, **fields)


@pytest.mark.parametrize(
    ("nodes", "engine", "placed"),
    [
        (7, spanning(2), 2),
        (7, spanning(3), 2),
        (6, spanning(2, copies=2), 1),
        (2, spanning(2), 0),  # no rack is whole
        (9, spanning(4), 0),
        (9, spanning(1), 0),
    ],
)
def test_each_copy_of_an_engine_takes_a_domain(nodes, engine, placed):
    decided = schedule(place(5, engine), Fleet.of([racks(nodes)]))
    assert len(decided.placements) == placed


@pytest.mark.parametrize(
    ("there", "engine", "reason"),
    [
        (
            racks(6, domains=0),
            spanning(2),
            "needs 1 free domain of 3 nodes (nvidia.com/gpu.clique); 0 of 0 domains are free; 2 domains are incomplete",
        ),
        (
            racks(3, desired_nodes=6),
            spanning(2, copies=2),
            "needs 2 free domains of 3 nodes (nvidia.com/gpu.clique); 1 of 1 domains is free; 1 domain is incomplete",
        ),
        (racks(9), spanning(4), "needs 4 nodes in one domain; a domain (nvidia.com/gpu.clique) has 3"),
        (racks(9), spanning(1), "its domains of 3 nodes (nvidia.com/gpu.clique) are for engines that span nodes"),
        (racks(9, domain=Domain("k", 3, "not with KAI")), spanning(2), "not with KAI"),
    ],
)
def test_why_not(there, engine, reason):
    (found,) = schedule(place(1, engine), Fleet.of([there])).trace.candidates()
    assert found.reason == reason


def test_an_incomplete_domain_may_become_complete():
    """Room may appear, so the deployment waits; for an engine that no domain could take, nothing would help."""
    (found,) = schedule(place(1, spanning(2)), Fleet.of([racks(6, domains=0)])).trace.candidates()
    assert found.may_pass
    (found,) = schedule(place(1, spanning(4)), Fleet.of([racks(6, domains=0)])).trace.candidates()
    assert not found.may_pass


def test_a_replica_pays_for_its_domains():
    decided = schedule(place(1, spanning(2, copies=2)), Fleet.of([racks(6, price=10.0)]))
    (option,) = decided.placements
    (info,) = Fleet.of([racks(6, price=10.0)], [option.replica]).infos.values()
    assert info.usages == (((((1, 1),), 2),),)
    assert info.kinds[0].devices == 48


def test_replicas_of_a_domain_that_lost_a_node_stay():
    there = racks(5, desired_nodes=6, domains=1)
    held = [running(0, serving=True, created="a"), running(1, serving=True, created="b")]
    decided = schedule(place(2, spanning(2)), Fleet.of([there], held))
    assert [placement.decision.value for placement in decided.placements] == ["Kept", "Kept"]
    assert decided.dropped == ()


def test_what_others_hold_is_counted_where_it_was_observed():
    """A domain in which others hold devices is not complete, so nothing of it is counted twice."""
    there = racks(6, domains=1, held_by_others=(("gpu", 3),))
    assert len(schedule(place(3, spanning(2)), Fleet.of([there])).placements) == 1


@settings(max_examples=40)
@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=3),
)
def test_domains_are_never_promised_twice(nodes, asks):
    fleet = Fleet.of([racks(nodes)])
    taken = 0
    for at, (replicas, size, copies) in enumerate(asks):
        decided = schedule(place(replicas, spanning(size, copies), name=f"d{at}"), fleet)
        assert not decided.placements or 2 <= size <= RACK.nodes
        possible = (nodes // RACK.nodes - taken) // copies if 2 <= size <= RACK.nodes else 0
        assert len(decided.placements) == min(replicas, possible)
        taken += copies * len(decided.placements)
        fleet = fleet.with_replicas([placement.replica for placement in decided.placements])
