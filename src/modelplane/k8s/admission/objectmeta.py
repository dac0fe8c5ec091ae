"""The metadata that every object carries, checked as the API server of Kubernetes does."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from modelplane.k8s.admission.names import (
    fault_in_label_key,
    fault_in_label_value,
    fault_in_name,
    fault_in_namespace,
    fault_in_prefix,
    fault_in_segment,
)
from modelplane.k8s.admission.paths import MapKey, Path
from modelplane.k8s.admission.problems import CauseType, Problem, describe

ANNOTATIONS_BYTES: Final = 256 * 1024

_TEXT_FIELDS: Final = ("uid", "resourceVersion", "selfLink", "creationTimestamp", "deletionTimestamp")
_NUMBER_FIELDS: Final = ("generation", "deletionGracePeriodSeconds")
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")
FIELDS: Final = frozenset((
    *_TEXT_FIELDS, *_NUMBER_FIELDS,
    "name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "managedFields",
))  # fmt: skip
"""Every field that metadata has."""


def check_metadata(metadata: object, path: Path, *, longest_name: int) -> Iterator[Problem]:
    """The problems of an object's metadata, given the maximum length of its name."""
    if not isinstance(metadata, dict):
        yield Problem(path, f"is {describe(metadata)}", "must be an object", CauseType.TYPE)
        return
    if not metadata.get("name") and not metadata.get("generateName"):
        yield Problem((*path, "name"), "is required", "give a name, or generateName", CauseType.REQUIRED)
    yield from _check_text(metadata, "name", path, lambda text: fault_in_name(text, longest=longest_name))
    yield from _check_text(metadata, "generateName", path, fault_in_prefix)
    yield from _check_rest(metadata, path)


def check_embedded(fields: Mapping[str, object], path: Path) -> Iterator[Problem]:
    """What every object embedded in another must have: apiVersion, kind and, where it is given, valid metadata."""
    for name in ("apiVersion", "kind"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            yield Problem((*path, name), "is required", "give a string", CauseType.REQUIRED)
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        yield Problem((*path, "metadata"), f"is {describe(metadata)}", "must be an object", CauseType.TYPE)
        return
    for name in ("name", "generateName"):
        yield from _check_text(metadata, name, (*path, "metadata"), fault_in_segment)
    yield from _check_rest(metadata, (*path, "metadata"))


def _check_rest(metadata: Mapping[str, object], path: Path) -> Iterator[Problem]:
    yield from _check_text(metadata, "namespace", path, fault_in_namespace)
    for name in _TEXT_FIELDS:
        yield from _check_text(metadata, name, path, lambda _: "")
    for name in _NUMBER_FIELDS:
        if type(metadata.get(name, 0)) is not int:
            yield Problem((*path, name), f"is {describe(metadata[name])}", "must be an integer", CauseType.TYPE)
    yield from _check_labels(metadata.get("labels", {}), (*path, "labels"))
    yield from _check_annotations(metadata.get("annotations", {}), (*path, "annotations"))
    yield from _check_finalizers(metadata.get("finalizers", []), (*path, "finalizers"))
    yield from _check_owners(metadata.get("ownerReferences", []), (*path, "ownerReferences"))


def _check_text(
    metadata: Mapping[str, object], name: str, path: Path, fault_in: Callable[[str], str]
) -> Iterator[Problem]:
    text = metadata.get(name, "")
    if not isinstance(text, str):
        yield _not_a_string(text, (*path, name))
    elif text and fault_in(text):
        yield Problem((*path, name), f"{describe(text)} is not a valid {name}", fault_in(text))


def _check_labels(labels: object, path: Path) -> Iterator[Problem]:
    for key, value, place in _pairs(labels, path):
        if fault := fault_in_label_key(key):
            yield Problem(place, f"{describe(key)} is not a valid key of a label", fault)
        if not isinstance(value, str):
            yield _not_a_string(value, place)
        elif fault := fault_in_label_value(value):
            yield Problem(place, f"{describe(value)} is not a valid value of a label", fault)
    yield from _not_a_map(labels, path)


def _check_annotations(annotations: object, path: Path) -> Iterator[Problem]:
    size = 0
    for key, value, place in _pairs(annotations, path):
        if fault := fault_in_label_key(key.lower()):
            yield Problem(place, f"{describe(key)} is not a valid key of an annotation", fault)
        if isinstance(value, str):
            size += len(key.encode()) + len(value.encode())
        else:
            yield _not_a_string(value, place)
    if size > ANNOTATIONS_BYTES:
        yield Problem(path, f"has {size} bytes", f"at most {ANNOTATIONS_BYTES} in all are allowed", CauseType.TOO_LONG)
    yield from _not_a_map(annotations, path)


def _check_finalizers(finalizers: object, path: Path) -> Iterator[Problem]:
    if not isinstance(finalizers, list):
        yield Problem(path, f"is {describe(finalizers)}", "must be a list of strings", CauseType.TYPE)
        return
    for index, finalizer in enumerate(finalizers):
        if not isinstance(finalizer, str):
            yield _not_a_string(finalizer, (*path, index))
        elif fault := fault_in_label_key(finalizer):
            yield Problem((*path, index), f"{describe(finalizer)} is not a valid finalizer", fault)


def _check_owners(owners: object, path: Path) -> Iterator[Problem]:
    if not isinstance(owners, list):
        yield Problem(path, f"is {describe(owners)}", "must be a list of objects", CauseType.TYPE)
        return
    for index, owner in enumerate(owners):
        for name in _OWNER_FIELDS:
            given = owner.get(name) if isinstance(owner, dict) else None
            if not isinstance(given, str) or not given:
                yield Problem((*path, index, name), "is required", "give a string", CauseType.REQUIRED)


def _pairs(mapping: object, path: Path) -> Iterator[tuple[str, object, Path]]:
    for key, value in mapping.items() if isinstance(mapping, dict) else ():
        yield key, value, (*path, MapKey(key))


def _not_a_map(mapping: object, path: Path) -> Iterator[Problem]:
    if not isinstance(mapping, dict):
        yield Problem(path, f"is {describe(mapping)}", "must be an object whose values are strings", CauseType.TYPE)


def _not_a_string(value: object, path: Path) -> Problem:
    quote = "" if isinstance(value, dict | list) else describe(value)
    return Problem(path, f"is {describe(value)}", "must be a string", CauseType.TYPE, quote)
