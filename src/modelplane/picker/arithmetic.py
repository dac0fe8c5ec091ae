"""Arithmetic that several plugins share."""

from collections.abc import Sequence

_ALL_EQUAL = 1.0


def lower_is_better(values: Sequence[float]) -> tuple[float, ...]:
    """Each value between the largest (0) and the smallest (1); all equal is 1. Values are finite."""
    # Counts repeat, so there is less to divide than there are values.
    different = set(values)
    if len(different) == 1:
        return (_ALL_EQUAL,) * len(values)
    most, least = max(different), min(different)
    span = most - least
    line = {value: (most - value) / span for value in different}
    return tuple([line[value] for value in values])


def within_unit(value: float) -> float:
    """The nearest number in [0, 1]; what is no number is 0."""
    return 0.0 if not value > 0.0 else min(value, 1.0)
