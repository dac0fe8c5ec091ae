"""A fault at every write: twenty scenarios, each run once undisturbed and then once for each of its writes and faults.

restart        the control plane ends before the write, and starts anew
missed event   the control plane never hears of the write, until it lists everything at the end
stale read     after the write the control plane reads everything as it was a few changes ago, for a while

However it was disturbed, a scenario must end as it ends undisturbed: with as many replicas that serve.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from modelplane.api.objects import API_VERSION, Json, Manifest, labels_of, manifest, mapping_at, with_metadata
from modelplane.testing.world.checkers import WorldViolation
from modelplane.testing.world.control_plane import ControlPlane, ControlPlaneCrash
from modelplane.testing.world.judge import replicas_of
from modelplane.testing.world.layout import CLASSES, PRIORITIES, class_manifest, template
from modelplane.testing.world.run import settle
from modelplane.testing.world.store import ObjectId, id_of
from modelplane.testing.world.world import SETTLE_S, USER, World

_KINDS = ("InferenceCluster", "ModelDeployment", "ModelReplica", "ModelEndpoint", "Object")
_CHAT = ObjectId("ModelDeployment", "team-a", "chat")
_OTHER = ObjectId("ModelDeployment", "team-b", "chat")
_NORTH = ObjectId("InferenceCluster", "", "north")
_BACK, _STALE_S, _RUN_S = 4, 6.0, 40.0


class Disturbance(StrEnum):
    RESTART = "restart"
    MISSED_EVENT = "missed event"
    STALE_READ = "stale read"


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    act: Callable[[World], None]


@dataclass(frozen=True, slots=True)
class SieveFailure:
    scenario: str
    disturbance: Disturbance
    write: int
    violation: str

    def __str__(self) -> str:
        return f"{self.scenario}, {self.disturbance} at write {self.write}: {self.violation}"


def sieve(scenario: Scenario, *, points: int | None = None) -> Iterator[SieveFailure | None]:
    """One result for each write and fault; None where it ended as it should. `points`: at so many writes only."""
    expected, writes = _undisturbed(scenario)
    for at in range(1, writes + 1, max(writes // points, 1) if points else 1):
        for disturbance in Disturbance:
            yield _disturbed(scenario, disturbance, at, expected)


def _undisturbed(scenario: Scenario) -> tuple[dict[ObjectId, int], int]:
    world = _world()
    counter = _Disturber(world.planes[0], world, None, 0)
    scenario.act(world)
    world.run(_RUN_S)
    settle(world)
    return _serving(world), counter.writes


def _disturbed(
    scenario: Scenario, disturbance: Disturbance, at: int, expected: dict[ObjectId, int]
) -> SieveFailure | None:
    world = _world()
    _Disturber(world.planes[0], world, disturbance, at)
    try:
        scenario.act(world)
        world.run(_RUN_S)
        settle(world)
        found = _serving(world)
        if found != expected:
            raise WorldViolation("sieve", f"{found} serve at the end, {expected} do undisturbed")  # noqa: TRY301  as others
    except WorldViolation as violation:
        return SieveFailure(scenario.name, disturbance, at, str(violation))
    return None


class _Disturber:
    """Counts the writes of a plane and disturbs it at one of them."""

    def __init__(self, plane: ControlPlane, world: World, disturbance: Disturbance | None, at: int) -> None:
        self._plane, self._world, self._disturbance, self._at = plane, world, disturbance, at
        self.writes = 0
        plane.before_write = self._count

    def _count(self) -> None:
        self.writes += 1
        if self.writes != self._at:
            return
        match self._disturbance:
            case Disturbance.RESTART:
                raise ControlPlaneCrash
            case Disturbance.MISSED_EVENT:
                self._plane.view.lost.add(self._world.store.version + 1)
            case Disturbance.STALE_READ:
                self._world.clock.after(0.3, self._go_back)

    def _go_back(self) -> None:
        for kind in _KINDS:
            self._plane.travel(kind, _BACK, _STALE_S)


def _serving(world: World) -> dict[ObjectId, int]:
    return {
        id_of(item): sum(world.truly_serves(replica) for replica in replicas_of(world.store, item))
        for item in world.store.all_of("ModelDeployment")
    }


def _world() -> World:
    """Two clusters of two nodes, a deployment that spreads over both, and one of another team."""
    world = World(1, [*(class_manifest(name) for name in CLASSES), *_clusters(), *_deployments()])
    world.run(SETTLE_S)
    return world


def _clusters() -> list[Json]:
    priorities = [{"name": name, "value": value} for name, value in PRIORITIES.items()]
    return [
        manifest(
            API_VERSION,
            "InferenceCluster",
            name,
            labels={"region": region},
            spec={
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
                "nodePools": [{"name": "pool-0", "className": "h200", "nodeCount": 2}],
                "scheduling": {"priorities": priorities},
            },
        )
        for name, region in (("north", "east"), ("south", "west"))
    ]


def _deployments() -> list[Json]:
    return [_deployment(_CHAT, 2, 4, "silver"), _deployment(_OTHER, 1, 2, "gold")]


def _deployment(key: ObjectId, replicas: int, devices: int, priority: str) -> Json:
    spec: Json = {
        "replicas": replicas,
        "priority": priority,
        "nodeSelector": {"devices": [{"name": "gpu", "count": devices}]},
        "workers": {"template": template("engine:1")},
        "failover": {"gracePeriodSeconds": 10},
    }
    return manifest(API_VERSION, key.kind, key.name, namespace=key.namespace, spec=spec)


def _edited(world: World, key: ObjectId, **changes: object) -> None:
    known = world.store.get(key)
    if known is not None:
        world.store.apply({**known, "spec": {**mapping_at(known, "spec"), **changes}}, USER)


def _edit(key: ObjectId, **changes: object) -> Callable[[World], None]:
    return lambda world: _edited(world, key, **changes)


def _again(key: ObjectId) -> Callable[[World], None]:
    """Delete, and create under the same name."""

    def act(world: World) -> None:
        item = next(each for each in _deployments() if id_of(each) == key)
        world.store.delete(key, USER)
        world.clock.after(10.0, lambda: _apply(world, item))

    return act


def _apply(world: World, item: Manifest) -> None:
    world.store.apply(item, USER)


def _relabel(world: World) -> None:
    _edited(world, _CHAT, clusterSelector={"matchLabels": {"region": "east"}})
    known = world.store.get(_NORTH)
    if known is not None:
        world.store.apply(with_metadata(known, labels={**labels_of(known), "zone": "1"}), USER)


def _unreachable(world: World) -> None:
    cluster = world.clusters["north"]
    cluster.reachable = False
    cluster.shake()
    world.clock.after(20.0, cluster.calm)


def _node_lost(world: World) -> None:
    cluster = world.clusters["north"]
    cluster.nodes["pool-0"][0].ready = False
    cluster.shake()
    world.clock.after(20.0, cluster.calm)


def _crash(world: World) -> None:
    for cluster in world.clusters.values():
        for pod in cluster.pods():
            cluster.restart_pod(pod)


def _empty(kind: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        for key in list(world.store.by_kind.get(kind, ())):
            world.store.write_status(key, {}, "restore")

    return act


def _class_missing(world: World) -> None:
    world.store.purge(ObjectId("InferenceClass", "", "h200"), USER)
    world.clock.after(10.0, lambda: _apply(world, class_manifest("h200")))


def _devices(count: int) -> dict[str, object]:
    return {"nodeSelector": {"devices": [{"name": "gpu", "count": count}]}}


def _pool(nodes: int) -> dict[str, object]:
    return {"nodePools": [{"name": "pool-0", "className": "h200", "nodeCount": nodes}]}


def _compete(world: World) -> None:
    """More than there is, and what has the higher priority may preempt."""
    _edited(world, _CHAT, replicas=8)
    more = {"replicas": 3, "preemptionPolicy": "PreemptLowerPriority", **_devices(8)}
    world.clock.after(15.0, lambda: _edited(world, _OTHER, **more))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("scale up", _edit(_CHAT, replicas=4)),
    Scenario("scale down", _edit(_CHAT, replicas=1)),
    Scenario("scale to zero", _edit(_CHAT, replicas=0)),
    Scenario("another image", _edit(_CHAT, workers={"template": template("engine:2")})),
    Scenario("fewer devices", _edit(_CHAT, **_devices(2))),
    Scenario("more devices", _edit(_CHAT, **_devices(8))),
    Scenario("two workers", _edit(_CHAT, workers={"count": 2, "template": template("engine:1")})),
    Scenario("another selector", _edit(_CHAT, clusterSelector={"matchLabels": {"region": "west"}})),
    Scenario("a selector and a label", _relabel),
    Scenario("another priority", _edit(_CHAT, priority="gold")),
    Scenario("drained cluster", _edit(_NORTH, taints=[{"key": "maintenance", "effect": "NoExecute"}])),
    Scenario("cordoned cluster", _edit(_NORTH, cordoned=True)),
    Scenario("smaller pool", _edit(_NORTH, **_pool(1))),
    Scenario("cluster deleted", lambda world: world.store.purge(_NORTH, USER)),
    Scenario("cluster unreachable", _unreachable),
    Scenario("node lost", _node_lost),
    Scenario("every engine crashes", _crash),
    Scenario("statuses of clusters lost", _empty("InferenceCluster")),
    Scenario("statuses of replicas lost", _empty("ModelReplica")),
    Scenario("class deleted and created", _class_missing),
    Scenario("deleted and created", _again(_CHAT)),
    Scenario("more than there is, with preemption", _compete),
)
