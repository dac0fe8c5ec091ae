"""The syntax tree: what the parser makes and the checker annotates.

Macros are expanded while parsing, so seven kinds of node are all there is. `type` and `overloads` are filled in by
the checker and read by the cost estimate, the evaluator and the emitter; nothing else changes after parsing.
`height` counts the levels that the nesting limit counts, not all levels of the tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from modelplane.k8s.cel.declarations import Overload
    from modelplane.k8s.cel.types import CelType

ACCUMULATOR = "@result"
UNUSED = "#unused"

AND, OR, NOT, CONDITIONAL = "_&&_", "_||_", "!_", "_?_:_"
EQUALS, NOT_EQUALS, LESS, LESS_EQUALS, GREATER, GREATER_EQUALS, IN = "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in"
ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, NEGATE = "_+_", "_-_", "_*_", "_/_", "_%_", "-_"
INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT = "_[_]", "_[?_]", "_?._"
NOT_STRICTLY_FALSE = "@not_strictly_false"

# Functions that are computed beforehand where their argument is a constant.
CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})


@dataclass(slots=True, eq=False)
class Literal:
    """A constant: bool, int, Uint, float, str, bytes or None."""

    offset: int
    value: object
    height: int = 0
    type: "CelType | None" = None


@dataclass(slots=True, eq=False)
class Ident:
    """A name; `constant` is set where it denotes a type instead of a variable."""

    offset: int
    name: str
    height: int = 0
    type: "CelType | None" = None
    constant: "CelType | None" = None


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or the presence test `has(operand.field)`."""

    offset: int
    operand: "Node"
    field: str
    test_only: bool = False
    height: int = 0
    type: "CelType | None" = None
    constant: "CelType | None" = None


@dataclass(slots=True, eq=False)
class CallExpr:
    """A function, method or operator; `target` is the receiver of a method."""

    offset: int
    function: str
    target: "Node | None"
    args: "list[Node]"
    height: int = 0
    type: "CelType | None" = None
    overloads: "tuple[Overload, ...]" = ()


@dataclass(slots=True, eq=False)
class ListNode:
    """`[a, ?b]`; `optionals` holds the positions written with a question mark."""

    offset: int
    elements: "list[Node]"
    optionals: frozenset[int] = frozenset()
    height: int = 0
    type: "CelType | None" = None


@dataclass(slots=True, eq=False)
class MapEntry:
    """One `key: value` of a map literal."""

    offset: int
    key: "Node"
    value: "Node"
    optional: bool


@dataclass(slots=True, eq=False)
class MapNode:
    """`{k: v, ?k: v}`."""

    offset: int
    entries: list[MapEntry]
    height: int = 0
    type: "CelType | None" = None


@dataclass(slots=True, eq=False)
class Comprehension:
    """A fold: what every macro with a loop variable becomes, and `cel.bind` too (with an empty range)."""

    offset: int
    range: "Node"
    variable: str
    second: str
    accumulator: str
    init: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    height: int = 0
    type: "CelType | None" = None

    @property
    def is_bind(self) -> bool:
        """Whether this is a local variable rather than a loop."""
        return (
            isinstance(self.range, ListNode)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
        )


@dataclass(slots=True, eq=False)
class Struct:
    """`name{field: value}`; no environment here has a type that can be built so, hence it never passes the checker."""

    offset: int
    name: str
    values: "list[Node]" = field(default_factory=list)
    height: int = 0
    type: "CelType | None" = None


Node: TypeAlias = Literal | Ident | Select | CallExpr | ListNode | MapNode | Comprehension | Struct


def qualified_name(node: Node) -> str | None:
    """`a.b.c` where the node is a plain path of names."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    fields.append(node.name)
    return ".".join(reversed(fields))


def children(node: Node) -> list[Node]:
    """The parts of a node, in the order they are written."""
    if isinstance(node, CallExpr):
        return [*([node.target] if node.target is not None else []), *node.args]
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, ListNode):
        return list(node.elements)
    if isinstance(node, MapNode):
        return [part for entry in node.entries for part in (entry.key, entry.value)]
    if isinstance(node, Comprehension):
        return [node.range, node.init, node.condition, node.step, node.result]
    return list(node.values) if isinstance(node, Struct) else []


def walk(root: Node) -> Iterator[Node]:
    """Every node of a tree."""
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def chain(node: CallExpr) -> list[Node]:
    """The terms of a chain of one logical operator, in order."""
    terms: list[Node] = []
    pending: list[Node] = [node]
    while pending:
        term = pending.pop()
        if isinstance(term, CallExpr) and term.function == node.function:
            pending += reversed(term.args)
        else:
            terms.append(term)
    return terms
