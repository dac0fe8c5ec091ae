"""The worst case an expression may cost, before it ever runs.

Every node has a cost and some have a size; both are ranges. Sizes come from literals, from the declared bounds of
the data that a path reaches (`Bounds`), from the functions that make texts and lists, and from the types of scalars.
What has no bound is unbounded, and so is everything computed from it. The rules and their order are upstream's: the
API refuses an expression over the limit, so a kinder estimate would be a wrong one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from modelplane.k8s.cel.call_estimates import COMPARISONS, CallArgs, SizedNode, estimate_call, ignores_sizes
from modelplane.k8s.cel.node_paths import NO_PATH, NodePath, root_path
from modelplane.k8s.cel.sizes import MAX, ONE, UNKNOWN, ZERO, Range, SizeEstimator, exactly, plus, scaled, times, union
from modelplane.k8s.cel.syntax import (
    ACCUMULATOR,
    AND,
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
)
from modelplane.k8s.cel.types import DYN, CelType, TypeKind

_LIST_COST, _MAP_COST = exactly(10), exactly(30)
_SCALARS = frozenset(
    {TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT}
)
_SELECTABLE = frozenset({TypeKind.MAP, TypeKind.STRUCT, TypeKind.PARAM})


@dataclass(slots=True, eq=False)
class Entries:
    """The sizes of the keys and of the values of a list or map."""

    kind: TypeKind
    key: Range
    value: Range


@dataclass(slots=True, eq=False)
class _Local:
    path: NodePath
    size: Range | None
    entries: Entries | None


def estimate(node: Node, bounds: SizeEstimator) -> int:
    """The highest cost of evaluating a checked tree."""
    return _Estimator(bounds).cost(node)[1]


@dataclass(slots=True, eq=False)
class _Cost:
    cost: Range
    size: Range | None


class _Estimator:
    __slots__ = ("bounds", "entries", "locals", "paths", "sizes")

    def __init__(self, bounds: SizeEstimator) -> None:
        self.bounds = bounds
        self.paths: dict[int, NodePath] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        return self.handlers[type(node)](self, node)

    def literal(self, _node: Literal) -> Range:
        return ZERO

    def ident(self, node: Ident) -> Range:
        local = self.local(node.name)
        self.paths[id(node)] = local.path if local is not None else root_path(node.name.removeprefix("."))
        return ONE

    def local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def select(self, node: Select) -> Range:
        if node.constant is not None:
            return ONE
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        if (node.operand.type or DYN).kind in _SELECTABLE:
            cost = plus(cost, ONE)
        self.paths[id(node)] = self.path(node.operand).extended(node.field)
        return cost

    def path(self, node: Node) -> NodePath:
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.path
        return self.paths.get(id(node), NO_PATH)

    def call(self, node: CallExpr) -> Range:
        if node.function == "dyn":
            return self.dynamic(node)
        if node.function in {AND, OR}:
            return self.logic(node)
        if all(ignores_sizes(node.function, overload.id) for overload in node.overloads):
            return self.plain_call(node)
        arg_costs = [self.cost(arg) for arg in node.args]
        args = [self.described(arg) for arg in node.args]
        target_cost = ZERO if node.target is None else self.cost(node.target)
        target = None if node.target is None else self.described(node.target)
        call = CallArgs(node.function, target, args, self.bounds)
        total = (MAX, 0)
        size: Range | None = None
        for overload in node.overloads:
            estimated = self.estimated(node, overload.id, call, arg_costs)
            total = union(total, estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else union(size, estimated.size)
            size = self.indexed(node, overload.id, size)
            if size is None:
                size = self.size(node)
        if size is not None:
            self.sizes[id(node)] = size
        return plus(target_cost, total)

    def plain_call(self, node: CallExpr) -> Range:
        """A call of one unit."""
        cost = ONE
        for arg in node.args:
            cost = plus(cost, self.cost(arg))
        if node.target is not None:
            cost = plus(cost, self.cost(node.target))
        for overload in node.overloads:
            size = self.indexed(node, overload.id, None) or self.size(node)
            if size is not None:
                self.sizes[id(node)] = size
        return cost

    def dynamic(self, node: CallExpr) -> Range:
        inner = node.args[0]
        cost = self.cost(inner)
        self.copy_sizes(node, inner)
        return plus(ONE, cost)

    def indexed(self, node: CallExpr, overload: str, size: Range | None) -> Range | None:
        """An index into the data: the path continues with the element, and so does the size."""
        if overload not in {"index_list", "index_map"}:
            return size
        container = node.args[0]
        self.paths[id(node)] = self.path(container).extended("@items" if overload == "index_list" else "@values")
        entries = self.entries_of(container)
        return entries.value if entries is not None else None

    def described(self, node: Node) -> SizedNode:
        if isinstance(node, Literal):
            return SizedNode(node, node.type or DYN, (), literal_size(node))
        path = self.path(node).names()
        if path and path[0] in {ACCUMULATOR, "__result__"}:
            path = ()
        return SizedNode(node, node.type or DYN, path, self.size(node))

    def estimated(self, node: CallExpr, overload: str, call: CallArgs, arg_costs: list[Range]) -> _Cost:
        total = ZERO
        for cost in arg_costs:
            total = plus(total, cost)
        found = estimate_call(overload, call)
        if found is not None:
            return _Cost(plus(found[0], total), found[1])
        rule = self.builtin.get(overload)
        if rule is not None:
            return rule(self, node, overload, call, arg_costs, total)
        if overload in COMPARISONS:
            return self.comparison(call, total)
        return _Cost(plus(ONE, total), None)

    def comparison(self, call: CallArgs, total: Range) -> _Cost:
        most = min(call.args[0].known[1], call.args[1].known[1])
        return _Cost(plus(scaled((1 if most > 0 else 0, most), 0.1), total), None)

    def logic(self, node: CallExpr) -> Range:
        left, right = (self.cost(arg) for arg in node.args)
        return left[0], plus(left, right)[1]

    def conditional(self, node: CallExpr, _id: str, call: CallArgs, costs: list[Range], _total: Range) -> _Cost:
        size = union(call.args[1].known, call.args[2].known)
        self.keep_entries(node, node.args[1], node.args[2])
        return _Cost(plus(costs[0], union(costs[1], costs[2])), size)

    def addition(self, node: CallExpr, overload: str, call: CallArgs, _costs: list[Range], total: Range) -> _Cost:
        size = plus(call.args[0].known, call.args[1].known)
        self.keep_entries(node, node.args[0], node.args[1])
        if overload == "add_list":
            return _Cost(plus(ONE, total), size)
        return _Cost(plus(scaled(size, 0.1), total), size)

    def keep_entries(self, node: Node, left: Node, right: Node) -> None:
        one, other = self.entries_of(left), self.entries_of(right)
        if one is not None and other is not None:
            joined = Entries(one.kind, union(one.key, other.key), union(one.value, other.value))
            self.entries[id(node)] = joined

    def list_literal(self, node: ListNode) -> Range:
        cost, value = ZERO, (MAX if node.elements else 0, 0)
        for element in node.elements:
            cost = plus(cost, self.cost(element))
            value = union(value, self.size_or_unknown(element))
        self.entries[id(node)] = Entries(TypeKind.LIST, ONE, value)
        return plus(cost, _LIST_COST)

    def map_literal(self, node: MapNode) -> Range:
        least = MAX if node.entries else 0
        cost, key, value = ZERO, (least, 0), (least, 0)
        for entry in node.entries:
            cost = plus(plus(cost, self.cost(entry.key)), self.cost(entry.value))
            key = union(key, self.size_or_unknown(entry.key))
            value = union(value, self.size_or_unknown(entry.value))
        self.entries[id(node)] = Entries(TypeKind.MAP, key, value)
        return plus(cost, _MAP_COST)

    def struct(self, _node: Struct) -> Range:
        return UNKNOWN

    def comprehension(self, node: Comprehension) -> Range:
        cost = plus(self.cost(node.range), self.cost(node.init))
        self.push(node.accumulator, _Local(self.path(node.init), self.size(node.init), self.entries_of(node.init)))
        if node.is_bind and node.accumulator != "__result__":
            return self.bind(node, cost)
        loop_variables = self.push_loop(node)
        each = plus(self.cost(node.step), self.cost(node.condition))
        for name in loop_variables:
            self.locals[name].pop()
        cost = plus(cost, self.cost(node.result))
        self.locals[node.accumulator].pop()
        count = self.size_or_unknown(node.range)
        self.keep_fold_size(node, count)
        return plus(cost, times(count, each))

    def bind(self, node: Comprehension, cost: Range) -> Range:
        cost = plus(cost, self.cost(node.result))
        self.locals[node.accumulator].pop()
        self.copy_sizes(node, node.result)
        return cost

    def keep_fold_size(self, node: Comprehension, count: Range) -> None:
        if isinstance(node.init, Literal):
            size = self.size(node.init)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.init, ListNode | MapNode):
            self.sizes[id(node)] = count
            entries = self.entries_of(node.step)
            if entries is not None:
                self.entries[id(node)] = entries

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def push_loop(self, node: Comprehension) -> tuple[str, ...]:
        entries = self.entries_of(node.range)
        kind = entries.kind if entries is not None else (node.range.type or DYN).kind
        path = self.path(node.range)
        key_size = entries.key if entries is not None else None
        value_size = entries.value if entries is not None else None
        is_list = kind is TypeKind.LIST
        if node.second:
            self.push(node.variable, _Local(path.extended("@indices" if is_list else "@keys"), key_size, None))
            self.push(node.second, _Local(path.extended("@items" if is_list else "@values"), value_size, None))
            return node.variable, node.second
        if is_list:
            self.push(node.variable, _Local(path.extended("@items"), value_size, None))
        else:
            self.push(node.variable, _Local(path.extended("@keys"), key_size, None))
        return (node.variable,)

    def copy_sizes(self, target: Node, source: Node) -> None:
        size, entries = self.size(source), self.entries_of(source)
        if size is not None:
            self.sizes[id(target)] = size
        if entries is not None:
            self.entries[id(target)] = entries

    def size_or_unknown(self, node: Node) -> Range:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def size(self, node: Node) -> Range | None:
        """The size of what a node yields: computed before, written out, bounded by the data, or a scalar's one."""
        known = self.sizes.get(id(node)) or literal_size(node)
        if known is not None:
            return known
        found, path = node.type or DYN, self.path(node)
        bounded = None if path is NO_PATH else self.bounds.size(path.names(), found)
        if bounded is not None:
            self.sizes[id(node)] = bounded
            return bounded
        if is_scalar(found):
            return ONE
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.size
        return None

    def entries_of(self, node: Node) -> Entries | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, Ident):
            local = self.local(node.name)
            return None if local is None else local.entries
        return found

    handlers: ClassVar[dict[type, Callable[..., Range]]] = {
        Literal: literal,
        Ident: ident,
        Select: select,
        CallExpr: call,
        ListNode: list_literal,
        MapNode: map_literal,
        Comprehension: comprehension,
        Struct: struct,
    }
    builtin: ClassVar[dict[str, Callable[..., _Cost]]] = {
        "conditional": conditional,
        "add_string": addition,
        "add_bytes": addition,
        "add_list": addition,
    }


def literal_size(node: Node) -> Range | None:
    """The size of a literal, which is known exactly."""
    if isinstance(node, Literal):
        return exactly(len(node.value)) if isinstance(node.value, str | bytes) else ONE
    if isinstance(node, ListNode):
        return exactly(len(node.elements))
    return exactly(len(node.entries)) if isinstance(node, MapNode) else None


def is_scalar(found: CelType) -> bool:
    """Whether every value of the type has the same size."""
    if found.kind in _SCALARS:
        return True
    return (
        found.kind is TypeKind.OPAQUE
        and found.name == "optional_type"
        and bool(found.params)
        and is_scalar(found.params[0])
    )
