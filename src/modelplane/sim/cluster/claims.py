"""The ResourceClaim controller: creates claims from templates and releases those of finished pods.

A claim from a template belongs to one pod and is deleted with it; a claim that a pod names is shared and stays. An
unreserved claim is deallocated and loses its finalizer. A template that does not exist, and a claim that
a ResourceQuota forbids, are reported by an Event.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from modelplane.api.objects import (
    Json,
    Manifest,
    finalizers_of,
    is_deleting,
    items_at,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about, versions
from modelplane.sim.cluster.nodes import RESOURCE_API, RESOURCE_GROUP
from modelplane.sim.cluster.objects import annotation, controller_of, controller_reference, with_status
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.resource_quotas import claim_quota_refusal

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
_BASE_LENGTH_MOST = 57
_SOURCE = "resource_claim"
_RETRY_S = 15.0


def is_finished(pod: Manifest) -> bool:
    return text_at(pod, "status", "phase") in {"Succeeded", "Failed"}


def claim_names(pod: Manifest) -> dict[str, str | None]:
    """The claim behind each of the pod's own names for them; None while it was not made."""
    made = {
        str(e.get("name")): str(e.get("resourceClaimName")) for e in items_at(pod, "status", "resourceClaimStatuses")
    }
    names: dict[str, str | None] = {}
    for entry in items_at(pod, "spec", "resourceClaims"):
        name, given = str(entry.get("name")), entry.get("resourceClaimName")
        names[name] = given if isinstance(given, str) else made.get(name)
    return names


class ClaimReader(Protocol):
    """What the devices of a pod are read from: a cluster's store."""

    def get(self, ref: ObjectRef) -> Manifest | None: ...


def allocated_devices(pod: Manifest, store: ClaimReader) -> list[Manifest]:
    """The devices that the pod's claims hold: driver, pool and device, as the scheduler wrote them."""
    namespace = namespace_of(pod)
    claims = (
        store.get(ObjectRef(RESOURCE_GROUP, "ResourceClaim", namespace, name))
        for name in claim_names(pod).values()
        if name is not None
    )
    found = (items_at(claim, "status", "allocation", "devices", "results") for claim in claims if claim is not None)
    return [device for devices in found for device in devices]


