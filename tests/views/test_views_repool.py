"""The pools of a cluster after an edit."""

import pytest

from modelplane.views.repool import repooled

CLASS = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceClass",
    "metadata": {"name": "gb200"},
    "spec": {"devices": [{"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 4}]},
}
DOMAIN = {"topologyKey": "rack", "nodeCount": 3}


def cluster(nodes):
    """One of whose two racks lacked a node when it was observed."""
    pool = {"name": "racks", "className": "gb200", "nodeCount": nodes, "fabric": {"domain": DOMAIN}}
    device = {"name": "gpu", "claim": "DRA", "driver": "d", "deviceClassName": "c", "count": 4}
    seen = {
        "name": "racks",
        "className": "gb200",
        "nodes": 5,
        "observedNodes": 5,
        "domain": {**DOMAIN, "complete": 1},
        "devices": [device],
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
            "nodePools": [pool],
        },
        "status": {"gpuPools": [seen]},
    }


@pytest.mark.parametrize(("nodes", "complete"), [(6, 1), (9, 2), (8, 1), (3, 0)])
def test_racks_that_an_edit_adds_are_complete(nodes, complete):
    found = repooled(cluster(nodes), cluster(6), {"gb200": CLASS})
    assert found["status"]["gpuPools"][0]["domain"] == {**DOMAIN, "complete": complete}
