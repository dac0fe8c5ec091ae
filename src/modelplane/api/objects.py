"""Kubernetes objects as plain mappings: the API group and version, how a manifest is built, and how it is read.

A manifest comes from outside, so nothing in it is promised: an accessor answers with an empty value where the field is
absent or of another type.
"""

from collections.abc import Iterator, Mapping
from typing import Final

Manifest = Mapping[str, object]
"""An object that is read and never changed."""
Json = dict[str, object]
"""An object that is being built."""

GROUP: Final = "modelplane.ai"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
INFRASTRUCTURE_GROUP: Final = "infrastructure.modelplane.ai"

_EMPTY: Manifest = {}


def manifest(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    **body: object,
) -> Json:
    """An object of the given kind; `body` holds spec, data and whatever else the kind has at its root."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def name_of(item: Manifest) -> str:
    return text_at(item, "metadata", "name")


def namespace_of(item: Manifest) -> str:
    return text_at(item, "metadata", "namespace")


def uid_of(item: Manifest) -> str:
    return text_at(item, "metadata", "uid")


def metadata_of(item: Manifest) -> Manifest:
    return mapping_at(item, "metadata")


def labels_of(item: Manifest) -> dict[str, str]:
    found = mapping_at(item, "metadata", "labels")
    return {key: value if isinstance(value, str) else str(value) for key, value in found.items()}


def text_at(item: Manifest, *path: str) -> str:
    """The text at a path, or an empty one."""
    value = value_at(item, *path)
    return value if isinstance(value, str) else ""


def int_at(item: Manifest, *path: str, default: int = 0) -> int:
    found = value_at(item, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def mapping_at(item: Manifest, *path: str) -> Manifest:
    """The mapping at a path, or an empty one."""
    found = value_at(item, *path)
    return found if type(found) is dict or isinstance(found, Mapping) else _EMPTY


def items_at(item: Manifest, *path: str) -> Iterator[Manifest]:
    """The mappings of the list at a path."""
    found = value_at(item, *path)
    if isinstance(found, (list, tuple)):
        for entry in found:
            if type(entry) is dict or isinstance(entry, Mapping):
                yield entry


def value_at(item: Manifest, *path: str) -> object:
    """The value at a path, or None."""
    value: object = item
    for step in path:
        # Nearly all are dicts, and asking an abstract class costs ten times as much.
        if type(value) is dict or isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value
