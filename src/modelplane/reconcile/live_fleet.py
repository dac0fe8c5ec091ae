"""The Fleet of placement, updated change by change.

`capacity_changed` is called when a field that placement reads changed on a cluster or a cache, or a replica freed its
devices: deployments that wait for capacity are enqueued then. Other fields of a status do not count.
"""

from collections.abc import Callable

import msgspec

from modelplane.api.objects import Manifest
from modelplane.compose.fleet_snapshot import read_cache, read_cluster, read_replica
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Cluster, PlacedReplica
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange


class LiveFleet:
    def __init__(self, *, capacity_changed: Callable[[], None]) -> None:
        self._fleet = Fleet.of()
        self._clusters: dict[ObjectRef, Cluster] = {}
        self._placed: dict[ObjectRef, PlacedReplica] = {}
        self._capacity_changed = capacity_changed

    def apply(self, change: StoreChange) -> None:
        manifest = None if change.type is ChangeType.DELETED else change.manifest
        if change.ref.kind == "InferenceCluster":
            self._apply_cluster(change.ref, manifest)
        elif change.ref.kind == "ModelReplica":
            self._apply_replica(change.ref, manifest)
        elif change.ref.kind == "ModelCache":
            self._apply_cache(change.ref, manifest)

    def assume(self, ref: ObjectRef, manifest: Manifest) -> None:
        """Count a replica that was placed and is not observed. It preempts nobody: its write may yet be refused."""
        placed = read_replica(manifest)
        self._set_replica(ref, msgspec.structs.replace(placed, preempts=()) if placed is not None else None)

    def snapshot(self) -> Fleet:
        return self._fleet

    def _apply_cluster(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        before = self._clusters.pop(ref, None)
        after = read_cluster(manifest) if manifest is not None else None
        if after is not None:
            self._clusters[ref] = after
        if before == after:
            return
        if after is not None:
            self._fleet = self._fleet.with_cluster(after)
        elif before is not None:
            self._fleet = self._fleet.without_cluster(before.name)
        self._capacity_changed()

    def _apply_replica(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        self._set_replica(ref, read_replica(manifest) if manifest is not None else None)

    def _set_replica(self, ref: ObjectRef, after: PlacedReplica | None) -> None:
        before = self._placed.pop(ref, None)
        if after is not None:
            self._placed[ref] = after
        if before == after:
            return
        self._fleet = self._fleet.with_replicas(
            added=[after] if after is not None else [], removed=[before.id] if before is not None else []
        )
        if before is not None and (
            after is None or after.assignments != before.assignments or after.preempts != before.preempts
        ):
            self._capacity_changed()

    def _apply_cache(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        key = (ref.namespace, ref.name)
        after = read_cache(manifest) if manifest is not None else None
        if self._fleet.caches.get(key) == after:
            return
        self._fleet = self._fleet.with_cache(after) if after is not None else self._fleet.without_cache(key)
        self._capacity_changed()
