"""Reconciles one composite against the stores: the embedded counterpart of Crossplane.

A pass observes the composed objects, fetches what the composer requires, composes, writes the desired objects, deletes
the others and writes the composite's status. Nothing is awaited, so a pass is one transaction.

A composite has a finalizer while one of its composed objects exists. Objects on an unreachable cluster cannot be
deleted: the composite's deletion waits for the cluster, and its Deletable condition says so. When the InferenceCluster
itself is being deleted, the wait ends after 300 s, the time that pods stay on an unreachable node.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails
from modelplane.api.errors import ConflictError
from modelplane.api.identity import IdentityMemo
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelReplica
from modelplane.api.names import make_name
from modelplane.api.objects import (
    GROUP,
    INFRASTRUCTURE_GROUP,
    Manifest,
    annotations_of,
    finalizers_of,
    group_of,
    is_deleting,
    labels_of,
    mapping_at,
    metadata_of,
    text_at,
    with_metadata,
)
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Helm, Local, ReadyWhen, Remote, Target
from modelplane.compose.provider_models import ListModels
from modelplane.compose.registry import COMPOSERS, RegisteredKind
from modelplane.compose.releases import release_manifest
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet
from modelplane.plane.ownership import (
    USES,
    ComposedRef,
    CompositionMetadata,
    Owner,
    Ownership,
    UsageIndex,
    composition_metadata_of,
    usage_key,
    with_composition_metadata,
)
from modelplane.plane.requirements import Requirements
from modelplane.plane.status import conditions_of, merged_status
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, Store, ref_of

FINALIZER = "modelplane.ai/composition"
_SHOWN = 3
GROUPS = (GROUP, INFRASTRUCTURE_GROUP)
_MAX_ROUNDS = 5
_REMOVAL_REQUEUE_S = 1.0
_CLUSTER_REQUEUE_S = 5.0
_ABANDON_AFTER_S = 300.0
_WRITTEN_BY_CLUSTERS = {"PersistentVolumeClaim": ("volumeName", "volumeMode", "storageClassName")}
"""Fields of specs that a cluster's own controllers set, and that stay where a manifest leaves them out."""
_REPLICAS = 8_192
"""ModelReplicas that are kept decoded."""


class NotOursError(ConflictError):
    """The object exists and this composite did not compose it."""


class Defaulting(Protocol):
    def __call__(self, manifest: Manifest) -> Manifest:
        """The manifest as the API would store it."""


