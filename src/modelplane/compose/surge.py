"""Surge: replicas of an older revision are replaced by new ones, as replicas in the wrong place are.

Placement keeps such a replica until a successor serves, and lets go of one at a time where no other pool has capacity
for a successor. A successor counts when clients reach it: after minReadySeconds, and when its endpoint is ready.
"""

from itertools import islice

import msgspec

from modelplane.api.labels import REVISION
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import is_deleting, labels_of
from modelplane.compose.canary import canary_state, outdated_count
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.observed_replicas import ENDPOINT_PREFIX, REPLICA_PREFIX, place_of
from modelplane.compose.readiness import serves
from modelplane.compose.rolling_update import RolloutRules, settling_s
from modelplane.placement.snapshot import Fleet


def rollout_rules(request: ComposeRequest[ModelDeployment], revision: str) -> RolloutRules:
    given, canary = request.resource.spec.rollout, canary_state(request, revision)
    surge = given.strategy == "Surge"
    return RolloutRules(given.paused, surge, float(given.min_ready_seconds), request.now, canary.limit, canary.stable)


def outdated_replicas(request: ComposeRequest[ModelDeployment], revision: str) -> frozenset[tuple[ClusterName, int]]:
    """The places of the replicas that are replaced now: those that serve an older revision, the first of them."""
    rules = rollout_rules(request, revision)
    if not rules.surge or rules.paused:
        return frozenset()
    at_once = request.resource.spec.rollout.max_surge
    if rules.canary is not None:
        # Counted by the old replicas that are gone: a successor that serves beside an old one has not replaced it yet.
        replaced = max(0, request.resource.spec.replicas - outdated_count(request, revision))
        at_once = min(at_once, max(0, rules.canary - replaced))
    stable = rules.stable if rules.canary is not None else ""
    ordered = sorted(request.observed.items(), key=lambda each: (_revision(each[1]) == stable, each[0]))
    found = (
        place
        for key, seen in ordered
        if key.startswith(REPLICA_PREFIX)
        and _revision(seen) != revision
        and serves(seen.manifest)
        and not is_deleting(seen.manifest)
        and (place := place_of(key)) is not None
    )
    return frozenset(islice(found, at_once))


def _revision(seen: Observed) -> str:
    return labels_of(seen.manifest).get(REVISION, "")


def without_unreached(fleet: Fleet, request: ComposeRequest[ModelDeployment], revision: str) -> Fleet:
    """The fleet in which replicas that clients do not reach yet do not serve, so that nothing leaves for them."""
    unreached = {
        place_of(key)
        for key, seen in request.observed.items()
        if key.startswith(REPLICA_PREFIX) and _is_unreached(request, key, seen, revision)
    }
    if not unreached:
        return fleet
    changed = [
        msgspec.structs.replace(replica, serving=False)
        for replica in fleet.owned_by(request.resource.metadata.key)
        if (replica.cluster, replica.index) in unreached
    ]
    return fleet.with_replicas(changed) if changed else fleet


def _is_unreached(request: ComposeRequest[ModelDeployment], key: str, seen: Observed, revision: str) -> bool:
    """Whether a replica serves for less than minReadySeconds, or is a successor whose endpoint is not ready."""
    rollout = request.resource.spec.rollout
    if settling_s(seen.manifest, float(rollout.min_ready_seconds), request.now) > 0:
        return True
    if rollout.strategy != "Surge" or labels_of(seen.manifest).get(REVISION) != revision:
        return False
    endpoint = request.observed.get(ENDPOINT_PREFIX + key.removeprefix(REPLICA_PREFIX))
    return (endpoint is None or not endpoint.ready) and outdated_count(request, revision) > 0
