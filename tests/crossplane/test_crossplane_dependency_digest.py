"""A replica depends on what it is made from, and on nothing else of its cluster."""

import pytest

from modelplane.crossplane import dependency_digest
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import NamespaceQueues, Packing, QueueInfo
from modelplane.testing.fleets import cluster, key, pool, taint

CLUSTER = {
    "spec": {"backend": {"type": "Native"}, "crossplane": {"resourceRefs": [{"name": "a"}]}},
    "status": {"gateway": {"address": "192.0.2.1"}},
}


def changed(**spec):
    return {**CLUSTER, "spec": {**CLUSTER["spec"], **spec}}


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (changed(), False),
        (changed(crossplane={"resourceRefs": [{"name": "a"}, {"name": "b"}]}), False),
        (changed(cordoned=True), False),
        (changed(backend={"type": "KServe"}), True),
        ({**CLUSTER, "status": {"gateway": {"address": "192.0.2.2"}}}, True),
        (None, True),
    ],
)
def test_the_digest_of_a_replica_changes_with_what_it_is_made_from(after, changes):
    before, changed_to = (dependency_digest.of_replica(each, (), "east") for each in (CLUSTER, after))
    assert (before != changed_to) is changes


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},
        {"cordoned": True},
        {"labels": {"region": "east"}},
        {"pools": (pool(nodes=3),)},
        {"taints": (taint("team"),)},
        {"packing": Packing.BIN_PACK},
        {"quotas": (("team", 8),)},
        {"queue": QueueInfo("q", 8)},
        {"queue": QueueInfo("q", 8, others=1)},
        {"namespace_queues": NamespaceQueues("{{ .Namespace }}", (QueueInfo("team", 8),))},
    ],
    ids=str,
)
def test_a_deployment_that_waits_depends_on_all_that_decides_whether_it_fits(fields):
    before, after = Fleet.of([cluster("a")]), Fleet.of([cluster("a", **fields)])
    waiting = [dependency_digest.of_deployment(fleet, key(), waiting=True) for fleet in (before, after)]
    placed = [dependency_digest.of_deployment(fleet, key(), waiting=False) for fleet in (before, after)]
    assert waiting[0] != waiting[1]
    assert placed[0] == placed[1]
