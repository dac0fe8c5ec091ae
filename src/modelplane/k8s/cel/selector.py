"""Device selectors: compiled once, evaluated on any device."""

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from modelplane.k8s.cel.attributes import Activation, ExactLimitActivation, Step
from modelplane.k8s.cel.compiler import checked_tree, planned, with_deep_stack
from modelplane.k8s.cel.declarations import Functions
from modelplane.k8s.cel.device_view import DEFAULT_GATES, DeviceBounds, Gates, device_value, environment
from modelplane.k8s.cel.errors import CompileError, EvaluationAborted, EvaluationError
from modelplane.k8s.cel.estimate import estimate
from modelplane.k8s.cel.evaluator import Planner
from modelplane.k8s.cel.evaluator_fast import emit
from modelplane.k8s.cel.evaluator_fast_runtime import FALLBACKS
from modelplane.k8s.cel.outcome import FALSE, TRUE, Evaluation, SelectorOutcome, as_evaluation
from modelplane.k8s.cel.syntax import Node
from modelplane.k8s.cel.types import ANY, BOOL, DYN, CelType
from modelplane.k8s.cel.work_budget import MAX_WORK, work_limited
from modelplane.k8s.device import Device

MAX_BYTES = 10_240
MAX_SELECTORS_LENGTH = 2 * MAX_BYTES
"""Different selectors of one object together. A character takes up to 15 us to compile."""
MAX_COST = 1_000_000
_CACHED = 1_024
# Generating a function costs as much as a few exact evaluations, or one long one.
_WORTH_EMITTING = 2
_LONG_RUN = 2_000
# Work that is not counted while it is done, in the units of `work_budget`: the most that was measured.
_WORK_PER_COST, _WORK_PER_BYTE = 16, 4
# Beyond this an estimate comes from a size that has no bound.
_ASTRONOMIC = 10**15


class CompiledSelector:
    """A compiled selector. `estimated_cost` is the worst case in units of cost, where 2**64-1 means unbounded.

    Two ways to the same answer: a generated function that assumes nothing fails, and the exact evaluator, which counts
    the cost and answers where the function raised. The function is made once the selector has been evaluated often
    enough, and only where the estimate shows that the cost cannot reach its limit.
    """

    __slots__ = (
        *("_evaluations", "_fast", "_functions", "_node", "_slot_count", "_step"),
        *("estimated_cost", "text"),
    )
    _is_metered: ClassVar[bool] = False

    def __init__(self, text: str, node: Node, functions: Functions, estimated_cost: int) -> None:
        self.text = text
        self.estimated_cost = estimated_cost
        self._step: Step | None = None
        self._slot_count = 0
        self._node = node
        self._functions = functions
        self._fast: Callable[[Device], object] | None = None
        self._evaluations = _WORTH_EMITTING if _LONG_RUN < estimated_cost <= MAX_COST else 0

    def plan(self) -> Step:
        """The exact evaluator, made when it is first needed; CompileError where a constant is impossible."""
        if self._step is None:
            planner = Planner(self._functions, ("device",))
            self._step = with_deep_stack(lambda: planned(self.text, planner, self._node))
            self._slot_count = planner.slot_count
        return self._step

    def evaluate(self, device: Device) -> Evaluation:
        """Whether the device is selected, or the error."""
        if device.fault is not None:
            return Evaluation(SelectorOutcome.ERROR, device.fault)
        fast = self._fast or self._emitted()
        if fast is None:
            return self._trace(device, Activation)[0]
        try:
            value = fast(device)
        except FALLBACKS:
            return self._trace(device, Activation)[0]
        return TRUE if value is True else FALSE if value is False else as_evaluation(value)

    def evaluate_with_work(self, device: Device) -> tuple[Evaluation, int]:
        """The evaluation and the work it took. The same selector and device always take the same work."""
        return self.evaluate(device), self._uncounted_work()

    @property
    def most_work(self) -> int:
        """What no evaluation exceeds."""
        return self._uncounted_work()

    def _uncounted_work(self) -> int:
        return _WORK_PER_COST * min(self.estimated_cost, _LONG_RUN) + _WORK_PER_BYTE * len(self.text)

    def _emitted(self) -> Callable[[Device], object] | None:
        """The fast function, compiled after enough evaluations."""
        self._evaluations += 1
        if self._evaluations == _WORTH_EMITTING + 1 and self.estimated_cost <= MAX_COST:
            self._fast = emit(self._node, self._functions, is_metered=self._is_metered)
        return self._fast

    def trace(self, device: Device) -> tuple[Evaluation, int]:
        """The exact evaluation and what it cost."""
        evaluation, cost = self._trace(device, Activation)
        return (evaluation, cost) if cost <= MAX_COST else self._trace(device, ExactLimitActivation)

    def _trace(self, device: Device, kind: type[Activation]) -> tuple[Evaluation, int]:
        step = self.plan()
        state = kind([None] * self._slot_count, MAX_COST)

        def run() -> object:
            state.slots[0], state.spent = device_value(device), 0
            value = step(state)
            state.check()
            return value

        try:
            return as_evaluation(with_deep_stack(run)), state.spent
        except (EvaluationError, EvaluationAborted) as error:
            return Evaluation(SelectorOutcome.ERROR, str(error)), state.spent


class _LongSelector(CompiledSelector):
    """One whose estimate leaves room for so many steps that their time has to be limited as well."""

    __slots__ = ()
    _is_metered = True

    def evaluate(self, device: Device) -> Evaluation:
        return self.evaluate_with_work(device)[0]

    def evaluate_with_work(self, device: Device) -> tuple[Evaluation, int]:
        with work_limited() as budget:
            found = super().evaluate(device)
        return found, min(int(MAX_WORK - budget.left), MAX_WORK) + self._uncounted_work()

    @property
    def most_work(self) -> int:
        return MAX_WORK + self._uncounted_work()


@lru_cache(maxsize=_CACHED)
def compile_selector(text: str, *, stored: bool = False, gates: Gates = DEFAULT_GATES) -> CompiledSelector:
    """The selector that `text` spells, or CompileError.

    By default the text is held to what the API accepts in a new claim or class of 1.36. With `stored` it is compiled
    as the scheduler compiles what the API accepted before: more functions, and no limit on length or estimated cost.
    """
    if not stored and len(encoded(text)) > MAX_BYTES:
        raise CompileError(f"the expression has more than {MAX_BYTES} bytes")
    return with_deep_stack(lambda: _compile(text, stored=stored, gates=gates))


def encoded(text: str) -> bytes:
    """The text as UTF-8, or CompileError where it is not text at all."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CompileError("the expression is not valid Unicode") from error


def _compile(text: str, *, stored: bool, gates: Gates) -> CompiledSelector:
    surroundings = environment(gates, stored=stored)
    checked = checked_tree(text, surroundings)
    _check_result(checked.type, gates)
    cost = estimate(checked.node, DeviceBounds())
    selector = (CompiledSelector if cost <= _LONG_RUN else _LongSelector)(
        text, checked.node, surroundings.functions, cost
    )
    if checked.plans:
        selector.plan()
    if not stored:
        _check_cost(cost)
    return selector


def _check_result(found: CelType, gates: Gates) -> None:
    if found is not BOOL and found is not ANY and not (gates.list_attributes and found is DYN):
        raise CompileError(f"must evaluate to bool or the unknown type, not {found}")


def _check_cost(cost: int) -> None:
    if cost > MAX_COST:
        amount = "unbounded" if cost > _ASTRONOMIC else f"{cost} units"
        raise CompileError(f"the estimated worst case cost is {amount}; the limit is {MAX_COST} units")
