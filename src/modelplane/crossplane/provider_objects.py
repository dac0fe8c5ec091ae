"""Desired targets as objects that Crossplane applies, and observed objects read back as targets.

    Local     the object itself
    Remote    an Object of provider-kubernetes, which applies the manifest on the cluster and reports its state
    Helm      a Release of provider-helm

The readiness signal and the deletion order are annotations of the object, so that the next call of any server knows
them. The provider's own readiness is for people; composers judge the manifest that it observed.

A target that a composer returns as it was observed is desired again as it was last desired, without the fields that the
cluster added.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.names import make_name
from modelplane.api.objects import API_VERSION, Manifest, is_deleting, items_at, name_of, text_at, value_at
from modelplane.compose.contract import Desired, Helm, Local, Observed, ReadyWhen, Remote, Target
from modelplane.compose.readiness import has_condition, is_ready
from modelplane.compose.registry import COMPOSERS
from modelplane.compose.releases import EXTERNAL_NAME, read_release, release_manifest, release_problem
from modelplane.crossplane.packaging import DIGEST_ANNOTATION

OBJECT_API, OBJECT = "kubernetes.m.crossplane.io/v1alpha1", "Object"
READY_WHEN = "modelplane.ai/ready-when"
OUTLIVES = "modelplane.ai/outlives"
_MAX_RELEASE = 53
_ALL_BUT_DELETE = ["Observe", "Create", "Update", "LateInitialize"]
_ALL_BUT_UPDATE = ["Observe", "Create", "Delete"]
_UNREAD = ("connect failed", "observe failed")
"""The provider's message begins so when it could not read the cluster, not when the cluster refused a write.

The first is that of credentials: the ClusterProviderConfig or its Secret is missing or invalid.
"""

_REFUSED = ("create failed", "update failed")
_WRAPPED = re.compile(r"^(: cannot (create|apply|update|patch) object)*: ")
"""What the provider says before the cluster's own words."""
_PASSES = re.compile(r'the object has been modified|namespaces "[^"]*" not found|because it is being terminated')
"""The provider tries again, and the next time it is there."""
_HAS_PODS = (
    "(has(object.spec.replicas) && object.spec.replicas == 0.0)"
    " || (has(object.status.availableReplicas) && object.status.availableReplicas > 0.0)"
    " || (has(object.status.readyReplicas) && object.status.readyReplicas > 0.0)"
)

_COUNTED = (
    "has(object.status) && has(object.status.availableReplicas)"
    " && object.status.availableReplicas == object.spec.replicas"
)


def _holds(condition: str) -> str:
    found = f'object.status.conditions.exists(c, c.type == "{condition}" && c.status == "True")'
    return f"has(object.status) && has(object.status.conditions) && {found}"


def _parents_hold(condition: str) -> str:
    return f'p.conditions.exists(c, c.type == "{condition}" && c.status == "True")'


_READINESS: Mapping[ReadyWhen, Mapping[str, object]] = {
    ReadyWhen.CREATED: {"policy": "SuccessfulCreate"},
    ReadyWhen.READY: {"policy": "DeriveFromObject"},
    ReadyWhen.AVAILABLE: {"policy": "DeriveFromCelQuery", "celQuery": f"{_holds('Available')} && ({_HAS_PODS})"},
    ReadyWhen.COUNTED: {"policy": "DeriveFromCelQuery", "celQuery": _COUNTED},
    ReadyWhen.COMPLETE: {"policy": "DeriveFromCelQuery", "celQuery": _holds("Complete")},
    ReadyWhen.ROUTED: {
        "policy": "DeriveFromCelQuery",
        "celQuery": "has(object.status) && has(object.status.parents) && object.status.parents.size() > 0 && "
        f"object.status.parents.all(p, {_parents_hold('Accepted')} && {_parents_hold('ResolvedRefs')})",
    },
    ReadyWhen.ADDRESSED: {
        "policy": "DeriveFromCelQuery",
        "celQuery": "has(object.status) && has(object.status.addresses) && object.status.addresses.size() > 0",
    },
}


