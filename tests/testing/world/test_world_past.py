"""Defects that the product has had, each as a scenario of a world: what served keeps serving where it is.

A row is red while the defect is there: those with `broken` show it, by putting the defect back. Drawn worlds that
failed once are in test_world_run, and defects that a checker must find in test_world_checkers.
"""

import pytest

from modelplane.testing.world.clients import RequestEnd
from modelplane.testing.world.judge import replicas_of
from modelplane.testing.world.layout import class_manifest
from modelplane.testing.world.sieve import _CHAT, _NORTH, _clusters, _deployments, _edited, _empty, _serving, _world
from modelplane.testing.world.store import ObjectId, id_of
from modelplane.testing.world.world import USER, World
from tests.testing.world.test_world_checkers import forgets_observed, lets_namespaces_go

OTHER = ObjectId("ModelDeployment", "team-b", "chat")
_SOUTH = ObjectId("InferenceCluster", "", "south")
TAINT = {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}


class Watch:
    """What a world shows from now on: which replicas leave, how few serve, and which requests are not answered."""

    def __init__(self, world):
        self.world, self.before = world, set(world.store.by_kind["ModelReplica"])
        self.fewest = self._now()
        self._unserved = self._count()
        world.store.listeners.append(lambda _: self._look())

    def _look(self):
        now = self._now()
        self.fewest = {key: min(number, now.get(key, 0)) for key, number in self.fewest.items()}

    def _now(self):
        return _serving(self.world)

    def _count(self):
        ends = self.world.clients.ends
        return sum(number for (_, end), number in ends.items() if end is not RequestEnd.SERVED)

    def run(self, seconds=90.0):
        self.world.run(seconds)
        left = self.before - set(self.world.store.by_kind["ModelReplica"])
        return left, self.fewest, self._count() - self._unserved


def watched(act):
    world = _world()
    watch = Watch(world)
    act(world)
    return watch.run()


def namespaces(world):
    return {key for key in world.store.by_kind["Object"] if "tenant" in key.name or "mp-" in key.name}


def lists_are_empty(world):
    """Every list of replicas and clusters that the function is given is shorter than it is, for 20 s."""
    for plane in world.planes:
        plane.live = False
        plane.trouble.shorten = 1.0
        plane.restart()
    world.clock.after(20.0, lambda: [setattr(plane.trouble, "shorten", 0.0) for plane in world.planes])


def a_cluster_is_not_listed(world):
    """The view lacks a cluster for 20 s; the API server has it."""
    view = world.planes[0].view
    view._apply(_NORTH, None, "list")
    world.clock.after(20.0, lambda: view.relist("InferenceCluster"))


def lose_their_status(*keys):
    """For 20 s, however often the control plane writes it: decisions are made meanwhile."""

    def act(world):
        for turn in range(40):
            world.clock.after(turn / 2, lambda: [world.store.write_status(key, {}, "restore") for key in keys])

    return act


def everything_is_restored_without_statuses(world):
    for kind in ("InferenceCluster", "ModelDeployment", "ModelReplica", "ModelEndpoint"):
        _empty(kind)(world)


def a_class_is_deleted(world):
    world.store.purge(ObjectId("InferenceClass", "", "h200"), USER)


def a_class_is_garbled(world):
    item = world.store.objects[ObjectId("InferenceClass", "", "h200")]
    world.store.apply({**item, "spec": {"devices": "?"}}, USER)


def a_second_server_starts(world):
    world.add_plane(live=True)


def the_clock_jumps(world):
    world.clock.skew_s += 3600.0
    world.clock.after(30.0, lambda: setattr(world.clock, "skew_s", -3600.0))


STAYS = [
    pytest.param(lists_are_empty, forgets_observed, id="lists of replicas are empty or short"),
    pytest.param(lose_their_status(_NORTH, _SOUTH), None, id="clusters have no status"),
    pytest.param(lose_their_status(_NORTH), None, id="a cluster has no status, and another would take its replicas"),
    pytest.param(_empty("ModelReplica"), None, id="replicas have no status"),
    pytest.param(everything_is_restored_without_statuses, None, id="a backup is restored without statuses"),
    pytest.param(a_class_is_deleted, None, id="a class is deleted by mistake"),
    pytest.param(a_class_is_garbled, None, id="a class cannot be read"),
    pytest.param(a_second_server_starts, None, id="a second function server"),
    pytest.param(the_clock_jumps, None, id="the clock jumps"),
]


@pytest.mark.parametrize(("act", "broken"), STAYS)
def test_what_serves_stays(monkeypatch, act, broken):
    left, fewest, _ = watched(act)
    assert (left, fewest) == (set(), {_CHAT: 2, OTHER: 1})
    if broken is not None:
        broken(monkeypatch)
        with pytest.raises(AssertionError):
            assert watched(act)[0] == set()


MOVES = [
    # A cache without the cluster answers both questions about it, so that it counts as gone: successors come first.
    pytest.param(a_cluster_is_not_listed, id="a cache has lost a cluster"),
    pytest.param(lambda world: _edited(world, _NORTH, **TAINT), id="a NoExecute taint dropped replicas at once"),
    pytest.param(lambda world: _edited(world, _NORTH, drain={}), id="a drain waits for successors"),
    pytest.param(
        lambda world: _edited(world, _CHAT, clusterSelector={"matchLabels": {"region": "west"}}),
        id="a selector was edited",
    ),
]


@pytest.mark.parametrize("act", MOVES)
def test_what_moves_serves_elsewhere_first_and_no_request_is_lost(act):
    left, fewest, unserved = watched(act)
    assert left
    assert fewest == {_CHAT: 2, OTHER: 1}
    assert unserved == 0


def test_namespaces_of_tenants_stay_whatever_the_list_says(monkeypatch):
    world = _world()
    before = namespaces(world)
    lists_are_empty(world)
    world.run(60.0)
    assert before
    assert namespaces(world) >= before
    lets_namespaces_go(monkeypatch)
    lists_are_empty(world)
    with pytest.raises(AssertionError, match="tenants: "):
        world.run(60.0)


def test_a_deployment_that_comes_with_its_clusters_is_spread_over_them():
    """The first cluster that was ready got every replica."""
    item = next(each for each in _deployments() if id_of(each) == _CHAT)
    world = World(3, [class_manifest("h200"), *_clusters(), item])
    late = world.clusters["south"]
    late.reachable = False
    world.clock.after(10.0, late.calm)
    world.run(60.0)
    replicas = replicas_of(world.store, world.store.objects[_CHAT])
    assert sorted(each["spec"]["clusterName"] for each in replicas) == ["north", "south"]
