"""The validation rules of a schema (`x-kubernetes-validations`), run at every node that has some.

A rule gets its node as `self` and, in an update, the old node as `oldSelf`; one that uses `oldSelf` runs only if there
is an old value. A node with an invalid shape below it is skipped: its rules expect a valid value. A node that an update
does not change is skipped too, so an object that was stored before a rule existed can still be updated elsewhere. Rules
are compiled once per schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

from modelplane.k8s.admission.correlate import old_field, old_item
from modelplane.k8s.admission.paths import ROOT, MapKey, Path
from modelplane.k8s.admission.problems import BLOCKING, CauseType, Problem, collect
from modelplane.k8s.admission.schema import same
from modelplane.k8s.admission.schemas import Schema, SchemaKey, find_child, is_map, is_resource, items_of, properties_of
from modelplane.k8s.cel import CompileError, SelectorOutcome, ValidationRule, compile_rule

_CAUSES: Final[Mapping[object, CauseType]] = {
    "FieldValueRequired": CauseType.REQUIRED,
    "FieldValueForbidden": CauseType.FORBIDDEN,
    "FieldValueDuplicate": CauseType.DUPLICATE,
}
_FIELD_PATH_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
# One entry per node that has rules; the largest schema has some hundred.
_CACHED_NODES: Final = 8192


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A compiled rule with its message."""

    rule: ValidationRule
    message_expression: ValidationRule | None
    message: str
    cause: CauseType
    field_path: Path
    needs_old: bool


@dataclass(frozen=True, slots=True)
class _BrokenRule:
    """A rule that never will run, and why."""

    text: str
    fault: str


def check_rules(
    value: object, schema: Schema, *, old: object = None, problems: Sequence[Problem] = ()
) -> tuple[Problem, ...]:
    """The rules that the object breaks, given the problems that its shape has."""
    shapeless = frozenset(
        problem.path[:length]
        for problem in problems
        if problem.cause in BLOCKING
        for length in range(len(problem.path) + 1)
    )
    return collect(_Walk(shapeless).check(value, old, schema, ROOT, root=True))


@dataclass(frozen=True, slots=True)
class _Walk:
    shapeless: frozenset[Path]

    def check(self, value: object, old: object, schema: Schema, path: Path, *, root: bool) -> Iterator[Problem]:
        if value is None or not _has_rules(SchemaKey(schema)):
            return
        if path not in self.shapeless:
            yield from _run(value, old, schema, path, root=root)
        if isinstance(value, dict):
            ruled = _ruled_fields(SchemaKey(schema))
            for name in value if ruled is None else [name for name in value if name in ruled]:
                yield from self._field(name, value[name], old, schema, path)
        elif isinstance(value, list):
            yield from self._items(value, old, schema, path)

    def _field(self, name: str, item: object, old: object, schema: Schema, path: Path) -> Iterator[Problem]:
        child = find_child(schema, name)[1]
        if child is not None:
            here = (*path, MapKey(name) if is_map(schema) else name)
            yield from self.check(item, old_field(name, old, schema), child, here, root=is_resource(child))

    def _items(self, members: list[object], old: object, schema: Schema, path: Path) -> Iterator[Problem]:
        items = items_of(schema) or {}
        for index, item in enumerate(members):
            before = old_item(item, old, schema)
            yield from self.check(item, before, items, (*path, index), root=is_resource(items))


def _run(value: object, old: object, schema: Schema, path: Path, *, root: bool) -> Iterator[Problem]:
    rules = _rules_of(SchemaKey(schema), root=root)
    unchanged = bool(rules) and old is not None and same(value, old)
    for compiled in rules:
        if isinstance(compiled, _BrokenRule):
            yield Problem(path, f"a rule does not compile: {compiled.fault}", f"the rule is: {compiled.text}")
        elif _applies(compiled, old, unchanged=unchanged):
            yield from _evaluate(compiled, value, old, path)


