"""Validation rules of custom resources: `x-kubernetes-validations` on a node of a structural schema."""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.attributes import Activation, ExactLimitActivation, Step
from modelplane.k8s.cel.compiler import checked_tree, planned, with_deep_stack
from modelplane.k8s.cel.environment import Environment
from modelplane.k8s.cel.errors import CompileError, EvaluationAborted, EvaluationError
from modelplane.k8s.cel.estimate import estimate
from modelplane.k8s.cel.evaluator import Planner
from modelplane.k8s.cel.library.catalogue import base_functions
from modelplane.k8s.cel.outcome import Evaluation, SelectorOutcome, as_evaluation
from modelplane.k8s.cel.schema import Schema, SchemaBounds, SchemaShape, shape_of, struct_fields, with_object_meta
from modelplane.k8s.cel.schema_values import to_value
from modelplane.k8s.cel.syntax import Ident, Node, walk
from modelplane.k8s.cel.types import BOOL, STRING, CelType
from modelplane.k8s.cel.values import NONE, Optional

MAX_COST = 1_000_000


class Absent:
    """The type of ABSENT: there is no old value."""

    __slots__ = ()


ABSENT = Absent()


class ValidationRule:
    """A compiled rule, or the expression of its message.

    `uses_old_self` marks a transition rule: it only applies where there is an old value, unless that is optional.
    """

    __slots__ = (
        "_optional_old",
        "_schema",
        "_slot_count",
        "_step",
        "estimated_cost",
        "is_message",
        "text",
        "uses_old_self",
    )

    def __init__(self, text: str, schema: Schema, step: Step, slot_count: int, facts: "_Facts") -> None:
        self.text = text
        self.estimated_cost = facts.cost
        self.is_message = facts.is_message
        self.uses_old_self = facts.uses_old_self
        self._optional_old = facts.optional_old
        self._schema = schema
        self._step = step
        self._slot_count = slot_count

    def evaluate(self, value: object, old: object = ABSENT) -> Evaluation:
        """Whether the value obeys the rule; both values are decoded JSON."""
        return self._trace(value, old, Activation)[0]

    def render(self, value: object, old: object = ABSENT) -> str | None:
        """The text of a message expression, or None where it fails."""
        try:
            found = self._run(value, old, Activation([None] * self._slot_count, MAX_COST))
        except (EvaluationError, EvaluationAborted):
            return None
        return found if isinstance(found, str) else None

    def trace(self, value: object, old: object = ABSENT) -> tuple[Evaluation, int]:
        """The evaluation and what it cost."""
        evaluation, cost = self._trace(value, old, Activation)
        return (evaluation, cost) if cost <= MAX_COST else self._trace(value, old, ExactLimitActivation)

    def _trace(self, value: object, old: object, kind: type[Activation]) -> tuple[Evaluation, int]:
        state = kind([None] * self._slot_count, MAX_COST)
        try:
            return as_evaluation(self._run(value, old, state)), state.spent
        except (EvaluationError, EvaluationAborted) as error:
            return Evaluation(SelectorOutcome.ERROR, str(error)), state.spent

    def _run(self, value: object, old: object, state: Activation) -> object:
        def run() -> object:
            state.slots[0], state.slots[1], state.spent = to_value(value, self._schema), self._old_value(old), 0
            found = self._step(state)
            state.check()
            return found

        return with_deep_stack(run)

    def _old_value(self, old: object) -> object:
        if isinstance(old, Absent) or old is None:
            if self.uses_old_self and not self._optional_old:
                raise EvaluationError("the rule compares with an old value, and there is none")
            return NONE if self._optional_old else None
        value = to_value(old, self._schema)
        return Optional(value) if self._optional_old else value


class _Facts:
    __slots__ = ("cost", "is_message", "optional_old", "uses_old_self")

    def __init__(self, node: Node, found: CelType, shape: SchemaShape, *, optional_old: bool) -> None:
        self.cost = estimate(node, SchemaBounds(shape))
        self.is_message = found is STRING
        self.optional_old = optional_old
        self.uses_old_self = any(isinstance(part, Ident) and part.name == "oldSelf" for part in walk(node))


def compile_rule(
    text: str, schema: Mapping[str, object], *, root: bool = False, optional_old_self: bool = False
) -> ValidationRule:
    """The rule that `text` spells on a schema node, or CompileError.

    The result is a bool for a rule and a string for a message expression. `root` is the root of a resource, where the
    names of the object are always visible. With `optional_old_self`, `oldSelf` is an optional.
    """
    shape = shape_of(schema, "self", root=root)
    if shape is None:
        raise CompileError("the schema at this place has no type, so no rule can read it")
    return with_deep_stack(
        lambda: _compile(text, with_object_meta(schema) if root else schema, shape, optional_old=optional_old_self)
    )


def _compile(text: str, schema: Schema, shape: SchemaShape, *, optional_old: bool) -> ValidationRule:
    old_type = t.optional_of(shape.type) if optional_old else shape.type
    surroundings = Environment(
        MappingProxyType({"self": shape.type, "oldSelf": old_type}), struct_fields(shape), base_functions()
    )
    checked = checked_tree(text, surroundings, bind=False)
    if checked.type is not BOOL and checked.type is not STRING:
        raise CompileError(f"must evaluate to bool, or to string for a message, not {checked.type}")
    planner = Planner(surroundings.functions, ("self", "oldSelf"))
    step = planned(text, planner, checked.node)
    return ValidationRule(
        text, schema, step, planner.slot_count, _Facts(checked.node, checked.type, shape, optional_old=optional_old)
    )
