"""The time limit of an evaluation, independent of its cost.

The cost model was made for another machine: within its limit of a million units an expression can iterate 100,000
times, raise an error in each iteration, or print a list of a million numbers. Upstream spends the time. Here an
evaluation that may become that long has a budget of work, in units of about 50 ns, and ends where it is used up.
Nothing that selects a device comes near it.

Work is spent per iteration of a loop, by the size of the loop's body, per error that is absorbed, and per element
where a function walks over a list. Outside of loops the length of an expression is bound enough.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.syntax import CallExpr, Comprehension, ListNode, Literal, MapNode, Node, children

MAX_WORK = 1_200_000
ERROR_WORK = 40
_ITERATION, _LEAF, _OPERATOR, _CONTAINER, _CALL, _EXPENSIVE_CALL = 2, 1, 2, 12, 24, 120
_EXPENSIVE_CALLS = frozenset(
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


class WorkBudget:
    """The remaining work that an evaluation may do."""

    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left


_CURRENT: ContextVar[WorkBudget] = ContextVar("budget", default=WorkBudget(inf))  # noqa: B039  endless, so it never changes


@contextmanager
def work_limited(amount: float = MAX_WORK) -> Iterator[WorkBudget]:
    """Everything inside shares one budget of work."""
    budget = WorkBudget(amount)
    token = _CURRENT.set(budget)
    try:
        yield budget
    finally:
        _CURRENT.reset(token)


def spend(amount: float) -> None:
    """Spend some work, or end the evaluation."""
    budget = _CURRENT.get()
    budget.left -= amount
    if budget.left < 0:
        raise _exhausted()


def metered(items: Iterable[object], work: int) -> Iterator[object]:
    """The items; work is spent before each."""
    budget = _CURRENT.get()
    for item in items:
        budget.left -= work
        if budget.left < 0:
            raise _exhausted()
        yield item


def _exhausted() -> EvaluationAborted:
    return EvaluationAborted("the evaluation takes too long")


def iteration_work(*parts: Node, per_node: int = 0) -> int:
    """The work of one iteration of a loop with these parts; inner loops spend their own.

    These figures are those of a generated function; `per_node` is what another evaluator adds.
    """
    total = _ITERATION
    pending = list(parts)
    while pending:
        node = pending.pop()
        if isinstance(node, ListNode) and all(isinstance(element, Literal) for element in node.elements):
            continue
        total += _own_work(node) + per_node
        pending += (node.range, node.init, node.result) if isinstance(node, Comprehension) else children(node)
    return total


def _own_work(node: Node) -> int:
    if isinstance(node, CallExpr):
        if not node.function[0].isalpha():
            return _OPERATOR
        return _EXPENSIVE_CALL if node.function in _EXPENSIVE_CALLS or len(node.overloads) > 1 else _CALL
    if isinstance(node, MapNode):
        return _EXPENSIVE_CALL
    return _CONTAINER if isinstance(node, ListNode | Comprehension) else _LEAF
