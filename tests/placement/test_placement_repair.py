"""Which replicas lose their place, and which cannot run on the nodes that are there."""

import msgspec
import pytest

from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.repair import is_oversubscribed, resolve_conflicts, stranded
from modelplane.testing.fleets import assignment, claim, cluster, pool, replica

FIRST, SECOND = (replica("a", at, assignment("h200", claim(8)), created=f"2026-01-0{at + 1}") for at in (0, 1))
HALVES = [replica("a", at, assignment("h200", claim(4)), created="2026-02-01") for at in (2, 3)]


@pytest.mark.parametrize(
    ("fields", "replicas", "expected"),
    [
        pytest.param({"nodes": 1}, [FIRST, SECOND], set(), id="nothing is missing: oversubscribed, not stranded"),
        pytest.param({"nodes": 1, "desired_nodes": 2}, [FIRST, SECOND], {SECOND.id}, id="a node is missing"),
        pytest.param({"nodes": 2, "desired_nodes": 2}, [FIRST, SECOND], set(), id="none is"),
        pytest.param({"nodes": 2, "desired_nodes": 3}, [FIRST, *HALVES], set(), id="two halves of one node"),
        pytest.param(
            {"nodes": 2, "held_by_others": (("gpu", 8),), "claims_of_others": (("gpu", 8, 1),)},
            [FIRST, SECOND],
            {SECOND.id},
            id="others hold a node",
        ),
        pytest.param(
            {"nodes": 1, "desired_nodes": 2},
            [FIRST, msgspec.structs.replace(SECOND, serving=True)],
            {FIRST.id},
            id="one that serves runs",
        ),
    ],
)
def test_the_last_in_order_cannot_run_where_nodes_or_devices_are_missing(fields, replicas, expected):
    there = msgspec.structs.replace(pool(nodes=fields.pop("nodes")), **fields)
    assert stranded(make_cluster_info(cluster("a", there, pool("other")), replicas)) == expected


def test_nobody_is_stranded_on_a_cluster_that_is_not_known():
    assert stranded(make_cluster_info(None, [FIRST])) == set()


@pytest.mark.parametrize(
    ("nodes", "quota", "expected"),
    [
        pytest.param(2, 16, (False, set()), id="all that the quota allows"),
        pytest.param(2, 12, (True, {SECOND.id}), id="more than the quota allows"),
        pytest.param(2, 8, (True, {SECOND.id}), id="the quota allows one"),
        pytest.param(1, 16, (True, {SECOND.id}), id="a node for one"),
        pytest.param(0, 16, (True, {FIRST.id, SECOND.id}), id="no node"),
    ],
)
def test_the_last_in_order_lose_their_place_where_a_pool_or_a_quota_is_oversubscribed(nodes, quota, expected):
    info = make_cluster_info(cluster("a", pool(nodes=nodes), quotas=(("team", quota),)), [FIRST, SECOND])
    assert (is_oversubscribed(info), resolve_conflicts(info)) == expected


PRIORITIES = (("gold", 9), ("iron", 1))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"leaving": True}, {}, id="being deleted"),
        pytest.param({"priority": "iron"}, {"priority": "gold", "preempts": (FIRST.digest,)}, id="preempted"),
    ],
)
def test_nobody_loses_a_place_for_one_that_goes_anyway(first, second):
    held = [msgspec.structs.replace(FIRST, **first), msgspec.structs.replace(SECOND, **second)]
    info = make_cluster_info(cluster("a", pool(nodes=1), priorities=PRIORITIES), held)
    assert (is_oversubscribed(info), resolve_conflicts(info)) == (True, set())


def test_nobody_loses_a_place_for_a_pool_that_it_is_not_on():
    """Two that serve are on the one node of a pool. The third starts on another pool."""
    serving = [msgspec.structs.replace(found, serving=True) for found in (FIRST, SECOND)]
    starts = replica("a", 2, assignment("other"))
    info = make_cluster_info(cluster("a", pool(nodes=1), pool("other")), [*serving, starts])
    assert (is_oversubscribed(info), resolve_conflicts(info)) == (True, set())


def test_one_whose_engines_are_on_several_pools_keeps_its_place_only_where_each_of_them_fits():
    both = [assignment("h200", claim(8)), assignment("other", claim(8), engine_name="draft")]
    starts = replica("a", 2, *both, created="2026-01-09")
    info = make_cluster_info(cluster("a", pool(nodes=1), pool("other")), [FIRST, starts])
    assert resolve_conflicts(info) == {starts.id}
