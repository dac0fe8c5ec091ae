"""How long an evaluation may take, whatever it costs.

The cost model was made for another machine: within its limit of a million units an expression can turn a loop 100,000
times, raise an error in each turn, or print a list of a million numbers. Upstream spends the time. Here an evaluation
that may become that long is given an allowance of effort, counted in twentieths of a microsecond or so, and where it is
used up the evaluation ends. Nothing that selects a device comes near it.

Effort is paid per turn of a loop, by the size of the loop's body, per error that is absorbed, and per element where a
function walks over a list. Outside of loops the length of an expression is bound enough.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.syntax import CallExpr, Comprehension, ListNode, Literal, MapNode, Node, children

ALLOWANCE = 1_200_000
ERROR_EFFORT = 100
_TURN, _LEAF, _OPERATOR, _CONTAINER, _CALL, _DEAR_CALL = 2, 1, 2, 12, 24, 120
_DEAR_CALLS = frozenset(
    {
        *(
            "timestamp",
            "duration",
            "url",
            "isURL",
            "ip",
            "ip.isCanonical",
            "isIP",
            "cidr",
            "isCIDR",
            "string",
            "double",
        ),
        *("containsIP", "containsCIDR", "masked", "quantity", "isQuantity", "semver", "isSemver", "format", "validate"),
        *("matches", "find", "findAll", "split", "join", "replace", "getDate", "getDayOfMonth", "getDayOfWeek"),
        *("getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
        "cel.@mapInsert",
    }
)


class Allowance:
    """What is left of an evaluation's effort."""

    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left


_CURRENT: ContextVar[Allowance] = ContextVar("allowance", default=Allowance(inf))  # noqa: B039  endless, so it never changes


@contextmanager
def limited(amount: float = ALLOWANCE) -> Iterator[None]:
    """Everything inside shares one allowance."""
    token = _CURRENT.set(Allowance(amount))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def work(amount: float) -> None:
    """Pays for some effort, or ends the evaluation."""
    allowance = _CURRENT.get()
    allowance.left -= amount
    if allowance.left < 0:
        raise _exhausted()


def metered(items: Iterable[object], effort: int) -> Iterator[object]:
    """The items, each paid for before its turn."""
    allowance = _CURRENT.get()
    for item in items:
        allowance.left -= effort
        if allowance.left < 0:
            raise _exhausted()
        yield item


def _exhausted() -> EvaluationAborted:
    return EvaluationAborted("the evaluation takes too long")


def turn_effort(*parts: Node, per_node: int = 0) -> int:
    """The effort of one turn of a loop with these parts; loops inside pay for their own turns.

    What is said here holds for a generated function; `per_node` is what another evaluator adds.
    """
    total = _TURN
    pending = list(parts)
    while pending:
        node = pending.pop()
        if isinstance(node, ListNode) and all(isinstance(element, Literal) for element in node.elements):
            continue
        total += _own_effort(node) + per_node
        pending += (node.range, node.init, node.result) if isinstance(node, Comprehension) else children(node)
    return total


def _own_effort(node: Node) -> int:
    if isinstance(node, CallExpr):
        if not node.function[0].isalpha():
            return _OPERATOR
        return _DEAR_CALL if node.function in _DEAR_CALLS or len(node.overloads) > 1 else _CALL
    if isinstance(node, MapNode):
        return _DEAR_CALL
    return _CONTAINER if isinstance(node, ListNode | Comprehension) else _LEAF
