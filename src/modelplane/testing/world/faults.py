"""What can go wrong in a world. Each fault is drawn, told in one sentence, and ends by itself or when the storm does.

What operators do stays done. A fault that finds nothing to act on answers with an empty sentence, and did not happen.
"""

from collections.abc import Callable
from dataclasses import dataclass

from modelplane.api.objects import name_of, uid_of
from modelplane.testing.world import operators
from modelplane.testing.world.clusters import EngineTrouble, WorkloadCluster
from modelplane.testing.world.control_plane import COMPOSITES, ControlPlane
from modelplane.testing.world.layout import happens
from modelplane.testing.world.weights import LoaderTrouble
from modelplane.testing.world.world import World

_FLEET = ("InferenceCluster", "ModelReplica", "ModelDeployment", "Object")


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    inject: Callable[[World], str]
    rare: bool = False
    """Few worlds can have it: it needs what is seldom there. A seed of its own shows it in each run of the tests."""


def _plane(world: World) -> ControlPlane:
    return world.random.choice(world.planes)


def _cluster(world: World) -> WorkloadCluster | None:
    return world.clusters[world.random.choice(sorted(world.clusters))] if world.clusters else None


def _for_a_while(world: World, end: Callable[[], None]) -> float:
    seconds = round(world.random.uniform(2, 60), 1)
    world.later(seconds, end)
    return seconds


def _trouble(world: World, field: str, value: float) -> str:
    plane = _plane(world)
    setattr(plane.trouble, field, value)
    seconds = _for_a_while(world, lambda: setattr(plane.trouble, field, 0.0))
    return f"{plane.name} for {seconds} s"


def _conflicts(world: World) -> str:
    return _trouble(world, "conflict", 0.3)


def _lost_replies(world: World) -> str:
    return _trouble(world, "lost_reply", 0.3)


def _crash_between_writes(world: World) -> str:
    return _trouble(world, "crash", 0.1)


def _slow(world: World) -> str:
    return _trouble(world, "slow_s", world.random.uniform(1, 8))


def _shortened(world: World) -> str:
    planes = [plane for plane in world.planes if not plane.live]
    if not planes:
        return ""
    plane = world.random.choice(planes)
    plane.trouble.shorten = 0.5
    for key in plane.view.by_kind.get("ModelDeployment", ()):
        plane.wake(key)
    world.later(3.0, lambda: setattr(plane.trouble, "shorten", 0.0))
    return f"lists of {plane.name} for 3 s"


def _stale_read(world: World) -> str:
    plane, kind = _plane(world), world.random.choice(_FLEET)
    back, seconds = world.random.randint(1, 12), world.random.uniform(1, 15)
    plane.travel(kind, back, seconds)
    return f"{plane.name} reads {kind} of {back} changes ago for {seconds:.1f} s"


def _repeated(world: World) -> str:
    plane, kind = _plane(world), world.random.choice(_FLEET)
    plane.travel(kind, world.random.randint(1, 3), 0.1)
    return f"the last changes of {kind} come again to {plane.name}"


def _lag(world: World) -> str:
    plane, kind = _plane(world), world.random.choice(_FLEET)
    plane.trouble.lag_s[kind] = world.random.uniform(3, 30)

    def end() -> None:
        plane.trouble.lag_s.pop(kind, None)

    late = plane.trouble.lag_s[kind]
    return f"{plane.name} hears of {kind} {late:.1f} s late for {_for_a_while(world, end)} s"


def _dropped(world: World) -> str:
    plane = _plane(world)
    plane.view.drop_chance = 0.5

    def end() -> None:
        plane.view.drop_chance = 0.0
        for kind in {key.kind for key in plane.view.missed}:
            plane.view.relist(kind)

    return f"half of the changes for {plane.name}, for {_for_a_while(world, end)} s"


def _reordered(world: World) -> str:
    plane = _plane(world)
    kinds = [kind for kind in sorted(plane.view.pending) if plane.view.reorder(kind)]
    if kinds:
        return f"{', '.join(kinds)} for {plane.name}"
    # Nothing waits to change places: let it.
    for kind in _FLEET:
        plane.trouble.lag_s[kind] = world.random.uniform(0.5, 4)
    world.later(5.0, lambda: _reorder_later(plane))
    return f"what {plane.name} hears in the next 5 s"


