"""All deployments decided together, until the fleet is quiet."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import schedule
from modelplane.views.fleet_decisions import decide_fleet
from modelplane.views.inputs import gather
from tests.views.test_views_explain import make_class, make_cluster, make_deployment


def prized(nodes):
    made = make_cluster("east", nodes)
    made["spec"]["scheduling"]["priorities"] = [{"name": "gold", "value": 9}]
    return made


def vip(replicas, count=8):
    return make_deployment("vip", replicas, count, priority="gold", preemptionPolicy="PreemptLowerPriority")


def test_what_cannot_be_read_is_skipped_where_that_is_wanted():
    broken = {"kind": "ModelDeployment", "metadata": {"name": "x", "namespace": "team"}, "spec": 7}
    inputs = gather([make_class(), make_cluster("east"), broken, make_deployment("chat")])
    with pytest.raises(InputError):
        decide_fleet(inputs)
    assert [found.request.deployment.name for found in decide_fleet(inputs, skip_unreadable=True).deployments] == [
        "chat"
    ]


def test_new_replicas_stay_new_after_further_evictions():
    decisions = decide_fleet(gather([make_class(), prized(3), make_deployment("low", 3), vip(3)]))
    low, high = decisions.deployments
    assert [placement.decision for placement in high.decided.placements] == [ReplicaDecision.NEW] * 3
    assert (len(high.victims), low.decided.pending, high.decided.pending) == (3, 3, 0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 5), st.integers(1, 8), st.integers(0, 4), st.integers(1, 8))
def test_what_is_decided_is_quiet_and_nobody_holds_what_another_has(nodes, low, small, high, large):
    inputs = gather([make_class(), prized(nodes), make_deployment("low", low, small), vip(high, large)])
    decisions = decide_fleet(inputs)
    held = Counter(replica.deployment.name for replica in decisions.fleet.replicas)
    placed = {
        found.request.deployment.name: len(found.decided.placements)
        for found in decisions.deployments
        if found.decided.placements
    }
    assert held == placed
    assert sum(replica.devices for replica in decisions.fleet.replicas) <= 8 * nodes
    for found in decisions.deployments:
        again = schedule(found.request, decisions.fleet, inputs.now)
        assert (len(again.placements), again.dropped) == (len(found.decided.placements), ())
