"""The fast path: a checked tree as one Python expression.

It covers what selectors usually use; for anything else `emit` declines, and the exact evaluator runs. If the generated
function returns, its result is exact: without errors, Python's order of evaluation is CEL's. If it raises, the caller
runs the exact evaluator instead, which handles errors and costs. Nothing is counted here, so a function is only used if
the estimate is within the budget.

No text of the user's becomes source: strings, numbers of any size and everything computed beforehand enter as
constants by name, and the names are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from modelplane.k8s.cel.declarations import Functions
from modelplane.k8s.cel.evaluator_fast_calls import CallEmitter, EmittedCode, NotEmitted
from modelplane.k8s.cel.evaluator_fast_runtime import NAMES
from modelplane.k8s.cel.library.kubernetes import MUTATION_SENSITIVE
from modelplane.k8s.cel.syntax import (
    ADD,
    AND,
    CONDITIONAL,
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
    walk,
)
from modelplane.k8s.cel.types import BOOL, DYN, CelType, TypeKind
from modelplane.k8s.cel.work_budget import iteration_work
from modelplane.k8s.device import Device

MAX_NODES = 1_500
_UNBOUND = frozenset({TypeKind.LIST, TypeKind.OPAQUE, TypeKind.DYN})
_INLINE_INTS = range(-(2**31), 2**31)
_DEVICE_FIELDS = {
    "driver": "d.driver",
    "allowMultipleAllocations": "d.allow_multiple_allocations",
    "attributes": "d.attributes",
    "capacity": "d.capacity",
}


def emit(node: Node, functions: Functions, *, is_metered: bool = False) -> Callable[[Device], object] | None:
    """A function of a device that computes the expression, or None where it is out of the fast path's reach.

    A metered function spends work for the iterations of its loops.
    """
    for count, part in enumerate(walk(node)):
        if count > MAX_NODES or (isinstance(part, CallExpr) and part.function in MUTATION_SENSITIVE):
            return None
    emitter = _Emitter(functions, is_metered=is_metered)
    try:
        source = emitter.emit(node).text
        return emitter.function(source)
    except (NotEmitted, RecursionError, MemoryError, SyntaxError):
        return None


@dataclass(frozen=True, slots=True)
class _Fold:
    """A fold recognised as the macro it came from."""

    helper: str
    parts: tuple[Node, ...]


class _Emitter(CallEmitter):
    __slots__ = ("is_metered", "names", "scopes", "variable_count")

    def __init__(self, functions: Functions, *, is_metered: bool) -> None:
        super().__init__(functions)
        self.is_metered = is_metered
        self.names: dict[str, object] = dict(NAMES)
        self.scopes: list[dict[str, str]] = []
        self.variable_count = 0

    def function(self, source: str) -> Callable[[Device], object]:
        compiled = compile(f"lambda d: {source}", "<selector>", "eval")
        made: Callable[[Device], object] = eval(compiled, self.names)  # noqa: S307  source of our own making, see above
        return made

    def constant(self, value: object) -> str:
        name = f"K{len(self.names)}"
        self.names[name] = value
        return name

    def fresh(self) -> str:
        self.variable_count += 1
        return f"v{self.variable_count}"

    def emit(self, node: Node) -> EmittedCode:
        return self.handlers[type(node)](self, node)

    def literal(self, node: Literal) -> EmittedCode:
        value = node.value
        if value is None or isinstance(value, bool) or (type(value) is int and value in _INLINE_INTS):
            return EmittedCode(f"({value!r})", node.type or DYN, value, is_constant=True)
        return EmittedCode(self.constant(value), node.type or DYN, value, is_constant=True)

    def ident(self, node: Ident) -> EmittedCode:
        for scope in reversed(self.scopes):
            name = scope.get(node.name)
            if name is not None:
                known = self.bound.get(name)
                if known is None:
                    return EmittedCode(name, node.type or DYN)
                return EmittedCode(name, known.type, is_dict=known.is_dict, is_domains=known.is_domains)
        raise NotEmitted

    def select(self, node: Select) -> EmittedCode:
        if node.constant is not None:
            raise NotEmitted
        if _is_device(node.operand):
            field = _DEVICE_FIELDS[node.field]
            if node.test_only:
                return EmittedCode("True", BOOL)
            is_domains = node.field in {"attributes", "capacity"}
            return EmittedCode(field, node.type or DYN, is_dict=is_domains, is_domains=is_domains)
        operand = self.emit(node.operand)
        key = self.constant(node.field)
        if node.test_only:
            return (
                EmittedCode(f"({key} in {operand.text})", BOOL)
                if operand.is_plain_dict
                else self.presence(operand, key)
            )
        return self.item(operand, key, node.type or DYN)

    def item(self, container: EmittedCode, key: str, found: CelType) -> EmittedCode:
        """One entry of a map."""
        inner_dict = found.kind is TypeKind.MAP and container.is_domains
        if container.is_domains:
            return EmittedCode(f"{container.text}.get({key}, EMPTY)", found, is_dict=inner_dict)
        if container.is_plain_dict:
            return EmittedCode(f"{container.text}[{key}]", found)
        if container.type.kind is TypeKind.MAP:
            return EmittedCode(f"get({container.text}, {key})", found)
        raise NotEmitted

    def presence(self, container: EmittedCode, key: str) -> EmittedCode:
        if container.type.kind is not TypeKind.MAP:
            raise NotEmitted
        return EmittedCode(f"has({container.text}, {key})", BOOL)

    def call(self, node: CallExpr) -> EmittedCode:
        if node.function in {AND, OR}:
            return self.logic(node)
        if node.function == CONDITIONAL:
            return self.conditional(node)
        return self.other_call(node)

    def logic(self, node: CallExpr) -> EmittedCode:
        left, right = (self.truth(self.emit(arg)) for arg in node.args)
        return EmittedCode(f"({left} {'and' if node.function == AND else 'or'} {right})", BOOL)

    def conditional(self, node: CallExpr) -> EmittedCode:
        found = node.type or DYN
        if found.is_dynamic or found.kind is TypeKind.OPAQUE:
            raise NotEmitted
        test, then, otherwise = (self.emit(arg) for arg in node.args)
        return EmittedCode(f"({self.value(then)} if {self.truth(test)} else {self.value(otherwise)})", found)

    def truth(self, code: EmittedCode) -> str:
        return code.text if code.type is BOOL else f"truth({code.text})"

    def value(self, code: EmittedCode) -> str:
        """The code of a value that leaves the expression; a device's domains then need their own lookup rule."""
        return f"domains({code.text})" if code.is_domains else code.text

    def list_literal(self, node: ListNode) -> EmittedCode:
        if node.optionals:
            raise NotEmitted
        elements = [self.emit(element) for element in node.elements]
        if all(element.is_constant for element in elements):
            value = [element.constant for element in elements]
            return EmittedCode(self.constant(value), node.type or DYN, value, is_constant=True)
        return EmittedCode(f"[{', '.join([self.value(element) for element in elements])}]", node.type or DYN)

    def map_literal(self, _node: MapNode) -> EmittedCode:
        raise NotEmitted

    def struct(self, _node: Struct) -> EmittedCode:
        raise NotEmitted

    def comprehension(self, node: Comprehension) -> EmittedCode:
        if node.is_bind:
            return self.bind(node)
        fold = _recognised(node)
        source = self.emit(node.range)
        kind = (node.range.type or DYN).kind
        if kind not in {TypeKind.LIST, TypeKind.MAP} or (node.second and kind is TypeKind.MAP and not source.is_dict):
            raise NotEmitted
        _refuse_optionals(node)
        names = [self.fresh()] + ([self.fresh()] if node.second else [])
        self.scopes.append(dict(zip((node.variable, node.second), names, strict=False)))
        bodies = [self.emit(part) for part in fold.parts]
        self.scopes.pop()
        lambdas = [f"lambda {', '.join(names)}: {self.loop_body(fold, code)}" for code in bodies]
        pairs = "2" if node.second else ""
        items = f"{source.text}.items()" if node.second and kind is TypeKind.MAP else source.text
        if node.second and kind is TypeKind.LIST:
            items = f"enumerate({source.text})"
        if self.is_metered:
            items = f"metered({items}, {iteration_work(*fold.parts)})"
        return EmittedCode(f"{fold.helper}{pairs}({items}, {', '.join(lambdas)})", node.type or DYN)

    def loop_body(self, fold: _Fold, code: EmittedCode) -> str:
        return self.value(code) if fold.helper == "mapped" else self.truth(code)

    def bind(self, node: Comprehension) -> EmittedCode:
        found = node.init.type or DYN
        # Lists may change under such a variable and optionals break; the exact evaluator handles both.
        if found.kind in _UNBOUND:
            raise NotEmitted
        init = self.emit(node.init)
        name = self.fresh()
        self.scopes.append({node.accumulator: name})
        self.bound[name] = init
        body = self.emit(node.result)
        self.scopes.pop()
        return EmittedCode(
            f"({name} := {init.text}, {body.text})[1]", body.type, is_dict=body.is_dict, is_domains=body.is_domains
        )

    handlers: ClassVar[dict[type, Callable[..., EmittedCode]]] = {
        Literal: literal,
        Ident: ident,
        Select: select,
        CallExpr: call,
        ListNode: list_literal,
        MapNode: map_literal,
        Comprehension: comprehension,
        Struct: struct,
    }


