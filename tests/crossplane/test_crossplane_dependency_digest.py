"""A replica depends on what it is made from, and on nothing else of its cluster."""

import pytest

from modelplane.crossplane import dependency_digest

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
