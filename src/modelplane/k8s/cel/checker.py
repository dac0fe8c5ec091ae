"""Types for every node, or the place where none fits.

The rules are cel-go's: a path of names is first tried as the name of a function or type, all overloads that fit are
kept and their common result is the result (or `dyn` where they differ), and type variables that stay free end up as
`dyn`.
"""

from collections.abc import Callable
from typing import ClassVar

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import FunctionDecl, Overload
from modelplane.k8s.cel.environment import Environment
from modelplane.k8s.cel.errors import SyntaxFault
from modelplane.k8s.cel.syntax import (
    AND,
    CONVERSIONS,
    INDEX,
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
    qualified_name,
)
from modelplane.k8s.cel.types import BOOL, DYN, CelType, TypeKind, list_of, map_of, optional_of
from modelplane.k8s.cel.unify import Bindings, more_general
from modelplane.k8s.cel.validators import CHECKED_CALLS, Watched
from modelplane.k8s.cel.values import runtime_type

_MAX_REMEMBERED = 512
_UNUSUAL = CHECKED_CALLS | {OPTIONAL_SELECT}
# Calls that planning may refuse: conversions of constants, constant patterns, constants that are no keys.
_PLANNED = CONVERSIONS | {"find", "findAll", "or", "orValue"}
_INDICES = frozenset({INDEX, OPTIONAL_INDEX})
_PATH_TYPE_FIELDS = frozenset({"Duration", "Timestamp", "IP", "CIDR"})


def check(node: Node, environment: Environment) -> tuple[CelType, bool]:
    """Annotates the tree with types and overloads and validates its literals.

    Yields the type of the whole and whether the tree has to be planned to know that all its constants are possible.
    """
    checker = _Checker(environment)
    checker.check(node)
    for pending in checker.generic:
        pending.type = checker.bindings.settle(_typed(pending))
    checker.watched.validate()
    return _typed(node), checker.watched.plans


def _is_plain_key(node: Node) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str | int)


def _typed(node: Node) -> CelType:
    assert node.type is not None  # noqa: S101  children are checked first
    return node.type