def _is_device(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == "device"


def _refuse_optionals(node: Comprehension) -> None:
    for inner in (node.range.type or DYN).params:
        if inner.kind is TypeKind.OPAQUE or inner is DYN:
            raise NotEmitted


def _recognised(node: Comprehension) -> _Fold:
    step = node.step
    if not isinstance(step, CallExpr):
        raise NotEmitted
    if isinstance(node.init, Literal) and step.function == AND:
        return _Fold("every", (step.args[1],))
    if isinstance(node.init, Literal) and step.function == OR:
        return _Fold("some", (step.args[1],))
    if isinstance(node.init, Literal) and step.function == CONDITIONAL:
        return _Fold("one", (step.args[0],))
    if isinstance(node.init, ListNode) and step.function == ADD:
        return _Fold("mapped", (_single(step),))
    if isinstance(node.init, ListNode) and _keeps_item(node, step):
        return _Fold("kept", (step.args[0],))
    raise NotEmitted


def _single(step: Node) -> Node:
    if isinstance(step, CallExpr) and len(step.args) > 1 and isinstance(step.args[1], ListNode):
        return step.args[1].elements[0]
    raise NotEmitted


def _keeps_item(node: Comprehension, step: CallExpr) -> bool:
    """Whether a conditional step adds the loop variable itself, as `filter` does."""
    if step.function != CONDITIONAL or node.second:
        return False
    added = _single(step.args[1])
    return isinstance(added, Ident) and added.name == node.variable
