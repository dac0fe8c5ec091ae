"""Arithmetic that several plugins share."""


def within_unit(value: float) -> float:
    """The nearest number in [0, 1]; what is no number is 0."""
    return 0.0 if not value > 0.0 else min(value, 1.0)