@dataclass(frozen=True, slots=True)
class Composite:
    """The identity of a composite: enough to name its composed objects."""

    api_version: str
    kind: str
    name: str
    namespace: str
    """Empty for a cluster-scoped composite; its composed objects are in the system namespace."""
    uid: str

    @property
    def home(self) -> str:
        return self.namespace or SYSTEM_NAMESPACE

    def name_for(self, key: str, limit: int = 63) -> str:
        return make_name(f"{self.name}-{key}", self.kind, self.namespace, self.name, key, limit=limit)


def to_provider_object(
    composite: Composite, key: str, desired: Desired, seen: Mapping[str, "ComposedObject"]
) -> Manifest:
    """The object that Crossplane applies."""
    known = seen.get(key)
    if known is not None and known.observed.target is desired.target:
        return _annotated(known.last_desired, _own_annotations(desired, desired.target))
    return _annotated(_made(composite, key, desired.target), _own_annotations(desired, desired.target))


def _made(composite: Composite, key: str, target: Target) -> Manifest:
    match target:
        case Local():
            return target.manifest
        case Remote():
            return _object(composite, key, target)
        case Helm():
            return _release(composite, key, target)


def _object(composite: Composite, key: str, target: Remote) -> Manifest:
    return {
        "apiVersion": OBJECT_API,
        "kind": OBJECT,
        "metadata": {"name": composite.name_for(key), "namespace": composite.home},
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": target.cluster},
            "managementPolicies": _policies(target),
            "readiness": _READINESS[target.ready_when],
            # A watch would cache every Secret of the cluster.
            "watch": target.copied_from is None,
            "forProvider": {"manifest": target.manifest},
        },
    }


def _policies(target: Remote) -> list[str]:
    """A copy that must not be created empty has data of its own, which an update would put in the place of values."""
    if target.copied_from is not None and "data" in target.manifest:
        return _ALL_BUT_UPDATE
    return _ALL_BUT_DELETE if target.shared else ["*"]


def _release(composite: Composite, key: str, target: Helm) -> Manifest:
    made = replace(target, release=target.release or composite.name_for(key, _MAX_RELEASE))
    return release_manifest(composite.name_for(key), composite.home, made)


def _own_annotations(desired: Desired, target: Target) -> dict[str, str]:
    when = ReadyWhen.READY if isinstance(target, Helm) else target.ready_when
    own = {READY_WHEN: when.value}
    return {**own, OUTLIVES: " ".join(desired.outlives)} if desired.outlives else own


def _annotated(item: Manifest, own: Mapping[str, str]) -> Manifest:
    metadata = item.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    annotations = known.get("annotations")
    others = annotations if isinstance(annotations, Mapping) else {}
    others = {name: text for name, text in others.items() if name not in {READY_WHEN, OUTLIVES}}
    return {**item, "metadata": {**known, "annotations": {**others, **own}}}


@dataclass(frozen=True, slots=True)
class ComposedObject:
    """A composed object as Crossplane observed it."""

    observed: Observed
    """For the composer."""
    item: Manifest
    """As Crossplane sent it."""
    reference: tuple[str, str, str]
    """apiVersion, kind and name on the control plane."""

    @property
    def last_desired(self) -> Manifest:
        """What to return to leave the object unchanged."""
        return _without_server_fields(self.item)


def read_back(item: Manifest) -> ComposedObject:
    """The target that a composed object stands for."""
    outlives = tuple(_annotation(item, OUTLIVES).split())
    return ComposedObject(replace(_read_target(item), outlives=outlives), item, reference(item))


def reference(item: Manifest) -> tuple[str, str, str]:
    """apiVersion, kind and name."""
    return text_at(item, "apiVersion"), text_at(item, "kind"), name_of(item)


def _read_target(item: Manifest) -> Observed:
    match text_at(item, "apiVersion"), text_at(item, "kind"):
        case "kubernetes.m.crossplane.io/v1alpha1", "Object":
            return _read_object(item)
        case "helm.m.crossplane.io/v1beta1", "Release":
            return Observed(read_release(item), has_condition(item, "Ready"), refused=release_problem(item))
        case _:
            when = _ready_when(item)
            return Observed(Local(item, when), is_ready(item, when))


