"""Device selectors: compile once, ask of any device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from modelplane.dra.cel.attributes import State, Step
from modelplane.dra.cel.budget import Meter
from modelplane.dra.cel.compiler import checked_tree, planned, with_room
from modelplane.dra.cel.device_view import DEFAULT_GATES, DeviceBounds, Gates, device_value, environment
from modelplane.dra.cel.emit import emit
from modelplane.dra.cel.emit_runtime import FALLBACKS
from modelplane.dra.cel.errors import CompileError, EvaluationAborted, EvaluationError
from modelplane.dra.cel.estimate import estimate
from modelplane.dra.cel.evaluator import Planner
from modelplane.dra.cel.outcome import FALSE, TRUE, Evaluation, Outcome
from modelplane.dra.cel.sizes import MAX
from modelplane.dra.cel.types import ANY, BOOL, DYN, Type
from modelplane.dra.cel.values import Optional, runtime_type
from modelplane.dra.device import Device

MAX_BYTES = 10_240
MAX_COST = 1_000_000
_CACHED = 1_024
_WORTH_EMITTING = 2


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What a selector runs: the exact evaluator, and how to make the fast one."""

    step: Step
    slot_count: int
    emit: Callable[[], Callable[[Device], object] | None]


class Selector:
    """A compiled selector. `estimated_cost` is the worst case in units of cost, where 2**64-1 stands for unbounded."""

    __slots__ = ("_asked", "_emit", "_fast", "_slot_count", "_step", "estimated_cost", "text")

    def __init__(self, text: str, plan: Planned, estimated_cost: int) -> None:
        self.text = text
        self.estimated_cost = estimated_cost
        self._step = plan.step
        self._slot_count = plan.slot_count
        self._emit = plan.emit
        self._fast: Callable[[Device], object] | None = None
        self._asked = 0

    def evaluate(self, device: Device) -> Evaluation:
        """Whether the device is selected, or why that cannot be said."""
        if device.fault is not None:
            return Evaluation(Outcome.ERROR, device.fault)
        fast = self._fast
        if fast is not None:
            try:
                value = fast(device)
            except FALLBACKS:
                return self.trace(device)[0]
            return TRUE if value is True else FALSE if value is False else as_evaluation(value)
        return self._first_evaluations(device)

    def _first_evaluations(self, device: Device) -> Evaluation:
        """Making the fast function costs as much as a few exact evaluations, so it has to be asked for."""
        self._asked += 1
        if self._asked == _WORTH_EMITTING and self.estimated_cost <= MAX_COST:
            self._fast = self._emit()
        return self.trace(device)[0]

    def trace(self, device: Device) -> tuple[Evaluation, int]:
        """The exact evaluation and what it cost."""
        meter = Meter(MAX_COST)
        slots: list[object] = [None] * self._slot_count
        slots[0] = device_value(device)
        try:
            value = with_room(lambda: self._step(State(slots, meter)))
        except (EvaluationError, EvaluationAborted) as error:
            return Evaluation(Outcome.ERROR, str(error)), meter.spent
        return as_evaluation(value), meter.spent


def as_evaluation(value: object) -> Evaluation:
    """A result as an outcome; only a bool is one."""
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if isinstance(value, Optional) and isinstance(value.value, bool):
        return as_evaluation(value.value)
    return Evaluation(Outcome.ERROR, f"the selector's result is of type {runtime_type(value).name}, not bool")


@lru_cache(maxsize=_CACHED)
def compile_selector(text: str, *, stored: bool = False, gates: Gates = DEFAULT_GATES) -> Selector:
    """The selector that `text` spells, or CompileError.

    By default the text is held to what the API accepts in a new claim or class of 1.36. With `stored` it is compiled
    as the scheduler compiles what the API accepted before: more functions, and no limit on length or estimated cost.
    """
    if not stored and len(encoded(text)) > MAX_BYTES:
        raise CompileError(f"the expression has more than {MAX_BYTES} bytes")
    return with_room(lambda: _compile(text, stored=stored, gates=gates))


def encoded(text: str) -> bytes:
    """The text as UTF-8, or CompileError where it is not text at all."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CompileError("the expression is not valid Unicode") from error


def _compile(text: str, *, stored: bool, gates: Gates) -> Selector:
    surroundings = environment(gates, stored=stored)
    node, found = checked_tree(text, surroundings)
    _check_result(found, gates)
    planner = Planner(surroundings.functions, ("device",))
    step = planned(text, planner, node)
    cost = estimate(node, DeviceBounds())
    if not stored:
        _check_cost(cost)
    return Selector(text, Planned(step, planner.slots.count, lambda: emit(node, surroundings.functions)), cost)


def _check_result(found: Type, gates: Gates) -> None:
    if found is not BOOL and found is not ANY and not (gates.list_attributes and found is DYN):
        raise CompileError(f"must evaluate to bool or the unknown type, not {found}")


def _check_cost(cost: int) -> None:
    if cost > MAX_COST:
        amount = "without bound" if cost == MAX else f"{cost} units"
        raise CompileError(f"the estimated worst case cost is {amount}, more than {MAX_COST}")
