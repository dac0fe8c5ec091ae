"""Calls of functions: arguments, errors and what is paid when.

A call with one or two arguments computes all of them, and is paid for, even where one fails. A call with more stops at
the first that fails, and is then only paid for where that was the last.
"""

from collections.abc import Callable

from modelplane.dra.cel.attributes import State, Step
from modelplane.dra.cel.budget import FAILED, Price
from modelplane.dra.cel.errors import EvaluationError


def call_step(steps: list[Step], body: Callable[..., object], price: Price | None, *, stops_early: bool) -> Step:
    """The closure of a call; without a price it costs one unit."""
    if stops_early or len(steps) not in {1, 2}:
        return _variadic(steps, body, price or _one_unit)
    if len(steps) == 1:
        return _unary(steps[0], body, price or _one_unit)
    return _binary(steps[0], steps[1], body, price or _one_unit)


def _one_unit(_args: tuple[object, ...], _result: object) -> int:
    return 1


def _paid(state: State, body: Callable[..., object], args: tuple[object, ...], price: Price) -> object:
    try:
        result = body(*args)
    except EvaluationError:
        state.meter.spend(price(args, FAILED))
        raise
    state.meter.spend(price(args, result))
    return result


def _unary(argument: Step, body: Callable[..., object], price: Price) -> Step:
    def step(state: State) -> object:
        try:
            value = argument(state)
        except EvaluationError:
            state.meter.spend(price((FAILED,), FAILED))
            raise
        return _paid(state, body, (value,), price)

    return step


def _binary(left: Step, right: Step, body: Callable[..., object], price: Price) -> Step:
    def step(state: State) -> object:
        return _paid(state, body, both(left, right, state, price), price)

    return step


def _variadic(steps: list[Step], body: Callable[..., object], price: Price) -> Step:
    def step(state: State) -> object:
        args: list[object] = []
        for argument in steps:
            try:
                args.append(argument(state))
            except EvaluationError:
                if len(args) == len(steps) - 1:
                    state.meter.spend(price((*args, FAILED), FAILED))
                raise
        return _paid(state, body, tuple(args), price)

    return step


def both(left: Step, right: Step, state: State, price: Price) -> tuple[object, object]:
    """Two operands; where one fails the other is computed all the same, and the call is paid for."""
    failure: EvaluationError | None = None
    values: list[object] = []
    for operand in (left, right):
        try:
            values.append(operand(state))
        except EvaluationError as error:
            failure = failure or error
            values.append(FAILED)
    if failure is not None:
        state.meter.spend(price((values[0], values[1]), FAILED))
        raise failure
    return values[0], values[1]
