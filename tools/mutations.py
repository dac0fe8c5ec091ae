"""What a mutant is: a module of the deciding rooms with one node of its syntax tree changed."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "modelplane"
ROOMS = ("k8s/dra", "framework", "placement", "epp/scheduling", "compose")
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function that is in no other, as its code object is named."""

    qualname: str
    line: int


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    """As `placement/review.py`."""
    change: str
    text: str
    """The line as it is, without its indentation."""
    place: tuple[int, int] = (-1, 0)
    """Which node is changed, of those that decide, and which of its changes it is."""
    lines: frozenset[int] = field(default=frozenset(), repr=False)
    """Those of the statement that is changed. A test that executes none of them cannot tell the mutant."""
    function: Function | None = None
    """The one in whose body the change is."""
    whole: str = field(default="", repr=False)
    """The module's text, where the change is not of one node."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, self.text, self.change

    @property
    def room(self) -> str:
        return next((room for room in ROOMS if self.module.startswith(f"{room}/")), "")

    @property
    def source(self) -> str:
        return self.whole or ast.unparse(mutated_tree(self))

    def __str__(self) -> str:
        return f"{self.module}: `{self.text}`: {self.change}"


Variant = tuple[str, Callable[[], None]]


def variants(node: ast.AST) -> Iterator[Variant]:
    """What may be changed of a node: a word for it, and the change in place."""
    match node:
        case ast.Constant():
            yield from _constants(node)
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                if type(op) in _SWAPS:
                    yield f"{_word(op)} → {_word(_swap(op))}", partial(_put, ops, at, _swap(op))
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _SWAPS:
            yield f"{_word(op)} → {_word(_swap(op))}", partial(setattr, node, "op", _swap(op))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "the condition is turned round", partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_]):
            yield "the filter is left out", partial(setattr, node, "ifs", [])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "None is returned", partial(setattr, node, "value", ast.Constant(None))
        case ast.Call(func=ast.Name(id=name) as func) if name in _NAMES:
            yield f"{name} → {_NAMES[name]}", partial(setattr, func, "id", _NAMES[name])


def _constants(node: ast.Constant) -> Iterator[Variant]:
    match node.value:
        case bool() as value:
            other: object = not value
        case int() | float() as number:
            other = number + 1
        case str() as text if text:
            other = ""
        case _:
            return
    yield f"{node.value!r} → {other!r}", partial(setattr, node, "value", other)


def _word(op: ast.AST) -> str:
    return type(op).__name__


def _swap(op: ast.AST) -> ast.AST:
    return _SWAPS[type(op)]()


def _put(items: list[ast.cmpop], at: int, value: ast.AST) -> None:
    assert isinstance(value, ast.cmpop)
    items[at] = value


def judged_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All but what decides nothing: annotations, decorators, arguments of classes, docstrings and texts of errors.

    Nor does what only type checkers read: a TypeVar, the type of a cast, a Literal. Nor do names of attributes and of
    exports: without one of `__slots__` no class can be made. Nor does `strict` of a zip, which asserts what holds.
    """
    yield tree
    if _is_typing(tree) or _is_assertion(tree):
        return
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        if isinstance(tree, ast.ClassDef) and name == "keywords":
            continue
        cast = (
            name == "args" and isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "cast"
        )
        for child in (value[1:] if cast else value) if isinstance(value, list) else [value]:
            told = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not told and not isinstance(child, ast.Raise | ast.JoinedStr):
                yield from judged_nodes(child)


def _is_typing(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType")) | ast.Subscript(value=ast.Name(id="Literal")):
            return True
    return False


def _is_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]) | ast.keyword(arg="strict"):
            return True
    return False


def mutants_of(path: Path) -> Iterator[Mutant]:
    source = path.read_text()
    lines = source.splitlines()
    module = path.relative_to(SOURCE).as_posix()
    tree = ast.parse(source)
    around = {id(node): (statement, function) for node, statement, function in _surroundings(tree)}
    for at, node in enumerate(judged_nodes(tree)):
        for which, (change, _) in enumerate(variants(node)):
            line = _line_of(node)
            statement, function = around[id(node)]
            touched = frozenset({line, *statement, *_own_lines(node)})
            yield Mutant(module, change, lines[line - 1].strip(), (at, which), touched, function)


def mutated_tree(mutant: Mutant) -> ast.Module:
    tree = ast.parse((SOURCE / mutant.module).read_text())
    at, which = mutant.place
    node = next(each for index, each in enumerate(judged_nodes(tree)) if index == at)
    _, apply = list(variants(node))[which]
    apply()
    return ast.fix_missing_locations(tree)


def _line_of(node: ast.AST) -> int:
    """A comprehension has no line of its own."""
    found: int = getattr(node, "lineno", 0) or getattr(getattr(node, "iter", None), "lineno", 1)
    return found


def _own_lines(node: ast.AST) -> range:
    if isinstance(node, ast.expr):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


Surroundings = tuple[ast.AST, range, Function | None]


def _surroundings(
    node: ast.AST, statement: range = range(0), function: Function | None = None, names: Sequence[str] = ()
) -> Iterator[Surroundings]:
    """Each node with the lines of the innermost statement, and with the outermost function, that it is in."""
    if isinstance(node, ast.stmt):
        statement = _header(node)
    yield node, statement, function
    inner = [*names, node.name] if isinstance(node, ast.ClassDef) else names
    for name, value in ast.iter_fields(node):
        body = function or (_function(node, names) if name == "body" else None)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _surroundings(child, statement, body, inner)


def _header(statement: ast.stmt) -> range:
    """Without the statements in it."""
    inner = [each.lineno for each in ast.walk(statement) if isinstance(each, ast.stmt) and each is not statement]
    last = min([max(statement.lineno, line - 1) for line in inner], default=statement.end_lineno or statement.lineno)
    return range(statement.lineno, last + 1)


def _function(node: ast.AST, names: Sequence[str]) -> Function | None:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    # The code of a function begins with its first decorator.
    return Function(".".join([*names, node.name]), min(each.lineno for each in [node, *node.decorator_list]))
