"""The schema of the metadata that every object has, for discovery documents and field ownership."""

from collections.abc import Mapping
from typing import Final

from modelplane.k8s.admission.schemas import Schema

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer", "format": "int64"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


_TEXT_MAP: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string", "default": ""}}

OWNER_REFERENCE: Final[Schema] = {
    "type": "object",
    "description": "An object that this one belongs to. It is in the same namespace, or in none.",
    "required": ["apiVersion", "kind", "name", "uid"],
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "apiVersion": _described(_TEXT, "API version of the owner."),
        "kind": _described(_TEXT, "Kind of the owner."),
        "name": _described(_TEXT, "Name of the owner."),
        "uid": _described(_TEXT, "UID of the owner."),
        "controller": {"type": "boolean", "description": "Whether this owner manages the object."},
        "blockOwnerDeletion": {
            "type": "boolean",
            "description": "Whether a foreground deletion of the owner waits for this object to be gone.",
        },
    },
}

MANAGED_FIELDS_ENTRY: Final[Schema] = {
    "type": "object",
    "description": "The fields that one writer stated last.",
    "properties": {
        "manager": _described(_TEXT, "The name under which the writer wrote."),
        "operation": _described(_TEXT, "Apply or Update."),
        "apiVersion": _described(_TEXT, "The version that the fields are named in."),
        "time": _described(_TIME, "When the entry was written last."),
        "fieldsType": _described(_TEXT, "FieldsV1."),
        "fieldsV1": {"type": "object", "description": "The fields, as a tree."},
        "subresource": _described(_TEXT, "The subresource through which the fields were written."),
    },
}

_PROPERTIES: Final[Mapping[str, Schema]] = {
    "name": _described(_TEXT, "The name, unique among objects of the kind in the namespace. It cannot be changed."),
    "generateName": _described(_TEXT, "A prefix from which the server makes a unique name, where no name is given."),
    "namespace": _described(_TEXT, "The namespace that the object is in. It cannot be changed."),
    "uid": _described(_TEXT, "Unique identity of this object. Set by the server."),
    "resourceVersion": _described(_TEXT, "Changes with every write. A write that names an older one is refused."),
    "generation": _described(_NUMBER, "Grows when the desired state changes. Set by the server."),
    "selfLink": _described(_TEXT, "Not used."),
    "creationTimestamp": _described(_TIME, "When the object was created. Set by the server."),
    "deletionTimestamp": _described(_TIME, "When deletion was requested. Set by the server."),
    "deletionGracePeriodSeconds": _described(_NUMBER, "How long the object may take to end. Set by the server."),
    "labels": _described(_TEXT_MAP, "Names and values by which objects are selected."),
    "annotations": _described(_TEXT_MAP, "Names and values that tools keep with the object."),
    "finalizers": {
        "type": "array",
        "items": _TEXT,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
        "description": "Finalizers that must be removed before the object is deleted.",
    },
    "ownerReferences": {
        "type": "array",
        "items": OWNER_REFERENCE,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["uid"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "uid",
        "description": "The objects that this one belongs to. Without any of them left, it is deleted.",
    },
    "managedFields": {
        "type": "array",
        "items": MANAGED_FIELDS_ENTRY,
        "x-kubernetes-list-type": "atomic",
        "description": "Which writer owns which fields. Kept by the server.",
    },
}

OBJECT_META: Final[Schema] = {
    "type": "object",
    "description": "What every object has besides its own fields.",
    "properties": _PROPERTIES,
}

TYPE_META: Final[Mapping[str, Schema]] = {
    "apiVersion": _described(_TEXT, "The group and version of the kind."),
    "kind": _described(_TEXT, "The kind of the object."),
}
