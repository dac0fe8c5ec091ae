"""Caches with their progress on each cluster."""

from modelplane.api.objects import items_at
from modelplane.views.caches import CacheClusterRow, CacheRow
from modelplane.web.paging import ViewQuery, select
from modelplane.web.shapes import CacheClusterShown, CacheShown, RowPage
from modelplane.web.snapshot import DashboardSnapshot

_MOST_CLUSTERS = 50
_WHOLE = 100


def caches_page(snapshot: DashboardSnapshot, query: ViewQuery) -> RowPage[CacheShown]:
    ours = (row for row in snapshot.overview.caches if query.namespace in {"", row.namespace})
    return select(ours, query, words=_words, state=lambda row: row.health.state, show=lambda row: _shown(snapshot, row))


def _words(row: CacheRow) -> str:
    return f"{row.namespace}/{row.name} {row.artifact} {row.source} {row.health.why}"


def _shown(snapshot: DashboardSnapshot, row: CacheRow) -> CacheShown:
    percents = _percents(snapshot, row)
    clusters = sorted(row.clusters, key=lambda each: each.phase == "Ready")[:_MOST_CLUSTERS]
    return CacheShown(
        namespace=row.namespace,
        name=row.name,
        health=row.health,
        artifact=row.artifact,
        source=row.source,
        staged=row.staged,
        progress=row.progress,
        references=row.references,
        clusters=tuple(_cluster(each, percents.get(each.cluster)) for each in clusters),
        omitted=len(row.clusters) - len(clusters),
    )


def _cluster(row: CacheClusterRow, percent: int | None) -> CacheClusterShown:
    return CacheClusterShown(
        cluster=row.cluster,
        phase=row.phase,
        progress=row.progress,
        percent=_WHOLE if row.phase == "Ready" else percent,
        rate=row.rate,
        eta_s=row.eta_s,
        references=row.references,
        why=row.why,
    )


def _percents(snapshot: DashboardSnapshot, row: CacheRow) -> dict[str, int]:
    """By cluster, where the bytes are known."""
    found = {}
    for entry in items_at(snapshot.objects["ModelCache"][row.namespace, row.name], "status", "clusters"):
        staged, total = entry.get("stagedBytes"), entry.get("totalBytes")
        if isinstance(staged, int) and isinstance(total, int) and total > 0:
            found[str(entry.get("name"))] = min(staged * _WHOLE // total, _WHOLE)
    return found
