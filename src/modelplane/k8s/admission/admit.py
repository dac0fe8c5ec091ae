"""Admission: whether an object may be stored, and as what.

The steps are those of the Kubernetes API server for custom resources, in its order: apiVersion and kind, unknown
fields, defaults, the schema with the metadata, and the rules. In an update, an invalid but unchanged field is a
warning: a stored object stays writable when its schema becomes stricter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

from modelplane.api.definitions import Definition
from modelplane.k8s.admission.correlate import is_unchanged
from modelplane.k8s.admission.fields import check_fields
from modelplane.k8s.admission.names import NAME_LENGTH
from modelplane.k8s.admission.objectmeta import FIELDS, check_metadata
from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.prepare import METADATA, PreparedObject
from modelplane.k8s.admission.prepare_fast import prepare
from modelplane.k8s.admission.problems import CauseType, Problem, collect, describe
from modelplane.k8s.admission.rules import check_rules
from modelplane.k8s.admission.schemas import Schema, properties_of
from modelplane.k8s.admission.structure import nearest

_TEXT_MAPS: Final = ("labels", "annotations")


class UnknownFields(StrEnum):
    """The handling of unknown fields (`fieldValidation` of a request)."""

    REFUSE = "Strict"
    WARN = "Warn"
    DROP = "Ignore"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Store `value`, which has its defaults and nothing unknown, and shares nothing with what was given."""

    value: dict[str, object]
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionDenied:
    """Nothing is changed; the problems, at least one."""

    problems: tuple[Problem, ...]


Verdict: TypeAlias = Admitted | AdmissionDenied


def admit(
    value: object,
    definition: Definition,
    *,
    old: Mapping[str, object] | None = None,
    unknown: UnknownFields = UnknownFields.REFUSE,
) -> Verdict:
    """Admit or deny an object that is to be created, or to replace `old`. No argument is changed."""
    if not isinstance(value, dict):
        return AdmissionDenied((Problem((), f"is {describe(value)}", "must be an object", CauseType.TYPE),))
    identity = collect(_check_identity(value, definition))
    if identity:
        return AdmissionDenied(identity)
    metadata = value.get(METADATA)
    prepared = prepare({**value, METADATA: _tidy_metadata(metadata)}, definition.schema)
    unknown_fields = collect(chain(_unknown_metadata(metadata), prepared.unknown))
    notes = _drop_namespace(prepared.value, definition)
    problems, tolerated = _validate(prepared, definition, old)
    if unknown is UnknownFields.REFUSE:
        problems = (*unknown_fields, *problems)
    if problems:
        return AdmissionDenied(problems)
    return Admitted(prepared.value, (*notes, *(unknown_fields if unknown is UnknownFields.WARN else ()), *tolerated))


def _check_identity(value: Mapping[str, object], definition: Definition) -> Iterator[Problem]:
    for name, wanted in (("apiVersion", definition.api_version), ("kind", definition.kind)):
        found = value.get(name)
        if found != wanted:
            cause = CauseType.REQUIRED if found is None else CauseType.INVALID
            yield Problem((name,), "is required" if found is None else f"is {describe(found)}", f"use {wanted}", cause)


def _unknown_metadata(metadata: object) -> Iterator[Problem]:
    for name in metadata if isinstance(metadata, dict) else ():
        if name not in FIELDS:
            guess = nearest(name, FIELDS)
            right = f"did you mean {guess}?" if guess else "leave it out, or make it an annotation"
            yield Problem((METADATA, name), "unknown field", right, CauseType.UNKNOWN_FIELD)


def _drop_namespace(value: dict[str, object], definition: Definition) -> tuple[Problem, ...]:
    """Cluster-scoped objects have no namespace; it is dropped with a warning."""
    metadata = value[METADATA]
    if definition.namespaced or not isinstance(metadata, dict) or not metadata.pop("namespace", ""):
        return ()
    wrong = f"is ignored: {definition.kind} is cluster-scoped"
    return (Problem((METADATA, "namespace"), wrong, "leave it out", CauseType.FORBIDDEN),)


def _tidy_metadata(metadata: object) -> object:
    """Metadata without nulls and unknown fields; a label or annotation without a value has the empty one."""
    if not isinstance(metadata, dict):
        return {} if metadata is None else metadata
    known = {name: item for name, item in metadata.items() if name in FIELDS and item is not None}
    for name in _TEXT_MAPS:
        texts = known.get(name)
        if isinstance(texts, dict):
            known[name] = {key: "" if text is None else text for key, text in texts.items()}
    return known


def _validate(
    prepared: PreparedObject, definition: Definition, old: Mapping[str, object] | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """The problems that count, and those of parts that did not change."""
    schema, value = definition.schema, prepared.value
    metadata = check_metadata(value[METADATA], (METADATA,), longest_name=_longest_name(schema))
    shape = (*metadata, *prepared.problems)
    broken = check_rules(value, schema, old=old, problems=shape)
    reported = {problem.path for problem in (*shape, *broken)}
    texts = (problem for problem in check_fields(value, definition.kind) if problem.path not in reported)
    found = (*shape, *texts)
    tolerated = tuple(each for each in found if old is not None and is_unchanged(_place(each), value, old, schema))
    return collect((*(each for each in found if each not in tolerated), *broken)), tolerated


def _longest_name(schema: Schema) -> int:
    metadata = properties_of(schema).get(METADATA, {})
    limit = properties_of(metadata).get("name", {}).get("maxLength")
    return limit if isinstance(limit, int) else NAME_LENGTH


def _place(problem: Problem) -> Path:
    """The object of a problem: a missing field is a problem of its parent."""
    return problem.path[:-1] if problem.cause is CauseType.REQUIRED else problem.path
