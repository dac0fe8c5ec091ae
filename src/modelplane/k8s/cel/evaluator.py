"""The exact evaluator: errors as CEL has them, and every unit of cost counted.

A checked tree becomes a tree of Python closures, planned the way upstream plans, because the plan decides what is
counted: a chain of selections is one variable, constants and conversions of constants are computed beforehand, and a
branch of `?:` that is a variable costs only its qualifiers.

Errors are exceptions. `&&`, `||` and comprehensions catch them; everything else passes them on.
Planning itself may refuse an expression (SyntaxFault): a constant that cannot be converted, a pattern that is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from modelplane.k8s.cel.attributes import (
    Activation,
    ComputedQualifier,
    ConstantQualifier,
    Path,
    PresenceQualifier,
    Qualifier,
    Step,
    is_key,
)
from modelplane.k8s.cel.calls import both, call_step
from modelplane.k8s.cel.comprehensions import LoopSlots, LoopSteps, accumulator_reader, bind_step, loop_step
from modelplane.k8s.cel.declarations import Functions
from modelplane.k8s.cel.equality import equal
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError, SyntaxFault
from modelplane.k8s.cel.library import regex
from modelplane.k8s.cel.membership import Membership, constant_members
from modelplane.k8s.cel.runtime_cost import LIST_COST, MAP_COST, cost_function, equality_cost
from modelplane.k8s.cel.syntax import (
    AND,
    CONDITIONAL,
    CONVERSIONS,
    EQUALS,
    INDEX,
    NOT_EQUALS,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    CallExpr,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    Struct,
    chain,
)
from modelplane.k8s.cel.types import DYN, CelType, TypeKind
from modelplane.k8s.cel.values import NONE, Optional, check_hashable, make_map, no_overload, runtime_type
from modelplane.k8s.cel.work_budget import ERROR_WORK, spend

_PATTERNS = {"matches": 1, "find": 1, "findAll": 1}


@dataclass(slots=True, eq=False)
class EvalPlan:
    """How to compute a node; `path` where it is a variable with qualifiers, `constant` where nothing is to be done."""

    step: Step
    path: Path | None = None
    is_constant: bool = False
    constant: object = None


def _constant(value: object) -> EvalPlan:
    return EvalPlan(lambda _state: value, None, True, value)


def _path_plan(path: Path) -> EvalPlan:
    resolve, cost = path.resolve, path.cost

    def step(state: Activation) -> object:
        try:
            value = resolve(state)
        except EvaluationError:
            state.spent += cost
            raise
        state.spent += cost
        return value

    return EvalPlan(step if cost else resolve, path)


def _variable_plan(read: Step, found: CelType) -> EvalPlan:
    """A variable on its own; where it cannot hold an optional, reading it is all there is to do."""
    plan = _path_plan(Path(read))
    if found.is_dynamic or found.kind is TypeKind.OPAQUE:
        return plan

    def step(state: Activation) -> object:
        state.spent += 1
        return read(state)

    return EvalPlan(step, plan.path)


class Planner:
    """Turns one checked tree into closures. Variables live in slots, numbered as they are met."""

    __slots__ = ("functions", "scopes", "slot_count")

    def __init__(self, functions: Functions, variables: tuple[str, ...]) -> None:
        self.functions = functions
        self.slot_count = len(variables)
        self.scopes: list[dict[str, Step]] = [{name: _reader(index) for index, name in enumerate(variables)}]

    def plan(self, node: Node) -> EvalPlan:
        """The closures of a node and of everything below it."""
        return self.handlers[type(node)](self, node)

    def literal(self, node: Literal) -> EvalPlan:
        return _constant(node.value)

    def ident(self, node: Ident) -> EvalPlan:
        if node.constant is not None:
            return _constant(node.constant)
        name = node.name.removeprefix(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return _variable_plan(scope[name], node.type or DYN)
        raise SyntaxFault(f"undeclared reference to '{name}'", node.offset)

    def select(self, node: Select) -> EvalPlan:
        if node.constant is not None:
            return _constant(node.constant)
        path = self.path_of(node.operand)
        if not node.test_only:
            return self.qualified(path, ConstantQualifier(node.field))
        path.qualifiers.append(PresenceQualifier(node.field))

        def step(state: Activation) -> object:
            found = path.resolve(state)
            return found is not NONE if isinstance(found, Optional) else found

        return EvalPlan(step)

    def path_of(self, node: Node) -> Path:
        plan = self.plan(node)
        return plan.path if plan.path is not None else Path(plan.step)

    def qualified(self, path: Path, qualifier: Qualifier) -> EvalPlan:
        path.qualifiers.append(qualifier)
        return _path_plan(path)

    def index(self, node: CallExpr, *, optional: bool) -> EvalPlan:
        path = self.path_of(node.args[0])
        key = self.plan(node.args[1])
        if key.is_constant:
            if not is_key(key.constant):
                raise SyntaxFault("a value of this type cannot be a key or index", node.args[1].offset)
            return self.qualified(path, ConstantQualifier(key.constant, optional))
        return self.qualified(path, ComputedQualifier(key.path.resolve if key.path else key.step, optional))

    def call(self, node: CallExpr) -> EvalPlan:
        special = self.specials.get(node.function)
        if special is not None:
            return special(self, node)
        plans = [self.plan(arg) for arg in ([node.target, *node.args] if node.target else node.args)]
        if node.function == "or" or node.function == "orValue":  # noqa: PLR1714  two names, compared once a call
            return self.alternative(node, plans)
        function = self.functions[node.function]
        body = function.body_for(node.overloads)
        if body is None:
            raise SyntaxFault(f"no such overload: {node.function}", node.offset)
        overload = node.overloads[0].id if len(node.overloads) == 1 else ""
        if node.function in CONVERSIONS and len(plans) == 1 and plans[0].is_constant:
            return self.converted(node, body, plans[0].constant)
        if overload == "in_list" and plans[1].is_constant:
            if plans[1].constant == []:
                return _constant(False)
            member = constant_members(plans[1].constant)
            if member is not None:
                return _membership_plan(plans[0].step, member)
        has_pattern = self.check_pattern(node, plans)
        stops_early = body == function.dispatch or node.function == "format" or has_pattern
        steps = [plan.step for plan in plans]
        return EvalPlan(call_step(steps, body, cost_function(node.function, overload), stops_early=stops_early))

    def converted(self, node: CallExpr, body: Callable[..., object], value: object) -> EvalPlan:
        try:
            return _constant(body(value))
        except EvaluationError as error:
            raise SyntaxFault(str(error), node.offset) from None

    def check_pattern(self, node: CallExpr, plans: "list[EvalPlan]") -> bool:
        """Whether the call has a constant pattern, which must then be one."""
        position = _PATTERNS.get(node.function)
        pattern = None if position is None else plans[position].constant
        if not isinstance(pattern, str):
            return False
        try:
            regex.pattern(pattern)
        except regex.PatternError as error:
            raise SyntaxFault(str(error), node.offset) from None
        return True

    def logic(self, node: CallExpr, *, absorbing: bool) -> EvalPlan:
        """`||` where `absorbing` is true, `&&` where it is false: that value wins over any error."""
        terms = [self.plan(term).step for term in chain(node)]
        name, otherwise = node.function, not absorbing

        def step(state: Activation) -> object:
            failure: EvaluationError | None = None
            for term in terms:
                try:
                    value = term(state)
                except EvaluationError as error:
                    spend(ERROR_WORK)
                    failure = failure or error.with_traceback(None)
                    continue
                if value is absorbing:
                    return absorbing
                if value is not otherwise:
                    failure = failure or no_overload(name, value)
            if failure is not None:
                raise failure
            return otherwise

        return EvalPlan(step)

    def conditional(self, node: CallExpr) -> EvalPlan:
        condition, then, otherwise = (self.plan(arg) for arg in node.args)
        # A branch is read like a variable, which is how an optional of Kubernetes' own types is spoilt.
        chosen, rejected = ((plan.path or Path(plan.step)).resolve for plan in (then, otherwise))
        test = condition.step

        def branch(state: Activation) -> object:
            value = test(state)
            if value is True:
                return chosen(state)
            if value is False:
                return rejected(state)
            raise no_overload("_?_:_", value)

        return EvalPlan(branch, Path(branch, cost=0))

    def equality(self, node: CallExpr, *, negated: bool) -> EvalPlan:
        left, right = (self.plan(arg).step for arg in node.args)

        def cost(args: tuple[object, ...], _result: object) -> int:
            return 1 if _is_opaque(args[0]) and not negated else equality_cost(args[0], args[1])

        def step(state: Activation) -> object:
            one, other = both(left, right, state, cost)
            state.spent += cost((one, other), None)
            try:
                return equal(one, other) is not negated
            except EvaluationError:
                if negated:
                    return True
                raise

        return EvalPlan(step)

    def alternative(self, node: CallExpr, plans: list[EvalPlan]) -> EvalPlan:
        first, second = (plan.step for plan in plans)
        unwraps = node.function == "orValue"

        def step(state: Activation) -> object:
            value = first(state)
            if not isinstance(value, Optional):
                return value
            if value is NONE:
                return second(state)
            if unwraps and isinstance(value.value, EvaluationError):
                raise value.value
            return value.value if unwraps else value

        return EvalPlan(step)

    def list_literal(self, node: ListNode) -> EvalPlan:
        plans = [self.plan(element) for element in node.elements]
        if all(plan.is_constant for plan in plans) and not node.optionals:
            return _constant([plan.constant for plan in plans])
        steps = [(plan.step, index in node.optionals) for index, plan in enumerate(plans)]

        def step(state: Activation) -> object:
            elements: list[object] = []
            try:
                for element, optional in steps:
                    _add_element(elements, element(state), optional=optional)
            except EvaluationError:
                state.spent += LIST_COST
                raise
            state.spent += LIST_COST
            return elements

        return EvalPlan(step)

    def map_literal(self, node: MapNode) -> EvalPlan:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        if all(key.is_constant and value.is_constant and not optional for key, value, optional in entries):
            return self.constant_map(node, [(key.constant, value.constant) for key, value, _ in entries])
        steps = [(key.step, value.step, optional) for key, value, optional in entries]

        def step(state: Activation) -> object:
            pairs: list[tuple[object, object]] = []
            try:
                for entry in steps:
                    _add_entry(pairs, entry, state)
            except EvaluationError:
                state.spent += MAP_COST
                raise
            built = make_map(pairs)
            state.spent += MAP_COST
            return built

        return EvalPlan(step)

    def constant_map(self, node: MapNode, pairs: list[tuple[object, object]]) -> EvalPlan:
        try:
            return _constant(make_map(pairs))
        except EvaluationAborted as error:
            raise SyntaxFault(str(error), node.offset) from None

    def comprehension(self, node: Comprehension) -> EvalPlan:
        slots = LoopSlots(self.slot_count, self.slot_count + 1, self.slot_count + 2)
        self.slot_count += 3
        items = self.plan(node.range).step
        self.scopes.append({node.accumulator: accumulator_reader(slots.accumulator, self.plan(node.init).step)})
        variables = {node.variable: _reader(slots.first)}
        if node.second:
            variables[node.second] = _reader(slots.second)
        self.scopes.append(variables)
        condition, body = self.plan(node.condition), self.plan(node.step).step
        self.scopes.pop()
        result = self.plan(node.result).step
        self.scopes.pop()
        if node.is_bind:
            return EvalPlan(bind_step(slots.accumulator, result))
        check = None if condition.is_constant and condition.constant is True else condition.step
        return EvalPlan(loop_step(node, slots, LoopSteps(items, check, body, result)))

    def struct(self, node: Struct) -> EvalPlan:
        raise SyntaxFault(f"undeclared reference to '{node.name}'", node.offset)

    handlers: ClassVar[dict[type, Callable[..., EvalPlan]]] = {
        Literal: literal,
        Ident: ident,
        Select: select,
        CallExpr: call,
        ListNode: list_literal,
        MapNode: map_literal,
        Comprehension: comprehension,
        Struct: struct,
    }
    specials: ClassVar[dict[str, Callable[..., EvalPlan]]] = {
        AND: lambda self, node: self.logic(node, absorbing=False),
        OR: lambda self, node: self.logic(node, absorbing=True),
        CONDITIONAL: conditional,
        EQUALS: lambda self, node: self.equality(node, negated=False),
        NOT_EQUALS: lambda self, node: self.equality(node, negated=True),
        INDEX: lambda self, node: self.index(node, optional=False),
        OPTIONAL_INDEX: lambda self, node: self.index(node, optional=True),
        OPTIONAL_SELECT: lambda self, node: self.index(node, optional=True),
    }


def _add_element(elements: list[object], value: object, *, optional: bool) -> None:
    if optional:
        if not isinstance(value, Optional):
            raise EvaluationError("cannot initialize optional list element from non-optional value")
        if value is NONE:
            return
        value = value.value
    elements.append(value)


def _add_entry(pairs: list[tuple[object, object]], entry: tuple[Step, Step, bool], state: Activation) -> None:
    key_step, value_step, optional = entry
    key, value = key_step(state), value_step(state)
    if optional:
        if not isinstance(value, Optional):
            raise EvaluationError("cannot initialize optional entry from non-optional value")
        if value is NONE:
            pairs[:] = [pair for pair in pairs if pair[0] != key]
            return
        value = value.value
    check_hashable(key)
    pairs.append((key, value))


def _reader(slot: int) -> Step:
    return lambda state: state.slots[slot]


def _membership_plan(item: Step, members: Membership) -> EvalPlan:
    return EvalPlan(lambda state: members.has(item(state)))


def _is_opaque(value: object) -> bool:
    kind = runtime_type(value)
    return kind.kind is TypeKind.STRUCT or (kind.kind is TypeKind.OPAQUE and kind.name != "optional_type")
