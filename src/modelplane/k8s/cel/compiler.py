"""From text to a checked tree, and a deeper stack where one is needed."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from modelplane.k8s.cel.attributes import Step
from modelplane.k8s.cel.checker import check
from modelplane.k8s.cel.environment import Environment
from modelplane.k8s.cel.errors import CompileError, SyntaxFault, place
from modelplane.k8s.cel.evaluator import Planner
from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import Node
from modelplane.k8s.cel.types import CelType

_Result = TypeVar("_Result")
_DEEP_STACK = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A tree that passed the checker; `plans`: planning may still find an impossible constant."""

    node: Node
    type: CelType
    plans: bool


def checked_tree(text: str, environment: Environment, *, bind: bool = True) -> Checked:
    """The annotated tree of an expression, or CompileError; `bind`: cel.bind is declared."""
    node = parse(text, bind=bind)
    try:
        return Checked(node, *check(node, environment))
    except SyntaxFault as fault:
        raise placed(fault, text) from None


def planned(text: str, planner: Planner, node: Node) -> Step:
    """The closures of a checked tree, or CompileError."""
    try:
        return planner.plan(node).step
    except SyntaxFault as fault:
        raise placed(fault, text) from None


def placed(fault: SyntaxFault, text: str) -> CompileError:
    """A fault at an offset of the text, with line and column instead."""
    return CompileError(fault.message, *place(text, fault.offset))


def with_deep_stack(work: Callable[[], _Result]) -> _Result:
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
