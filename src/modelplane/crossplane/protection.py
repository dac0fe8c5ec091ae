"""Deletion order: Usages, which Crossplane's webhook enforces even when no function is called.

Crossplane reconciles each Usage every 30 s, so there are few: one for each target of a route, which must outlive the
route when the whole composite is deleted, and those of the resources and the software of a cluster that Modelplane made
or equipped. The rest may be deleted in any order. A Usage is desired only when both of
its objects exist, since it fails while one is missing. An object that a composer drops while its composite lives needs
no Usage: it stays in the desired state until the objects that it outlives are gone. A Usage that exists stays as long
as what it protects is desired and the user of that is desired or exists, whatever was observed of the two.

A namespaced Usage cannot protect a cluster-scoped object unless it names a user, and a Usage that names its own
composite would wait for itself. So an InferenceCluster protects itself once replicas run on it. An empty list of
replicas does not end that, because the list may be wrong: the cluster must be cordoned as well.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds
from modelplane.api.labels import CLUSTER
from modelplane.api.objects import (
    API_VERSION,
    Manifest,
    annotations_of,
    items_at,
    name_of,
    namespace_of,
    text_at,
    value_at,
)
from modelplane.api.reasons import Reason
from modelplane.compose.contract import Desired, Local, Requirement, Use, keep
from modelplane.crossplane.provider_objects import ComposedObject, Composite, reference

PREFIX = "usage-"
_ITSELF = f"{PREFIX}of-itself"
_API = "protection.crossplane.io/v1beta1"
_ROUTE = "HTTPRoute"
_IN_USE = "replicas ran on this cluster; delete them and set spec.cordoned before you delete it"
_ATTEMPT = "usage.crossplane.io/deletion-attempt-with-policy"
"""Crossplane's annotation of an object whose deletion a Usage refused. It is deleted when its last Usage is gone."""
_USERS = {
    "InferenceCluster": ("ModelReplica", "InferenceGateway"),
    "InferenceClass": ("InferenceCluster",),
    "ModelCache": ("ModelReplica",),
}
"""The kinds of the composites that use one of these kinds."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ComposedObjects:
    """The objects of a composite: as Crossplane gets them, as observed, and the keys of all that exist."""

    objects: Mapping[str, Manifest]
    seen: Mapping[str, ComposedObject]
    existing: Container[str]

    def reference(self, key: str) -> tuple[str, str, str]:
        return reference(self.objects[key]) if key in self.objects else self.seen[key].reference


def usages(
    composite: Composite, desired: Mapping[str, Desired], there: ComposedObjects, uses: Iterable[Use]
) -> dict[str, Manifest]:
    """By composition key."""
    ordered = composite.kind == "InferenceCluster"
    found = {_key(key, by): _between(composite, key, by, there) for key, by in _pairs(desired, there, ordered=ordered)}
    for use in uses:
        if use.namespace == composite.namespace:
            key = f"{PREFIX}{use.kind}-{use.namespace}-{use.name}".lower()
            found[key] = _of_another(composite, key, use)
    return found


def of_itself(
    composite: Composite, users: Collection[object] | None, existing: Container[str], *, cordoned: bool
) -> dict[str, Manifest]:
    """A Usage of a cluster-scoped composite by others.

    One that exists stays until the cluster is cordoned and no user is listed.
    """
    released = cordoned and users is not None
    if not users and (released or _ITSELF not in existing):
        return {}
    of = _reference((composite.api_version, composite.kind, composite.name))
    return {_ITSELF: _usage("ClusterUsage", composite.name_for(_ITSELF), "", of, None, _IN_USE)}


def users_requirements(composite: Manifest) -> dict[str, Requirement]:
    """The objects among which the users of a composite are, by kind, where Crossplane refused to delete it for them."""
    kind = text_at(composite, "kind")
    if _ATTEMPT not in annotations_of(composite):
        return {}
    labels = {"ModelReplica": {CLUSTER: name_of(composite)}} if kind == "InferenceCluster" else {}
    namespace = namespace_of(composite) or None
    return {
        user: Requirement(API_VERSION, user, namespace=namespace, labels=labels.get(user, {}))
        for user in _USERS.get(kind, ())
    }


def blocked_deletion(
    composite: Manifest, found: Mapping[str, Iterable[Manifest] | None], composed: Container[str]
) -> tuple[Condition, ...]:
    """What a deletion waits for that Crossplane refused and repeats. `found` are those of `users_requirements`."""
    if users_requirements(composite):
        kind = text_at(composite, "kind")
        used = {user: _users(found.get(user), kind, name_of(composite)) for user in _USERS[kind]}
        released = value_at(composite, "spec", "cordoned") is True or _ITSELF not in composed
        held = [each for each in used.items() if each[1]] or [each for each in used.items() if each[1] is None]
        if held:
            return (fails(ConditionType.DELETABLE, Reason.IN_USE, _held_by(*held[0])),)
        if not released:
            message = "being deleted; no replica is left, so set spec.cordoned"
            return (fails(ConditionType.DELETABLE, Reason.IN_USE, message),)
    known = {each.get("type"): each.get("status") for each in items_at(composite, "status", "conditions")}
    if known.get(ConditionType.DELETABLE) == ConditionStatus.FALSE:
        return (holds(ConditionType.DELETABLE, Reason.AVAILABLE),)
    return ()


def _users(found: Iterable[Manifest] | None, kind: str, name: str) -> list[str] | None:
    return None if found is None else [_shown(user) for user in found if _is_user(user, kind, name)]


def _held_by(kind: str, users: Collection[str] | None) -> str:
    if users is None:
        return f"being deleted; the objects of kind {kind} that may use it are not read yet"
    names = sorted(users)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"being deleted; in use by {kind} {', '.join(names[:_SHOWN])}{more}"


def _shown(user: Manifest) -> str:
    return "/".join(part for part in (namespace_of(user), name_of(user)) if part)


def _is_user(user: Manifest, kind: str, name: str) -> bool:
    """Whether an object uses the composite of this kind and name."""
    if kind == "InferenceCluster":
        return text_at(user, "spec", "clusterName") == name
    if kind == "InferenceClass":
        return any(pool.get("className") == name for pool in items_at(user, "spec", "nodePools"))
    return any(mount.get("name") == name for mount in items_at(user, "spec", "caches"))


def _key(key: str, by: str) -> str:
    return f"{PREFIX}{key}-by-{by}"


def _pairs(desired: Mapping[str, Desired], there: ComposedObjects, *, ordered: bool) -> Iterator[tuple[str, str]]:
    for key, item in desired.items():
        for by in item.outlives:
            known = by in desired or by in there.seen or by in there.objects
            if known and (_key(key, by) in there.existing or _both_exist(key, by, there, ordered=ordered)):
                yield key, by


def _both_exist(key: str, by: str, there: ComposedObjects, *, ordered: bool) -> bool:
    """`ordered`: every order of the composite is kept, not that of routes alone."""
    if key not in there.seen or by not in there.existing:
        return False
    if not ordered:
        return by in there.seen and there.seen[by].observed.manifest.get("kind") == _ROUTE
    return by not in there.seen or not _is_held_by_config(there.seen[key], there.seen[by])


def _is_held_by_config(kept: ComposedObject, user: ComposedObject) -> bool:
    """Whether the provider configuration stands between them: it outlives each object on a cluster by itself."""
    return isinstance(kept.observed.target, Local) and not isinstance(user.observed.target, Local)


def held_back(desired: Mapping[str, Desired], seen: Mapping[str, ComposedObject]) -> dict[str, Desired]:
    """Objects that are no longer desired and stay, because an object that they outlive is being deleted."""
    return {
        key: keep(composed.observed)
        for key, composed in seen.items()
        if key not in desired and any(by in seen and by not in desired for by in composed.observed.outlives)
    }


def _between(composite: Composite, key: str, by: str, there: ComposedObjects) -> Manifest:
    of, user = there.reference(key), there.reference(by)
    name = composite.name_for(f"{key}-by-{by}")
    return _usage("Usage", name, composite.home, _reference(of), _reference(user), f"{by} is deleted before {key}")


def _of_another(composite: Composite, key: str, use: Use) -> Manifest:
    """Names no `by`: it is deleted with its composite.

    Crossplane deletes composed objects before their composite, so a Usage by its own composite would never end.
    """
    of = _reference((use.api_version, use.kind, use.name))
    reason = f"{composite.kind} {composite.name}: {use.reason}" if use.reason else f"{composite.kind} {composite.name}"
    kind = "Usage" if composite.namespace else "ClusterUsage"
    return _usage(kind, composite.name_for(key), composite.namespace, of, None, reason)


def _reference(item: tuple[str, str, str]) -> dict[str, object]:
    api_version, kind, name = item
    return {"apiVersion": api_version, "kind": kind, "resourceRef": {"name": name}}


def _usage(kind: str, name: str, namespace: str, of: object, by: object, reason: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    spec = {"of": of, **({"by": by} if by else {}), "reason": reason, "replayDeletion": True}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
