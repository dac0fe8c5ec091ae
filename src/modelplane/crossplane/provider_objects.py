"""How what a composer wants becomes objects that Crossplane can apply, and how it is read back.

    Local     the object itself
    Remote    an Object of provider-kubernetes, which carries the manifest to the cluster and reports what is there
    Helm      a Release of provider-helm

What the composer said beside the manifest (which signal makes it ready, what it outlives) is written on the object, so
that the next call, by whichever server, knows it. The provider judges readiness for people who look at its objects;
what counts for us is worked out from the manifest that it observed.

An object that a composer returns as it was observed is carried on exactly as it was asked for: what the cluster added
to it is not ours to state.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, name_of, text_at, value_at
from modelplane.compose.contract import Desired, Helm, Local, Observed, ReadyWhen, Remote, Target
from modelplane.compose.readiness import has_condition, is_ready

OBJECT_API, OBJECT = "kubernetes.m.crossplane.io/v1alpha1", "Object"
RELEASE_API, RELEASE = "helm.m.crossplane.io/v1beta1", "Release"
READY_WHEN = "modelplane.ai/ready-when"
OUTLIVES = "modelplane.ai/outlives"
EXTERNAL_NAME = "crossplane.io/external-name"
_MAX_RELEASE = 53
_KEPT_FOR_OTHERS = ["Observe", "Create", "Update", "LateInitialize"]
_BLIND = "observe failed"
"""How the provider begins when it could not look at the cluster, rather than when the cluster refused something."""

_HAS_PODS = (
    "(has(object.spec.replicas) && object.spec.replicas == 0.0)"
    " || (has(object.status.availableReplicas) && object.status.availableReplicas > 0.0)"
    " || (has(object.status.readyReplicas) && object.status.readyReplicas > 0.0)"
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
    """Who composes: enough to name and place what it composes."""

    api_version: str
    kind: str
    name: str
    namespace: str
    """Empty for a composite of the whole cluster; what it composes goes to the system's namespace."""
    uid: str

    @property
    def home(self) -> str:
        return self.namespace or SYSTEM_NAMESPACE

    def name_for(self, key: str, limit: int = 63) -> str:
        return make_name(f"{self.name}-{key}", self.kind, self.namespace, self.name, key, limit=limit)


def carry(composite: Composite, key: str, desired: Desired, seen: Mapping[str, "Carried"]) -> Manifest:
    """The object for Crossplane to apply."""
    known = seen.get(key)
    if known is not None and known.observed.target is desired.target:
        return _marked(known.asked, _marks(desired, desired.target))
    return _marked(_made(composite, key, desired.target), _marks(desired, desired.target))


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
            "managementPolicies": _KEPT_FOR_OTHERS if target.shared else ["*"],
            "readiness": _READINESS[target.ready_when],
            "watch": True,
            "forProvider": {"manifest": target.manifest},
        },
    }


def _release(composite: Composite, key: str, target: Helm) -> Manifest:
    return {
        "apiVersion": RELEASE_API,
        "kind": RELEASE,
        "metadata": {
            "name": composite.name_for(key),
            "namespace": composite.home,
            "annotations": {EXTERNAL_NAME: composite.name_for(key, _MAX_RELEASE)},
        },
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": target.cluster},
            "rollbackLimit": 3,
            "forProvider": {
                "namespace": target.namespace,
                "wait": True,
                "chart": {"repository": target.repository, "name": target.chart, "version": target.version},
                "values": target.values,
            },
        },
    }


def _marks(desired: Desired, target: Target) -> dict[str, str]:
    when = ReadyWhen.READY if isinstance(target, Helm) else target.ready_when
    marks = {READY_WHEN: when.value}
    return {**marks, OUTLIVES: " ".join(desired.outlives)} if desired.outlives else marks


def _marked(item: Manifest, marks: Mapping[str, str]) -> Manifest:
    metadata = item.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    annotations = known.get("annotations")
    kept = annotations if isinstance(annotations, Mapping) else {}
    ours = {name: text for name, text in kept.items() if name not in {READY_WHEN, OUTLIVES}}
    return {**item, "metadata": {**known, "annotations": {**ours, **marks}}}


