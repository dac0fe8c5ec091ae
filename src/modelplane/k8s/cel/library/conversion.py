"""Conversions between types, and the texts of numbers as Go writes them."""

import math
import re

from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.standard import identity
from modelplane.k8s.cel.library.timestamps import (
    checked_timestamp,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from modelplane.k8s.cel.values import MAX_INT, MAX_UINT, MIN_INT, CelDuration, Timestamp, Uint, no_overload

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
# Digits may be grouped by single underscores.
_DIGITS, _HEX_DIGITS = r"[0-9]++(?:_[0-9]++)*+", r"[0-9a-f]++(?:_[0-9a-f]++)*+"
_FLOAT = re.compile(
    rf"[+-]?(?:inf(?:inity)?|nan|(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?"
    rf"|0x_?(?:{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})p[+-]?{_DIGITS})",
    re.ASCII | re.IGNORECASE,
)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_MAX_DIGITS = 20
_SMALLEST_PLAIN, _LARGEST_PLAIN = -4, 6


def _cannot(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def string_to_int(text: str) -> int:
    """`int("42")`."""
    if not _INT.fullmatch(text) or len(text.lstrip("+-").lstrip("0")) > _MAX_DIGITS:
        raise _cannot("string", "int")
    number = int(text)
    if not MIN_INT <= number <= MAX_INT:
        raise _cannot("string", "int")
    return number


def _string_to_uint(text: str) -> Uint:
    if not _UINT.fullmatch(text) or len(text.lstrip("0")) > _MAX_DIGITS or int(text) > MAX_UINT:
        raise _cannot("string", "uint")
    return Uint(int(text))


def _string_to_double(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _cannot("string", "double")
    digits = text.replace("_", "")
    try:
        number = float.fromhex(digits) if "0x" in digits.lower() else float(digits)
    except (ValueError, OverflowError):
        raise _cannot("string", "double") from None
    if math.isinf(number) and "inf" not in text.lower():
        raise _cannot("string", "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _cannot("string", "bool")


def _double_to_int(number: float) -> int:
    if math.isnan(number) or not MIN_INT < number < float(MAX_INT):
        raise EvaluationError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> Uint:
    if math.isnan(number) or not 0 <= number < float(MAX_UINT):
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(number))


def _uint_to_int(number: int) -> int:
    if number > MAX_INT:
        raise EvaluationError("integer overflow")
    return int(number)


def _int_to_uint(number: int) -> Uint:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _duration_to_int(duration: CelDuration) -> int:
    return duration.nanos


def _timestamp_to_int(value: Timestamp) -> int:
    return value.nanos // 10**9


def _int_to_timestamp(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * 10**9)


def _int_to_duration(number: int) -> CelDuration:
    raise no_overload("duration", number)


def bytes_to_string(value: bytes) -> str:
    """`string(b"...")`."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def bool_to_string(value: bool) -> str:  # noqa: FBT001  a value of CEL, not a switch
    """`string(true)`."""
    return "true" if value else "false"


def double_to_string(number: float) -> str:
    """The shortest text that reads back; from a million on with an exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    digits, exponent, sign = shortest(number)
    if _SMALLEST_PLAIN <= exponent < _LARGEST_PLAIN:
        return sign + plain(digits, exponent)
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def shortest(number: float) -> tuple[str, int, str]:
    """The shortest digits that read back as the number, the exponent of the first of them, and the sign."""
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0", 0, sign
    leading = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0")) + 1)
    return digits.rstrip("0"), leading + int(exponent or "0"), sign


def plain(digits: str, exponent: int) -> str:
    """Digits and the exponent of the first, without an exponent."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits.ljust(exponent + 1, "0")
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


FUNCTIONS: tuple[Overload, ...] = (
    overload("bool_to_bool", "bool(bool) -> bool", identity),
    overload("string_to_bool", "bool(string) -> bool", _string_to_bool),
    overload("bytes_to_bytes", "bytes(bytes) -> bytes", identity),
    overload("string_to_bytes", "bytes(string) -> bytes", str.encode),
    overload("double_to_double", "double(double) -> double", identity),
    overload("int64_to_double", "double(int) -> double", float),
    overload("string_to_double", "double(string) -> double", _string_to_double),
    overload("uint64_to_double", "double(uint) -> double", float),
    overload("duration_to_duration", "duration(duration) -> duration", identity),
    overload("int64_to_duration", "duration(int) -> duration", _int_to_duration),
    overload("string_to_duration", "duration(string) -> duration", parse_duration),
    overload("int64_to_int64", "int(int) -> int", identity),
    overload("double_to_int64", "int(double) -> int", _double_to_int),
    overload("duration_to_int64", "int(duration) -> int", _duration_to_int),
    overload("string_to_int64", "int(string) -> int", string_to_int),
    overload("timestamp_to_int64", "int(timestamp) -> int", _timestamp_to_int),
    overload("uint64_to_int64", "int(uint) -> int", _uint_to_int),
    overload("string_to_string", "string(string) -> string", identity),
    overload("bool_to_string", "string(bool) -> string", bool_to_string),
    overload("bytes_to_string", "string(bytes) -> string", bytes_to_string),
    overload("double_to_string", "string(double) -> string", double_to_string),
    overload("duration_to_string", "string(duration) -> string", duration_text),
    overload("int64_to_string", "string(int) -> string", str),
    overload("timestamp_to_string", "string(timestamp) -> string", timestamp_text),
    overload("uint64_to_string", "string(uint) -> string", lambda number: str(int(number))),
    overload("timestamp_to_timestamp", "timestamp(timestamp) -> timestamp", identity),
    overload("int64_to_timestamp", "timestamp(int) -> timestamp", _int_to_timestamp),
    overload("string_to_timestamp", "timestamp(string) -> timestamp", parse_timestamp),
    overload("uint64_to_uint64", "uint(uint) -> uint", identity),
    overload("double_to_uint64", "uint(double) -> uint", _double_to_uint),
    overload("int64_to_uint64", "uint(int) -> uint", _int_to_uint),
    overload("string_to_uint64", "uint(string) -> uint", _string_to_uint),
)