@dataclass(frozen=True, slots=True)
class Composition:
    plane: Store
    clusters: Callable[[ClusterName], Store | None]
    ownership: Ownership
    uses: UsageIndex
    requirements: Requirements
    fleet: Callable[[], Fleet]
    clock: Clock
    admitted: Defaulting
    record: Callable[[Owner, ComposeResult], None]
    """Called with every result, to write its Events."""
    on_unreachable: Callable[[ObjectRef, ClusterName], None]
    """Called with a composite that has an object for an unreachable cluster."""
    profile: PlacementProfile = DEFAULT_PROFILE
    resolve: Callable[[str], tuple[str, ...] | None] | None = None
    """Looks host names up; see ComposeRequest."""
    list_models: ListModels | None = None
    composers: Mapping[str, RegisteredKind] = field(default_factory=lambda: COMPOSERS)
    decode_replica: Callable[[Manifest], ModelReplica] = field(
        default_factory=lambda: IdentityMemo(partial(decode, ModelReplica), _REPLICAS)
    )

    def reconcile(self, ref: ObjectRef) -> Outcome:
        composite = self.plane.get(ref)
        if composite is None:
            self.requirements.forget(ref)
            return Done()
        owner = Owner(ref, text_at(composite, "metadata", "uid"))
        if is_deleting(composite):
            return self._finalize(owner, composite)
        composite = self._with_finalizer(composite)
        result = self._compose(owner, composite)
        unreachable = self._apply(owner, result)
        self._write_uses(composite, result)
        self._write_status(ref, result)
        self.record(owner, result)
        waits = [wait for wait in (result.requeue_after_s, _CLUSTER_REQUEUE_S if unreachable else None) if wait]
        return RequeueAfter(min(waits)) if waits else Done()

    def _compose(self, owner: Owner, composite: Manifest) -> ComposeResult:
        """Composes until the requirements no longer change, as Crossplane calls a function.

        The first round fetches what the last pass required, so that most passes compose once.
        """
        entry = self.composers[owner.ref.kind]
        resource = decode(entry.resource, composite)
        observed = self.ownership.observe(owner.uid)
        wanted = self.requirements.requirements_of(owner.ref)
        for _ in range(_MAX_ROUNDS):
            required = self.requirements.fetch(owner.ref, wanted)
            request = ComposeRequest(
                resource,
                observed,
                required,
                self.fleet(),
                self.clock.now(),
                self.profile,
                self.decode_replica,
                self.resolve,
                embedded=True,
                list_models=self.list_models,
            )
            result = entry.compose(request)
            if result.requirements == wanted:
                return result
            wanted = result.requirements
        raise RuntimeError(f"{owner.ref}: requirements still change after {_MAX_ROUNDS} rounds")

    def _apply(self, owner: Owner, result: ComposeResult) -> bool:
        """Writes the desired objects and deletes the others. Returns whether a cluster was unreachable."""
        unreachable = False
        for key, desired in result.desired.items():
            store = self._store_of(desired.target)
            if store is not None:
                self._write(store, owner, key, desired)
            elif not isinstance(desired.target, Local):
                self.on_unreachable(owner.ref, desired.target.cluster)
                unreachable = True
        unwanted = [key for key in self.ownership.places(owner.uid) if key not in result.desired]
        for place in self.ownership.removable(owner.uid, unwanted):
            self._remove(place)
        return unreachable

    def _store_of(self, target: Target) -> Store | None:
        """A chart is released by an object of the plane, as on Crossplane."""
        return self.clusters(target.cluster) if isinstance(target, Remote) else self.plane

    def _write(self, store: Store, owner: Owner, key: str, desired: Desired) -> None:
        target = desired.target
        if isinstance(target, Helm):
            target = _release(owner, key, target)
        shared = isinstance(target, Remote) and target.shared
        filled = self._filled(target)
        if filled is None:
            return
        marks = CompositionMetadata(owner, key, target.ready_when, desired.outlives)
        wanted = filled if shared else with_composition_metadata(filled, marks)
        ref = ref_of(wanted)
        existing = store.get(ref)
        if existing is None:
            self.ownership.record_written(owner.uid, key, wanted, store.create(self.admitted(wanted)))
        elif not shared:
            known = composition_metadata_of(existing)
            if known is None or known.owner.uid != owner.uid:
                raise NotOursError(f"{ref} exists and was not composed by {owner.ref}")
            if not self._is_there(owner, key, wanted, existing):
                made = store.replace(self.admitted(_updated(existing, wanted)))
                self.ownership.record_written(owner.uid, key, wanted, made)

    def _filled(self, target: Local | Remote) -> Manifest | None:
        """The manifest with the fields that are copied into it; None while the original is missing."""
        source = target.copied_from if isinstance(target, Remote) else None
        if source is None:
            return target.manifest
        ref = ObjectRef(group_of(source.api_version), source.kind, source.namespace, source.name)
        original = self.plane.get(ref)
        if original is None:
            return None
        return {**target.manifest, **{name: original[name] for name in source.fields if name in original}}

    def _is_there(self, owner: Owner, key: str, wanted: Manifest, existing: Manifest) -> bool:
        """Whether the stored object needs no write: most passes want what the last one wrote."""
        if not self.ownership.is_written(owner.uid, key, wanted, existing):
            return False
        return (
            labels_of(existing) == labels_of(wanted)
            and annotations_of(wanted).items() <= annotations_of(existing).items()
        )

    def _remove(self, place: ComposedRef) -> None:
        store = self.plane if place.cluster is None else self.clusters(place.cluster)
        if store is not None and store.get(place.ref) is not None:
            store.delete(place.ref)

    def _finalize(self, owner: Owner, composite: Manifest) -> Outcome:
        users = self._users(owner.ref)
        if users:
            return self._block_deletion(composite, Reason.IN_USE, f"in use by {users}")
        self.requirements.forget(owner.ref)
        for place in self.ownership.removable(owner.uid, self.ownership.places(owner.uid)):
            self._remove(place)
        left = [place for place in self.ownership.places(owner.uid).values() if not self._is_abandoned(place.cluster)]
        unreachable = sorted(
            {place.cluster for place in left if place.cluster and self.clusters(place.cluster) is None}
        )
        if unreachable:
            return self._block_deletion(
                composite, Reason.WAITING_FOR_CLUSTER, self._unreachable_message(unreachable, left)
            )
        if left:
            self._write_deleting(composite, f"waiting for the deletion of {_counted(len(left))}")
            return RequeueAfter(_REMOVAL_REQUEUE_S)
        kept = [name for name in finalizers_of(composite) if name != FINALIZER]
        if len(kept) < len(finalizers_of(composite)):
            self.plane.replace(with_metadata(composite, finalizers=kept))
        return Done()

    def _block_deletion(self, composite: Manifest, reason: Reason, why: str) -> Outcome:
        self._write_deleting(composite, why, fails(ConditionType.DELETABLE, reason, why))
        return RequeueAfter(_REMOVAL_REQUEUE_S)

    def _write_deleting(self, composite: Manifest, why: str, *more: Condition) -> None:
        """Ready says that the object is being deleted, and what that waits for."""
        conditions = [*more, fails(ConditionType.READY, Reason.DELETING, why)]
        status = merged_status(composite.get("status"), None, conditions, self.clock.now())
        if "reason" in status:
            status |= {"reason": Reason.DELETING.value, "message": why}
        self.plane.replace_status({**composite, "status": status})

    def _unreachable_message(self, unreachable: list[ClusterName], left: list[ComposedRef]) -> str:
        count = sum(place.cluster in unreachable for place in left)
        objects = f"{_counted(count)} on {', '.join(unreachable[:_SHOWN])}"
        ends = [end for name in unreachable if (end := self._abandoned_at(name)) is not None]
        until = f"abandoned at {timestamp(max(ends))}" if ends else "deleting the InferenceCluster abandons them"
        return f"waiting for the deletion of {objects}, which is unreachable; {until}"

    def _is_abandoned(self, cluster: ClusterName | None) -> bool:
        if cluster is None or self.clusters(cluster) is not None:
            return False
        end = self._abandoned_at(cluster)
        return end is not None and end <= self.clock.now()

    def _abandoned_at(self, cluster: ClusterName) -> float | None:
        """When objects on an unreachable cluster are given up; None while its InferenceCluster is not being deleted."""
        found = self.plane.get(ObjectRef(GROUPS[0], "InferenceCluster", "", cluster))
        since = epoch_s(text_at(found, "metadata", "deletionTimestamp")) if found is not None else None
        return since + _ABANDON_AFTER_S if since is not None else None

    def _users(self, used: ObjectRef) -> str:
        """The users of the object; empty when there are none."""
        found = [f"{user.kind} {user.name}" for user in self.uses.users_of(used)]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return ", ".join(found[:_SHOWN]) + more

    def _write_uses(self, composite: Manifest, result: ComposeResult) -> None:
        """Written as an annotation on the user; see UsageIndex."""
        marks = sorted(usage_key(ObjectRef(group_of(u.api_version), u.kind, u.namespace, u.name)) for u in result.uses)
        known = annotations_of(composite)
        if known.get(USES, "").split() == marks:
            return
        changed = {**known, USES: " ".join(marks)} if marks else {k: v for k, v in known.items() if k != USES}
        self.plane.replace(with_metadata(composite, annotations=changed))

    def _with_finalizer(self, composite: Manifest) -> Manifest:
        finalizers = finalizers_of(composite)
        if FINALIZER in finalizers:
            return composite
        return self.plane.replace(with_metadata(composite, finalizers=[*finalizers, FINALIZER]))

    def _write_status(self, ref: ObjectRef, result: ComposeResult) -> None:
        composite = self.plane.get(ref)
        if composite is None:
            return
        conditions = conditions_of(result, generation=metadata_of(composite).get("generation"))
        status = merged_status(composite.get("status"), result.status, conditions, self.clock.now())
        self.plane.replace_status({**composite, "status": status})


