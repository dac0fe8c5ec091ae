"""An object as it would be stored: pruned, defaulted and checked against its schema, metadata aside."""

from dataclasses import dataclass
from typing import Final, cast

from modelplane.k8s.admission.problems import Problem
from modelplane.k8s.admission.schema import check
from modelplane.k8s.admission.schemas import Schema, properties_of
from modelplane.k8s.admission.structure import apply_defaults, find_unknown, prune

METADATA: Final = "metadata"


@dataclass(frozen=True, slots=True)
class PreparedObject:
    """The value to store, which shares nothing with the input, its pruned fields, and its violations of the schema."""

    value: dict[str, object]
    unknown: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


def prepare(value: dict[str, object], schema: Schema) -> PreparedObject:
    """Prune, default and check an object. Its metadata is copied; it has checks of its own."""
    prepared = cast("dict[str, object]", apply_defaults(prune(value, schema, root=True), schema))
    problems = check(prepared, _without_metadata(schema))
    return PreparedObject(prepared, find_unknown(value, schema, root=True), problems)


def _without_metadata(schema: Schema) -> Schema:
    return {**schema, "properties": {name: each for name, each in properties_of(schema).items() if name != METADATA}}
