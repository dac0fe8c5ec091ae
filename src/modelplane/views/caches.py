"""ModelCaches as rows: one for each cache, and one for each cluster that it is staged on."""

from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.models import CacheOnCluster, ModelCache
from modelplane.api.objects import Manifest, name_of, namespace_of
from modelplane.views.health import ObjectHealth, object_health, unreadable

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class CacheClusterRow:
    cluster: str
    phase: str
    progress: str
    """Such as `1.5 of 16.0 GiB, 9 %`."""
    rate: str
    eta_s: int | None
    references: int
    digest: str
    why: str


@dataclass(frozen=True, slots=True)
class CacheRow:
    namespace: str
    name: str
    health: ObjectHealth
    artifact: str
    source: str
    staged: str
    """Clusters that hold it of those that should."""
    progress: str
    references: int
    clusters: tuple[CacheClusterRow, ...] = ()


def cache_rows(items: Iterable[Manifest]) -> tuple[CacheRow, ...]:
    """One that cannot be read is a row that says so."""
    return tuple(_row(item) for item in items)


def _row(item: Manifest) -> CacheRow:
    try:
        return _cache(decode(ModelCache, item))
    except InvalidObject as error:
        place = namespace_of(item), name_of(item)
        return CacheRow(*place, unreadable(error), artifact="", source="", staged="", progress="", references=0)


def _cache(item: ModelCache) -> CacheRow:
    status = item.status
    summary = status.summary
    return CacheRow(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        health=object_health(item.metadata, status.conditions),
        artifact=item.spec.artifact.kind,
        source=status.source or "",
        staged=(summary.ready if summary else None) or "",
        progress=(summary.progress if summary else None) or "",
        references=status.references or 0,
        clusters=tuple(_cluster(entry) for entry in status.clusters),
    )


def _cluster(entry: CacheOnCluster) -> CacheClusterRow:
    rate = entry.bytes_per_second
    said = ": ".join(part for part in (entry.reason, entry.message) if part and part not in {"Staged", entry.phase})
    return CacheClusterRow(
        cluster=entry.name,
        phase=entry.phase or "Pending",
        progress=_progress(entry),
        rate=f"{amount(rate)}/s" if rate else "",
        eta_s=entry.eta_seconds,
        references=entry.references or 0,
        digest=entry.resolved_digest or "",
        why=f"{said} (volume of {entry.shared_with})".strip() if entry.shared_with else said,
    )


def _progress(entry: CacheOnCluster) -> str:
    staged, total = entry.staged_bytes, entry.total_bytes
    if not total or staged is None:
        return ""
    if staged >= total:
        return amount(total)
    return f"{amount(staged)} of {amount(total)}, {staged * _WHOLE // total} %"


def amount(count: int) -> str:
    """Bytes for people."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
