"""What deployments ask of a fleet, for plans, explanations and replays.

A snapshot does not have what pods are told, so what its clusters refuse cannot be found by rendering: it is recorded
with each decision, and taken from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.models import ModelDeployment
from modelplane.compose.placement_request import placement_request
from modelplane.placement.request import PlacementRequest
from modelplane.placement.snapshot import Fleet
from modelplane.views.inputs import FleetManifests, key_text


@dataclass(frozen=True, slots=True)
class _RecordedCheck:
    refusals: Mapping[bytes, str]

    def refuse(self, rendering: bytes, _artifacts: tuple[str, ...], /) -> str | None:
        return self.refusals.get(rendering)


def request_of(inputs: FleetManifests, deployment: ModelDeployment, fleet: Fleet) -> PlacementRequest:
    request = placement_request(deployment)
    recorded = inputs.refused.get(key_text(request.deployment))
    if recorded is None:
        return request
    known = ((fleet.cluster(name), why) for name, why in recorded.items())
    refusals = {cluster.rendering: why for cluster, why in known if cluster is not None}
    return msgspec.structs.replace(request, check=_RecordedCheck(refusals))


def refused_clusters(request: PlacementRequest, fleet: Fleet) -> dict[str, str]:
    """The clusters that cannot run a deployment, each with why."""
    if request.check is None:
        return {}
    caches = [fleet.caches.get((request.deployment.namespace, wanted.name)) for wanted in request.caches]
    kinds = tuple(cache.artifact if cache is not None else "Weights" for cache in caches)
    judged = ((cluster.name, request.check.refuse(cluster.rendering, kinds)) for cluster in fleet.clusters)
    return {name: why for name, why in judged if why is not None}
