"""What a plane would decide about all deployments of a fleet, until it is quiet.

Deployments are decided one after the other, by namespace and name, each seeing the places that those before it take. A
deployment that preempts is decided until its replicas are placed or nobody is left to evict; one that was decided
before and lost replicas to it is decided again.
"""

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.meta import Key
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import Manifest
from modelplane.placement.decisions import Dropped, Placement, ReplicaDecision
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.request import PlacementRequest
from modelplane.placement.schedule import Schedule, schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica
from modelplane.views.inputs import FleetManifests
from modelplane.views.requests import request_of


class DeploymentDecision(msgspec.Struct, frozen=True, eq=False):
    request: PlacementRequest
    decided: Schedule
    victims: tuple[PlacedReplica, ...]
    """Replicas of other deployments that it evicts."""


class FleetDecisions(msgspec.Struct, frozen=True, eq=False):
    deployments: tuple[DeploymentDecision, ...]
    fleet: Fleet
    """The fleet as it would be."""

    def of(self, deployment: Key) -> DeploymentDecision:
        return next(found for found in self.deployments if found.request.deployment == deployment)


def decide_fleet(inputs: FleetManifests, *, skip_unreadable: bool = False) -> FleetDecisions:
    fleet = inputs.fleet()
    found_requests = (_request(inputs, item, fleet, skip=skip_unreadable) for item in inputs.deployments)
    requests = [request for request in found_requests if request is not None]
    found: dict[Key, DeploymentDecision] = {}
    robbed: dict[Key, None] = {}
    for request in requests:
        decision, fleet = _settled(request, fleet, inputs.now, inputs.profile)
        found[request.deployment] = decision
        robbed |= dict.fromkeys(victim.deployment for victim in decision.victims)
    for deployment in robbed:
        if deployment in found:
            decision, fleet = _settled(found[deployment].request, fleet, inputs.now, inputs.profile)
            found[deployment] = _joined(found[deployment], decision)
    return FleetDecisions(tuple(found.values()), fleet)


def _request(inputs: FleetManifests, item: Manifest, fleet: Fleet, *, skip: bool) -> PlacementRequest | None:
    try:
        return request_of(inputs, decode(ModelDeployment, item), fleet)
    except InputError:
        if skip:
            return None
        raise


def _settled(
    request: PlacementRequest, fleet: Fleet, now: float, profile: PlacementProfile
) -> tuple[DeploymentDecision, Fleet]:
    """The decision after every eviction that the deployment may make, and the fleet with it applied."""
    before = frozenset(replica.id for replica in fleet.owned_by(request.deployment))
    victims: list[PlacedReplica] = []
    dropped: dict[object, Dropped] = {}
    while True:
        decided = _acting(request, fleet, now, profile)
        dropped |= {gone.replica.id: gone for gone in decided.dropped}
        evicted = decided.preemption.victims if decided.preemption is not None and decided.preemption.acted else ()
        victims += evicted
        gone = [replica.id for replica in (*fleet.owned_by(request.deployment), *evicted)]
        fleet = fleet.with_replicas([placement.replica for placement in decided.placements], gone)
        if not evicted:
            break
    placements = tuple(
        placement if placement.replica.id in before else Placement(placement.replica, ReplicaDecision.NEW)
        for placement in decided.placements
    )
    decided = msgspec.structs.replace(
        decided, placements=placements, dropped=tuple(gone for gone in dropped.values() if gone.replica.id in before)
    )
    return DeploymentDecision(request, decided, tuple(victims)), fleet


def _acting(request: PlacementRequest, fleet: Fleet, now: float, profile: PlacementProfile) -> Schedule:
    """One pass of the deployment, and the next where the first nominates victims."""
    decided = schedule(request, fleet, now, profile=profile)
    if decided.preemption is None or decided.preemption.acted:
        return decided
    nominated = msgspec.structs.replace(request, nominated_victims=frozenset(decided.preemption.digests))
    acted = schedule(nominated, fleet, now, profile=profile)
    return acted if acted.preemption is not None and acted.preemption.acted else decided


def _joined(first: DeploymentDecision, again: DeploymentDecision) -> DeploymentDecision:
    """The later decision of a deployment that lost replicas, with what both of them place, drop and evict."""
    placed = {placement.replica.id: placement for placement in first.decided.placements}
    placements = tuple(placed.get(found.replica.id, found) for found in again.decided.placements)
    dropped = (*first.decided.dropped, *again.decided.dropped)
    decided = msgspec.structs.replace(again.decided, placements=placements, dropped=dropped)
    return DeploymentDecision(again.request, decided, (*first.victims, *again.victims))
