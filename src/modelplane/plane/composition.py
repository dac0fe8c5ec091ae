"""Runs composers on what is in the stores and makes their results true: the embedded counterpart of Crossplane.

A pass over a composite: observe what it composed, answer what it requires, compose, write what should be, remove what
should not, write its status. Nothing is awaited, so a pass is one transaction that no other pass sees half of.

A composite keeps a finalizer while something that it composed is there, so deleting it leaves nothing behind. What is
on a cluster that does not answer cannot be removed, so its deletion waits for the cluster, and says so; but where that
cluster is being deleted itself, it is not waited for longer than pods are waited for on a node that is silent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionType, fails
from modelplane.api.errors import ConflictError
from modelplane.api.identity import IdentityMemo
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelReplica
from modelplane.api.objects import GROUP, INFRASTRUCTURE_GROUP, Manifest, labels_of, metadata_of, text_at
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Helm, Local, Remote, Target
from modelplane.compose.registry import COMPOSERS
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet
from modelplane.plane.ownership import (
    USES,
    CompositionMetadata,
    Owner,
    Ownership,
    Place,
    UsageIndex,
    annotations,
    marked,
    marks_of,
    use_mark,
)
from modelplane.plane.requirements import Requirements
from modelplane.plane.status import conditions_of, merged_status
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, Store

FINALIZER = "modelplane.ai/composition"
_SHOWN = 3
GROUPS = (GROUP, INFRASTRUCTURE_GROUP)
_MAX_ROUNDS = 5
_WAIT_FOR_REMOVAL_S = 1.0
_WAIT_FOR_CLUSTER_S = 5.0
_GIVE_UP_S = 300.0
_REPLICAS = 8_192
"""ModelReplicas that are kept decoded."""


class NotOursError(ConflictError):
    """What should be written exists and belongs to somebody else."""


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
    """Told of every result, to write down the events in it."""
    missed: Callable[[ObjectRef, ClusterName], None]
    """Told of a composite that has something for a cluster which cannot be reached."""
    profile: PlacementProfile = DEFAULT_PROFILE
    decode_replica: Callable[[Manifest], ModelReplica] = field(
        default_factory=lambda: IdentityMemo(partial(decode, ModelReplica), _REPLICAS)
    )

    def reconcile(self, ref: ObjectRef) -> Outcome:
        composite = self.plane.get(ref)
        if composite is None:
            self.requirements.forget(ref)
            return Done()
        owner = Owner(ref, text_at(composite, "metadata", "uid"))
        if metadata_of(composite).get("deletionTimestamp"):
            return self._finalize(owner, composite)
        composite = self._with_finalizer(composite)
        result = self._compose(owner, composite)
        unreachable = self._apply(owner, result)
        self._note_uses(composite, result)
        self._write_status(ref, result)
        self.record(owner, result)
        waits = [wait for wait in (result.requeue_after_s, _WAIT_FOR_CLUSTER_S if unreachable else None) if wait]
        return RequeueAfter(min(waits)) if waits else Done()

    def _compose(self, owner: Owner, composite: Manifest) -> ComposeResult:
        """Composes until the requirements no longer change, as a composition function is called.

        It begins with what was required last time, so that a pass over something known composes once.
        """
        entry = COMPOSERS[owner.ref.kind]
        resource = decode(entry.resource, composite)
        observed = self.ownership.observe(owner.uid)
        wanted = self.requirements.asked_by(owner.ref)
        for _ in range(_MAX_ROUNDS):
            required = self.requirements.fetch(owner.ref, wanted)
            request = ComposeRequest(
                resource, observed, required, self.fleet(), self.clock.now(), self.profile, self.decode_replica
            )
            result = entry.compose(request)
            if result.requirements == wanted:
                return result
            wanted = result.requirements
        raise RuntimeError(f"{owner.ref}: requirements still change after {_MAX_ROUNDS} rounds")

    def _apply(self, owner: Owner, result: ComposeResult) -> bool:
        """Writes what should be and removes what should not. Returns whether a cluster could not be reached."""
        unreachable = False
        for key, desired in result.desired.items():
            store = self._store_of(desired.target)
            if store is not None:
                self._write(store, owner, key, desired)
            elif not isinstance(desired.target, Local):
                self.missed(owner.ref, desired.target.cluster)
                unreachable = True
        unwanted = [key for key in self.ownership.places(owner.uid) if key not in result.desired]
        for place in self.ownership.removable(owner.uid, unwanted):
            self._remove(place)
        return unreachable

    def _store_of(self, target: Target) -> Store | None:
        return self.plane if isinstance(target, Local) else self.clusters(target.cluster)

    def _write(self, store: Store, owner: Owner, key: str, desired: Desired) -> None:
        target = desired.target
        if isinstance(target, Helm):
            raise NotImplementedError("the embedded plane has no charts to install")
        shared = isinstance(target, Remote) and target.shared
        marks = CompositionMetadata(owner, key, target.ready_when, desired.outlives)
        wanted = target.manifest if shared else marked(target.manifest, marks)
        ref = ref_of(wanted)
        existing = store.get(ref)
        if existing is None:
            self.ownership.wrote(owner.uid, key, wanted, store.create(self.admitted(wanted)))
        elif not shared:
            known = marks_of(existing)
            if known is None or known.owner.uid != owner.uid:
                raise NotOursError(f"{ref} exists and was not made by {owner.ref}")
            if not self._is_there(owner, key, wanted, existing):
                made = store.replace(self.admitted(_updated(existing, wanted)))
                self.ownership.wrote(owner.uid, key, wanted, made)

    def _is_there(self, owner: Owner, key: str, wanted: Manifest, existing: Manifest) -> bool:
        """Most passes want what they wanted before; then there is nothing to admit, copy or compare."""
        if not self.ownership.is_written(owner.uid, key, wanted, existing):
            return False
        return labels_of(existing) == labels_of(wanted) and annotations(wanted).items() <= annotations(existing).items()

    def _remove(self, place: Place) -> None:
        store = self.plane if place.cluster is None else self.clusters(place.cluster)
        if store is not None and store.get(place.ref) is not None:
            store.delete(place.ref)

    def _finalize(self, owner: Owner, composite: Manifest) -> Outcome:
        users = self._users(owner.ref)
        if users:
            return self._held_up(composite, Reason.IN_USE, f"needed by {users}")
        self.requirements.forget(owner.ref)
        for place in self.ownership.removable(owner.uid, self.ownership.places(owner.uid)):
            self._remove(place)
        left = [place for place in self.ownership.places(owner.uid).values() if not self._is_given_up(place.cluster)]
        silent = sorted({place.cluster for place in left if place.cluster and self.clusters(place.cluster) is None})
        if silent:
            return self._held_up(composite, Reason.WAITING_FOR_CLUSTER, self._silence(silent, left))
        if left:
            return RequeueAfter(_WAIT_FOR_REMOVAL_S)
        kept = [name for name in _finalizers(composite) if name != FINALIZER]
        if len(kept) < len(_finalizers(composite)):
            self.plane.replace({**composite, "metadata": {**metadata_of(composite), "finalizers": kept}})
        return Done()

    def _held_up(self, composite: Manifest, reason: Reason, why: str) -> Outcome:
        problem = fails(ConditionType.DELETABLE, reason, why)
        status = merged_status(composite.get("status"), None, [problem], self.clock.now())
        self.plane.replace_status({**composite, "status": status})
        return RequeueAfter(_WAIT_FOR_REMOVAL_S)

    def _silence(self, silent: list[ClusterName], left: list[Place]) -> str:
        count = sum(place.cluster in silent for place in left)
        things = f"{count} object{'s' if count > 1 else ''} of it on {', '.join(silent[:_SHOWN])}"
        ends = [end for name in silent if (end := self._given_up_at(name)) is not None]
        until = f"given up at {timestamp(max(ends))}" if ends else "deleting the InferenceCluster gives them up"
        return f"waits for {things} to be removed, which does not answer; {until}"

    def _is_given_up(self, cluster: ClusterName | None) -> bool:
        if cluster is None or self.clusters(cluster) is not None:
            return False
        end = self._given_up_at(cluster)
        return end is not None and end <= self.clock.now()

    def _given_up_at(self, cluster: ClusterName) -> float | None:
        """When a silent cluster is not waited for any longer; None while nobody deletes it."""
        found = self.plane.get(ObjectRef(GROUPS[0], "InferenceCluster", "", cluster))
        since = epoch_s(text_at(found, "metadata", "deletionTimestamp")) if found is not None else None
        return since + _GIVE_UP_S if since is not None else None

    def _users(self, used: ObjectRef) -> str:
        """Who still needs the object; empty when nobody does."""
        found = [f"{user.kind} {user.name}" for user in self.uses.users_of(used)]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return ", ".join(found[:_SHOWN]) + more

    def _note_uses(self, composite: Manifest, result: ComposeResult) -> None:
        """Written on the user itself; see Uses."""
        marks = sorted(use_mark(ObjectRef(_group(u.api_version), u.kind, u.namespace, u.name)) for u in result.uses)
        known = annotations(composite)
        if known.get(USES, "").split() == marks:
            return
        changed = {**known, USES: " ".join(marks)} if marks else {k: v for k, v in known.items() if k != USES}
        self.plane.replace({**composite, "metadata": {**metadata_of(composite), "annotations": changed}})

    def _with_finalizer(self, composite: Manifest) -> Manifest:
        finalizers = _finalizers(composite)
        if FINALIZER in finalizers:
            return composite
        metadata = {**metadata_of(composite), "finalizers": [*finalizers, FINALIZER]}
        return self.plane.replace({**composite, "metadata": metadata})

    def _write_status(self, ref: ObjectRef, result: ComposeResult) -> None:
        composite = self.plane.get(ref)
        if composite is None:
            return
        conditions = conditions_of(result, generation=metadata_of(composite).get("generation"))
        status = merged_status(composite.get("status"), result.status, conditions, self.clock.now())
        self.plane.replace_status({**composite, "status": status})


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def ref_of(manifest: Manifest) -> ObjectRef:
    return ObjectRef(
        _group(str(manifest["apiVersion"])),
        str(manifest["kind"]),
        text_at(manifest, "metadata", "namespace"),
        text_at(manifest, "metadata", "name"),
    )


def _updated(existing: Manifest, wanted: Manifest) -> dict[str, object]:
    """What is stored with everything that we state: its own metadata and status stay, foreign annotations too."""
    stated, kept = metadata_of(wanted), metadata_of(existing)
    metadata = {
        **kept,
        "labels": stated.get("labels", {}),
        "annotations": {**annotations(existing), **annotations(wanted)},
    }
    if not metadata["labels"]:
        del metadata["labels"]
    body = {name: value for name, value in wanted.items() if name not in {"metadata", "status"}}
    return {**body, "metadata": metadata, **({"status": existing["status"]} if "status" in existing else {})}


def _finalizers(manifest: Manifest) -> list[str]:
    found = metadata_of(manifest).get("finalizers", ())
    return [str(name) for name in found] if isinstance(found, list | tuple) else []
