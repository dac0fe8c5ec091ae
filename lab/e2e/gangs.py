"""Gangs under KAI, Kueue and Volcano: one that does not fit waits whole, starts whole, and shows in its queue's books.

Each scheduler has a fleet of one cluster (`lab/fleets`). What keeps the gang from starting differs with what the
scheduler decides on. KAI and Volcano place pods: a pool that may grow lacks a node, so the gang is sent there and finds
room for half of it. Kueue lends out quota: what serving does not use was borrowed, so devices are free and the gang may
still not start. In all of them only what we render reaches the scheduler: groups, queues, labels and gates.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Manifest, condition, items, name_of, text, until, value
from lab.components import KAI, KUEUE, VOLCANO, Module, Set
from lab.e2e import queues, racks, steps
from lab.e2e.queues import QUEUE
from lab.e2e.steps import GANG_NODES, adopt, cordon, expect, gang_of, remains_of_models, remove
from lab.e2e.world import OURS, World, conditions, running
from lab.fleet import read_fleet
from lab.hardware import hardware
from lab.manifests import read_folder
from lab.scenario import FailedError
from lab.workload import publish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lab.scenario import Scenario

    Change = Callable[[World, "Case"], Awaitable[None]]

FLEETS = Path("lab/fleets")
GANG, SECOND = "big", "more"
DEVICES = 8 * GANG_NODES
_POOL, _FIRST = "h200", "h200-0"
_HOLDS_S = 15.0
_PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class Case:
    """A scheduler, what it books, and what stands in the gang's way until it is taken away."""

    name: str
    module: Module
    site: str
    booked: int
    """Devices that its queue says are used while the gang runs."""
    alone: int
    """Pods of the same gang that kube-scheduler starts meanwhile, when nothing tells it that they belong together."""
    shorten: Change
    relieve: Change
    why: Callable[[World, Case], Awaitable[str]]
    """What the scheduler says of a gang that waits."""
    racks: bool = False
    """Whether its fleet has racks. Volcano needs HyperNodes, and a plugin that upstream leaves off."""
    named: int = 0
    """Devices that somebody else asks for by name, in the same queue."""
    leftovers: tuple[tuple[str, str], ...] = ()
    """Kinds of which nothing may be left. A LocalQueue goes with its tenant's namespace, which the cluster keeps."""

    @property
    def folder(self) -> Path:
        return FLEETS / self.site


async def _shrink(world: World, case: Case) -> None:
    """The pool has one node and may grow."""
    for item in _machines(case):
        if _node_of(item) != _FIRST:
            await world.sites[case.site].delete(item)


async def _grow(world: World, case: Case) -> None:
    """To what the gang needs."""
    joining = {f"{_POOL}-{number}" for number in range(1, GANG_NODES)}
    await publish(world.sites[case.site], [item for item in _machines(case) if _node_of(item) in joining])


def _machines(case: Case) -> list[Manifest]:
    """Nodes of the pool, and what their drivers publish."""
    (site,) = read_fleet(case.folder)
    return [item for item in hardware(site.pools) if _node_of(item).startswith(_POOL)]


def _node_of(item: Manifest) -> str:
    return name_of(item) if item["kind"] == "Node" else text(item, "spec", "nodeName")


async def _lend(world: World, case: Case) -> None:
    api = world.sites[case.site]
    for item in _others(case):
        await api.apply(item)
    (pod,) = (item for item in _others(case) if item["kind"] == "Pod")

    async def runs() -> bool:
        found = await api.get("v1", "Pod", name_of(pod), namespace=text(pod, "metadata", "namespace"))
        return text(found, "status", "phase") == "Running"

    await until("the borrower runs", runs, within_s=_PATIENCE_S)


async def _give_back(world: World, case: Case) -> None:
    """The borrower ends. Its queue stays: Kueue looks there for whose turn it is."""
    for item in _others(case):
        if item["kind"] == "Pod":
            await world.sites[case.site].delete(item)


