"""Where devices of a pool are: on nodes that the status names, and on those that it only counts."""

import pytest

from modelplane.api.models import BoundPod
from modelplane.views.fleet_load import DeviceLoad, PoolLoad
from modelplane.web.fleet_map import pool_map
from modelplane.web.shapes import NodeUse, PodsOnNode


def load(**counts):
    return PoolLoad(
        cluster="c",
        pool="p",
        class_name="k",
        nodes=2,
        load=DeviceLoad(**counts),
        replicas=0,
        ready_replicas=0,
        price=None,
    )


def node(name="", used=0, pods=(), **more):
    return NodeUse(name=name, devices=8, used=used, pods=pods, **more)


def bound(name, devices, replica=None, pods=1, pool="p"):
    return BoundPod(pool=pool, node=name, devices=devices, pods=pods, replica=replica)


OURS = PodsOnNode(replica="r", namespace="n", pods=2, devices=1)
THEIRS = PodsOnNode(replica="", namespace="", pods=1, devices=3)
CASES = [
    ("nothing is used", {"devices": 16, "free": 16}, [], [node(), node()]),
    ("a whole node has no name", {"devices": 16, "used": 8, "free": 8}, [], [node(used=8), node()]),
    ("pods of a replica", {"devices": 16, "used": 2, "free": 14}, [bound("a", 1, "d", 2)],
     [node("a", used=2, pods=(OURS,)), node()]),
    ("of a replica that is not known", {"devices": 16, "used": 2, "free": 14}, [bound("a", 1, "gone", 2)],
     [node("a", used=2), node()]),
    ("pods of others", {"devices": 16, "others": 3, "free": 13}, [bound("a", 3)],
     [node("a", others=3, pods=(THEIRS,)), node()]),
    ("another pool's pods", {"devices": 16, "free": 16}, [bound("a", 3, pool="q")], [node(), node()]),
    ("the rest goes to nodes without a name first", {"devices": 16, "used": 10, "free": 6}, [bound("a", 1, "d", 2)],
     [node("a", used=2, pods=(OURS,)), node(used=8)]),
    ("and then to the others", {"devices": 16, "used": 2, "missing": 9, "free": 5}, [bound("a", 1, "d", 2)],
     [node("a", used=2, missing=1, pods=(OURS,)), node(missing=8)]),
    ("a cluster that does not answer", {"devices": 16, "used": 3, "lost": 13}, [],
     [node(used=3, lost=5), node(lost=8)]),
    ("all of it", {"devices": 16, "used": 4, "others": 4, "missing": 4, "lost": 4}, [],
     [node(used=4, others=4), node(missing=4, lost=4)]),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "pods", "nodes"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_devices_of_nodes(counts, pods, nodes):
    found = pool_map(load(**counts), 2, pods, {"d": ("n", "r")}, 16)
    assert (list(found.nodes), found.omitted) == (nodes, 0)


def test_nodes_beyond_the_limit_are_counted():
    found = pool_map(load(devices=16, used=9, free=7), 2, [], {}, 1)
    assert (found.nodes, found.omitted) == ((node(used=8),), 1)


@pytest.mark.parametrize(("counts", "nodes"), [({"devices": 16, "used": None, "free": 4}, 2), ({"devices": 0}, 0)])
def test_no_node_is_shown_where_it_is_not_known_what_is_used(counts, nodes):
    found = pool_map(load(**counts), nodes, [bound("a", 1, "d")], {}, 16)
    assert (found.nodes, found.omitted) == ((), nodes)