def _applies(compiled: _CompiledRule, old: object, *, unchanged: bool) -> bool:
    if compiled.rule.uses_old_self:
        return old is not None or not compiled.needs_old
    return not unchanged


def _evaluate(compiled: _CompiledRule, value: object, old: object, path: Path) -> Iterator[Problem]:
    evaluation = compiled.rule.evaluate(value, old)
    if evaluation.outcome is SelectorOutcome.ERROR:
        wrong = f"a rule cannot be evaluated: {evaluation.message}"
        yield Problem(path, wrong, f"the rule is: {compiled.rule.text}")
    elif evaluation.outcome is SelectorOutcome.FALSE:
        rendered = compiled.message_expression.render(value, old) if compiled.message_expression else None
        message = rendered if rendered and rendered.strip() else compiled.message
        yield Problem((*path, *compiled.field_path), message, cause=compiled.cause)


@lru_cache(maxsize=_CACHED_NODES)
def _has_rules(identity: SchemaKey) -> bool:
    """Whether the node or anything below it has rules."""
    schema = identity.schema
    if _raw_rules(schema):
        return True
    children = [*properties_of(schema).values(), schema.get("additionalProperties"), schema.get("items")]
    return any(_has_rules(SchemaKey(child)) for child in children if isinstance(child, Mapping))


@lru_cache(maxsize=_CACHED_NODES)
def _ruled_fields(identity: SchemaKey) -> frozenset[str] | None:
    """The fields that have rules; None if any field may."""
    additional = identity.schema.get("additionalProperties")
    if isinstance(additional, Mapping) and _has_rules(SchemaKey(additional)):
        return None
    return frozenset(name for name, child in properties_of(identity.schema).items() if _has_rules(SchemaKey(child)))


@lru_cache(maxsize=_CACHED_NODES)
def _rules_of(identity: SchemaKey, *, root: bool) -> tuple[_CompiledRule | _BrokenRule, ...]:
    return tuple(_compile(raw, identity.schema, root=root) for raw in _raw_rules(identity.schema))


def _raw_rules(schema: Schema) -> Sequence[Mapping[str, object]]:
    """The node's own rules and those of its `allOf`, which constrain the same value."""
    own = cast("Sequence[Mapping[str, object]]", schema.get("x-kubernetes-validations", ()))
    nested = cast("Sequence[Schema]", schema.get("allOf", ()))
    return (*own, *(rule for each in nested for rule in _raw_rules(each))) if nested else own


def _compile(raw: Mapping[str, object], schema: Schema, *, root: bool) -> _CompiledRule | _BrokenRule:
    text, expression = str(raw.get("rule", "")), str(raw.get("messageExpression", ""))
    optional = raw.get("optionalOldSelf") is True
    try:
        rule = compile_rule(text, schema, root=root, optional_old_self=optional)
        message_rule = compile_rule(expression, schema, root=root, optional_old_self=optional) if expression else None
    except CompileError as error:
        return _BrokenRule(text, str(error))
    if rule.is_message or not (message_rule is None or message_rule.is_message):
        return _BrokenRule(text, "a rule must be a bool and its messageExpression a string")
    return _CompiledRule(
        rule,
        message_rule,
        str(raw.get("message", "")).strip() or f"failed rule: {' '.join(text.split())}",
        _CAUSES.get(raw.get("reason"), CauseType.INVALID),
        _field_path(str(raw.get("fieldPath", "")), schema),
        needs_old=not optional,
    )


def _field_path(text: str, schema: Schema | None) -> Path:
    """The steps of a `fieldPath`, such as `.spec.items['a.b']`, as far as the schema has them."""
    steps: list[str] = []
    for found in _FIELD_PATH_STEP.finditer(text):
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2])
        steps.append(MapKey(name) if schema is not None and is_map(schema) else name)
        schema = find_child(schema, name)[1]
    return tuple(steps)
