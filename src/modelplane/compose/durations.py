"""Durations as the Gateway API writes them: `300s`, `1h30m`, `500ms`."""

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+)(ms|h|m|s)")


def seconds_of(duration: str) -> float:
    """0 is no limit."""
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(duration))
