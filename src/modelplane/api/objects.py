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
    return as_mapping(item.get("metadata"))


def labels_of(item: Manifest) -> dict[str, str]:
    found = mapping_at(item, "metadata", "labels")
    return {key: value if isinstance(value, str) else str(value) for key, value in found.items()}


def annotations_of(item: Manifest) -> dict[str, str]:
    found = mapping_at(item, "metadata", "annotations")
    return {key: value for key, value in found.items() if isinstance(value, str)}


def finalizers_of(item: Manifest) -> list[str]:
    found = value_at(item, "metadata", "finalizers")
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def is_deleting(item: Manifest) -> bool:
    return bool(metadata_of(item).get("deletionTimestamp"))


def with_metadata(item: Manifest, **changes: object) -> Json:
    """A copy whose metadata has these fields; a field that is given as None is left out."""
    metadata = {**metadata_of(item), **changes}
    return {**item, "metadata": {name: value for name, value in metadata.items() if value is not None}}


def group_of(api_version: object) -> str:
    """The API group of an apiVersion; the core group is empty."""
    return api_version.rpartition("/")[0] if isinstance(api_version, str) else ""


def text_at(item: Manifest, *path: str) -> str:
    """The text at a path, or an empty one."""
    # As value_at, without a second call: nothing else is called as often.
    value: object = item
    for step in path:
        if type(value) is dict or (value is not None and isinstance(value, Mapping)):
            value = value.get(step)
        else:
            return ""
    return value if isinstance(value, str) else ""


def int_at(item: Manifest, *path: str, default: int = 0) -> int:
    found = value_at(item, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def mapping_at(item: Manifest, *path: str) -> Manifest:
    """The mapping at a path, or an empty one."""
    return as_mapping(value_at(item, *path))


def items_at(item: Manifest, *path: str) -> Iterator[Manifest]:
    """The mappings of the list at a path."""
    found = value_at(item, *path)
    if isinstance(found, (list, tuple)):
        for entry in found:
            if type(entry) is dict or isinstance(entry, Mapping):
                yield entry


def as_mapping(value: object) -> Manifest:
    return value if type(value) is dict or (value is not None and isinstance(value, Mapping)) else _EMPTY


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def value_at(item: Manifest, *path: str) -> object:
    """The value at a path, or None."""
    value: object = item
    for step in path:
        # Nearly all are dicts or absent, and asking an abstract class costs ten times as much.
        if type(value) is dict or (value is not None and isinstance(value, Mapping)):
            value = value.get(step)
        else:
            return None
    return value