class _Checker:
    __slots__ = ("bindings", "environment", "format_depth", "generic", "scopes", "variable_count", "watched")

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.bindings = Bindings()
        self.scopes: list[dict[str, CelType]] = []
        self.generic: list[Node] = []
        self.variable_count = 0
        self.format_depth = 0
        self.watched = Watched()

    def check(self, node: Node) -> CelType:
        found = self.handlers[type(node)](self, node)
        node.type = found
        if found.generic:
            self.generic.append(node)
        return found

    def fresh(self) -> CelType:
        self.variable_count += 1
        return t.fresh_param(f"_var{self.variable_count}")

    def literal(self, node: Literal) -> CelType:
        return runtime_type(node.value)

    def ident(self, node: Ident) -> CelType:
        name = node.name.removeprefix(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        variable = self.environment.variables.get(name)
        if variable is not None:
            return variable
        return self.type_name(node, name)

    def type_name(self, node: Ident | Select, name: str) -> CelType:
        denoted = self.environment.type_names.get(name)
        if denoted is None:
            raise SyntaxFault(f"undeclared reference to '{name}'", node.offset)
        node.constant = denoted
        return t.type_of(denoted)

    def select(self, node: Select) -> CelType:
        if node.field in _PATH_TYPE_FIELDS and not node.test_only:
            path = (qualified_name(node) or "").removeprefix(".")
            if path in self.environment.type_names:
                return self.type_name(node, path)
        found = self.field(node, node.operand, node.field, optional=False)
        return BOOL if node.test_only else self.bindings.substitute(found)

    def field(self, node: Node, operand: Node, field: str, *, optional: bool) -> CelType:
        whole = self.bindings.substitute(self.check(operand))
        is_optional = whole.kind is TypeKind.OPAQUE and whole.name == "optional_type"
        target = whole.params[0] if is_optional else whole
        found = self.field_of(node, target, field)
        return optional_of(found) if is_optional or optional else found

    def field_of(self, node: Node, target: CelType, field: str) -> CelType:
        if target.kind is TypeKind.MAP:
            return target.params[1]
        if target.kind is TypeKind.STRUCT:
            found = self.environment.structs.get(target.name, {}).get(field)
            if found is None:
                raise SyntaxFault(f"undefined field '{field}'", node.offset)
            return found
        if target.kind is TypeKind.PARAM:
            self.bindings.assignable(DYN, target)
        elif not target.is_dynamic:
            raise SyntaxFault(f"type '{target}' does not support field selection", node.offset)
        return DYN

    def call(self, node: CallExpr) -> CelType:
        if node.function in _UNUSUAL:
            return self.unusual_call(node)
        if node.function in _PLANNED or (node.function in _INDICES and not _is_plain_key(node.args[1])):
            self.watched.plans = True
        return self.usual_call(node)

    def unusual_call(self, node: CallExpr) -> CelType:
        if node.function == OPTIONAL_SELECT:
            return self.optional_select(node)
        self.watched.calls.append(node)
        self.watched.plans = True
        self.format_depth += node.function == "format"
        found = self.usual_call(node)
        self.format_depth -= node.function == "format"
        return found

    def usual_call(self, node: CallExpr) -> CelType:
        arg_types = [self.check(arg) for arg in node.args]
        if node.target is None:
            return self.resolve(node, self.lookup(node, node.function), arg_types)
        path = qualified_name(node.target)
        if path is not None:
            name = f"{path.removeprefix('.')}.{node.function}"
            function = self.environment.functions.get(name)
            if function is not None:
                node.function, node.target = name, None
                return self.resolve(node, function, arg_types)
        target = self.check(node.target)
        return self.resolve(node, self.lookup(node, node.function), [target, *arg_types])

    def lookup(self, node: CallExpr, name: str) -> FunctionDecl:
        function = self.environment.functions.get(name.removeprefix("."))
        if function is None:
            raise SyntaxFault(f"undeclared reference to function '{name}'", node.offset)
        node.function = function.name
        return function

    def optional_select(self, node: CallExpr) -> CelType:
        operand, field = node.args
        self.check(field)
        assert isinstance(field, Literal)  # noqa: S101  the parser makes no other
        found = self.field(node, operand, str(field.value), optional=True)
        node.overloads = self.environment.functions[OPTIONAL_SELECT].overloads
        return self.bindings.substitute(found)

    def resolve(self, node: CallExpr, function: FunctionDecl, types: list[CelType]) -> CelType:
        if function.name in (AND, OR):
            return self.resolve_logic(node, function, types)
        args = tuple(types)
        key = (node.target is not None, args)
        known = function.resolved.get(key)
        if known is not None:
            node.overloads, found = known
            return found
        result = self.chosen(node, function, args)
        if not result.generic and not any(arg.generic for arg in args):
            if len(function.resolved) >= _MAX_REMEMBERED:
                function.resolved.clear()
            function.resolved[key] = (node.overloads, result)
        return result

    def chosen(self, node: CallExpr, function: FunctionDecl, args: tuple[CelType, ...]) -> CelType:
        """Tries the overloads in order, keeps those that fit and finds their common result."""
        result: CelType | None = None
        chosen: list[Overload] = []
        for overload in function.candidates(member=node.target is not None, count=len(args)):
            params, overload_result = self.instantiate(overload)
            if not self.bindings.all_assignable(args, params):
                continue
            chosen.append(overload)
            found = self.bindings.substitute(overload_result)
            if result is None:
                result = found
            elif not result.is_dynamic and not self.same(found, result):
                result = DYN
        if result is None:
            raise self.no_overload(node, args)
        node.overloads = tuple(chosen)
        return result

    def resolve_logic(self, node: CallExpr, function: FunctionDecl, types: list[CelType]) -> CelType:
        for arg, found in zip(node.args, types, strict=True):
            if found is not BOOL and not self.bindings.assignable(found, BOOL):
                raise SyntaxFault(f"expected type 'bool' but found '{self.bindings.settle(found)}'", arg.offset)
        node.overloads = function.overloads
        return BOOL

    def no_overload(self, node: CallExpr, types: tuple[CelType, ...]) -> SyntaxFault:
        shown = [str(self.bindings.settle(found)) for found in types]
        applied = f"({', '.join(shown)})" if node.target is None else f"{shown[0]}.({', '.join(shown[1:])})"
        return SyntaxFault(f"found no matching overload for '{node.function}' applied to '{applied}'", node.offset)

    def same(self, left: CelType, right: CelType) -> bool:
        if left is right:
            return True
        return (
            left.generic
            and right.generic
            and left.kind is right.kind
            and left.kind is not TypeKind.PARAM
            and left.name == right.name
            and len(left.params) == len(right.params)
            and all(self.same(one, other) for one, other in zip(left.params, right.params, strict=True))
        )

    def instantiate(self, overload: Overload) -> tuple[tuple[CelType, ...], CelType]:
        """The signature with variables of its own, so that two uses do not constrain each other."""
        if not overload.variables:
            return overload.params, overload.result
        fresh = {variable: self.fresh() for variable in overload.variables}
        return tuple([_replaced(param, fresh) for param in overload.params]), _replaced(overload.result, fresh)

    def list_literal(self, node: ListNode) -> CelType:
        if len(node.elements) > 1 or node.optionals:
            self.watched.lists.append((node, self.format_depth > 0))
        joined: CelType | None = None
        for index, element in enumerate(node.elements):
            found = self.check(element)
            if index in node.optionals:
                found = self.unwrap_optional(element, found)
            joined = self.join(joined, found)
        return list_of(joined) if joined is not None else t.CelType(TypeKind.LIST, "list", (self.fresh(),))

    def map_literal(self, node: MapNode) -> CelType:
        self.watched.maps.append((node, self.format_depth > 0))
        self.watched.plans = True
        key_type: CelType | None = None
        value_type: CelType | None = None
        for entry in node.entries:
            key_type = self.join(key_type, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self.unwrap_optional(entry.value, found)
            value_type = self.join(value_type, found)
        if key_type is None or value_type is None:
            return t.CelType(TypeKind.MAP, "map", (self.fresh(), self.fresh()))
        return map_of(key_type, value_type)

    def unwrap_optional(self, node: Node, found: CelType) -> CelType:
        if found.kind is TypeKind.OPAQUE and found.name == "optional_type":
            return found.params[0]
        if found.is_dynamic:
            return found
        raise SyntaxFault(f"expected type '{optional_of(found)}' but found '{found}'", node.offset)

    def join(self, previous: CelType | None, current: CelType) -> CelType:
        """The type of elements that differ: `dyn`. Such a literal is rejected later, unless `format` takes it."""
        if previous is None or previous is current:
            return current
        return more_general(previous, current) if self.bindings.assignable(previous, current) else DYN

    def struct(self, node: Struct) -> CelType:
        raise SyntaxFault(f"undeclared reference to '{node.name}'", node.offset)

    def comprehension(self, node: Comprehension) -> CelType:
        range_type = self.bindings.substitute(self.check(node.range))
        accumulator = self.check(node.init)
        first, second = self.loop_types(node, range_type)
        self.scopes.append({node.accumulator: accumulator})
        loop = {node.variable: first}
        if node.second:
            loop[node.second] = second
        self.scopes.append(loop)
        self.check(node.condition)
        self.expect(node.condition, BOOL)
        self.check(node.step)
        self.expect(node.step, accumulator)
        self.scopes.pop()
        found = self.check(node.result)
        self.scopes.pop()
        return self.bindings.substitute(found)

    def loop_types(self, node: Comprehension, range_type: CelType) -> tuple[CelType, CelType]:
        if range_type.kind is TypeKind.LIST:
            element = range_type.params[0]
            return (t.INT, element) if node.second else (element, DYN)
        if range_type.kind is TypeKind.MAP:
            return range_type.params[0], range_type.params[1]
        # `any` has no iterator of its own: only `dyn` may be looped over without knowing what it is.
        if range_type.kind is TypeKind.DYN or range_type.kind is TypeKind.PARAM:
            self.bindings.assignable(DYN, range_type)
            return DYN, DYN
        raise SyntaxFault(
            f"expression of type '{range_type}' cannot be the range of a comprehension", node.range.offset
        )

    def expect(self, node: Node, wanted: CelType) -> None:
        found = _typed(node)
        if not self.bindings.assignable(wanted, found):
            shown = self.bindings.settle(wanted), self.bindings.settle(found)
            raise SyntaxFault(f"expected type '{shown[0]}' but found '{shown[1]}'", node.offset)

    handlers: ClassVar[dict[type, Callable[..., CelType]]] = {
        Literal: literal,
        Ident: ident,
        Select: select,
        CallExpr: call,
        ListNode: list_literal,
        MapNode: map_literal,
        Comprehension: comprehension,
        Struct: struct,
    }


def _replaced(pattern: CelType, fresh: dict[CelType, CelType]) -> CelType:
    if not pattern.generic:
        return pattern
    if pattern.kind is TypeKind.PARAM:
        return fresh[pattern]
    return t.CelType(pattern.kind, pattern.name, tuple([_replaced(param, fresh) for param in pattern.params]))
