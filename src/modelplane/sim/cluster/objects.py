"""Reading and building Kubernetes objects as plain mappings: what every controller of the cluster needs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from modelplane.api.objects import Json, Manifest, items_at, mapping_at, namespace_of, text_at, uid_of, value_at
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.store import ObjectRef

_NOTHING: Mapping[str, object] = {}


def ref_of(item: Manifest) -> ObjectRef:
    group = text_at(item, "apiVersion").rpartition("/")[0]
    return ObjectRef(group, text_at(item, "kind"), namespace_of(item), text_at(item, "metadata", "name"))


def annotation(item: Manifest, key: str) -> str:
    """The value of an annotation, or an empty text."""
    return text_at(item, "metadata", "annotations", key)


def annotated(item: Manifest, key: str, value: str | None) -> Json:
    """The object with that annotation, or without it."""
    marks = {name: mark for name, mark in mapping_at(item, "metadata", "annotations").items() if name != key}
    if value is not None:
        marks[key] = value
    return with_metadata(item, annotations=marks)


def with_metadata(item: Manifest, **fields: object) -> Json:
    return {**item, "metadata": {**mapping_at(item, "metadata"), **fields}}


def with_spec(item: Manifest, **fields: object) -> Json:
    return {**item, "spec": {**mapping_at(item, "spec"), **fields}}


def with_status(item: Manifest, **fields: object) -> Json:
    return {**item, "status": {**mapping_at(item, "status"), **fields}}


def finalizers_of(item: Manifest) -> list[str]:
    found = value_at(item, "metadata", "finalizers")
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def is_deleting(item: Manifest) -> bool:
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def controller_reference(owner: Manifest, *, block_deletion: bool = True) -> Json:
    """What an object that `owner` controls carries in its ownerReferences."""
    reference: Json = {
        "apiVersion": text_at(owner, "apiVersion"),
        "kind": text_at(owner, "kind"),
        "name": text_at(owner, "metadata", "name"),
        "uid": uid_of(owner),
        "controller": True,
    }
    return {**reference, "blockOwnerDeletion": True} if block_deletion else reference


def controller_of(item: Manifest) -> Mapping[str, object]:
    """The owner reference of the object's controller, or an empty mapping."""
    for owner in items_at(item, "metadata", "ownerReferences"):
        if owner.get("controller") is True:
            return owner
    return _NOTHING


def controller_ref(item: Manifest) -> ObjectRef | None:
    """Where the object's controller is: in the same namespace."""
    owner = controller_of(item)
    if not owner:
        return None
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return ObjectRef(group, str(owner.get("kind")), namespace_of(item), str(owner.get("name")))


def condition_of(item: Manifest, kind: str) -> Mapping[str, object]:
    """The condition of that type, or an empty mapping."""
    for entry in items_at(item, "status", "conditions"):
        if entry.get("type") == kind:
            return entry
    return _NOTHING


def condition_is(item: Manifest, kind: str, status: str = "True") -> bool:
    return condition_of(item, kind).get("status") == status


def merged_conditions(
    known: Sequence[Mapping[str, object]] | Iterator[Mapping[str, object]],
    wanted: Sequence[Mapping[str, object]],
    now_s: float,
) -> list[Mapping[str, object]]:
    """The known conditions with the wanted ones in them. A transition is a change of status, and carries its moment."""
    before = {str(entry.get("type")): entry for entry in known}
    for entry in wanted:
        kind = str(entry["type"])
        old = before.get(kind, _NOTHING)
        same = old.get("status") == entry["status"] and "lastTransitionTime" in old
        moment = old["lastTransitionTime"] if same else timestamp(now_s)
        before[kind] = {**entry, "lastTransitionTime": moment}
    return list(before.values())


def seconds_of(moment: str) -> float:
    """A moment as Kubernetes writes it, in seconds since the epoch; 0 when it cannot be read."""
    if not moment.endswith("Z"):
        return 0.0
    try:
        return datetime.fromisoformat(f"{moment[:-1]}+00:00").timestamp()
    except ValueError:
        return 0.0


def selector_matches(selector: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    """A Kubernetes label selector. An empty one matches everything."""
    equal = mapping_at(selector, "matchLabels").items() <= labels.items()
    return equal and all(_meets(entry, labels) for entry in items_at(selector, "matchExpressions"))


def _meets(requirement: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    listed = requirement.get("values")
    values = listed if isinstance(listed, list | tuple) else ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
