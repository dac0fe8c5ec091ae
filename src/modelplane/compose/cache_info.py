"""A ModelCache as placement reads it: the clusters that hold it, and those that will or cannot."""

from collections.abc import Iterable

from modelplane.api.meta import ClusterName
from modelplane.api.models import (
    CacheOnCluster,
    ModelCache,
)
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import source_fault, storage_of
from modelplane.compose.causes import STAGING_FAULTS
from modelplane.placement.values import (
    CacheInfo,
)

SOON_S = 120
"""A cache that will be staged within this time counts as staged: its replica may be placed and waits for it."""


def cache_of(resource: ModelCache) -> CacheInfo:
    entries = resource.status.clusters
    source = source_of(resource)
    key = source.key if source is not None and storage_of(resource).type == "PVC" else ""
    older = {ClusterName(found.name): found.staged_keys[0] for found in entries if _holds_older(found, key)}
    staged = {ClusterName(found.name) for found in entries if found.phase == "Ready"} | older.keys()
    awaited = _awaited(resource, frozenset(staged))
    refused = (found for found in entries if found.phase == "Failed" and found.name not in staged)
    stalled = (found for found in entries if found.name in awaited and found.reason in STAGING_FAULTS)
    return CacheInfo(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        staged=frozenset(staged),
        selector=resource.spec.cluster_selector,
        artifact=resource.spec.artifact.kind,
        key=key,
        keys=older,
        awaited=awaited,
        stalled=_by_cause(stalled),
        refused=_by_cause(refused),
        # An object without a uid is not stored anywhere, so nothing reconciles it: a plan is made of such.
        settled=not resource.metadata.uid or bool(resource.status.conditions),
        fault=source_fault(resource) or "",
    )


def _holds_older(entry: CacheOnCluster, key: str) -> bool:
    """Whether a cluster holds what an older source had, and not yet what the newest has."""
    return bool(entry.staged_keys) and key not in entry.staged_keys


def _by_cause(entries: Iterable[CacheOnCluster]) -> tuple[tuple[str, frozenset[ClusterName]], ...]:
    found: dict[str, set[ClusterName]] = {}
    for entry in entries:
        found.setdefault(_refusal(entry), set()).add(ClusterName(entry.name))
    return tuple((why, frozenset(where)) for why, where in sorted(found.items()))


def _refusal(entry: CacheOnCluster) -> str:
    """Without the time of the next attempt: a cause that stays the same must not change the fleet.

    A status of an older release has no cause, and its message has that time.
    """
    return ": ".join(filter(None, (entry.reason, entry.cause))) or "staging failed"


def _awaited(resource: ModelCache, staged: frozenset[ClusterName]) -> frozenset[ClusterName]:
    """Clusters that fetch it whoever is placed there, and for longer than a replica takes to start."""
    if resource.spec.replication != "AllMatchingClusters":
        return frozenset()
    fetching = (entry for entry in resource.status.clusters if entry.phase in {"Pending", "Hydrating"})
    return frozenset(ClusterName(entry.name) for entry in fetching if not _is_soon(entry)) - staged


def _is_soon(entry: CacheOnCluster) -> bool:
    return entry.eta_seconds is not None and entry.eta_seconds <= SOON_S