def _release(owner: Owner, key: str, target: Helm) -> Local:
    name = make_name(f"{owner.ref.name}-{key}", owner.ref.kind, owner.ref.name, key)
    return Local(release_manifest(name, SYSTEM_NAMESPACE, target), ReadyWhen.READY)


def _counted(objects: int) -> str:
    return f"{objects} composed object{'' if objects == 1 else 's'}"


def _updated(existing: Manifest, wanted: Manifest) -> dict[str, object]:
    """What is stored with everything that we state: its own metadata and status stay, foreign annotations too."""
    stated, kept = metadata_of(wanted), metadata_of(existing)
    metadata = {
        **kept,
        "labels": stated.get("labels", {}),
        "annotations": {**annotations_of(existing), **annotations_of(wanted)},
    }
    if not metadata["labels"]:
        del metadata["labels"]
    body = {name: value for name, value in wanted.items() if name not in {"metadata", "status"}}
    written = _WRITTEN_BY_CLUSTERS.get(text_at(wanted, "kind"), ())
    if kept_spec := {name: value for name, value in mapping_at(existing, "spec").items() if name in written}:
        body["spec"] = {**kept_spec, **mapping_at(wanted, "spec")}
    return {**body, "metadata": metadata, **({"status": existing["status"]} if "status" in existing else {})}
