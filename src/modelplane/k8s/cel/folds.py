"""Folds: what `all`, `exists`, `map`, `filter`, `cel.bind` and their kin become.

The accumulator is computed when it is first read, so a bound value that nobody looks at is never computed and cannot
fail. An error becomes the accumulator's value: the next step sees it, and may absorb it.

An accumulator that starts as an empty list or map grows in place. That is visible: a variable bound to `[]` changes
when something is added to it, in upstream and therefore here.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from modelplane.k8s.cel.attributes import Activation, Step
from modelplane.k8s.cel.effort import ERROR_EFFORT, metered, turn_effort, work
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.growing import grown, settled
from modelplane.k8s.cel.syntax import Comprehension
from modelplane.k8s.cel.values import is_list, is_map, map_items, runtime_type

if TYPE_CHECKING:
    from modelplane.k8s.cel.evaluator import Planner

_UNSET = object()
_PER_NODE = 8


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
    paired = bool(node.second)
    effort = turn_effort(node.condition, node.step, per_node=_PER_NODE)

    def step(state: Activation) -> object:
        slots = state.slots
        source = items(state)
        slots[accumulator] = _UNSET
        for item in metered(_turns(source, paired=paired), effort):
            slots[first] = item
            if paired:
                slots[first], slots[second] = _pair(item)
            if go_on is not None and not _goes_on(go_on, state):
                break
            try:
                slots[accumulator] = body(state)
            except EvaluationError as error:
                work(ERROR_EFFORT)
                slots[accumulator] = error.with_traceback(None)
            if state.spent > state.limit:
                state.check()
        return settled(result(state))

    return step


def _goes_on(condition: Step, state: Activation) -> bool:
    try:
        return condition(state) is not False
    except EvaluationError:
        work(ERROR_EFFORT)
        return True


def _bind_step(accumulator: int, result: Step) -> Step:
    def step(state: Activation) -> object:
        state.slots[accumulator] = _UNSET
        return settled(result(state))

    return step


def _slot_reader(slot: int) -> Step:
    return lambda state: state.slots[slot]


def _accumulator_reader(slot: int, initial: Step) -> Step:
    def read(state: Activation) -> object:
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
