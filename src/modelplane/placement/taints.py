"""Taints and tolerations, by the rules of Kubernetes.

A toleration without an effect tolerates every effect; `Exists` without a key tolerates every taint but a drain. A
NoExecute taint that is tolerated for a time only drains replicas when that time is over, counted from when the taint
was added or first seen.
"""

from collections.abc import Iterable

from modelplane.api.labels import DRAIN
from modelplane.api.models import Toleration
from modelplane.placement.values import Effect, PlacementTaint

FOREVER = float("inf")


def tolerates(toleration: Toleration, taint: PlacementTaint) -> bool:
    if taint.key == DRAIN:
        return False
    if toleration.effect is not None and toleration.effect != taint.effect.value:
        return False
    if toleration.key is not None and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.key is not None and (toleration.value or "") == taint.value


def keeping_away(taints: Iterable[PlacementTaint], tolerations: tuple[Toleration, ...]) -> PlacementTaint | None:
    """The first taint that keeps a new replica away: one that is not tolerated, or would drain it again in time."""
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        drained = taint.effect is Effect.NO_EXECUTE and any(found.toleration_seconds is not None for found in matching)
        if not matching or drained:
            return taint
    return None


def drains_at(taint: PlacementTaint, tolerations: tuple[Toleration, ...]) -> float:
    """When a taint drains replicas that run: in seconds of the epoch, 0 for at once."""
    if taint.effect is not Effect.NO_EXECUTE:
        return FOREVER
    matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
    if not matching:
        return 0.0
    limits = [found.toleration_seconds for found in matching if found.toleration_seconds is not None]
    if not limits or taint.since is None:
        return FOREVER
    return taint.since + min(limits)
