"""Surge: replicas of an older revision are replaced by new ones, as replicas in the wrong place are.

Placement keeps such a replica until a successor serves, and lets go of one at a time where no other pool has capacity
for a successor. A successor serves when it may have an endpoint, after minReadySeconds.
"""

from itertools import islice

import msgspec

from modelplane.api.labels import REVISION
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import is_deleting, labels_of
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.observed_replicas import REPLICA_PREFIX, place_of
from modelplane.compose.readiness import serves
from modelplane.compose.rolling_update import RolloutRules, settling_s
from modelplane.placement.snapshot import Fleet


def rollout_rules(request: ComposeRequest[ModelDeployment]) -> RolloutRules:
    given = request.resource.spec.rollout
    return RolloutRules(given.paused, given.strategy == "Surge", float(given.min_ready_seconds), request.now)


def outdated_replicas(request: ComposeRequest[ModelDeployment], revision: str) -> frozenset[tuple[ClusterName, int]]:
    """The places of the replicas that are replaced now: those that serve an older revision, the first of them."""
    rules = rollout_rules(request)
    if not rules.surge or rules.paused:
        return frozenset()
    found = (
        place
        for key, seen in sorted(request.observed.items())
        if key.startswith(REPLICA_PREFIX)
        and labels_of(seen.manifest).get(REVISION) != revision
        and serves(seen.manifest)
        and not is_deleting(seen.manifest)
        and (place := place_of(key)) is not None
    )
    return frozenset(islice(found, request.resource.spec.rollout.max_surge))


def without_settling(fleet: Fleet, request: ComposeRequest[ModelDeployment]) -> Fleet:
    """The fleet in which replicas that serve for less than minReadySeconds do not serve yet: they have no endpoint."""
    rules = rollout_rules(request)
    settling = {
        place_of(key)
        for key, seen in request.observed.items()
        if key.startswith(REPLICA_PREFIX) and settling_s(seen.manifest, rules.min_ready_s, rules.now) > 0
    }
    if not settling:
        return fleet
    changed = [
        msgspec.structs.replace(replica, serving=False)
        for replica in fleet.owned_by(request.resource.metadata.key)
        if (replica.cluster, replica.index) in settling
    ]
    return fleet.with_replicas(changed) if changed else fleet
