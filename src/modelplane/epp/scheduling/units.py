"""Durations and amounts as the ecosystem writes them: `1m30s`, `200ms`, `1Gi`."""

import re
from typing import TypeVar

import msgspec

from modelplane.k8s.quantity import QuantityError, as_integer, quantity_from_json, sign

S = TypeVar("S", bound=msgspec.Struct)

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


class Duration(float):
    """Seconds, not negative."""

    __slots__ = ()


class Amount(int):
    """A whole number, not negative, that may be written as a Kubernetes quantity."""

    __slots__ = ()


def decode(wanted: type, value: object) -> object:
    """The hook for `msgspec.convert`; ValueError with a sentence where the value does not fit."""
    if wanted is Duration:
        return _duration(value)
    if wanted is Amount:
        return _amount(value)
    if wanted is object:
        return value
    raise NotImplementedError(wanted)


def encode(value: object) -> object:
    """The hook for `msgspec.to_builtins`."""
    if isinstance(value, Duration):
        return f"{float(value):g}s"
    if isinstance(value, Amount):
        return int(value)
    raise NotImplementedError(type(value))


def convert(value: object, wanted: type[S]) -> S:
    return msgspec.convert(value, wanted, dec_hook=decode)


def _duration(value: object) -> Duration:
    if value in {"0", 0} and not isinstance(value, bool):
        return Duration(0.0)
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        raise ValueError(f"{value!r} is no duration; write it as 500ms, 1.5s or 1m30s, not negative")
    return Duration(sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(value)))


def _amount(value: object) -> Amount:
    try:
        quantity = quantity_from_json(value)
    except (QuantityError, TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no quantity: {error}") from error
    whole = as_integer(quantity)
    if whole is None or sign(quantity) < 0:
        raise ValueError(f"{value!r} is no whole number of at least 0")
    return Amount(whole)