def _others(case: Case) -> list[Manifest]:
    """Who else uses the cluster."""
    folder = case.folder / "others"
    return read_folder(folder) if folder.is_dir() else []


async def _said_of_pods(world: World, case: Case) -> str:
    return _said(await world.pods(case.site, GANG), "PodScheduled")


async def _said_of_workloads(world: World, case: Case) -> str:
    waiting = await world.sites[case.site].list("kueue.x-k8s.io/v1beta2", "Workload")
    return _said([each for each in waiting if condition(each, "QuotaReserved") == "False"], "QuotaReserved")


def _said(found: list[Manifest], kind: str) -> str:
    """What the scheduler says of the first of them."""
    for item in found:
        for each in items(item, "status", "conditions"):
            if each.get("type") == kind:
                return f"{text(each, 'reason')}: {' '.join(text(each, 'message').split())[:200]}"
    return "nothing says why"


CASES = {
    Set.KAI: Case(
        "KAI",
        KAI,
        "kai",
        DEVICES,
        1,
        _shrink,
        _grow,
        _said_of_pods,
        racks=True,
        leftovers=(("scheduling.run.ai/v2alpha2", "PodGroup"),),
    ),
    Set.KUEUE: Case(
        "Kueue",
        KUEUE,
        "kueue",
        DEVICES,
        GANG_NODES,
        _lend,
        _give_back,
        _said_of_workloads,
        racks=True,
        leftovers=(("kueue.x-k8s.io/v1beta2", "Workload"),),
    ),
    # This version books devices that are asked for by name, and no claimed ones.
    Set.VOLCANO: Case(
        "Volcano",
        VOLCANO,
        "volcano",
        0,
        1,
        _shrink,
        _grow,
        _said_of_pods,
        named=8,
        leftovers=(("scheduling.volcano.sh/v1beta1", "PodGroup"),),
    ),
}


async def run(scenario: Scenario, world: World, scheduler: Set, only: frozenset[str]) -> None:
    """`only` names steps by their function's name; none means all."""
    case = CASES[scheduler]
    for name, action, needed in (
        ("packages through the real package manager", _install, True),
        ("the cluster and its queue are seen", seen, True),
        ("a queue that is missing is named", no_queue, False),
        *((("each copy of an engine is in one rack", in_racks, False),) if case.racks else ()),
        ("a gang that does not fit waits whole", waits, True),
        ("kube-scheduler alone starts what it can", alone, False),
        ("the gang starts whole once there is room", starts, False),
        ("the queue's books are observed capacity", books, False),
        ("everything is deleted", removal, False),
    ):
        if not only or action.__name__.strip("_") in only:
            await scenario.step(name, partial(action, world, case), needed=needed)


async def _install(world: World, _: Case) -> str:
    return await steps.install(world)


def _platform(case: Case) -> list[Manifest]:
    return read_folder(case.folder)


async def seen(world: World, case: Case) -> str:
    for item in read_folder(case.folder / "cluster"):
        await world.sites[case.site].apply(item)
    waited = await adopt(world, _platform(case))
    await until("the queue observed", partial(_observed, world, case, used=0), within_s=_PATIENCE_S)
    return f"Ready after {waited:.1f} s; {_told(await _queue(world, case))}"


async def _queue(world: World, case: Case) -> Manifest:
    found = await world.control.get(OURS, "InferenceCluster", case.site)
    queues = [each for each in items(found, "status", "queues") if each.get("name") == QUEUE]
    return queues[0] if queues else {}


async def _observed(world: World, case: Case, *, used: int) -> bool:
    queue = await _queue(world, case)
    return queue.get("quota") == DEVICES and (queue.get("used") or 0) == used


def _told(queue: Manifest) -> str:
    told = ", ".join(f"{key} {queue[key]}" for key in ("quota", "used", "usedByOthers", "pending") if key in queue)
    return f"queue {QUEUE}: {told}"


