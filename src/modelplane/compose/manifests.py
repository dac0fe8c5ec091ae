"""Reading and writing plain manifests: the few shapes that every composer needs."""

from collections.abc import Mapping

from modelplane.compose.contract import Manifest


def manifest(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    **body: object,
) -> dict[str, object]:
    """An object of the given kind; `body` holds spec, data and whatever else the kind has at its root."""
    metadata: dict[str, object] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def name_of(item: Manifest) -> str:
    return text_at(item, "metadata", "name")


def text_at(item: Manifest, *path: str) -> str:
    """The text at a path, or an empty one."""
    value = value_at(item, *path)
    return value if isinstance(value, str) else ""


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
