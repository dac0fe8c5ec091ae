"""Fleets of lists whose objects are shown again: the same as those that are read anew."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.fleet_reader import FleetReader
from modelplane.compose.fleet_snapshot import fleet_of


def cluster(name, ready="True", **more):
    conditions = [{"type": "Ready", "status": ready, "reason": "Available", "observedGeneration": 1}]
    spec = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}, "nodePools": []}
    return {"metadata": {"name": name, "generation": 1}, "spec": spec, "status": {"conditions": conditions}, **more}


def replica(name, where, index=0, **more):
    spec = {"clusterName": where, "index": index, "deployment": {"name": "chat", "uid": "u"}, "engines": []}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, **more}


def cache(name, **more):
    spec = {"source": "HuggingFace", "huggingFace": {"repo": "acme/tiny"}}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, **more}


CLUSTERS = [cluster("east"), cluster("east", "False"), cluster("west"), cluster("south", spec=7), {"metadata": 7}]
REPLICAS = [replica("a", "east"), replica("b", "east", 1), replica("b", "west", 1), replica("c", "gone"), {"spec": {}}]
CACHES = [cache("weights"), cache("weights", spec=7), cache("other"), {}]
LISTS = st.tuples(*(st.lists(st.sampled_from(kind), max_size=3) for kind in (CLUSTERS, REPLICAS, CACHES)))


def shown(fleet):
    infos = {name: (info.cluster, dict(info.held)) for name, info in fleet.infos.items()}
    return infos, dict(fleet.caches)


@given(st.lists(LISTS, max_size=5), st.booleans())
def test_a_fleet_is_the_same_as_one_that_is_read_anew(calls, copied):
    reader = FleetReader()
    for lists in calls:
        given_lists = copy.deepcopy(lists) if copied else lists
        assert shown(reader(*given_lists)) == shown(fleet_of(*lists))


def test_lists_of_the_same_objects_give_the_same_fleet():
    reader = FleetReader()
    first = reader(CLUSTERS[:1], REPLICAS[:2], CACHES[:1])
    assert reader(iter(CLUSTERS[:1]), REPLICAS[:2], tuple(CACHES[:1])) is first
    for replicas in (REPLICAS[:1], [REPLICAS[1], REPLICAS[0]], [REPLICAS[0], REPLICAS[2]]):
        before = reader(CLUSTERS[:1], REPLICAS[:2], CACHES[:1])
        assert reader(CLUSTERS[:1], replicas, CACHES[:1]) is not before


def test_objects_that_move_to_another_list_are_another_fleet():
    """As many objects, and the same ones: only the list says what they are."""
    reader, odd = FleetReader(), {"metadata": {"name": "x", "namespace": "team"}}
    assert shown(reader([odd], [], [])) == shown(fleet_of([odd], []))
    assert shown(reader([], [], [odd])) == shown(fleet_of([], [], [odd]))
