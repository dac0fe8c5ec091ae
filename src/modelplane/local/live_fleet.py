"""The fleet, kept by listening: what placement looks at, and whom a change concerns.

A cluster counts as changed only when something that placement reads is different, so the counts that its own status
carries wake nobody. A deployment that waits for room is woken when a replica anywhere gives up its place.
"""

from collections.abc import Callable

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelReplica
from modelplane.compose.contract import Manifest
from modelplane.compose.inventory import cluster_of, holding_of
from modelplane.fleet.snapshot import Cluster, Fleet, Holding
from modelplane.reconcile.store import Change, ChangeType, ObjectRef


class LiveFleet:
    def __init__(self, *, capacity_changed: Callable[[], None]) -> None:
        self._clusters: dict[ObjectRef, Cluster] = {}
        self._holdings: dict[ObjectRef, Holding] = {}
        self._snapshot: Fleet | None = None
        self._capacity_changed = capacity_changed

    def heard(self, change: Change) -> None:
        if change.ref.kind == "InferenceCluster":
            self._follow_cluster(change.ref, None if change.type is ChangeType.DELETED else change.manifest)
        elif change.ref.kind == "ModelReplica":
            self._follow_replica(change.ref, None if change.type is ChangeType.DELETED else change.manifest)

    def snapshot(self) -> Fleet:
        if self._snapshot is None:
            clusters = sorted(self._clusters.values(), key=lambda cluster: cluster.name)
            holdings = sorted(self._holdings.values(), key=lambda h: (h.deployment, h.cluster, h.index))
            self._snapshot = Fleet({cluster.name: cluster for cluster in clusters}, tuple(holdings))
        return self._snapshot

    def _follow_cluster(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        before = self._clusters.pop(ref, None)
        after = cluster_of(decode(InferenceCluster, manifest), manifest) if manifest is not None else None
        if after is not None:
            self._clusters[ref] = after
        if before != after:
            self._snapshot = None
            self._capacity_changed()

    def _follow_replica(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        before = self._holdings.pop(ref, None)
        after = holding_of(decode(ModelReplica, manifest)) if manifest is not None else None
        if after is not None:
            self._holdings[ref] = after
        if before != after:
            self._snapshot = None
            if before is not None:
                self._capacity_changed()
