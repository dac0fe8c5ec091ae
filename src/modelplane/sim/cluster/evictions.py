"""The eviction API: which pods may be evicted now, by the PodDisruptionBudgets that select them.

A budget allows `maxUnavailable` pods to be away. Those that are away are its pods that are not ready or being deleted;
one that is being deleted and one that starts in its place count once. Under AlwaysAllow a pod that is not ready may be
evicted whatever the budget says. Only what we render is read: budgets with `maxUnavailable` as a number and
`matchLabels`.
"""

from collections.abc import Iterable, Sequence

from modelplane.api.objects import Manifest, int_at, is_deleting, labels_of, mapping_at, namespace_of, text_at
from modelplane.sim.cluster.objects import condition_is

_ALWAYS = "AlwaysAllow"


def evictable(pods: Iterable[Manifest], everywhere: Sequence[Manifest], budgets: Sequence[Manifest]) -> list[Manifest]:
    """Those of `pods` that may be evicted together, in their order. `everywhere` are all pods of the cluster."""
    found: list[Manifest] = []
    for pod in pods:
        mine = [budget for budget in budgets if _selects(budget, pod)]
        if all(_allows(budget, pod, everywhere, found) for budget in mine):
            found.append(pod)
    return found


def _selects(budget: Manifest, pod: Manifest) -> bool:
    wanted = mapping_at(budget, "spec", "selector", "matchLabels")
    return namespace_of(budget) == namespace_of(pod) and wanted.items() <= labels_of(pod).items()


def _allows(budget: Manifest, pod: Manifest, everywhere: Sequence[Manifest], evicted: Sequence[Manifest]) -> bool:
    if not condition_is(pod, "Ready") and text_at(budget, "spec", "unhealthyPodEvictionPolicy") == _ALWAYS:
        return True
    selected = [other for other in everywhere if _selects(budget, other)]
    deleted = sum(is_deleting(other) for other in selected)
    starting = sum(not is_deleting(other) and not condition_is(other, "Ready") for other in selected)
    away = max(deleted, starting) + sum(other in evicted for other in selected)
    return away < int_at(budget, "spec", "maxUnavailable")
