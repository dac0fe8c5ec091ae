"""How a dropped ModelReplica goes: its ModelEndpoint first, and that after those of its successors.

While the endpoint is there the fleet's gateways send requests to the replica, and without the replica its cluster has
no route for them. A replica that a successor replaces

keeps its endpoint     until every replica that serves has an endpoint that is ready: requests go there then
loses its endpoint     in the next pass; where gateways are made of objects it is marked as leaving for a while before
is removed             in the first pass that does not observe the endpoint

A gateway that is made of objects reads the Backend of an endpoint and the routes to it one by one: with a Backend that
is gone, a route answers 500 until it is written again. So services drop an endpoint that leaves first.

A new replica in a pool that one leaves, or within the same quota, is composed when that one is removed. Before, the two
would be too many for the pool, and the new one would give way.

Its pods go on answering for their drain time after that. A replica that leaves for another reason does not wait for
the endpoints of others.
"""

from dataclasses import dataclass

from modelplane.api.labels import LEAVING
from modelplane.api.meta import ClusterName, PoolName
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import annotations_of
from modelplane.api.timestamps import epoch_s
from modelplane.compose.contract import ComposeRequest, Desired, Local, Observed
from modelplane.compose.readiness import serves
from modelplane.compose.replica_endpoints import endpoint_is_stale, endpoint_key, leaving_endpoint
from modelplane.compose.replica_targets import replica_key
from modelplane.placement.decisions import Dropped, DropReason, Placement, ReplicaDecision
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica

_Place = tuple[ClusterName, PoolName | None]
"""A pool, or all of a cluster."""
LINGER_S = 1.0
"""How soon it is seen whether the endpoint is gone, where nothing else says so."""


LEAVING_S = 5.0
"""How long services have to drop an endpoint before it is deleted."""


@dataclass(frozen=True, slots=True)
class ReplicaRemoval:
    lingering: dict[str, Desired]
    """Dropped replicas that stay as they are for another pass, with the endpoints that they keep."""
    removed: tuple[Dropped, ...]
    """Observed replicas that leave the desired state."""
    vacating: frozenset[_Place] = frozenset()
    """Where replicas linger whose place may be given to others already."""

    def holds_back(self, placement: Placement) -> bool:
        if placement.decision is not ReplicaDecision.NEW:
            return False
        cluster = placement.replica.cluster
        return (cluster, None) in self.vacating or not self.vacating.isdisjoint(_places(placement.replica))


def removal_of(request: ComposeRequest[ModelDeployment], decided: Schedule, fleet: Fleet) -> ReplicaRemoval:
    lingering: dict[str, Desired] = {}
    removed: list[Dropped] = []
    vacating: set[_Place] = set()
    routed = _is_routed(request, decided)
    for dropped in decided.dropped:
        key, endpoint = replica_key(dropped.replica), endpoint_key(dropped.replica)
        seen, known = request.observed.get(key), request.observed.get(endpoint)
        if seen is None:
            continue
        if known is None:
            removed.append(dropped)
            continue
        lingering[key] = Desired(seen.target, seen.ready)
        vacating |= _places(dropped.replica)
        if _has_quota(fleet, dropped.replica):
            vacating.add((dropped.replica.cluster, None))
        waits = dropped.reason is DropReason.REPLACED and not routed
        kept = Desired(known.target, known.ready) if waits else _leaving(request, known)
        if kept is not None and not endpoint_is_stale(request, endpoint):
            lingering[endpoint] = kept
    return ReplicaRemoval(lingering, tuple(removed), frozenset(vacating))


def _leaving(request: ComposeRequest[ModelDeployment], known: Observed) -> Desired | None:
    """The endpoint, marked; None when services had their time, and where none is needed or no clock is there."""
    if request.embedded or not request.now or not isinstance(known.target, Local):
        return None
    since = epoch_s(annotations_of(known.manifest).get(LEAVING))
    # A clock that went back would make it wait until it has caught up.
    if since is not None and not 0.0 <= request.now - since < LEAVING_S:
        return None
    marked = leaving_endpoint(known.manifest, request.now if since is None else since)
    return Desired(Local(marked, known.target.ready_when), known.ready)


def _places(replica: PlacedReplica) -> set[_Place]:
    return {(replica.cluster, assignment.pool) for assignment in replica.assignments}


def _has_quota(fleet: Fleet, replica: PlacedReplica) -> bool:
    cluster = fleet.cluster(replica.cluster)
    return cluster is not None and cluster.quota_of(replica.deployment.namespace) is not None


def _is_routed(request: ComposeRequest[ModelDeployment], decided: Schedule) -> bool:
    """Whether every replica that serves has an endpoint that is ready.

    The decision counts a replica that serves by the fleet, which may be newer than what is observed: so it counts here.
    """
    for placement in decided.placements:
        seen = request.observed.get(replica_key(placement.replica))
        if not placement.replica.serving and (seen is None or not serves(seen.manifest)):
            continue
        endpoint = request.observed.get(endpoint_key(placement.replica))
        if endpoint is None or not endpoint.ready:
            return False
    return True
