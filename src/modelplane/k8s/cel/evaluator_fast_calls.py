"""Calls in the fast path: operators written out where the types are known, bodies of functions otherwise."""

from dataclasses import dataclass, field

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import Body, Functions, Overload
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library import regex
from modelplane.k8s.cel.library.kubernetes import plain_quantity
from modelplane.k8s.cel.membership import constant_members
from modelplane.k8s.cel.syntax import (
    ADD,
    DIVIDE,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    INDEX,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    NOT_EQUALS,
    OPTIONAL_SELECT,
    SUBTRACT,
    CallExpr,
    Literal,
    Node,
)
from modelplane.k8s.cel.types import BOOL, DYN, INT, STRING, CelType, TypeKind

FOLDED = frozenset({"quantity", "semver", "ip", "cidr", "url", "duration", "timestamp", "int", "double", "uint"})
_ORDER = {LESS: "<", LESS_EQUALS: "<=", GREATER: ">", GREATER_EQUALS: ">="}
_ARITHMETIC = {ADD: "+", SUBTRACT: "-", MULTIPLY: "*"}
_ORDERED_INLINE = frozenset({t.INT, t.UINT, t.STRING, t.BYTES, t.BOOL})
_EQUAL_INLINE = _ORDERED_INLINE | {t.DOUBLE, t.QUANTITY, t.SEMVER, t.DURATION, t.TIMESTAMP, t.IP, t.CIDR, t.URL}
_METHODS = {"contains_string": "({1} in {0})", "starts_with_string": "{0}.startswith({1})"} | {
    "ends_with_string": "{0}.endswith({1})",
    "quantity_compare_to": "compare_quantities({0}, {1})",
    "quantity_is_greater_than": "(compare_quantities({0}, {1}) > 0)",
    "quantity_is_less_than": "(compare_quantities({0}, {1}) < 0)",
    "semver_is_greater_than": "({0}.key > {1}.key)",
    "semver_is_less_than": "({0}.key < {1}.key)",
    "size_string": "len({0})",
    "string_size": "len({0})",
}
# The Python class of a type, if one class test is enough.
_CLASSES = {
    t.STRING: "str",
    t.INT: "int",
    t.BOOL: "bool",
    t.DOUBLE: "float",
    t.QUANTITY: "Quantity",
    t.SEMVER: "Version",
}


class NotEmitted(Exception):  # noqa: N818  a way out, not an error
    """The expression has something that the fast path leaves to the exact evaluator."""


@dataclass(frozen=True, slots=True)
class EmittedCode:
    """Python code that computes a value. `is_dict`: the value is certainly a plain dict of strings."""

    text: str
    type: CelType
    constant: object = None
    is_constant: bool = field(default=False, kw_only=True)
    is_dict: bool = field(default=False, kw_only=True)
    is_domains: bool = field(default=False, kw_only=True)

    @property
    def is_plain_dict(self) -> bool:
        """Whether brackets and `in` mean in Python what they mean in CEL."""
        return self.is_dict and not self.is_domains


