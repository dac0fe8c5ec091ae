"""What would happen if manifests were applied: who is placed, kept, moved, dropped or left waiting, and at which price.

All deployments are decided together, see `fleet_decisions`. A plane decides in the order in which it gets to them, so
where room is short another one may be first.

Time to ready is an estimate for comparing plans: an engine start, plus a node's start where a pool must scale up, plus
fetching the weights where they are not staged.
"""

from collections.abc import Iterator, Mapping

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelCache, ModelReplica
from modelplane.compose.caching.storage import storage_of
from modelplane.compose.fleet_snapshot import read_replica
from modelplane.placement.cluster_info import ClusterInfo, charges
from modelplane.placement.decisions import Placement, ReplicaDecision
from modelplane.placement.filters import CachesFilter
from modelplane.placement.offers import nodes_taken
from modelplane.placement.pool_usage import fits
from modelplane.placement.request import PlacementRequest
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import summarise
from modelplane.placement.values import PlacedReplica, ReplicaKey
from modelplane.views.fleet_decisions import DeploymentDecision, FleetDecisions, decide_fleet
from modelplane.views.health import reported_health
from modelplane.views.inputs import FleetManifests, key_text
from modelplane.views.obstacles import missing_cache, shrunk_pool
from modelplane.views.shapes import Action, DeploymentPlan, FitAnswer, FleetPlan, PlanRow

ENGINE_START_S = 60.0
NODE_START_S = 300.0
FETCH_MIB_PER_S = 250.0
_MIB_PER_GIB = 1024
_ACTIONS = {ReplicaDecision.NEW: Action.PLACE, ReplicaDecision.KEPT: Action.KEEP, ReplicaDecision.MOVING: Action.MOVE}


class FetchTime(msgspec.Struct, frozen=True):
    """How long a cache takes to fetch: by its size, or as a cluster that fetches it says."""

    by_size_s: float
    reported_s: Mapping[str, int]

    def on(self, cluster: ClusterName) -> float:
        return float(self.reported_s.get(cluster, self.by_size_s))


FetchTimes = Mapping[tuple[str, str], FetchTime]
"""By namespace and name of the cache."""


def plan(inputs: FleetManifests) -> FleetPlan:
    """What applying the deployments of a fleet would place, keep, move, drop, evict or leave waiting, and its price."""
    decisions = decide_fleet(inputs)
    plans = deployment_plans(inputs, decisions)
    prices: dict[str, float] = {}
    for row in (row for one in plans for row in one.rows):
        if row.price_per_hour is not None and row.action in {Action.PLACE, Action.KEEP, Action.MOVE}:
            prices[row.currency] = prices.get(row.currency, 0.0) + row.price_per_hour
    return FleetPlan(deployments=plans, price_per_hour={name: round(prices[name], 6) for name in sorted(prices)})


def deployment_plans(inputs: FleetManifests, decisions: FleetDecisions) -> tuple[DeploymentPlan, ...]:
    """Each deployment's part, on the fleet as it would be."""
    times, healths = fetch_times(inputs), replica_healths(inputs)
    return tuple(
        DeploymentPlan(
            deployment=key_text(found.request.deployment),
            replicas=found.request.replicas,
            answer=answer_of(found.request, found.decided, decisions.fleet),
            rows=tuple(_rows(found, decisions.fleet, times, healths)),
        )
        for found in decisions.deployments
    )


def answer_of(request: PlacementRequest, decided: Schedule, fleet: Fleet) -> FitAnswer:
    replicas = [placement.replica for placement in decided.placements]
    if any(shrunk_pool(replica, fleet) for replica in replicas):
        return FitAnswer.WAITS_FOR_ROOM
    if decided.unplaced:
        if {refusal.filter for refusal in decided.trace.decisive} == {CachesFilter.name}:
            return FitAnswer.WAITS_FOR_CACHES
        return FitAnswer.FITS_NOWHERE if decided.trace.fits_nowhere else FitAnswer.WAITS_FOR_ROOM
    if any(missing_cache(request, replica, fleet) for replica in replicas):
        return FitAnswer.WAITS_FOR_CACHES
    later = any(_needs_nodes(replica, fleet) for replica in replicas)
    return FitAnswer.FITS_AFTER_SCALE_UP if later else FitAnswer.FITS_NOW


