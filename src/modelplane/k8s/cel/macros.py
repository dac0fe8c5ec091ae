"""Macros: calls that are rewritten into comprehensions, presence tests and conditionals while parsing.

A macro is found by name, number of arguments and whether it has a receiver. An expander may decline (`cel.bind`
on something not called `cel`), in which case the call stays a call.
"""

from collections.abc import Callable
from typing import TypeAlias

from modelplane.k8s.cel.errors import SyntaxFault
from modelplane.k8s.cel.syntax import (
    ACCUMULATOR,
    ADD,
    AND,
    CONDITIONAL,
    EQUALS,
    NOT,
    NOT_STRICTLY_FALSE,
    OR,
    UNUSED,
    CallExpr,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapEntry,
    MapNode,
    Node,
    Select,
    Struct,
)

MAX_COPIES = 5_000
_LEGACY_ACCUMULATOR = "__result__"
_SORT_INPUT = "@__sortBy_input__"
_MAP_INSERT = "cel.@mapInsert"


class Expansion:
    """One macro call in the making. `copies` counts the nodes duplicated so far in the whole expression."""

    __slots__ = ("args", "copies", "offset", "target")

    def __init__(self, offset: int, target: Node, args: list[Node], copies: list[int]) -> None:
        self.offset = offset
        self.target = target
        self.args = args
        self.copies = copies

    def literal(self, value: object) -> Literal:
        return Literal(self.offset, value)

    def accumulator(self) -> Ident:
        return Ident(self.offset, ACCUMULATOR)

    def call(self, function: str, *args: Node) -> CallExpr:
        return CallExpr(self.offset, function, None, list(args))

    def list(self, *elements: Node) -> ListNode:
        return ListNode(self.offset, list(elements))

    def fold(self, variables: tuple[str, str], init: Node, condition: Node, step: Node, result: Node) -> Comprehension:
        first, second = variables
        return Comprehension(self.offset, self.target, first, second, ACCUMULATOR, init, condition, step, result)

    def bind(self, name: str, value: Node, body: Node) -> Comprehension:
        step = Ident(self.offset, name)
        return Comprehension(self.offset, self.list(), UNUSED, "", name, value, self.literal(False), step, body)

    def copy(self, node: Node) -> Node:
        """A second tree like the first; what is duplicated too often is refused rather than built."""
        self.copies[0] += 1
        if self.copies[0] > MAX_COPIES:
            raise SyntaxFault("the expression's macros expand to too many parts", self.offset)
        return _COPIERS[type(node)](self, node)


Expander: TypeAlias = Callable[[Expansion], "Node | None"]


def _copy_select(expansion: Expansion, node: Select) -> Node:
    return Select(node.offset, expansion.copy(node.operand), node.field, node.test_only)


def _copy_call(expansion: Expansion, node: CallExpr) -> Node:
    target = None if node.target is None else expansion.copy(node.target)
    return CallExpr(node.offset, node.function, target, [expansion.copy(arg) for arg in node.args])


def _copy_list(expansion: Expansion, node: ListNode) -> Node:
    return ListNode(node.offset, [expansion.copy(element) for element in node.elements], node.optionals)


def _copy_map(expansion: Expansion, node: MapNode) -> Node:
    entries = [
        MapEntry(entry.offset, expansion.copy(entry.key), expansion.copy(entry.value), entry.optional)
        for entry in node.entries
    ]
    return MapNode(node.offset, entries)


def _copy_comprehension(expansion: Expansion, node: Comprehension) -> Node:
    return Comprehension(
        node.offset,
        expansion.copy(node.range),
        node.variable,
        node.second,
        node.accumulator,
        expansion.copy(node.init),
        expansion.copy(node.condition),
        expansion.copy(node.step),
        expansion.copy(node.result),
    )


_COPIERS: dict[type, Callable[..., Node]] = {
    Literal: lambda _, node: Literal(node.offset, node.value),
    Ident: lambda _, node: Ident(node.offset, node.name),
    Select: _copy_select,
    CallExpr: _copy_call,
    ListNode: _copy_list,
    MapNode: _copy_map,
    Comprehension: _copy_comprehension,
    Struct: lambda _, node: Struct(node.offset, node.name),
}


def _variable(node: Node) -> str:
    if not isinstance(node, Ident):
        raise SyntaxFault("the first argument must be a simple name", node.offset)
    if node.name in {ACCUMULATOR, _LEGACY_ACCUMULATOR}:
        raise SyntaxFault("the iteration variable overwrites the accumulator variable", node.offset)
    return node.name


def _variables(expansion: Expansion, count: int) -> tuple[str, str]:
    if count == 1:
        return _variable(expansion.args[0]), ""
    first, second = expansion.args[0], expansion.args[1]
    for node in (first, second):
        if not isinstance(node, Ident):
            raise SyntaxFault("the iteration variables must be simple names", node.offset)
    names = _variable(first), _variable(second)
    if names[0] == names[1]:
        raise SyntaxFault(f"duplicate variable name: {names[0]}", second.offset)
    return names


def _has(expansion: Expansion) -> Node:
    node = expansion.args[0]
    if not isinstance(node, Select):
        raise SyntaxFault("invalid argument to has() macro: a field selection is needed", node.offset)
    return Select(expansion.offset, node.operand, node.field, test_only=True)


