"""Calls of functions: arguments, errors and what is paid when.

A call with one or two arguments computes all of them, and is paid for, even where one fails. A call with more stops at
the first that fails, and is then only paid for where that was the last.
"""

from collections.abc import Callable

from modelplane.k8s.cel.attributes import Activation, Step
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.runtime_cost import FAILED, CostFunction
from modelplane.k8s.cel.work_budget import ERROR_WORK, spend


def call_step(steps: list[Step], body: Callable[..., object], cost: CostFunction | None, *, stops_early: bool) -> Step:
    """The closure of a call; without a cost it costs one unit."""
    if stops_early or len(steps) not in {1, 2}:
        return _variadic(steps, body, cost or _one_unit)
    if len(steps) == 1:
        return _unary(steps[0], body, cost) if cost is not None else _cheap_unary(steps[0], body)
    return _binary(steps[0], steps[1], body, cost) if cost is not None else _cheap_binary(steps[0], steps[1], body)


def _one_unit(_args: tuple[object, ...], _result: object) -> int:
    return 1


def _paid(state: Activation, body: Callable[..., object], args: tuple[object, ...], cost: CostFunction) -> object:
    try:
        result = body(*args)
    except EvaluationError:
        state.spent += cost(args, FAILED)
        state.check()
        raise
    state.spent += cost(args, result)
    state.check()
    return result


def _cheap_unary(argument: Step, body: Callable[..., object]) -> Step:
    def step(state: Activation) -> object:
        try:
            value = argument(state)
        except EvaluationError:
            state.spent += 1
            raise
        state.spent += 1
        return body(value)

    return step


def _cheap_binary(left: Step, right: Step, body: Callable[..., object]) -> Step:
    def step(state: Activation) -> object:
        try:
            one = left(state)
        except EvaluationError:
            _compute(right, state)
            state.spent += 1
            raise
        try:
            other = right(state)
        except EvaluationError:
            state.spent += 1
            raise
        state.spent += 1
        return body(one, other)

    return step


def _compute(step: Step, state: Activation) -> object:
    try:
        return step(state)
    except EvaluationError:
        spend(ERROR_WORK)
        return FAILED


def _unary(argument: Step, body: Callable[..., object], cost: CostFunction) -> Step:
    def step(state: Activation) -> object:
        try:
            value = argument(state)
        except EvaluationError:
            state.spent += cost((FAILED,), FAILED)
            raise
        return _paid(state, body, (value,), cost)

    return step


def _binary(left: Step, right: Step, body: Callable[..., object], cost: CostFunction) -> Step:
    def step(state: Activation) -> object:
        return _paid(state, body, both(left, right, state, cost), cost)

    return step


def _variadic(steps: list[Step], body: Callable[..., object], cost: CostFunction) -> Step:
    def step(state: Activation) -> object:
        args: list[object] = []
        for argument in steps:
            try:
                args.append(argument(state))
            except EvaluationError:
                if len(args) == len(steps) - 1:
                    state.spent += cost((*args, FAILED), FAILED)
                raise
        return _paid(state, body, tuple(args), cost)

    return step


def both(left: Step, right: Step, state: Activation, cost: CostFunction) -> tuple[object, object]:
    """Two operands; where one fails the other is computed all the same, and the call is paid for."""
    try:
        one = left(state)
    except EvaluationError:
        other = _compute(right, state)
        state.spent += cost((FAILED, other), FAILED)
        raise
    try:
        return one, right(state)
    except EvaluationError:
        state.spent += cost((one, FAILED), FAILED)
        raise
