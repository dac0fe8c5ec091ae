"""The ModelReplicas of a ModelDeployment as they are desired, each with the pools that placement assigned."""

from dataclasses import replace

from modelplane.api.codec import encode
from modelplane.api.labels import REVISION
from modelplane.api.models import ModelDeployment, ModelReplica
from modelplane.api.objects import Manifest
from modelplane.compose.cache_mounts import cache_mounts
from modelplane.compose.contract import ComposeRequest, Local, ReadyWhen
from modelplane.compose.lowering import Lowered
from modelplane.compose.observed_replicas import (
    ENDPOINT_PREFIX,
    REPLICA_PREFIX,
    composition_key,
    decode_observed,
)
from modelplane.compose.replica_spec import make_replica
from modelplane.compose.rolling_update import Rollout, roll
from modelplane.compose.surge import rollout_rules
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica


def replica_key(placed: PlacedReplica) -> str:
    return composition_key(placed.cluster, placed.index)


def replica_targets(
    request: ComposeRequest[ModelDeployment], lowered: Lowered, decided: Schedule, fleet: Fleet
) -> tuple[Rollout, dict[str, Local]]:
    """The desired replicas, as far as they are known.

    One that moves is left unchanged: its pool may not fit the new spec. So is one that cannot be read: its pools are
    unknown.
    """
    moving: dict[str, Local] = {}
    wanted: dict[str, ModelReplica] = {}
    seen = dict[str, Manifest]()
    for placement in decided.placements:
        key = replica_key(placement.replica)
        known = request.observed.get(key)
        unread = bool(placement.replica.fault)
        if placement.decision is ReplicaDecision.MOVING or unread:
            if known is not None and isinstance(known.target, Local):
                moving[key] = known.target
                continue
            if unread:
                continue
        before = decode_observed(known.manifest, request.decode_replica) if known is not None else None
        mounts = cache_mounts(request.resource.metadata.namespace, lowered, placement.replica, fleet, before)
        wanted[key] = make_replica(
            request.resource, lowered, placement.replica, mounts, fleet.cluster(placement.replica.cluster)
        )
        if known is not None:
            seen[wanted[key].metadata.name] = known.manifest
    unreached = frozenset(wanted[key].metadata.name for key in wanted if not _is_reached(request, key))
    rollout = roll(
        tuple(wanted.values()),
        seen,
        lambda item: decode_observed(item, request.decode_replica),
        replace(rollout_rules(request, lowered.labels.get(REVISION, "")), unreached=unreached),
    )
    rolled = {
        key: Local(encode(replica), ReadyWhen.READY) for key, replica in zip(wanted, rollout.replicas, strict=True)
    }
    return rollout, {**moving, **rolled}


def _is_reached(request: ComposeRequest[ModelDeployment], key: str) -> bool:
    endpoint = request.observed.get(ENDPOINT_PREFIX + key.removeprefix(REPLICA_PREFIX))
    return endpoint is not None and endpoint.ready