def _all(count: int) -> Expander:
    def expand(expansion: Expansion) -> Node:
        variables = _variables(expansion, count)
        condition = expansion.call(NOT_STRICTLY_FALSE, expansion.accumulator())
        step = expansion.call(AND, expansion.accumulator(), expansion.args[count])
        return expansion.fold(variables, expansion.literal(True), condition, step, expansion.accumulator())

    return expand


def _exists(count: int) -> Expander:
    def expand(expansion: Expansion) -> Node:
        variables = _variables(expansion, count)
        condition = expansion.call(NOT_STRICTLY_FALSE, expansion.call(NOT, expansion.accumulator()))
        step = expansion.call(OR, expansion.accumulator(), expansion.args[count])
        return expansion.fold(variables, expansion.literal(False), condition, step, expansion.accumulator())

    return expand


def _exists_one(count: int) -> Expander:
    def expand(expansion: Expansion) -> Node:
        variables = _variables(expansion, count)
        more = expansion.call(ADD, expansion.accumulator(), expansion.literal(1))
        step = expansion.call(CONDITIONAL, expansion.args[count], more, expansion.accumulator())
        result = expansion.call(EQUALS, expansion.accumulator(), expansion.literal(1))
        return expansion.fold(variables, expansion.literal(0), expansion.literal(True), step, result)

    return expand


def _transform(count: int, *, filtered: bool, empty: type[ListNode | MapNode], insert: Callable[..., Node]) -> Expander:
    def expand(expansion: Expansion) -> Node:
        variables = _variables(expansion, count)
        step = insert(expansion, expansion.args[-1])
        if filtered:
            step = expansion.call(CONDITIONAL, expansion.args[count], step, expansion.accumulator())
        init = empty(expansion.offset, [])
        return expansion.fold(variables, init, expansion.literal(True), step, expansion.accumulator())

    return expand


def _append(expansion: Expansion, value: Node) -> Node:
    return expansion.call(ADD, expansion.accumulator(), expansion.list(value))


def _insert_value(expansion: Expansion, value: Node) -> Node:
    key = Ident(expansion.offset, _variable(expansion.args[0]))
    return expansion.call(_MAP_INSERT, expansion.accumulator(), key, value)


def _insert_entry(expansion: Expansion, entry: Node) -> Node:
    return expansion.call(_MAP_INSERT, expansion.accumulator(), entry)


def _filter(expansion: Expansion) -> Node:
    variables = _variables(expansion, 1)
    grown = _append(expansion, expansion.args[0])
    step = expansion.call(CONDITIONAL, expansion.args[1], grown, expansion.accumulator())
    return expansion.fold(variables, expansion.list(), expansion.literal(True), step, expansion.accumulator())


def _bind(expansion: Expansion) -> Node | None:
    if not isinstance(expansion.target, Ident) or expansion.target.name != "cel":
        return None
    name, value, body = expansion.args
    if not isinstance(name, Ident):
        raise SyntaxFault("the variable of cel.bind() must be a simple name", name.offset)
    return expansion.bind(name.name, value, body)


def _optional_map(*, flat: bool) -> Expander:
    def expand(expansion: Expansion) -> Node:
        name, body = expansion.args
        if not isinstance(name, Ident):
            raise SyntaxFault("the variable of optMap() and optFlatMap() must be a simple name", name.offset)
        value = CallExpr(expansion.offset, "value", expansion.copy(expansion.target), [])
        mapped: Node = expansion.bind(name.name, value, body)
        if not flat:
            mapped = expansion.call("optional.of", mapped)
        present = CallExpr(expansion.offset, "hasValue", expansion.target, [])
        return expansion.call(CONDITIONAL, present, mapped, expansion.call("optional.none"))

    return expand


def _sort_by(expansion: Expansion) -> Node:
    source = expansion.target
    if isinstance(source, Literal | MapNode | Struct):
        raise SyntaxFault("sortBy needs a list, a name, a call or a selection before it", source.offset)
    expansion.target = Ident(expansion.offset, _SORT_INPUT)
    keys = _MAP(expansion)
    if keys is None:
        return source
    sorted_list = CallExpr(expansion.offset, "@sortByAssociatedKeys", Ident(expansion.offset, _SORT_INPUT), [keys])
    return expansion.bind(_SORT_INPUT, source, sorted_list)


_MAP = _transform(1, filtered=False, empty=ListNode, insert=_append)

GLOBAL_MACROS: dict[tuple[str, int], Expander] = {("has", 1): _has}
RECEIVER_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 2): _all(1),
    ("exists", 2): _exists(1),
    ("exists_one", 2): _exists_one(1),
    ("map", 2): _MAP,
    ("map", 3): _transform(1, filtered=True, empty=ListNode, insert=_append),
    ("filter", 2): _filter,
    ("all", 3): _all(2),
    ("exists", 3): _exists(2),
    ("existsOne", 3): _exists_one(2),
    ("exists_one", 3): _exists_one(2),
    ("transformList", 3): _transform(2, filtered=False, empty=ListNode, insert=_append),
    ("transformList", 4): _transform(2, filtered=True, empty=ListNode, insert=_append),
    ("transformMap", 3): _transform(2, filtered=False, empty=MapNode, insert=_insert_value),
    ("transformMap", 4): _transform(2, filtered=True, empty=MapNode, insert=_insert_value),
    ("transformMapEntry", 3): _transform(2, filtered=False, empty=MapNode, insert=_insert_entry),
    ("transformMapEntry", 4): _transform(2, filtered=True, empty=MapNode, insert=_insert_entry),
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map(flat=False),
    ("optFlatMap", 2): _optional_map(flat=True),
    ("sortBy", 2): _sort_by,
}
