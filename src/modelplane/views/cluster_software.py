"""Who waits for what in an upgrade of the clusters' software, and which scheduler a cluster has and why.

It shows what the clusters published in their statuses, and decides nothing again.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionType
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, name_of
from modelplane.views.shapes import ClusterExplanation, SoftwareRow

_NOT_INSTALLED = "Modelplane installs no software on it"


def explain_cluster(clusters: Iterable[Manifest], name: str) -> ClusterExplanation:
    """The rows are those of all clusters with software, in the order in which an upgrade reaches them."""
    found = list(clusters)
    named = [item for item in found if name_of(item) == name]
    if not named:
        raise NotFoundError(f"there is no InferenceCluster {name}")
    cluster = decode(InferenceCluster, named[0])
    software, scheduler = cluster.status.software, cluster.status.in_cluster_scheduler
    rows = sorted(_rows(found), key=lambda row: (row.wave is None, row.wave or 0, row.cluster))
    return ClusterExplanation(
        cluster=name,
        summary=_NOT_INSTALLED if software is None else _words(software.phase or "", software.message or ""),
        requirements=_requirements(cluster),
        scheduler="" if scheduler is None else _words(scheduler.type_ or "", scheduler.message or ""),
        rows=tuple(rows),
    )


def _words(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what


def _requirements(cluster: InferenceCluster) -> str:
    for condition in cluster.status.conditions:
        if condition.type == ConditionType.REQUIREMENTS_MET:
            return _words(condition.reason, condition.message)
    return ""


def _rows(clusters: Iterable[Manifest]) -> Iterator[SoftwareRow]:
    for item in clusters:
        with suppress(InputError):
            row = software_row(decode(InferenceCluster, item))
            if row is not None:
                yield row


def software_row(cluster: InferenceCluster) -> SoftwareRow | None:
    """None: Modelplane installs no software on it."""
    stated, status = cluster.spec.software, cluster.status.software
    if status is None:
        return None
    upgrade = stated.upgrade if stated is not None else None
    return SoftwareRow(
        cluster=cluster.metadata.name,
        wave=upgrade.wave if upgrade is not None else None,
        phase=status.phase or "",
        release=status.release or "",
        why=status.message or "",
    )
