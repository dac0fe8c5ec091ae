"""Reading plain JSON values whose shape nobody promised."""

from collections.abc import Mapping

from modelplane.api.objects import Json


def mapping(value: object) -> Mapping[str, object]:
    """The value where it is an object, and an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def metadata_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(manifest.get("metadata"))


def text_of(manifest: Mapping[str, object], field: str) -> str:
    """A text of the metadata; empty where there is none."""
    found = metadata_of(manifest).get(field)
    return found if isinstance(found, str) else ""


def texts_of(manifest: Mapping[str, object], field: str) -> Mapping[str, str]:
    """Labels or annotations."""
    found = mapping(metadata_of(manifest).get(field))
    return {key: text for key, text in found.items() if isinstance(text, str)}


def finalizers_of(manifest: Mapping[str, object]) -> list[str]:
    return [name for name in items(metadata_of(manifest).get("finalizers")) if isinstance(name, str)]


def is_deleting(manifest: Mapping[str, object]) -> bool:
    return "deletionTimestamp" in metadata_of(manifest)


def with_metadata(manifest: Mapping[str, object], **changes: object) -> Json:
    """A copy whose metadata has these fields; a field that is given as None is left out."""
    metadata = {**metadata_of(manifest), **changes}
    return {**manifest, "metadata": {name: value for name, value in metadata.items() if value is not None}}