@dataclass(frozen=True, slots=True)
class Carried:
    """A composed object as Crossplane observed it."""

    observed: Observed
    """As the composer sees it."""
    item: Manifest
    """As it came."""
    reference: tuple[str, str, str]
    """apiVersion, kind and name of the object beside the composite."""
    outlives: tuple[str, ...] = ()

    @property
    def asked(self) -> Manifest:
        """As it was asked for: what to return to leave it as it is."""
        return _stated(self.item)


def read_back(item: Manifest) -> Carried:
    """What a composed object says of the thing that it carries."""
    outlives = tuple(_annotation(item, OUTLIVES).split())
    reference = (text_at(item, "apiVersion"), text_at(item, "kind"), name_of(item))
    observed = _read_target(item)
    return Carried(observed, item, reference, outlives)


def _read_target(item: Manifest) -> Observed:
    match text_at(item, "apiVersion"), text_at(item, "kind"):
        case "kubernetes.m.crossplane.io/v1alpha1", "Object":
            return _read_object(item)
        case "helm.m.crossplane.io/v1beta1", "Release":
            return Observed(_read_release(item), has_condition(item, "Ready"))
        case _:
            when = _ready_when(item)
            return Observed(Local(item, when), is_ready(item, when))


def _read_object(item: Manifest) -> Observed:
    """Not ready until the cluster was looked at, and no longer once it cannot be: what it said then may be history."""
    when = _ready_when(item)
    policies = value_at(item, "spec", "managementPolicies")
    shared = isinstance(policies, list) and "*" not in policies and "Delete" not in policies
    cluster = ClusterName(text_at(item, "spec", "providerConfigRef", "name"))
    there = value_at(item, "status", "atProvider", "manifest")
    if not isinstance(there, Mapping) or not there:
        asked = value_at(item, "spec", "forProvider", "manifest")
        return Observed(Remote(cluster, asked if isinstance(asked, Mapping) else {}, when, shared=shared), ready=False)
    return Observed(Remote(cluster, there, when, shared=shared), is_ready(there, when) and not _is_blind(item))


def _is_blind(item: Manifest) -> bool:
    conditions = value_at(item, "status", "conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "Synced":
            return condition.get("status") == "False" and str(condition.get("message", "")).startswith(_BLIND)
    return False


def _read_release(item: Manifest) -> Helm:
    values = value_at(item, "spec", "forProvider", "values")
    return Helm(
        cluster=ClusterName(text_at(item, "spec", "providerConfigRef", "name")),
        chart=text_at(item, "spec", "forProvider", "chart", "name"),
        repository=text_at(item, "spec", "forProvider", "chart", "repository"),
        version=text_at(item, "spec", "forProvider", "chart", "version"),
        namespace=text_at(item, "spec", "forProvider", "namespace"),
        values=values if isinstance(values, Mapping) else {},
    )


def _ready_when(item: Manifest) -> ReadyWhen:
    return _SIGNALS.get(_annotation(item, READY_WHEN), ReadyWhen.CREATED)


def _annotation(item: Manifest, name: str) -> str:
    return text_at(item, "metadata", "annotations", name)


_SIGNALS = {when.value: when for when in ReadyWhen}
_OURS = frozenset({"name", "namespace", "labels", "annotations"})
_CROSSPLANE = "crossplane.io"


def _stated(item: Manifest) -> Manifest:
    """An object without what others write on it: its status, the server's metadata, and what Crossplane keeps there."""
    metadata = item.get("metadata")
    kept = {name: value for name, value in metadata.items() if name in _OURS} if isinstance(metadata, Mapping) else {}
    for field in ("labels", "annotations"):
        if field in kept:
            kept[field] = _foreign_free(kept[field])
    body = {name: value for name, value in item.items() if name not in {"metadata", "status"}}
    spec = body.get("spec")
    if isinstance(spec, Mapping) and "crossplane" in spec:
        body["spec"] = {name: value for name, value in spec.items() if name != "crossplane"}
    return {**body, "metadata": {name: value for name, value in kept.items() if value}}


def _foreign_free(marks: object) -> dict[str, object]:
    """Crossplane writes its own marks on what it composes; the external name is the one that is ours to give."""
    if not isinstance(marks, Mapping):
        return {}
    return {name: text for name, text in marks.items() if not _is_foreign(name)}


def _is_foreign(mark: str) -> bool:
    return mark != EXTERNAL_NAME and mark.partition("/")[0].endswith(_CROSSPLANE)
