"""A replica depends on what it is made from, and on nothing else of its cluster."""

import pytest

from modelplane.crossplane import dependency_digest
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import cluster as make_cluster
from modelplane.testing.fleets import key, pool, replica, taint

CLUSTER = {
    "spec": {"backend": {"type": "Native"}, "crossplane": {"resourceRefs": [{"name": "a"}]}},
    "status": {"gateway": {"address": "192.0.2.1"}},
}


def changed(**spec):
    return {**CLUSTER, "spec": {**CLUSTER["spec"], **spec}}


@pytest.mark.parametrize(
    ("cluster", "changes"),
    [
        (changed(), False),
        (changed(crossplane={"resourceRefs": [{"name": "a"}, {"name": "b"}]}), False),
        (changed(cordoned=True), False),
        (changed(backend={"type": "KServe"}), True),
        ({**CLUSTER, "status": {"gateway": {"address": "192.0.2.2"}}}, True),
        (None, True),
    ],
)
def test_the_digest_of_a_replica_changes_with_what_it_is_made_from(cluster, changes):
    before, after = (dependency_digest.of_replica(each, (), "east") for each in (CLUSTER, cluster))
    assert (before != after) is changes


WELL = make_cluster("a")
DRAINED = taint("drain", "NoExecute")


@pytest.mark.parametrize(
    ("after", "held", "waiting", "changes"),
    [
        pytest.param(make_cluster("a", rendering=b"x"), True, False, False, id="what it can run: the replica says so"),
        pytest.param(make_cluster("a", rendering=b"x"), False, True, True, id="what it can run, while replicas wait"),
        pytest.param(make_cluster("a", taints=(DRAINED,)), True, False, True, id="a taint"),
        pytest.param(make_cluster("a", taints=(DRAINED,)), False, True, True, id="a taint, while replicas wait"),
        pytest.param(make_cluster("a", pool(taints=(DRAINED,))), True, False, True, id="a taint of a pool"),
        pytest.param(make_cluster("a", pool(taints=(DRAINED,))), False, False, False, id="of a cluster it is not on"),
    ],
)
def test_the_digest_of_a_deployment_changes_with_what_moves_its_replicas(after, held, waiting, changes):
    replicas = [replica("a")] if held else []
    one, other = (
        dependency_digest.of_deployment(Fleet.of([each], replicas), key(), waiting=waiting) for each in (WELL, after)
    )
    assert (one != other) is changes


def test_the_time_of_a_taint_counts():
    seen = (make_cluster("a", taints=(taint("drain", "NoExecute", since=since),)) for since in (None, 5.0))
    one, other = (
        dependency_digest.of_deployment(Fleet.of([each], [replica("a")]), key(), waiting=False) for each in seen
    )
    assert one != other