class CallEmitter:
    """The part of the emitter for function calls."""

    __slots__ = ("bound", "functions")

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.bound: dict[str, EmittedCode] = {}

    def emit(self, node: Node) -> EmittedCode:
        """The code of a node, from the emitter."""
        raise NotImplementedError

    def constant(self, value: object) -> str:
        """The name of a constant."""
        raise NotImplementedError

    def fresh(self) -> str:
        """A name for a variable."""
        raise NotImplementedError

    def truth(self, code: EmittedCode) -> str:
        """The code of a condition."""
        raise NotImplementedError

    def value(self, code: EmittedCode) -> str:
        """The code of a value that leaves the expression."""
        raise NotImplementedError

    def item(self, container: EmittedCode, key: str, found: CelType) -> EmittedCode:
        """The code of one entry of a map."""
        raise NotImplementedError

    def other_call(self, node: CallExpr) -> EmittedCode:
        """A call that is neither `&&`, `||` nor `?:`."""
        if node.function in {EQUALS, NOT_EQUALS}:
            return self.equality(node)
        if node.function in {"hasValue", "orValue"}:
            return self.optional(node)
        args = [self.emit(arg) for arg in ([node.target, *node.args] if node.target else node.args)]
        if node.function in FOLDED and all(arg.is_constant for arg in args):
            folded = self.folded(node, args)
            if folded is not None:
                return folded
        if node.function in _ORDER:
            return self.ordering(node, args)
        if node.function == NOT:
            return EmittedCode(f"(not {self.truth(args[0])})", BOOL)
        if node.function == IN:
            return self.membership(args)
        if node.function == INDEX:
            return self.index(node, args)
        return self.plain_call(node, args)

    def folded(self, node: CallExpr, args: list[EmittedCode]) -> EmittedCode | None:
        """A call computed beforehand, unless it fails."""
        values = [arg.constant for arg in args]
        body = self.body(node)
        if body is None:
            return None
        try:
            value = body(*values)
        except (EvaluationError, EvaluationAborted):
            return None
        return EmittedCode(self.constant(value), node.type or DYN, value, is_constant=True)

    def body(self, node: CallExpr) -> Body | None:
        """The body of a call; quantities are plain values here."""
        if node.function == "quantity":
            return plain_quantity
        return self.functions[node.function].body_for(node.overloads)

    def equality(self, node: CallExpr) -> EmittedCode:
        left, right = (self.emit(arg) for arg in node.args)
        negated = node.function == NOT_EQUALS
        if left.type in _EQUAL_INLINE and (left.type is right.type or left.type is STRING):
            return EmittedCode(f"({left.text} {'!=' if negated else '=='} {self.value(right)})", BOOL)
        name = "not_equals" if negated else "equal"
        general = f"{name}({{0}}, {self.value(right)})"
        if right.type is STRING and left.type.is_dynamic and right.is_constant:
            inline = f"({{0}} {'!=' if negated else '=='} {right.text})"
            return EmittedCode(self.tested(left, "str", inline, general), BOOL)
        return EmittedCode(general.format(self.value(left)), BOOL)

    def tested(self, code: EmittedCode, python_class: str, quick: str, general: str) -> str:
        """Two ways to compute, chosen by the class of a value that is computed once."""
        name = self.fresh()
        return f"({quick.format(name)} if type({name} := {code.text}) is {python_class} else {general.format(name)})"

    def ordering(self, node: CallExpr, args: list[EmittedCode]) -> EmittedCode:
        left, right = args
        sign = _ORDER[node.function]
        if left.type is right.type and left.type in _ORDERED_INLINE:
            return EmittedCode(f"({left.text} {sign} {right.text})", BOOL)
        return EmittedCode(f"(compare({left.text}, {right.text}) {sign} 0)", BOOL)

    def membership(self, args: list[EmittedCode]) -> EmittedCode:
        item, container = args
        if container.is_dict and item.type is STRING:
            return EmittedCode(f"({item.text} in {container.text})", BOOL)
        if container.type.kind is TypeKind.LIST and container.is_constant:
            members = constant_members(container.constant)
            if not container.constant:
                return EmittedCode("False", BOOL)
            if members is not None:
                return self.constant_membership(item, members.strings, self.constant(members.has))
        return EmittedCode(f"contains({self.value(container)}, {self.value(item)})", BOOL)

    def constant_membership(self, item: EmittedCode, strings: frozenset[str], general: str) -> EmittedCode:
        if item.type is STRING:
            return EmittedCode(f"({item.text} in {self.constant(strings)})", BOOL)
        return EmittedCode(self.tested(item, "str", f"({{0}} in {self.constant(strings)})", f"{general}({{0}})"), BOOL)

    def index(self, node: CallExpr, args: list[EmittedCode]) -> EmittedCode:
        container, key = args
        if container.type.kind is TypeKind.MAP and key.type is STRING:
            return self.item(container, key.text, node.type or DYN)
        raise NotEmitted

    def optional(self, node: CallExpr) -> EmittedCode:
        """`m.?field.hasValue()` and `m.?field.orValue(x)` for a plain map."""
        chain = node.target
        if not isinstance(chain, CallExpr) or chain.function != OPTIONAL_SELECT:
            raise NotEmitted
        container, key = self.emit(chain.args[0]), chain.args[1]
        if not container.is_plain_dict or not isinstance(key, Literal):
            raise NotEmitted
        name = self.constant(key.value)
        if node.function == "hasValue":
            return EmittedCode(f"({name} in {container.text})", BOOL)
        alternative = self.emit(node.args[0])
        holder = self.fresh()
        text = f"({holder}[{name}] if {name} in ({holder} := {container.text}) else {self.value(alternative)})"
        return EmittedCode(text, node.type or DYN)

    def plain_call(self, node: CallExpr, args: list[EmittedCode]) -> EmittedCode:
        if len(node.overloads) != 1:
            return self.dispatched(node, args)
        overload = node.overloads[0]
        if node.function == "matches":
            return self.matches(args)
        exact = [arg.type is param for arg, param in zip(args, overload.params, strict=True)]
        inline = self.inlined(node, overload, args)
        if inline is not None and all(exact):
            return EmittedCode(inline.format(*[arg.text for arg in args]), node.type or DYN)
        if inline is not None and exact[1:] == [True] * (len(args) - 1) and overload.params[0] in _CLASSES:
            rest = [arg.text for arg in args[1:]]
            general = f"{self.constant(self.body(node))}({', '.join(['{0}', *rest])})"
            quick = inline.replace("{1}", rest[0]) if rest else inline
            return EmittedCode(self.tested(args[0], _CLASSES[overload.params[0]], quick, general), node.type or DYN)
        return self.dispatched(node, args)

    def inlined(self, node: CallExpr, overload: Overload, args: list[EmittedCode]) -> str | None:
        template = _METHODS.get(overload.id)
        if template is not None:
            return template
        if not args or args[0].type is not INT:
            return None
        if node.function in _ARITHMETIC:
            return f"checked_int({{0}} {_ARITHMETIC[node.function]} {{1}})"
        return {NEGATE: "checked_int(-{0})", DIVIDE: "divide({0}, {1})", MODULO: "modulo({0}, {1})"}.get(node.function)

    def matches(self, args: list[EmittedCode]) -> EmittedCode:
        subject, pattern = args
        if not pattern.is_constant or not isinstance(pattern.constant, str):
            raise NotEmitted
        quick = f"{self.constant(regex.occurrences(pattern.constant))}[{{0}}]"
        if subject.type is STRING:
            return EmittedCode(quick.format(subject.text), BOOL)
        general = f"{self.constant(self.functions['matches'].singleton)}({{0}}, {pattern.text})"
        return EmittedCode(self.tested(subject, "str", quick, general), BOOL)

    def dispatched(self, node: CallExpr, args: list[EmittedCode]) -> EmittedCode:
        body = self.body(node)
        if body is None or node.function.startswith(("_[", "_?")):
            raise NotEmitted
        values = ", ".join([self.value(arg) for arg in args])
        return EmittedCode(f"{self.constant(body)}({values})", node.type or DYN)
