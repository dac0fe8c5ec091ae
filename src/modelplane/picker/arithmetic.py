"""Arithmetic that several plugins share."""

from collections.abc import Sequence

_ALL_EQUAL = 1.0


def lower_is_better(values: Sequence[float]) -> tuple[float, ...]:
    """Each value between the largest (0) and the smallest (1); all equal is 1. Values are finite."""
    most, least = max(values), min(values)
    if most == least:
        return (_ALL_EQUAL,) * len(values)
    span = most - least
    return tuple([(most - value) / span for value in values])


def higher_is_better(values: Sequence[float]) -> tuple[float, ...]:
    """Each value between the smallest (0) and the largest (1); all equal is 1. Values are finite."""
    most, least = max(values), min(values)
    if most == least:
        return (_ALL_EQUAL,) * len(values)
    span = most - least
    return tuple([(value - least) / span for value in values])


def within_unit(value: float) -> float:
    """The nearest number in [0, 1]; what is no number is 0."""
    return 0.0 if not value > 0.0 else min(value, 1.0)
