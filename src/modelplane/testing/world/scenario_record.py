"""What happens to the replicas of a scenario: where each went and why, when it was ready, why it left, its cost.

Why a replica is where it is, the scheduler itself says (`survey`), on the objects as they were before it was placed.
Why it left is read from the objects as they are then.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from modelplane.api.errors import ModelplaneError
from modelplane.api.labels import CLUSTER, REVISION
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import (
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    name_of,
    namespace_of,
    text_at,
    value_at,
)
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.trace import TraceCandidate
from modelplane.testing.world.judge import deployment_of, is_held, replicas_of
from modelplane.testing.world.store import ObjectId, WorldChange
from modelplane.testing.world.world import World
from modelplane.views.fleet_load import fleet_load, sum_of_prices
from modelplane.views.inputs import KINDS, FleetManifests, gather
from modelplane.views.requests import request_of
from modelplane.views.simulation_report import ReplicaPoint

_BILL_S = 0.5
_HOUR_S = 3600.0


@dataclass(slots=True)
class ReplicaRecord:
    name: str
    deployment: str
    cluster: str
    placed_s: float
    why_here: str
    ready_s: float | None = None
    left_s: float | None = None
    why_left: str = ""


@dataclass(slots=True)
class BilledHours:
    """So far, and at which rate it goes on."""

    gpus: float = 0.0
    per_hour: float | None = 0.0
    gpu_hours: float = 0.0
    cost: float | None = 0.0

    def accrue(self, hours: float) -> None:
        self.gpu_hours += self.gpus * hours
        known = self.cost is not None and self.per_hour is not None
        self.cost = self.cost + self.per_hour * hours if known else None  # type: ignore[operator]  # both are known


@dataclass(slots=True)
class _Bills:
    deployments: dict[ObjectId, BilledHours] = field(default_factory=dict)
    nodes: BilledHours = field(default_factory=BilledHours)
    currency: str = ""
    accrued_s: float = 0.0


class FleetRecorder:
    def __init__(self, world: World) -> None:
        self._world = world
        self.replicas: dict[ObjectId, ReplicaRecord] = {}
        self.left: list[ReplicaRecord] = []
        self.points: dict[ObjectId, list[ReplicaPoint]] = {}
        self.bills = _Bills()
        self._planned = False
        self._judged_at: tuple[float, str] = (-1.0, "")
        self._ranked: dict[str, str] = {}
        world.store.listeners.append(self._hear)
        self._plan_bill()

    def close(self) -> None:
        self._world.store.listeners.remove(self._hear)
        self._bill()

    def all_replicas(self) -> list[ReplicaRecord]:
        """By the time of their placement."""
        return sorted([*self.left, *self.replicas.values()], key=lambda each: (each.placed_s, each.name))

    def _hear(self, change: WorldChange) -> None:
        match change.id.kind:
            case "ModelReplica":
                self._follow_replica(change)
            case "ModelDeployment" if change.manifest is not None:
                self._point(change.id, change.manifest)
            case "InferenceCluster":
                self._plan_bill()

    def _follow_replica(self, change: WorldChange) -> None:
        shown = change.manifest if change.manifest is not None else change.before
        if shown is None:
            return
        now = self._world.clock.elapsed
        if change.before is None:
            self._place(change.id, shown)
        record = self.replicas.get(change.id)
        if record is None:
            return
        if record.ready_s is None and is_held(shown, "Ready"):
            record.ready_s = now
            self._world.log(f"{record.name} is ready on {record.cluster}")
        if (change.manifest is None or is_deleting(shown)) and record.left_s is None:
            record.left_s, record.why_left = now, why_left(self._world, shown)
            self._world.log(f"{record.name} leaves {record.cluster}: {record.why_left}")
            self._count_again(shown)
        if change.manifest is None:
            self.left.append(self.replicas.pop(change.id))
            self._plan_bill()

    def _place(self, key: ObjectId, item: Manifest) -> None:
        cluster = labels_of(item).get(CLUSTER, "")
        name, owner = f"{key.namespace}/{key.name}", text_at(item, "spec", "deployment", "name")
        why = self._why_here(key, owner, cluster)
        self.replicas[key] = ReplicaRecord(name, f"{key.namespace}/{owner}", cluster, self._world.clock.elapsed, why)
        self._world.log(f"{name} goes to {cluster}")
        self._count_again(item)
        self._plan_bill()

    def _why_here(self, key: ObjectId, owner: str, cluster: str) -> str:
        """Those that one pass places are judged together: in which order it chose their places is not recorded."""
        now, deployment = self._world.clock.elapsed, f"{key.namespace}/{owner}"
        together = [
            other for other, each in self.replicas.items() if (each.placed_s, each.deployment) == (now, deployment)
        ]
        if self._judged_at != (now, deployment):
            self._judged_at = (now, deployment)
            self._ranked = ranked_places(self._world, {key, *together}, owner, key.namespace)
        return why_here(self._ranked, cluster)

    def _count_again(self, replica: Manifest) -> None:
        owner = deployment_of(self._world.store, replica)
        if owner is not None:
            self._point(ObjectId("ModelDeployment", namespace_of(owner), name_of(owner)), owner)

    def _point(self, key: ObjectId, item: Manifest) -> None:
        known = self.points.setdefault(key, [])
        point = ReplicaPoint(
            at_s=round(self._world.clock.elapsed, 1),
            wanted=int_at(item, "spec", "replicas", default=1),
            placed=len(replicas_of(self._world.store, item)),
            ready=int_at(item, "status", "readyReplicas"),
        )
        before = known[-1] if known else None
        if before is not None and (before.wanted, before.placed, before.ready) == (
            point.wanted,
            point.placed,
            point.ready,
        ):
            return
        if (before.ready if before is not None else 0) != point.ready:
            self._world.log(f"{key.namespace}/{key.name}: {point.ready} of {point.wanted} replicas serve")
        if before is not None and before.at_s == point.at_s:
            known.pop()
        known.append(point)

    def _plan_bill(self) -> None:
        """What is held has changed: work the rates out again, soon."""
        if not self._planned:
            self._planned = True
            self._world.clock.after(_BILL_S, self._bill)

    def _bill(self) -> None:
        self._planned = False
        bills, now = self.bills, self._world.clock.elapsed
        hours, bills.accrued_s = (now - bills.accrued_s) / _HOUR_S, now
        for each in (*bills.deployments.values(), bills.nodes):
            each.accrue(hours)
        load = fleet_load(observed(self._world), ())
        for row in load.deployments:
            key = ObjectId("ModelDeployment", row.namespace, row.name)
            bill = bills.deployments.setdefault(key, BilledHours())
            price = row.price
            bills.currency = bills.currency or (price.currency if price is not None else "")
            bill.gpus, bill.per_hour = row.devices, price.per_hour if price is not None else None
            if not row.devices:
                bill.per_hour = 0.0
        total = sum_of_prices([pool.price for pool in load.pools])
        bills.nodes.gpus = sum(pool.load.devices for pool in load.pools)
        bills.nodes.per_hour = total.per_hour if total is not None else 0.0 if not load.pools else None


def observed(world: World, without: Collection[ObjectId] = ()) -> FleetManifests:
    """What the scheduler is given."""
    items = (item for kind in KINDS for key, item in world.store.by_kind.get(kind, {}).items() if key not in without)
    return gather(items, now=world.now)


def ranked_places(world: World, without: Collection[ObjectId], deployment: str, namespace: str) -> dict[str, str]:
    """How the scheduler ranks every cluster for one more replica, without these; or why it refuses it."""
    inputs = observed(world, without)
    try:
        candidates = _judged(inputs, inputs.deployment(deployment, namespace))
    except ModelplaneError as problem:
        return {"": f"not known: {problem}"}
    refused = {str(each.cluster): f"refused by {each.filter}: {each.reason}" for each in candidates if each.filter}
    return refused | {str(each.cluster): _rank(each) for each in candidates if each.score is not None}


def why_here(ranked: Mapping[str, str], cluster: str) -> str:
    """The rank of the chosen cluster, and those of the others."""
    return "; ".join(
        ([ranked[cluster]] if cluster in ranked else [])
        + [f"{name}: {rank}" if name else rank for name, rank in ranked.items() if name != cluster]
    )


def _judged(inputs: FleetManifests, deployment: ModelDeployment) -> tuple[TraceCandidate, ...]:
    """Every place for one more than those that stay."""
    fleet = inputs.fleet()
    request = request_of(inputs, deployment, fleet)
    known = {each.id for each in fleet.owned_by(request.deployment)}
    decided = schedule(request, fleet, inputs.now).placements
    stay = sum(each.replica.id in known and each.decision is not ReplicaDecision.MOVING for each in decided)
    return survey(msgspec.structs.replace(request, replicas=stay), fleet, inputs.now).trace.candidates()


def _rank(candidate: TraceCandidate) -> str:
    """What puts a place before another: its tier, then the replicas on its cluster, then its scores."""
    tier = [f"tier {candidate.tier}"] if candidate.tier is not None else []
    there = candidate.replicas
    replicas = [] if there is None else [f"{there} {'replica' if there == 1 else 'replicas'} there"]
    return ", ".join([*tier, *replicas, f"score {candidate.score:.3f}"])


def why_left(world: World, replica: Manifest) -> str:
    """The first fact that explains it."""
    return next(_reasons(world, replica), "another takes its place")


def _reasons(world: World, replica: Manifest) -> Iterator[str]:
    name = text_at(replica, "spec", "clusterName")
    cluster = world.store.get(ObjectId("InferenceCluster", "", name))
    owner = deployment_of(world.store, replica)
    if owner is None or is_deleting(owner):
        yield "its deployment is deleted"
        return
    if cluster is None or is_deleting(cluster):
        yield f"{name} is deleted"
        return
    if value_at(cluster, "spec", "drain") is not None:
        yield f"{name} is drained"
    if any(text_at(taint, "effect") == "NoExecute" for taint in items_at(cluster, "spec", "taints")):
        yield f"{name} has a NoExecute taint"
    if not is_held(cluster, "Ready"):
        yield f"{name} does not answer"
    if int_at(owner, "spec", "replicas", default=1) < len(replicas_of(world.store, owner)) + 1:
        yield f"its deployment is scaled to {int_at(owner, 'spec', 'replicas', default=1)}"
    if labels_of(replica).get(REVISION) != text_at(owner, "status", "rollout", "hash"):
        yield "a newer version takes its place"