def _reorder_later(plane: ControlPlane) -> None:
    for kind in list(plane.view.pending):
        plane.view.reorder(kind)
    plane.trouble.lag_s.clear()


def _compaction(world: World) -> str:
    plane = _plane(world)
    kind = world.random.choice(_FLEET)
    plane.trouble.lag_s[kind] = 5.0
    world.later(4.0, world.store.compact)
    world.later(6.0, plane.trouble.lag_s.clear)
    return f"while the watch of {kind} of {plane.name} is late"


def _restart(world: World) -> str:
    plane = _plane(world)
    plane.restart()
    return plane.name


def _two_at_once(world: World) -> str:
    if len(world.planes) > 1:
        return ""
    made = world.add_plane(live=happens(world.random, 0.4))
    if happens(world.random, 0.5):
        _for_a_while(world, lambda: world.retire(made))
    return f"{made.name} beside {world.planes[0].name}"


def _pause(world: World) -> str:
    plane = _plane(world)
    plane.paused = True
    return f"{plane.name} for {_for_a_while(world, lambda: setattr(plane, 'paused', False))} s"


def _unreachable(world: World) -> str:
    cluster = _cluster(world)
    if cluster is None:
        return ""

    def end() -> None:
        cluster.reachable = True
        cluster.shake()

    cluster.reachable = False
    cluster.shake()
    return f"{cluster.name} for {_for_a_while(world, end)} s"


def _status_emptied(world: World) -> str:
    kinds = world.random.choice([("InferenceCluster",), ("ModelReplica",), ("ModelDeployment",), tuple(COMPOSITES)])
    found = [key for kind in sorted(kinds) for key in world.store.by_kind.get(kind, ())]
    if not found:
        return ""
    if len(kinds) == 1:
        found = [world.random.choice(found)]
    for key in found:
        world.store.write_status(key, {}, "restore")
    return str(found[0]) if len(found) == 1 else f"all {len(found)} objects"


def _node_lost(world: World) -> str:
    cluster = _cluster(world)
    nodes = [node for pool in cluster.nodes.values() for node in pool if node.ready] if cluster else []
    if cluster is None or not nodes:
        return ""
    node = world.random.choice(nodes)

    def end() -> None:
        node.ready = True
        cluster.shake()

    node.ready = False
    cluster.shake()
    return f"on {cluster.name} for {_for_a_while(world, end)} s"


def _device_lost(world: World) -> str:
    cluster = _cluster(world)
    nodes = [node for pool in cluster.nodes.values() for node in pool] if cluster else []
    if cluster is None or not nodes:
        return ""
    node = world.random.choice(nodes)
    node.lost = world.random.randint(1, node.devices)
    cluster.shake()

    def end() -> None:
        node.lost = 0
        cluster.shake()

    return f"{node.lost} on {cluster.name} for {_for_a_while(world, end)} s"


def _engine_crash(world: World) -> str:
    cluster = _cluster(world)
    pods = [pod for pod in cluster.pods() if pod.node is not None] if cluster else []
    if cluster is None or not pods:
        return ""
    cluster.restart_pod(world.random.choice(pods))
    return f"on {cluster.name}"


def _engine_hang(world: World) -> str:
    cluster = _cluster(world)
    pods = [pod for pod in cluster.pods() if pod.node is not None and not pod.hung] if cluster else []
    if cluster is None or not pods:
        return ""
    pod = world.random.choice(pods)
    pod.hung = True
    world.later(30.0, lambda: cluster.restart_pod(pod) if pod.hung else None)
    return f"on {cluster.name}, until its liveness probe restarts it"


def _slow_start(world: World) -> str:
    return _engines(world, EngineTrouble(start_s=45.0))


def _never_ready(world: World) -> str:
    return _engines(world, EngineTrouble(never_ready=True))


def _engines(world: World, trouble: EngineTrouble) -> str:
    cluster = _cluster(world)
    if cluster is None:
        return ""

    def end() -> None:
        cluster.engines = EngineTrouble()
        for pod in cluster.pods():
            if pod.node is not None and not pod.is_ready(world.clock.elapsed):
                cluster.restart_pod(pod)

    cluster.engines = trouble
    for pod in cluster.pods()[:1]:
        cluster.restart_pod(pod)
    return f"on {cluster.name} for {_for_a_while(world, end)} s"


