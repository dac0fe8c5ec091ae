"""A canary: a few replicas get a new revision first, and the others follow when those have served it for long enough.

    no replica has another revision      nothing waits
    enough canaries served long enough   promoted: the update goes on, and stays promoted
    otherwise                            at most canary.replicas replicas get the revision

A canary that stops serving begins anew, so a revision that fails under requests goes no further. What clients get from
it (errors, latency) is not read here. While it lasts, canaries and their endpoints have the label modelplane.ai/track,
by which a ModelService gives them a weight.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from modelplane.api.labels import REVISION
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import Manifest, is_deleting, labels_of
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.observed_replicas import REPLICA_PREFIX
from modelplane.compose.readiness import serving_since


@dataclass(frozen=True, slots=True)
class CanaryState:
    promoted: bool = True
    limit: int | None = None
    """How many replicas may have the new revision; None: all."""
    baked: int = 0
    """Canaries that have served for long enough."""
    left_s: float | None = None
    """Until the next canary has served for long enough; None where none serves."""


def canary_state(request: ComposeRequest[ModelDeployment], revision: str) -> CanaryState:
    given, before = request.resource.spec.rollout.canary, request.resource.status.rollout
    stands = before is not None and before.hash_ == revision and bool(before.promoted)
    if given is None or stands or not outdated_count(request, revision):
        return CanaryState()
    canaries = [item for item in _replicas(request) if labels_of(item).get(REVISION) == revision]
    ages = [request.now - since for item in canaries if (since := serving_since(item)) is not None]
    left = sorted(max(0.0, given.bake_seconds - age) for age in ages)
    baked = left.count(0.0) if request.now else 0
    if baked >= min(given.replicas, request.resource.spec.replicas):
        return CanaryState(baked=baked)
    waits = [wait for wait in left if wait]
    return CanaryState(promoted=False, limit=given.replicas, baked=baked, left_s=min(waits, default=None))


def outdated_count(request: ComposeRequest[ModelDeployment], revision: str) -> int:
    return sum(labels_of(item).get(REVISION) != revision for item in _replicas(request))


def _replicas(request: ComposeRequest[ModelDeployment]) -> Iterator[Manifest]:
    for key, seen in request.observed.items():
        if key.startswith(REPLICA_PREFIX) and not is_deleting(seen.manifest):
            yield seen.manifest