async def no_queue(world: World, case: Case) -> str:
    return await queues.missing(world, case.site, case.folder)


async def in_racks(world: World, case: Case) -> str:
    return await racks.kept(world, case.site)


async def waits(world: World, case: Case) -> str:
    await case.shorten(world, case)
    await world.control.apply(gang_of(GANG, nodes=GANG_NODES))

    async def there() -> bool:
        return len(await world.pods(case.site, GANG)) == GANG_NODES

    waited = await until(f"{GANG_NODES} pods", there, within_s=_PATIENCE_S)
    await _stays_unbound(world, case)
    pods = await world.pods(case.site, GANG)
    why = await case.why(world, case)
    return f"{len(pods)} pods after {waited:.1f} s, none bound for {_HOLDS_S:.0f} s more; {why}"


async def _stays_unbound(world: World, case: Case) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _HOLDS_S
    while loop.time() < end:
        bound = _bound(await world.pods(case.site, GANG))
        expect(not bound, f"bound while the gang does not fit: {', '.join(bound)}")
        await asyncio.sleep(0.5)


def _bound(pods: list[Manifest]) -> list[str]:
    return [name_of(pod) for pod in pods if text(pod, "spec", "nodeName")]


async def alone(world: World, case: Case) -> str:
    """The control of the experiment: the rendered set without the marks, left to kube-scheduler, while the gang waits.

    It takes devices that the gang could not use. Once it is gone, the gang still waits.
    """
    api = world.sites[case.site]
    copy = unmarked(*await api.list("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"))
    await api.apply(copy)
    namespace, labels = text(copy, "metadata", "namespace"), "leaderworkerset.sigs.k8s.io/name=alone"

    async def started() -> bool:
        pods = await api.list("v1", "Pod", namespace=namespace, labels=labels)
        return len(pods) == GANG_NODES and len(_bound(pods)) == case.alone

    async def gone() -> bool:
        return not await api.list("v1", "Pod", namespace=namespace, labels=labels)

    try:
        await until(f"{case.alone} pods bound by kube-scheduler", started, within_s=_PATIENCE_S)
        await asyncio.sleep(2.0)
        expect(await started(), "kube-scheduler bound more than there is room for")
    finally:
        await api.delete(copy)
        await until("the copy gone", gone, within_s=_PATIENCE_S)
    await _stays_unbound(world, case)
    return f"{case.alone} of {GANG_NODES} pods of the same set bound; gone again, and the gang still waits whole"


def unmarked(rendered: Manifest) -> Manifest:
    """A LeaderWorkerSet as it is rendered where no scheduler groups pods, under a name of its own."""
    template = dict(_inner(rendered, "spec", "leaderWorkerTemplate"))
    for name in ("leaderTemplate", "workerTemplate"):
        if pod := _inner(template, name):
            kept = {key: each for key, each in _inner(pod, "spec").items() if key not in _PLACEMENT}
            template[name] = {"metadata": {}, "spec": kept}
    return {
        "apiVersion": rendered["apiVersion"],
        "kind": rendered["kind"],
        "metadata": {"name": "alone", "namespace": text(rendered, "metadata", "namespace")},
        "spec": {**_inner(rendered, "spec"), "leaderWorkerTemplate": template},
    }


_PLACEMENT = frozenset({"schedulerName", "schedulingGates"})


def _inner(item: object, *path: str) -> Manifest:
    found = value(item, *path)
    return dict(found) if isinstance(found, dict) else {}


