"""Tokens to a syntax tree, macros expanded.

Nesting. Two limits of 250 apply, as in cel-go 0.26. One is on the grammar's own recursion: each parenthesis, index,
argument or element enters `expr` once, the right side of a comparison enters `relation` once more, and the right
side of an arithmetic operator enters `calc` once more. The other is on the tree: selections, calls of methods,
indices, comparisons, arithmetic and conditionals count one level each, on any path from the root.

Chains of `&&` and `||` are not nested: they become balanced trees.
"""

from modelplane.k8s.cel.errors import CompileError, SyntaxFault, place
from modelplane.k8s.cel.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENT,
    INT,
    STRING,
    UINT,
    Token,
    bytes_literal,
    float_literal,
    int_literal,
    string_literal,
    tokenize,
    uint_literal,
)
from modelplane.k8s.cel.macros import GLOBAL_MACROS, RECEIVER_MACROS, Expander, Expansion
from modelplane.k8s.cel.syntax import (
    ADD,
    AND,
    CONDITIONAL,
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
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    SUBTRACT,
    CallExpr,
    Ident,
    ListNode,
    Literal,
    MapEntry,
    MapNode,
    Node,
    Select,
    Struct,
)

MAX_CODE_POINTS = 100_000
MAX_DEPTH = 250

_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    )
)
_RELATIONS = {
    "==": EQUALS,
    "!=": NOT_EQUALS,
    "<": LESS,
    "<=": LESS_EQUALS,
    ">": GREATER,
    ">=": GREATER_EQUALS,
    "in": IN,
}
_ARITHMETIC = {"+": (1, ADD), "-": (1, SUBTRACT), "*": (2, MULTIPLY), "/": (2, DIVIDE), "%": (2, MODULO)}
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "null": None}
_NUMBERS = frozenset({INT, FLOAT})


def parse(text: str, *, bind: bool = True) -> Node:
    """The tree of an expression, or CompileError with the place of the fault; `bind` enables the macro cel.bind."""
    if len(text) > MAX_CODE_POINTS:
        raise CompileError(f"the expression has {len(text)} characters, more than {MAX_CODE_POINTS}")
    try:
        return _Parser(tokenize(text), bind=bind).parse()
    except SyntaxFault as fault:
        raise CompileError(fault.message, *place(text, fault.offset)) from None


