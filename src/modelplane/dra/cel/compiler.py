"""From text to a checked tree, and how deep recursion is given room."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from modelplane.dra.cel.checker import check
from modelplane.dra.cel.environment import Environment
from modelplane.dra.cel.errors import CompileError, SyntaxFault, place
from modelplane.dra.cel.parser import parse
from modelplane.dra.cel.syntax import Node
from modelplane.dra.cel.types import Type
from modelplane.dra.cel.validators import validate

_Result = TypeVar("_Result")
_DEEP_STACK = 20_000


def checked_tree(text: str, environment: Environment, *, bind: bool = True) -> tuple[Node, Type]:
    """The annotated tree of an expression and its type, or CompileError; `bind` says whether cel.bind exists."""
    node = parse(text, bind=bind)
    with faults_placed(text):
        found = check(node, environment)
        validate(node)
    return node, found


@contextmanager
def faults_placed(text: str) -> Iterator[None]:
    """Turns a fault at an offset of the text into a CompileError with line and column."""
    try:
        yield
    except SyntaxFault as fault:
        raise CompileError(fault.message, *place(text, fault.offset)) from None


def with_room(work: Callable[[], _Result]) -> _Result:
    """Runs the work, once more with a deeper stack where the usual one is not enough.

    The nesting limits let an honest tree be a few thousand calls deep, which the interpreter's default refuses. The
    limit is raised for that one run only; the stack itself is on the heap.
    """
    try:
        return work()
    except RecursionError:
        former = sys.getrecursionlimit()
        sys.setrecursionlimit(max(former, _DEEP_STACK))
        try:
            return work()
        finally:
            sys.setrecursionlimit(former)
