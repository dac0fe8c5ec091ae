"""Folds: what `all`, `exists`, `map`, `filter`, `cel.bind` and their kin become.

The accumulator is computed when it is first read, so a bound value that nobody looks at is never computed and cannot
fail. An error becomes the accumulator's value: the next step sees it, and may absorb it.

An accumulator that starts as an empty list or map grows in place. That is visible: a variable bound to `[]` changes
when something is added to it, in upstream and therefore here.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from modelplane.dra.cel.attributes import State, Step
from modelplane.dra.cel.errors import EvaluationError
from modelplane.dra.cel.growing import grown, settled
from modelplane.dra.cel.syntax import Comprehension
from modelplane.dra.cel.values import is_list, is_map, map_items, runtime_type

if TYPE_CHECKING:
    from modelplane.dra.cel.evaluator import Planner

_UNSET = object()
_Loop: TypeAlias = Callable[[list[object], object], Iterator[None]]


class Slots:
    """How many slots the variables of an expression need."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    def take(self) -> int:
        """A slot of one's own."""
        self.count += 1
        return self.count - 1


def plan_fold(planner: "Planner", node: Comprehension) -> Step:
    """The closure of a fold."""
    accumulator, first, second = planner.slots.take(), planner.slots.take(), planner.slots.take()
    items = planner.plan(node.range).step
    initial = planner.plan(node.init).step
    planner.scopes.append({node.accumulator: _accumulator_reader(accumulator, initial)})
    loop = {node.variable: _slot_reader(first)}
    if node.second:
        loop[node.second] = _slot_reader(second)
    planner.scopes.append(loop)
    condition = planner.plan(node.condition)
    body = planner.plan(node.step).step
    planner.scopes.pop()
    result = planner.plan(node.result).step
    planner.scopes.pop()
    go_on = None if condition.is_constant and condition.constant is True else condition.step
    if node.is_bind:
        return _bind_step(accumulator, result)
    loop_step = _pair_loop(first, second) if node.second else _single_loop(first)

    def step(state: State) -> object:
        source = items(state)
        slots = state.slots
        slots[accumulator] = _UNSET
        for _ in loop_step(slots, source):
            if go_on is not None and not _goes_on(go_on, state):
                break
            try:
                slots[accumulator] = body(state)
            except EvaluationError as error:
                slots[accumulator] = error
        return settled(result(state))

    return step


def _goes_on(condition: Step, state: State) -> bool:
    try:
        return condition(state) is not False
    except EvaluationError:
        return True


def _bind_step(accumulator: int, result: Step) -> Step:
    def step(state: State) -> object:
        state.slots[accumulator] = _UNSET
        return settled(result(state))

    return step


def _slot_reader(slot: int) -> Step:
    return lambda state: state.slots[slot]


def _accumulator_reader(slot: int, initial: Step) -> Step:
    def read(state: State) -> object:
        value = state.slots[slot]
        if value is _UNSET:
            try:
                value = grown(initial(state))
            except EvaluationError as error:
                value = error
            state.slots[slot] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read


def _single_loop(slot: int) -> _Loop:
    def loop(slots: list[object], source: object) -> Iterator[None]:
        if not is_list(source) and not is_map(source):
            raise EvaluationError(f"a value of type {runtime_type(source).name} cannot be iterated")
        for item in source:
            slots[slot] = item
            yield

    return loop


def _pair_loop(first: int, second: int) -> _Loop:
    def loop(slots: list[object], source: object) -> Iterator[None]:
        if is_map(source):
            pairs = map_items(source)
        elif is_list(source):
            pairs = enumerate(source)
        else:
            raise EvaluationError(f"a value of type {runtime_type(source).name} cannot be iterated")
        for slots[first], slots[second] in pairs:
            yield

    return loop
