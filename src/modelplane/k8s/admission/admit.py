"""The one front door: whether an object may be stored, and as what.

The steps are those of the API server of Kubernetes for custom resources, in its order: what the object says it is,
fields that nobody knows, defaults, the schema with the metadata, and the rules. In an update, what is wrong but did not
change since the old object is told as a warning: a stored object stays writable when its schema becomes stricter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias, cast

from modelplane.api.definitions import Definition
from modelplane.k8s.admission.correlate import is_unchanged
from modelplane.k8s.admission.fast_validate import prepare_plainly
from modelplane.k8s.admission.fields import check_fields
from modelplane.k8s.admission.names import NAME_LENGTH
from modelplane.k8s.admission.objectmeta import FIELDS, check_metadata
from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.problems import CauseType, Problem, collect, describe
from modelplane.k8s.admission.rules import check_rules
from modelplane.k8s.admission.schema import check
from modelplane.k8s.admission.schemas import Schema, properties_of
from modelplane.k8s.admission.structure import apply_defaults, find_unknown, nearest, prune

_METADATA: Final = "metadata"
_TEXT_MAPS: Final = ("labels", "annotations")


class UnknownFields(StrEnum):
    """What becomes of fields that the schema does not know (`fieldValidation` of a request)."""

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
    """Change nothing, and answer with the problems; there is at least one."""

    problems: tuple[Problem, ...]


Verdict: TypeAlias = Admitted | AdmissionDenied


def admit(
    value: object,
    definition: Definition,
    *,
    old: Mapping[str, object] | None = None,
    unknown: UnknownFields = UnknownFields.REFUSE,
) -> Verdict:
    """Judge an object that is to be created, or to take the place of `old`. No argument is changed."""
    if not isinstance(value, dict):
        return AdmissionDenied((Problem((), f"is {describe(value)}", "must be an object", CauseType.TYPE),))
    identity = collect(_check_identity(value, definition))
    if identity:
        return AdmissionDenied(identity)
    plain = prepare_plainly({**value, _METADATA: _tidy_metadata(value.get(_METADATA))}, definition.schema)
    strangers = () if unknown is UnknownFields.DROP else _find_strangers(value, definition.schema, plain)
    prepared, notes = _prepare(value, definition, plain)
    problems, tolerated = _judge(prepared, definition, old, is_shaped=plain is not None)
    if unknown is UnknownFields.REFUSE:
        problems = (*strangers, *problems)
        strangers = ()
    return AdmissionDenied(problems) if problems else Admitted(prepared, (*notes, *strangers, *tolerated))


def _check_identity(value: Mapping[str, object], definition: Definition) -> Iterator[Problem]:
    for name, wanted in (("apiVersion", definition.api_version), ("kind", definition.kind)):
        found = value.get(name)
        if found != wanted:
            cause = CauseType.REQUIRED if found is None else CauseType.INVALID
            yield Problem((name,), "is required" if found is None else f"is {describe(found)}", f"use {wanted}", cause)


def _find_strangers(
    value: Mapping[str, object], schema: Schema, plain: Mapping[str, object] | None
) -> tuple[Problem, ...]:
    metadata = value.get(_METADATA)
    names = metadata if isinstance(metadata, dict) else {}
    strange = (_strange_metadata(name) for name in names if name not in FIELDS)
    return collect(chain(strange, find_unknown(value, schema, root=True) if plain is None else ()))


def _strange_metadata(name: str) -> Problem:
    guess = nearest(name, FIELDS)
    right = f"did you mean {guess}?" if guess else "leave it out, or make it an annotation"
    return Problem((_METADATA, name), "unknown field", right, CauseType.UNKNOWN_FIELD)


def _prepare(
    value: dict[str, object], definition: Definition, plain: dict[str, object] | None
) -> tuple[dict[str, object], tuple[Problem, ...]]:
    """The object as it would be stored, were it valid; and what was put right on the way."""
    prepared = _prepare_fully(value, definition.schema) if plain is None else plain
    metadata = prepared[_METADATA]
    notes: tuple[Problem, ...] = ()
    if not definition.namespaced and isinstance(metadata, dict) and metadata.pop("namespace", ""):
        wrong = f"is ignored: {definition.kind} belongs to no namespace"
        notes = (Problem((_METADATA, "namespace"), wrong, "leave it out", CauseType.FORBIDDEN),)
    return prepared, notes


def _prepare_fully(value: dict[str, object], schema: Schema) -> dict[str, object]:
    pruned = cast("dict[str, object]", prune(value, schema, root=True))
    pruned[_METADATA] = _tidy_metadata(pruned.get(_METADATA))
    return cast("dict[str, object]", apply_defaults(pruned, schema))


def _tidy_metadata(metadata: object) -> object:
    """Metadata without nulls and strangers; a label or annotation without a value has the empty one."""
    if not isinstance(metadata, dict):
        return {} if metadata is None else metadata
    known = {name: item for name, item in metadata.items() if name in FIELDS and item is not None}
    for name in _TEXT_MAPS:
        texts = known.get(name)
        if isinstance(texts, dict):
            known[name] = {key: "" if text is None else text for key, text in texts.items()}
    return known


def _judge(
    value: dict[str, object], definition: Definition, old: Mapping[str, object] | None, *, is_shaped: bool
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """The problems that count, and those of parts that are as they were."""
    schema = definition.schema
    named = check_metadata(value[_METADATA], (_METADATA,), longest_name=_longest_name(schema))
    shape = (*named, *(() if is_shaped else check(value, _without_metadata(schema))))
    broken = check_rules(value, schema, old=old, problems=shape)
    told = {problem.path for problem in (*shape, *broken)}
    texts = (problem for problem in check_fields(value, definition.kind) if problem.path not in told)
    found = (*shape, *texts)
    tolerated = tuple(each for each in found if old is not None and is_unchanged(_place(each), value, old, schema))
    return collect((*(each for each in found if each not in tolerated), *broken)), tolerated


def _longest_name(schema: Schema) -> int:
    metadata = properties_of(schema).get(_METADATA, {})
    limit = properties_of(metadata).get("name", {}).get("maxLength")
    return limit if isinstance(limit, int) else NAME_LENGTH


def _without_metadata(schema: Schema) -> Schema:
    """The schema of everything else: metadata has checks of its own."""
    return {**schema, "properties": {name: each for name, each in properties_of(schema).items() if name != _METADATA}}


def _place(problem: Problem) -> Path:
    """What a problem is about: a missing field is a problem of the object that lacks it."""
    return problem.path[:-1] if problem.cause is CauseType.REQUIRED else problem.path