class _Parser:
    __slots__ = ("bind", "calc_depth", "copies", "expr_depth", "position", "relation_depth", "tokens")

    def __init__(self, tokens: list[Token], *, bind: bool) -> None:
        self.tokens = tokens
        self.bind = bind
        self.position = 0
        self.expr_depth = 0
        self.relation_depth = 0
        self.calc_depth = 0
        self.copies = [0]

    def parse(self) -> Node:
        node = self.expr()
        if self.tokens[self.position][0] is not END:
            raise self.unexpected("the end")
        if node.height > MAX_DEPTH:
            raise SyntaxFault(f"the expression is nested too deeply: more than {MAX_DEPTH} levels", 0)
        return node

    def unexpected(self, wanted: str) -> SyntaxFault:
        kind, text, offset = self.tokens[self.position]
        return SyntaxFault(f"syntax error: unexpected {text or kind!s}, wanted {wanted}", offset)

    def take(self, kind: str) -> int:
        """Consumes a token of the kind and returns its offset."""
        token = self.tokens[self.position]
        if token[0] != kind:
            raise self.unexpected(repr(kind))
        self.position += 1
        return token[2]

    def accept(self, kind: str) -> bool:
        if self.tokens[self.position][0] == kind:
            self.position += 1
            return True
        return False

    def too_deep(self) -> SyntaxFault:
        offset = self.tokens[self.position][2]
        return SyntaxFault(f"the expression is nested too deeply: more than {MAX_DEPTH} levels", offset)

    def expr(self) -> Node:
        self.expr_depth += 1
        if self.expr_depth > MAX_DEPTH:
            raise self.too_deep()
        node = self.disjunction()
        if self.tokens[self.position][0] == "?":
            offset = self.take("?")
            then = self.disjunction()
            self.take(":")
            otherwise = self.expr()
            height = 1 + max(node.height, then.height, otherwise.height)
            node = CallExpr(offset, CONDITIONAL, None, [node, then, otherwise], height)
        self.expr_depth -= 1
        return node

    def disjunction(self) -> Node:
        first = self.conjunction()
        if self.tokens[self.position][0] != "||":
            return first
        terms, offsets = [first], []
        while self.tokens[self.position][0] == "||":
            offsets.append(self.take("||"))
            terms.append(self.conjunction())
        return _balanced(OR, terms, offsets)

    def conjunction(self) -> Node:
        first = self.relation()
        if self.tokens[self.position][0] != "&&":
            return first
        terms, offsets = [first], []
        while self.tokens[self.position][0] == "&&":
            offsets.append(self.take("&&"))
            terms.append(self.relation())
        return _balanced(AND, terms, offsets)

    def relation(self) -> Node:
        self.relation_depth += 1
        if self.relation_depth > MAX_DEPTH:
            raise self.too_deep()
        left = self.calc(1)
        while (function := _RELATIONS.get(self.tokens[self.position][0])) is not None:
            offset = self.tokens[self.position][2]
            self.position += 1
            if self.relation_depth >= MAX_DEPTH:
                raise self.too_deep()
            self.relation_depth += 1
            right = self.calc(1)
            self.relation_depth -= 1
            left = CallExpr(offset, function, None, [left, right], 1 + max(left.height, right.height))
        self.relation_depth -= 1
        return left

    def calc(self, lowest: int) -> Node:
        self.calc_depth += 1
        if self.calc_depth > MAX_DEPTH:
            raise self.too_deep()
        kind = self.tokens[self.position][0]
        left = self.unary(kind) if kind == "!" or kind == "-" else self.member()  # noqa: PLR1714  runs for every operand
        while (operator := _ARITHMETIC.get(self.tokens[self.position][0])) is not None:
            level, function = operator
            if level < lowest:
                break
            offset = self.tokens[self.position][2]
            self.position += 1
            right = self.calc(level + 1)
            left = CallExpr(offset, function, None, [left, right], 1 + max(left.height, right.height))
        self.calc_depth -= 1
        return left

    def unary(self, kind: str) -> Node:
        offset = self.tokens[self.position][2]
        start = self.position
        while self.tokens[self.position][0] == kind:
            self.position += 1
        count = self.position - start
        if kind == "-" and count == 1 and self.tokens[self.position][0] in _NUMBERS:
            self.position = start
            return self.member()
        operand = self.member()
        if count % 2 == 0:
            return operand
        return CallExpr(offset, NOT if kind == "!" else NEGATE, None, [operand], operand.height)

    def member(self) -> Node:
        node = self.primary()
        while True:
            kind, _, offset = self.tokens[self.position]
            if kind == ".":
                self.position += 1
                node = self.selection(node, offset)
            elif kind == "[":
                self.position += 1
                function = OPTIONAL_INDEX if self.accept("?") else INDEX
                index = self.expr()
                self.take("]")
                node = CallExpr(offset, function, None, [node, index], 1 + max(node.height, index.height))
            else:
                return node

    def selection(self, node: Node, offset: int) -> Node:
        optional = self.accept("?")
        _, name, name_offset = self.tokens[self.position]
        self.take(IDENT)
        if optional:
            field = Literal(name_offset, name)
            return CallExpr(offset, OPTIONAL_SELECT, None, [node, field], 1 + node.height)
        if self.tokens[self.position][0] != "(":
            return Select(offset, node, name, height=1 + node.height)
        call_offset = self.take("(")
        args = self.arguments()
        height = 1 + max([node.height, *[arg.height for arg in args]])
        expander = RECEIVER_MACROS.get((name, len(args))) if self.bind or name != "bind" else None
        return self.call_or_macro(expander, CallExpr(call_offset, name, node, args, height))

    def call_or_macro(self, expander: Expander | None, call: CallExpr) -> Node:
        if expander is None:
            return call
        target = call if call.target is None else call.target
        expanded = expander(Expansion(call.offset, target, call.args, self.copies))
        if expanded is None:
            return call
        expanded.height = call.height
        return expanded

    def arguments(self) -> list[Node]:
        if self.accept(")"):
            return []
        args = [self.expr()]
        while self.accept(","):
            args.append(self.expr())
        self.take(")")
        return args

    def primary(self) -> Node:
        kind, text, offset = self.tokens[self.position]
        if kind == IDENT or (kind == "." and self.tokens[self.position + 1][0] == IDENT):
            return self.name()
        self.position += 1
        if kind == STRING:
            return Literal(offset, string_literal(text, offset))
        if kind == "(":
            node = self.expr()
            self.take(")")
            return node
        if kind == "[":
            return self.list(offset)
        if kind == "{":
            return self.map(offset)
        return self.constant(kind, text, offset)

    def constant(self, kind: str, text: str, offset: int) -> Literal:
        negative = kind == "-" and self.tokens[self.position][0] in _NUMBERS
        if negative:
            kind, text, _ = self.tokens[self.position]
            self.position += 1
        if kind == INT:
            return Literal(offset, int_literal(text, offset, negative=negative))
        if kind == FLOAT:
            return Literal(offset, float_literal(text, offset, negative=negative))
        if kind == UINT:
            return Literal(offset, uint_literal(text, offset))
        if kind == BYTES:
            return Literal(offset, bytes_literal(text, offset))
        if kind in _CONSTANTS:
            return Literal(offset, _CONSTANTS[kind])
        self.position -= 1
        raise self.unexpected("a value")

    def name(self) -> Node:
        lead = "." if self.accept(".") else ""
        _, text, offset = self.tokens[self.position]
        if self.opens_struct():
            return self.struct(offset)
        self.position += 1
        if text in _RESERVED:
            raise SyntaxFault(f"reserved identifier: {text}", offset)
        if self.tokens[self.position][0] != "(":
            return Ident(offset, lead + text)
        call_offset = self.take("(")
        args = self.arguments()
        height = max([arg.height for arg in args], default=0)
        expander = None if lead else GLOBAL_MACROS.get((text, len(args)))
        return self.call_or_macro(expander, CallExpr(call_offset, lead + text, None, args, height))

    def opens_struct(self) -> bool:
        """Whether a path of names with an opening brace behind it starts here."""
        tokens, position = self.tokens, self.position + 1
        while tokens[position][0] == "." and tokens[position + 1][0] == IDENT:
            position += 2
        return tokens[position][0] == "{"

    def struct(self, offset: int) -> Node:
        parts = [self.tokens[self.position][1]]
        self.position += 1
        while self.accept("."):
            parts.append(self.tokens[self.position][1])
            self.position += 1
        self.take("{")
        values: list[Node] = []
        while not self.accept("}"):
            if not values and self.accept(","):
                self.take("}")
                break
            self.accept("?")
            self.take(IDENT)
            self.take(":")
            values.append(self.expr())
            if not self.accept(","):
                self.take("}")
                break
        return Struct(offset, ".".join(parts), values, max([value.height for value in values], default=0))

    def list(self, offset: int) -> Node:
        elements: list[Node] = []
        optionals: list[int] = []
        while not self.accept("]"):
            if not elements and self.accept(","):
                self.take("]")
                break
            if self.accept("?"):
                optionals.append(len(elements))
            elements.append(self.expr())
            if not self.accept(","):
                self.take("]")
                break
        height = max([element.height for element in elements], default=0)
        return ListNode(offset, elements, frozenset(optionals), height)

    def map(self, offset: int) -> Node:
        entries: list[MapEntry] = []
        height = 0
        while not self.accept("}"):
            if not entries and self.accept(","):
                self.take("}")
                break
            optional = self.accept("?")
            key = self.expr()
            colon = self.take(":")
            value = self.expr()
            entries.append(MapEntry(colon, key, value, optional))
            height = max(height, key.height, value.height)
            if not self.accept(","):
                self.take("}")
                break
        return MapNode(offset, entries, height)


def _balanced(function: str, terms: list[Node], offsets: list[int]) -> Node:
    """The terms of a chain as a tree of least depth; evaluation order and value do not depend on its shape."""
    height = max([term.height for term in terms])

    def build(low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else build(low, middle - 1)
        right = terms[middle + 1] if middle == high else build(middle + 1, high)
        return CallExpr(offsets[middle], function, None, [left, right], height)

    return build(0, len(offsets) - 1)