def _read_object(item: Manifest) -> Observed:
    """Not ready until the object was observed on the cluster, and while the cluster cannot be read.

    One that is being deleted takes what it made along, and shows it as it was until it is gone: that of a cluster which
    was deleted and made again by its name outlives it so for a minute.
    """
    when = _ready_when(item)
    policies = value_at(item, "spec", "managementPolicies")
    shared = isinstance(policies, list) and "*" not in policies and "Delete" not in policies
    cluster = ClusterName(text_at(item, "spec", "providerConfigRef", "name"))
    there = value_at(item, "status", "atProvider", "manifest")
    if not isinstance(there, Mapping) or not there or (is_deleting(item) and not shared):
        desired = value_at(item, "spec", "forProvider", "manifest")
        manifest = desired if isinstance(desired, Mapping) else {}
        return Observed(Remote(cluster, manifest, when, shared=shared), ready=False, refused=_refusal(item))
    ready = is_ready(there, when) and not _problem(item).startswith(_UNREAD)
    return Observed(Remote(cluster, there, when, shared=shared), ready, refused=_refusal(item))


def _refusal(item: Manifest) -> str:
    """Why the cluster refused the object, without what passes by itself."""
    problem = _problem(item)
    verb = next((verb for verb in _REFUSED if problem.startswith(verb)), None)
    return "" if verb is None or _PASSES.search(problem) else _WRAPPED.sub("", problem.removeprefix(verb))


def _problem(item: Manifest) -> str:
    """Why the provider could not bring the object to its cluster; empty where it could."""
    for condition in items_at(item, "status", "conditions"):
        if condition.get("type") == "Synced" and condition.get("status") == "False":
            return text_at(condition, "message")
    return ""


def _ready_when(item: Manifest) -> ReadyWhen:
    return _SIGNALS.get(_annotation(item, READY_WHEN), ReadyWhen.CREATED)


def _annotation(item: Manifest, name: str) -> str:
    return text_at(item, "metadata", "annotations", name)


_SIGNALS = {when.value: when for when in ReadyWhen}
_OURS = frozenset({"name", "namespace", "labels", "annotations"})
_CROSSPLANE = "crossplane.io"


def _without_server_fields(item: Manifest) -> Manifest:
    """An object without its status, the metadata of the API server, and what Crossplane writes on it."""
    metadata = item.get("metadata")
    kept = {name: value for name, value in metadata.items() if name in _OURS} if isinstance(metadata, Mapping) else {}
    for field in ("labels", "annotations"):
        if field in kept:
            kept[field] = _without_crossplanes(kept[field])
    body = {name: value for name, value in item.items() if name not in {"metadata", "status"}}
    spec = _without_defaults(item).get("spec")
    if isinstance(spec, Mapping):
        body["spec"] = {name: value for name, value in spec.items() if name != "crossplane"}
    return {**body, "metadata": {name: value for name, value in kept.items() if value}}


def _without_defaults(item: Manifest) -> Manifest:
    """An object of ours as composers write it.

    A default that is applied is Crossplane's field from then on. A later apply without it takes it away and leaves null
    where it was the only field of an object, and the API server refuses that.
    """
    entry = COMPOSERS.get(text_at(item, "kind")) if text_at(item, "apiVersion") == API_VERSION else None
    if entry is None:
        return item
    try:
        return encode(decode(entry.resource, item))
    except InputError:
        return item


def _without_crossplanes(labels: object) -> dict[str, object]:
    """Labels or annotations without those that Crossplane and the Requeuer write; the external name is ours."""
    if not isinstance(labels, Mapping):
        return {}
    return {name: text for name, text in labels.items() if not _is_crossplanes(name)}


def _is_crossplanes(name: str) -> bool:
    return name == DIGEST_ANNOTATION or (name != EXTERNAL_NAME and name.partition("/")[0].endswith(_CROSSPLANE))
