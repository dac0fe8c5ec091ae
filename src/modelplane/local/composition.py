"""Runs composers on what is in the stores and makes their results true: the embedded counterpart of Crossplane.

A pass over a composite: observe what it composed, answer what it requires, compose, write what should be, remove what
should not, write its status. Nothing is awaited, so a pass is one transaction that no other pass sees half of.

A composite keeps a finalizer while something that it composed is there, so deleting it leaves nothing behind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName
from modelplane.compose.contract import ComposeRequest, ComposeResult, Helm, Local, Manifest, Remote, Target
from modelplane.compose.registry import COMPOSERS
from modelplane.fleet.snapshot import Fleet
from modelplane.local.ownership import Owner, Ownership, Place, annotations, marked
from modelplane.local.requirements import Requirements
from modelplane.local.status import conditions_of, merged_status
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.outcomes import LookAgain, Outcome, Settled
from modelplane.reconcile.store import ObjectRef, Store

FINALIZER = "modelplane.ai/composition"
GROUPS = ("modelplane.ai", "infrastructure.modelplane.ai")
_MAX_ROUNDS = 5
_WAIT_FOR_REMOVAL_S = 1.0
_WAIT_FOR_CLUSTER_S = 5.0


class Defaulting(Protocol):
    def __call__(self, manifest: Manifest) -> Manifest:
        """The manifest as the API would store it."""


@dataclass(frozen=True, slots=True)
class Composition:
    plane: Store
    clusters: Callable[[ClusterName], Store | None]
    ownership: Ownership
    requirements: Requirements
    fleet: Callable[[], Fleet]
    clock: Clock
    admitted: Defaulting
    record: Callable[[Owner, ComposeResult], None]
    """Told of every result, to write down the events in it."""
    missed: Callable[[ObjectRef, ClusterName], None]
    """Told of a composite that has something for a cluster which cannot be reached."""

    def reconcile(self, ref: ObjectRef) -> Outcome:
        composite = self.plane.get(ref)
        if composite is None:
            self.requirements.forget(ref)
            return Settled()
        owner = Owner(ref, _text(composite, "uid"))
        if _metadata(composite).get("deletionTimestamp"):
            return self._finalize(owner, composite)
        composite = self._with_finalizer(composite)
        result = self._compose(owner, composite)
        unreachable = self._apply(owner, result)
        self._write_status(ref, result)
        self.record(owner, result)
        waits = [wait for wait in (result.look_again_after_s, _WAIT_FOR_CLUSTER_S if unreachable else None) if wait]
        return LookAgain(min(waits)) if waits else Settled()

    def _compose(self, owner: Owner, composite: Manifest) -> ComposeResult:
        """Composes until the requirements no longer change, as a composition function is called."""
        entry = COMPOSERS[owner.ref.kind]
        resource = decode(entry.resource, composite)
        observed = self.ownership.observe(owner.uid)
        required: Mapping[str, tuple[Manifest, ...]] = {}
        result = ComposeResult()
        for _ in range(_MAX_ROUNDS):
            request = ComposeRequest(resource, observed, required, self.fleet(), now=self.clock.now())
            previous, result = result, entry.compose(request)
            if result.requirements == previous.requirements:
                return result
            required = self.requirements.fetch(owner.ref, result.requirements)
        raise RuntimeError(f"{owner.ref}: requirements still change after {_MAX_ROUNDS} rounds")

    def _apply(self, owner: Owner, result: ComposeResult) -> bool:
        """Writes what should be and removes what should not. Returns whether a cluster could not be reached."""
        unreachable = False
        for key, desired in result.desired.items():
            store = self._store_of(desired.target)
            if store is not None:
                self._write(store, owner, key, desired.target)
            elif not isinstance(desired.target, Local):
                self.missed(owner.ref, desired.target.cluster)
                unreachable = True
        for key, place in self.ownership.places(owner.uid).items():
            if key not in result.desired:
                self._remove(place)
        return unreachable

    def _store_of(self, target: Target) -> Store | None:
        return self.plane if isinstance(target, Local) else self.clusters(target.cluster)

    def _write(self, store: Store, owner: Owner, key: str, target: Target) -> None:
        if isinstance(target, Helm):
            raise NotImplementedError("the embedded plane has no charts to install")
        shared = isinstance(target, Remote) and target.shared
        wanted = target.manifest if shared else marked(target.manifest, owner, key, target.ready_when)
        ref = ref_of(wanted)
        existing = store.get(ref)
        if existing is None:
            store.create(self.admitted(wanted))
        elif not shared:
            store.replace(self.admitted(_updated(existing, wanted)))

    def _remove(self, place: Place) -> None:
        store = self.plane if place.cluster is None else self.clusters(place.cluster)
        if store is not None and store.get(place.ref) is not None:
            store.delete(place.ref)

    def _finalize(self, owner: Owner, composite: Manifest) -> Outcome:
        self.requirements.forget(owner.ref)
        for place in self.ownership.places(owner.uid).values():
            self._remove(place)
        if self.ownership.places(owner.uid):
            return LookAgain(_WAIT_FOR_REMOVAL_S)
        left = [name for name in _finalizers(composite) if name != FINALIZER]
        if len(left) < len(_finalizers(composite)):
            self.plane.replace({**composite, "metadata": {**_metadata(composite), "finalizers": left}})
        return Settled()

    def _with_finalizer(self, composite: Manifest) -> Manifest:
        finalizers = _finalizers(composite)
        if FINALIZER in finalizers:
            return composite
        metadata = {**_metadata(composite), "finalizers": [*finalizers, FINALIZER]}
        return self.plane.replace({**composite, "metadata": metadata})

    def _write_status(self, ref: ObjectRef, result: ComposeResult) -> None:
        composite = self.plane.get(ref)
        if composite is None:
            return
        conditions = conditions_of(result, generation=_metadata(composite).get("generation"))
        status = merged_status(composite.get("status"), result.status, conditions, self.clock.now())
        self.plane.replace_status({**composite, "status": status})


def ref_of(manifest: Manifest) -> ObjectRef:
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return ObjectRef(group, str(manifest["kind"]), _text(manifest, "namespace"), _text(manifest, "name"))


def _updated(existing: Manifest, wanted: Manifest) -> dict[str, object]:
    """What is stored with everything that we state: its own metadata and status stay, foreign annotations too."""
    stated, kept = _metadata(wanted), _metadata(existing)
    metadata = {
        **kept,
        "labels": stated.get("labels", {}),
        "annotations": {**annotations(existing), **annotations(wanted)},
    }
    if not metadata["labels"]:
        del metadata["labels"]
    body = {name: value for name, value in wanted.items() if name not in {"metadata", "status"}}
    return {**body, "metadata": metadata, **({"status": existing["status"]} if "status" in existing else {})}


def _metadata(manifest: Manifest) -> Mapping[str, object]:
    metadata = manifest.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _text(manifest: Manifest, field: str) -> str:
    return str(_metadata(manifest).get(field, ""))


def _finalizers(manifest: Manifest) -> list[str]:
    found = _metadata(manifest).get("finalizers", ())
    return [str(name) for name in found] if isinstance(found, list | tuple) else []
