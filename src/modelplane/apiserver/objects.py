"""Admission of every writable kind.

Modelplane's kinds are validated by their definitions, core kinds by short schemas and the rules that matter to clients:
keys, encodings and sizes of ConfigMaps and Secrets, their immutability, the type of a Secret, the name and label of a
Namespace, and the namespace of an Event.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import msgspec

from modelplane.api.definitions import Definition
from modelplane.api.objects import (
    Json,
    Manifest,
    as_mapping,
    finalizers_of,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    with_metadata,
)
from modelplane.apiserver import event_views
from modelplane.apiserver.failures import ApiError, bad_request, invalid_object
from modelplane.apiserver.resources import Resource, resource_of
from modelplane.k8s.admission.admit import AdmissionDenied, Admitted, UnknownFields, Verdict, admit
from modelplane.k8s.admission.names import fault_in_namespace
from modelplane.k8s.admission.paths import MapKey
from modelplane.k8s.admission.problems import CauseType, Problem
from modelplane.k8s.admission.schemas import META_FIELDS, properties_of

T = TypeVar("T")

NAME_LABEL: Final = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER: Final = "kubernetes"
"""The finalizer of a Namespace that is not empty."""

_DATA_BYTES_MOST: Final = 1024 * 1024
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_FINALIZERS_OF_KUBERNETES: Final = {"foregroundDeletion", "orphan", NAMESPACE_FINALIZER}


@dataclass(frozen=True, slots=True)
class AdmittedObject:
    """An admitted object, and warnings for the client."""

    value: Json
    warnings: tuple[str, ...] = ()


def admitted(
    resource: Resource, given: Json, old: Manifest | None, *, unknown: UnknownFields, duplicates: tuple[str, ...] = ()
) -> AdmittedObject:
    """The object as it is stored. Raises ApiError with its problems."""
    prepared = _PREPARE.get(resource.kind, _as_given)(given, old) if not resource.custom else given
    verdict = _validated(resource, prepared, old, unknown)
    found = verdict.problems if isinstance(verdict, AdmissionDenied) else verdict.warnings
    unknown_fields = [f'duplicate field "{field}"' for field in duplicates]
    unknown_fields += sorted(f'unknown field "{each.field}"' for each in found if each.cause is CauseType.UNKNOWN_FIELD)
    if unknown is UnknownFields.REFUSE and unknown_fields:
        raise StrictError(resource, unknown_fields)
    if isinstance(verdict, AdmissionDenied):
        raise _refusal(resource, name_of(given), verdict.problems)
    _check_more(resource, verdict.value, old)
    unknown_warnings = unknown_fields if unknown is UnknownFields.WARN else []
    noted = (f"{each.field}: {each.message}" for each in found if each.cause is not CauseType.UNKNOWN_FIELD)
    return AdmittedObject(verdict.value, (*unknown_warnings, *noted, *_finalizer_warnings(verdict.value, old)))


def _validated(resource: Resource, given: Json, old: Manifest | None, unknown: UnknownFields) -> Verdict:
    """Parts that are identical to the stored object were validated before, and are not validated again.

    managedFields are not validated: `managed_fields` ignores what it cannot read.
    """
    same = _untouched(resource, given, old)
    definition = _without(resource.group, resource.kind, same) if same else None
    owners = metadata_of(given).get("managedFields")
    plain = with_metadata(given, managedFields=None) if owners is not None else given
    if definition is None or old is None:
        verdict = admit(plain, resource.definition, old=old, unknown=unknown)
    else:
        verdict = admit(_less(plain, same), definition, old=_less(old, same), unknown=unknown)
    if isinstance(verdict, AdmissionDenied):
        return verdict
    value = {**verdict.value, **{name: old[name] for name in same if old is not None}}
    return Admitted(with_metadata(value, managedFields=owners), verdict.warnings)


def _untouched(resource: Resource, given: Json, old: Manifest | None) -> frozenset[str]:
    if old is None or not resource.custom:
        return frozenset()
    return frozenset(name for name in old if name not in META_FIELDS and given.get(name) is old[name])


@cache
def _without(group: str, kind: str, parts: frozenset[str]) -> Definition | None:
    """The definition without these parts; unchanged if a rule over the whole object reads them."""
    resource = resource_of(group, kind)
    if resource is None or "x-kubernetes-validations" in resource.definition.schema:
        return None
    schema = resource.definition.schema
    required = schema.get("required")
    left = {
        **schema,
        "properties": _less(properties_of(schema), parts),
        "required": [name for name in required if name not in parts] if isinstance(required, list) else [],
    }
    return msgspec.structs.replace(resource.definition, schema=left)


def _less(value: Mapping[str, T], names: frozenset[str]) -> dict[str, T]:
    return {name: item for name, item in value.items() if name not in names}


class StrictError(ApiError):
    """Unknown fields with fieldValidation=Strict."""

    def __init__(self, resource: Resource, unknown_fields: list[str]) -> None:
        self.found = f"strict decoding error: {', '.join(unknown_fields)}"
        what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        super().__init__(400, "BadRequest", f"{what}: {self.found}")


def _refusal(resource: Resource, name: str, problems: tuple[Problem, ...]) -> ApiError:
    """The API server cannot even read metadata, or a kind of its own, with values of another type."""
    unreadable = [each for each in problems if _is_unreadable(resource, each)]
    if unreadable:
        what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        return bad_request(f"{what}: {unreadable[0]}")
    return invalid_object(resource, name, problems)


def _is_unreadable(resource: Resource, problem: Problem) -> bool:
    if resource.custom:
        return problem.cause is CauseType.TYPE and problem.path[:1] == ("metadata",)
    return problem.cause is CauseType.TYPE or problem.path[0] in {"data", "binaryData"}


def _check_more(resource: Resource, value: Json, old: Manifest | None) -> None:
    check = _CHECK.get(resource.kind) if not resource.custom else None
    problems = [*(check(value, old) if check else ()), *_check_finalizers(value, old)]
    if problems:
        raise invalid_object(resource, name_of(value), problems)


def _check_finalizers(value: Json, old: Manifest | None) -> Iterator[Problem]:
    if old is None or not is_deleting(old):
        return
    added = [name for name in finalizers_of(value) if name not in finalizers_of(old)]
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
        yield Problem(("metadata", "finalizers"), why, cause=CauseType.FORBIDDEN)


def _finalizer_warnings(value: Json, old: Manifest | None) -> Iterator[str]:
    known = {*finalizers_of(old or {}), *_FINALIZERS_OF_KUBERNETES}
    for name in finalizers_of(value):
        if "/" not in name and name not in known:
            yield (
                f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental '
                "conflicts with other finalizer writers"
            )


def _as_given(given: Json, _old: Manifest | None) -> Json:
    return given


def stored_secret(given: Json, old: Manifest | None) -> Json:
    """StringData is stored as data; the default type is Opaque."""
    texts, data = as_mapping(given.get("stringData")), as_mapping(given.get("data"))
    encoded = {
        key: base64.b64encode(text.encode()).decode() if isinstance(text, str) else text for key, text in texts.items()
    }
    secret = {name: item for name, item in given.items() if name != "stringData"}
    if encoded:
        secret["data"] = {**data, **encoded}
    kept = old.get("type") if old is not None and "type" not in given else None
    return {**secret, "type": given.get("type") or kept or "Opaque"}


def _prepare_namespace(given: Json, old: Manifest | None) -> Json:
    """Label it with its name; keep its finalizer while it is being deleted."""
    name = name_of(given)
    labels = {**as_mapping(as_mapping(given.get("metadata")).get("labels")), **({NAME_LABEL: name} if name else {})}
    held = [NAMESPACE_FINALIZER] if old is not None and NAMESPACE_FINALIZER in finalizers_of(old) else []
    finalizers = [*(each for each in finalizers_of(given) if each != NAMESPACE_FINALIZER), *held]
    if not isinstance(given.get("metadata"), dict):
        return given
    named = with_metadata(given, labels=labels, finalizers=finalizers or None)
    status = as_mapping(given.get("status")) if old is not None else {}
    return {**named, "spec": {"finalizers": [NAMESPACE_FINALIZER]}, "status": {"phase": "Active", **status}}


_PREPARE: Final[Mapping[str, Callable[[Json, Manifest | None], Json]]] = {
    "Secret": stored_secret,
    "Namespace": _prepare_namespace,
}


def _check_keys(value: Json, field: str) -> Iterator[Problem]:
    for key in as_mapping(value.get(field)):
        if not _KEY.fullmatch(key) or key in {".", ".."}:
            why = f'"{key}" is not a valid key'
            yield Problem((field, MapKey(key)), why, "use letters, digits, '-', '_' and '.'")


def _check_size(value: Json, field: str, *, texts: str = "", encoded: str) -> Iterator[Problem]:
    """All values together, without their keys."""
    size = sum(len(str(item).encode()) for item in as_mapping(value.get(texts)).values())
    size += sum(_decoded_size(str(item)) for item in as_mapping(value.get(encoded)).values())
    if size > _DATA_BYTES_MOST:
        yield Problem((field,), f"may not be more than {_DATA_BYTES_MOST} bytes", cause=CauseType.TOO_LONG)


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _check_immutable(value: Json, old: Manifest | None, fields: tuple[str, ...]) -> Iterator[Problem]:
    if old is None or old.get("immutable") is not True:
        return
    for field in ("immutable", *fields):
        if value.get(field) != old.get(field):
            yield Problem((field,), "field is immutable when `immutable` is set", cause=CauseType.FORBIDDEN)


def _check_config_map(value: Json, old: Manifest | None) -> Iterator[Problem]:
    yield from _check_keys(value, "data")
    yield from _check_keys(value, "binaryData")
    for key in as_mapping(value.get("data")).keys() & as_mapping(value.get("binaryData")).keys():
        yield Problem(("data", MapKey(key)), f'"{key}": duplicate of key present in binaryData')
    yield from _check_size(value, "[]", texts="data", encoded="binaryData")
    yield from _check_immutable(value, old, ("data", "binaryData"))


def _check_secret(value: Json, old: Manifest | None) -> Iterator[Problem]:
    yield from _check_keys(value, "data")
    yield from _check_size(value, "data", encoded="data")
    yield from _check_immutable(value, old, ("data",))
    if old is not None and old.get("type", "Opaque") != value.get("type"):
        yield Problem(("type",), f'"{value.get("type")}": field is immutable')


def _check_namespace(value: Json, _old: Manifest | None) -> Iterator[Problem]:
    if fault := fault_in_namespace(name_of(value)):
        yield Problem(("metadata", "name"), f'"{name_of(value)}" is not a valid name', fault)


def _check_event(value: Json, _old: Manifest | None) -> Iterator[Problem]:
    involved = as_mapping(value.get("involvedObject")).get("namespace", "")
    namespace = namespace_of(value)
    if involved != namespace and (involved or namespace != "default"):
        yield Problem(("involvedObject", "namespace"), f'"{involved}": does not match event.namespace')


_CHECK: Final[Mapping[str, Callable[[Json, Manifest | None], Iterator[Problem]]]] = {
    "ConfigMap": _check_config_map,
    "Secret": _check_secret,
    "Namespace": _check_namespace,
    "Event": _check_event,
}


def tabled_of(resource: Resource, manifest: Manifest) -> Manifest:
    """A stored object for its table; a view has the columns of its own kind."""
    return manifest if resource.is_view else shown(resource, manifest)


def shown(resource: Resource, manifest: Manifest) -> Manifest:
    """A stored object as clients see it: the kinds of Kubernetes itself have no generation."""
    if resource.custom:
        return manifest
    if resource.is_view:
        return event_views.as_view(with_metadata(manifest, generation=None))
    hidden: dict[str, object] = {"generation": None}
    if resource.kind == "Namespace" and NAMESPACE_FINALIZER in finalizers_of(manifest):
        hidden["finalizers"] = [name for name in finalizers_of(manifest) if name != NAMESPACE_FINALIZER] or None
        hidden["deletionGracePeriodSeconds"] = None
    return with_metadata(manifest, **hidden)