class Claims:
    """Creates the claims of pods, and releases claims."""

    name = "claims"
    kinds = frozenset({("", "Pod"), (RESOURCE_GROUP, "ResourceClaim"), (RESOURCE_GROUP, "ResourceClaimTemplate")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Pod"):
            return self._of_pod(change) if changed(change, _facts) else ()
        if is_about(change, RESOURCE_GROUP, "ResourceClaim"):
            owner = controller_of(change.manifest)
            pod = ObjectRef("", "Pod", change.ref.namespace, str(owner.get("name")))
            return (change.ref, pod) if owner.get("kind") == "Pod" else (change.ref,)
        if is_about(change, RESOURCE_GROUP, "ResourceClaimTemplate"):
            return self._waiting_for(change.ref)
        return ()

    def _of_pod(self, change: StoreChange) -> Iterable[ObjectRef]:
        pod = change.manifest
        if not value_at(pod, "spec", "resourceClaims"):
            return ()
        names = {name for item in versions(change) for name in claim_names(item).values() if name is not None}
        claims = (ObjectRef(RESOURCE_GROUP, "ResourceClaim", change.ref.namespace, name) for name in sorted(names))
        return (change.ref, *claims)

    def _waiting_for(self, template: ObjectRef) -> Iterable[ObjectRef]:
        return [
            ref_of(pod)
            for pod in self._store.list("", "Pod", namespace=template.namespace)
            if any(e.get("resourceClaimTemplateName") == template.name for e in items_at(pod, "spec", "resourceClaims"))
        ]

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is not None and ref.kind == "Pod":
            return self._make_claims(item)
        if item is not None:
            self._release(item)
        return Done()

    def _make_claims(self, pod: Manifest) -> Outcome:
        if is_deleting(pod) or is_finished(pod):
            return Done()
        entries = [e for e in items_at(pod, "spec", "resourceClaims") if e.get("resourceClaimTemplateName")]
        made = [(e, self._existing(pod, str(e.get("name"))) or self._make(pod, e)) for e in entries]
        statuses = [{"name": e.get("name"), "resourceClaimName": name_of(claim)} for e, claim in made if claim]
        if statuses:
            self._store.replace_status(with_status(pod, resourceClaimStatuses=statuses))
        forbidden = any(claim is None and self._template(pod, e) is not None for e, claim in made)
        return RequeueAfter(_RETRY_S) if forbidden else Done()

    def _template(self, pod: Manifest, entry: Mapping[str, object]) -> Manifest | None:
        name = str(entry.get("resourceClaimTemplateName"))
        return self._store.get(ObjectRef(RESOURCE_GROUP, "ResourceClaimTemplate", namespace_of(pod), name))

    def _existing(self, pod: Manifest, claim_name: str) -> Manifest | None:
        made = claim_names(pod).get(claim_name)
        known = self._store.get(ObjectRef(RESOURCE_GROUP, "ResourceClaim", namespace_of(pod), made)) if made else None
        if known is not None and _is_for(known, pod, claim_name):
            return known
        claims = self._store.list(RESOURCE_GROUP, "ResourceClaim", namespace=namespace_of(pod))
        return next((claim for claim in claims if _is_for(claim, pod, claim_name)), None)

    def _make(self, pod: Manifest, entry: Mapping[str, object]) -> Manifest | None:
        template_name, name = str(entry.get("resourceClaimTemplateName")), str(entry.get("name"))
        template = self._template(pod, entry)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            self._warn(pod, f'PodResourceClaim {name}: resource claim template "{template_name}": {missing}')
            return None
        extra = mapping_at(template, "spec", "metadata")
        metadata: Json = {
            "generateName": _base_name(name_of(pod), name),
            "namespace": namespace_of(pod),
            "labels": dict(mapping_at(extra, "labels")),
            "annotations": {**mapping_at(extra, "annotations"), POD_CLAIM_NAME: name},
            "ownerReferences": [controller_reference(pod)],
        }
        spec = value_at(template, "spec", "spec")
        claim = {"apiVersion": RESOURCE_API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
        if refusal := claim_quota_refusal(self._store, claim):
            self._warn(pod, f"PodResourceClaim {name}: failed to create ResourceClaim: {refusal}")
            return None
        return self._store.create(claim)

    def _warn(self, pod: Manifest, message: str) -> None:
        warn(self._context, pod, "FailedResourceClaimCreation", message, source=_SOURCE)

    def _release(self, claim: Manifest) -> None:
        reserved = list(items_at(claim, "status", "reservedFor"))
        held = [entry for entry in reserved if self._is_held(namespace_of(claim), entry)]
        if held:
            self._store.replace_status(with_status(claim, reservedFor=held))
            return
        if reserved or is_deleting(claim):
            free = self._store.replace_status({**claim, "status": {}})
            left = [name for name in finalizers_of(free) if name != CLAIM_FINALIZER]
            self._store.replace(with_metadata(free, finalizers=left))

    def _is_held(self, namespace: str, consumer: Mapping[str, object]) -> bool:
        pod = self._store.get(ObjectRef("", "Pod", namespace, str(consumer.get("name"))))
        return pod is not None and uid_of(pod) == consumer.get("uid") and not is_finished(pod)


def _facts(pod: Manifest) -> object:
    return is_deleting(pod), is_finished(pod), claim_names(pod), uid_of(pod)


def _is_for(claim: Manifest, pod: Manifest, claim_name: str) -> bool:
    return controller_of(claim).get("uid") == uid_of(pod) and annotation(claim, POD_CLAIM_NAME) == claim_name


def _base_name(pod: str, claim: str) -> str:
    """`<pod>-<claim>-`, both parts shortened in proportion where that is too long."""
    base = f"{pod}-{claim}-"
    if len(base) <= _BASE_LENGTH_MOST:
        return base
    return f"{pod[: len(pod) * _BASE_LENGTH_MOST // len(base)]}-{claim[: len(claim) * _BASE_LENGTH_MOST // len(base)]}"