async def starts(world: World, case: Case) -> str:
    began = asyncio.get_running_loop().time()
    await case.relieve(world, case)

    async def whole() -> bool:
        return len(running(await world.pods(case.site, GANG))) == GANG_NODES

    try:
        waited = await until("the whole gang runs", whole, within_s=_PATIENCE_S)
    except Exception as error:
        raise FailedError(f"{error}; {await case.why(world, case)}") from error
    await world.ready("ModelDeployment", GANG, within_s=_PATIENCE_S)
    pods = await world.pods(case.site, GANG)
    moments = sorted(_scheduled(pod) for pod in pods)
    ready = asyncio.get_running_loop().time() - began
    return f"all pods run {waited:.1f} s after, bound at {' and '.join(moments)}; Ready after {ready:.1f} s"


def _scheduled(pod: Manifest) -> str:
    found = (each for each in items(pod, "status", "conditions") if each.get("type") == "PodScheduled")
    return next((text(each, "lastTransitionTime")[11:19] for each in found), "an unknown time")


async def books(world: World, case: Case) -> str:
    """What the scheduler's queue reports shows in the cluster's status, and what exceeds it is not sent there."""
    try:
        await until("the queue's use observed", partial(_observed, world, case, used=case.booked), within_s=_PATIENCE_S)
    except Exception as error:
        raise FailedError(f"{error}; {_told(await _queue(world, case))}") from error
    queue = await _queue(world, case)
    expect(not queue.get("usedByOthers"), f"devices of ours count as others': {_told(queue)}")
    await world.control.apply(gang_of(SECOND, nodes=1))

    async def refused() -> bool:
        found = await world.control.get(OURS, "ModelDeployment", SECOND)
        return condition(found, "ReplicasScheduled") == "False"

    await until("the second is not placed", refused, within_s=_PATIENCE_S)
    said = conditions(await world.control.get(OURS, "ModelDeployment", SECOND))
    expect("queue" in said, f"one more is not refused for the queue: {said}")
    told = f"{_told(queue)}; one more says {said[:160]}"
    return f"{told}; {await _named(world, case)}" if case.named else told


async def _named(world: World, case: Case) -> str:
    """A pod of somebody else in our queue, with devices of a node without a DRA driver."""
    api = world.sites[case.site]
    devices = {"nvidia.com/gpu": str(case.named)}
    node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "system-0"}}
    await api.patch(node, {"status": {"allocatable": devices, "capacity": devices}}, subresource="status")
    for item in _others(case):
        await api.apply(item)
    await until("others in the books", partial(_observed, world, case, used=case.booked + case.named))
    queue = await _queue(world, case)
    expect(queue.get("usedByOthers") == case.named, f"others' devices count as ours: {_told(queue)}")
    for item in reversed(_others(case)):
        await api.delete(item)
    return f"beside somebody else {_told(queue)}"


async def removal(world: World, case: Case) -> str:
    began = asyncio.get_running_loop().time()
    await remove(world, [gang_of(GANG, nodes=GANG_NODES), gang_of(SECOND, nodes=1)])

    async def empty() -> bool:
        return not await _left(world, case)

    try:
        await until("nothing left", empty, within_s=_PATIENCE_S)
    except Exception as error:
        raise FailedError(f"left: {', '.join(await _left(world, case))}") from error
    await until("the queue empty again", partial(_observed, world, case, used=0), within_s=_PATIENCE_S)
    await cordon(world, _platform(case))
    for kinds in ({"InferenceCluster", "InferenceGateway"}, {"InferenceClass"}):
        await remove(world, [item for item in _platform(case) if item["kind"] in kinds])
    for item in reversed(_others(case)):
        await world.sites[case.site].delete(item)
    return f"nothing left after {asyncio.get_running_loop().time() - began:.1f} s, and the queue is empty"


async def _left(world: World, case: Case) -> list[str]:
    api = world.sites[case.site]
    others = {text(item, "metadata", "namespace") for item in _others(case)}
    found = [item for version, kind in case.leftovers for item in await api.list(version, kind)]
    ours = [item for item in found if text(item, "metadata", "namespace") not in others]
    return [*await remains_of_models(world), *(f"{item['kind']} {name_of(item)}" for item in ours)]
