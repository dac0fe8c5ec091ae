"""Reading and building Kubernetes objects as plain mappings: what every controller of the cluster needs."""

from collections.abc import Iterator, Mapping, Sequence

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.labels import selects
from modelplane.api.models import LabelSelector
from modelplane.api.objects import (
    Json,
    Manifest,
    group_of,
    items_at,
    mapping_at,
    namespace_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.reconcile.store import ObjectRef

_NOTHING: Mapping[str, object] = {}


def annotation(item: Manifest, key: str) -> str:
    """The value of an annotation, or an empty text."""
    return text_at(item, "metadata", "annotations", key)


def annotated(item: Manifest, key: str, value: str | None) -> Json:
    """The object with that annotation, or without it."""
    marks = {name: mark for name, mark in mapping_at(item, "metadata", "annotations").items() if name != key}
    if value is not None:
        marks[key] = value
    return with_metadata(item, annotations=marks)


def with_spec(item: Manifest, **fields: object) -> Json:
    return {**item, "spec": {**mapping_at(item, "spec"), **fields}}


def with_status(item: Manifest, **fields: object) -> Json:
    return {**item, "status": {**mapping_at(item, "status"), **fields}}


def controller_reference(owner: Manifest, *, block_deletion: bool = True) -> Json:
    """The controller owner reference to `owner`."""
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
    """The reference of the object's controller, in the same namespace."""
    owner = controller_of(item)
    if not owner:
        return None
    group = group_of(owner.get("apiVersion"))
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
    """The known conditions with the wanted ones in them. A transition is a change of status, and carries its time."""
    before = {str(entry.get("type")): entry for entry in known}
    for entry in wanted:
        kind = str(entry["type"])
        old = before.get(kind, _NOTHING)
        same = old.get("status") == entry["status"] and "lastTransitionTime" in old
        time = old["lastTransitionTime"] if same else timestamp(now_s)
        before[kind] = {**entry, "lastTransitionTime": time}
    return list(before.values())


def seconds_of(time: str) -> float:
    """A time of Kubernetes in seconds since the epoch; 0 when it cannot be read."""
    return epoch_s(time) or 0.0


def selector_matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """A label selector that nobody has validated; one that cannot be read matches nothing."""
    try:
        return selects(decode(LabelSelector, selector), labels)
    except InvalidObject:
        return False
