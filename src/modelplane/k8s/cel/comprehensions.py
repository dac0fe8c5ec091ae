"""Comprehensions: what `all`, `exists`, `map`, `filter`, `cel.bind` and the other macros with a variable become.

The accumulator is computed when it is first read, so a bound value that nothing reads is never computed and cannot
fail. An error becomes the accumulator's value: the next step sees it, and may absorb it.

An accumulator that starts as an empty list or map is mutable. That is visible: a variable bound to `[]` changes when
something is added to it, in cel-go and therefore here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.k8s.cel.attributes import Activation, Step
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.mutable_values import to_immutable, to_mutable
from modelplane.k8s.cel.syntax import Comprehension
from modelplane.k8s.cel.values import is_list, is_map, map_items, runtime_type
from modelplane.k8s.cel.work_budget import ERROR_WORK, iteration_work, metered, spend

_UNSET = object()
_PER_NODE = 3


@dataclass(frozen=True, slots=True)
class LoopSlots:
    """The slots of a comprehension's variables."""

    accumulator: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, eq=False)
class LoopSteps:
    """The planned parts of a comprehension; without a condition the loop runs to the end."""

    items: Step
    condition: Step | None
    body: Step
    result: Step


def loop_step(node: Comprehension, slot: LoopSlots, steps: LoopSteps) -> Step:
    """The closure of a loop."""
    accumulator, first, second = slot.accumulator, slot.first, slot.second
    items, condition, body, result = steps.items, steps.condition, steps.body, steps.result
    paired = bool(node.second)
    work = iteration_work(node.condition, node.step, per_node=_PER_NODE)

    def step(state: Activation) -> object:
        slots = state.slots
        source = items(state)
        slots[accumulator] = _UNSET
        for item in metered(_turns(source, paired=paired), work):
            slots[first] = item
            if paired:
                slots[first], slots[second] = _pair(item)
            if condition is not None and not _goes_on(condition, state):
                break
            try:
                slots[accumulator] = body(state)
            except EvaluationError as error:
                spend(ERROR_WORK)
                slots[accumulator] = error.with_traceback(None)
            if state.spent > state.limit:
                state.check()
        return to_immutable(result(state))

    return step


def _goes_on(condition: Step, state: Activation) -> bool:
    try:
        return condition(state) is not False
    except EvaluationError:
        spend(ERROR_WORK)
        return True


def bind_step(accumulator: int, result: Step) -> Step:
    """The closure of `cel.bind`."""

    def step(state: Activation) -> object:
        state.slots[accumulator] = _UNSET
        return to_immutable(result(state))

    return step


def accumulator_reader(slot: int, initial: Step) -> Step:
    """Reads the accumulator, which is computed the first time."""

    def read(state: Activation) -> object:
        value = state.slots[slot]
        if value is _UNSET:
            try:
                value = to_mutable(initial(state))
            except EvaluationError as error:
                value = error
            state.slots[slot] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read


def _turns(source: object, *, paired: bool) -> Iterable[object]:
    """The values that a loop variable takes: elements or keys, or pairs with the index or the value."""
    if is_map(source):
        return map_items(source) if paired else source
    if is_list(source):
        return enumerate(source) if paired else source
    raise EvaluationError(f"a value of type {runtime_type(source).name} cannot be iterated")


def _pair(item: object) -> tuple[object, object]:
    assert isinstance(item, tuple)  # noqa: S101  `_turns` makes them
    return item[0], item[1]