def fetch_times(inputs: FleetManifests) -> FetchTimes:
    times: dict[tuple[str, str], FetchTime] = {}
    for item in inputs.caches:
        try:
            cache = decode(ModelCache, item)
        except InputError:
            continue
        key = (cache.metadata.namespace, cache.metadata.name)
        seconds = storage_of(cache).size_gib * _MIB_PER_GIB / FETCH_MIB_PER_S
        reported = {entry.name: entry.eta_seconds for entry in cache.status.clusters if entry.eta_seconds is not None}
        times[key] = FetchTime(seconds if storage_of(cache).type == "PVC" else 0.0, reported)
    return times


def replica_healths(inputs: FleetManifests) -> dict[ReplicaKey, str]:
    """Why replicas that are there do not serve, in their own words."""
    found: dict[ReplicaKey, str] = {}
    for item in inputs.replicas:
        placed = read_replica(item)
        if placed is None or placed.serving or placed.fault:
            continue
        replica = decode(ModelReplica, item)
        if replica.status.reason:
            found[placed.id] = reported_health(replica.metadata, replica.status).why
    return found


def _rows(
    found: DeploymentDecision, fleet: Fleet, times: FetchTimes, healths: Mapping[ReplicaKey, str]
) -> Iterator[PlanRow]:
    request, decided = found.request, found.decided
    name = key_text(request.deployment)
    for placement in decided.placements:
        row = _placed(request, placement, fleet, times)
        why = "; ".join(part for part in (row.reason, healths.get(placement.replica.id, "")) if part)
        yield msgspec.structs.replace(row, reason=why)
    for gone in decided.dropped:
        replica = gone.replica
        yield PlanRow(
            action=Action.DROP, deployment=name, cluster=replica.cluster, index=replica.index, reason=gone.why
        )
    for victim in found.victims:
        yield PlanRow(
            action=Action.EVICT,
            deployment=key_text(victim.deployment),
            cluster=victim.cluster,
            index=victim.index,
            reason=f"preempted by {name}",
        )
    if decided.unplaced:
        reason = summarise(decided.trace.refusals()) or "the fleet has no clusters"
        yield PlanRow(action=Action.WAIT, deployment=name, replicas=decided.unplaced, reason=reason)


def _placed(request: PlacementRequest, placement: Placement, fleet: Fleet, times: FetchTimes) -> PlanRow:
    replica = placement.replica
    info = fleet.infos[replica.cluster]
    price = price_of(replica, info)
    obstacle = shrunk_pool(replica, fleet) or missing_cache(request, replica, fleet)
    return PlanRow(
        action=_ACTIONS[placement.decision],
        deployment=key_text(request.deployment),
        cluster=replica.cluster,
        pools=tuple(assignment.pool for assignment in replica.assignments),
        index=replica.index,
        reason="; ".join(part for part in (placement.why, obstacle) if part),
        price_per_hour=price[0] if price else None,
        currency=price[1] if price else "",
        ready_in_s=None if obstacle else _ready_in_s(request, placement, fleet, times),
    )


def price_of(replica: PlacedReplica, info: ClusterInfo) -> tuple[float, str] | None:
    """What a replica costs an hour: each pod the part of its node that it takes. None where a pool has no price."""
    total, currency = 0.0, ""
    for position, pods in charges(replica, info.pools):
        price = info.pools[position].price
        if price is None or currency not in {"", price.currency}:
            return None
        currency = price.currency
        total += price.per_node_hour * nodes_taken(info.kinds[position], pods)
    return (round(total, 6), currency) if currency else None


def _ready_in_s(request: PlacementRequest, placement: Placement, fleet: Fleet, times: FetchTimes) -> float:
    replica = placement.replica
    if replica.serving:
        return 0.0
    fetch = 0.0
    for wanted in request.caches:
        key = (request.deployment.namespace, wanted.name)
        cache = fleet.caches.get(key)
        if cache is None or replica.cluster not in cache.staged:
            fetch = max(fetch, times[key].on(replica.cluster) if key in times else 0.0)
    scale_up = NODE_START_S if _needs_nodes(replica, fleet) else 0.0
    return ENGINE_START_S + max(scale_up, fetch)


def _needs_nodes(replica: PlacedReplica, fleet: Fleet) -> bool:
    """Whether a pool has to add nodes before everything on it fits."""
    info = fleet.infos[replica.cluster]
    for assignment in replica.assignments:
        position = info.position(assignment.pool)
        present = info.pools[position].nodes_now if position is not None else None
        if position is None or present is None:
            continue
        kind, present = info.kinds[position], info.pools[position].units(present)
        if not fits(kind.counts, present, info.usages[position], packed=kind.packed, bound=kind.bound):
            return True
    return False