def _slow_source(world: World) -> str:
    return _loaders(world, LoaderTrouble(seconds=45.0))


def _broken_source(world: World) -> str:
    return _loaders(world, LoaderTrouble(fails=True))


def _loaders(world: World, trouble: LoaderTrouble) -> str:
    cluster = _cluster(world)
    if cluster is None or not world.store.by_kind.get("ModelCache"):
        return ""

    def end() -> None:
        cluster.volumes.calm()
        cluster.shake()

    cluster.volumes.trouble = trouble
    return f"for {cluster.name} for {_for_a_while(world, end)} s"


def _volume_lost(world: World) -> str:
    cluster = _cluster(world)
    claims = cluster.claims() if cluster is not None else []
    if cluster is None or not claims:
        return ""
    uid = uid_of(world.random.choice(claims))

    def end() -> None:
        cluster.volumes.lost.discard(uid)
        cluster.shake()

    cluster.volumes.lost.add(uid)
    cluster.shake()
    return f"{uid} on {cluster.name} for {_for_a_while(world, end)} s"


def _volume_deleted(world: World) -> str:
    """By hand, and its content with it. What a pod mounts cannot be deleted, so whoever wants to waits for another."""
    is_done = False

    def attempt() -> None:
        nonlocal is_done
        clusters = () if is_done else world.clusters.values()
        free = [(each, claim) for each in clusters for claim in each.claims() if not each.mounts(claim)]
        if free:
            is_done = True
            cluster, claim = world.random.choice(free)
            cluster.delete_claim(claim)
            world.happened("volume-deleted", f"{name_of(claim)} on {cluster.name}")

    for seconds in range(0, 60, 4):
        world.later(seconds, attempt)
    return ""


def _clock_forward(world: World) -> str:
    jump = world.random.choice([60.0, 3600.0])
    world.clock.skew_s += jump
    return f"by {jump:g} s"


def _clock_back(world: World) -> str:
    jump = world.random.choice([30.0, 600.0])
    world.clock.skew_s -= jump
    return f"by {jump:g} s"


FAULTS: tuple[Fault, ...] = (
    Fault("conflict", _conflicts),
    Fault("reply-lost", _lost_replies),
    Fault("slow-api", _slow),
    Fault("stale-read", _stale_read),
    Fault("lagging-watch", _lag),
    Fault("dropped-event", _dropped),
    Fault("repeated-event", _repeated),
    Fault("reordered-events", _reordered),
    Fault("compaction", _compaction),
    Fault("list-shortened", _shortened),
    Fault("restart", _restart),
    Fault("two-at-once", _two_at_once),
    Fault("pause", _pause),
    Fault("crash-between-writes", _crash_between_writes),
    Fault("cluster-unreachable", _unreachable),
    Fault("status-emptied", _status_emptied),
    Fault("node-lost", _node_lost),
    Fault("device-lost", _device_lost),
    Fault("pool-shrunk", operators.shrink_pool),
    Fault("pool-reclassed", operators.reclass_pool),
    Fault("cluster-relabelled", operators.relabel),
    Fault("cluster-deleted", operators.delete_cluster),
    Fault("cordon", operators.cordon),
    Fault("taint", operators.taint),
    Fault("class-missing", operators.delete_class),
    Fault("class-garbled", operators.garble_class),
    Fault("engine-crash", _engine_crash),
    Fault("engine-hang", _engine_hang),
    Fault("slow-start", _slow_start),
    Fault("never-ready", _never_ready),
    Fault("scale", operators.scale),
    Fault("selector", operators.select),
    Fault("image", operators.change_image),
    Fault("resize", operators.resize),
    Fault("recreate", operators.recreate),
    Fault("priority", operators.prioritise),
    Fault("clock-forward", _clock_forward),
    Fault("clock-back", _clock_back),
    Fault("drain", operators.drain),
    Fault("slow-source", _slow_source),
    Fault("broken-source", _broken_source),
    Fault("volume-lost", _volume_lost),
    Fault("volume-deleted", _volume_deleted, rare=True),
)
