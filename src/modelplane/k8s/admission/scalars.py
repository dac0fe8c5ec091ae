"""The meaning of an unquoted YAML scalar.

The meaning is the one `kubectl` gives it (YAML to JSON to an object), so a manifest means the same here and on an API
server: `no`, `off` and `y` are booleans, `010` and `0o10` are eight, `1_000` is a thousand, `1.0` is the integer one,
an integer beyond 64 bits is a float, `12:30:00` and `2024-01-02` are strings. Infinity and NaN have no JSON form and
are rejected.
"""

import math
import re
from decimal import Decimal
from typing import Final, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
# A longer number has no more precision in a 64-bit float, and its conversion is expensive.
_LONGEST_NUMBER: Final = 1024

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_JSON: Final = frozenset((".nan", ".NaN", ".NAN")) | {
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
# Nearly all numbers in manifests; fewer digits than 64 bits can hold.
_PLAIN_INTEGER: Final = re.compile(r"[1-9][0-9]{0,17}|0")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
_BASES: Final = (16, 8, 2, 10)
# A number that starts with a point takes underscores between digits only; any other takes them anywhere.
_STRAY_UNDERSCORE: Final = re.compile(r"\.(?:.*[^0-9])?_|.*_(?:[^0-9]|$)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve_scalar(text: str) -> Scalar:
    """The JSON value of a plain scalar; ValueError where JSON has none."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _LONGEST_NUMBER:
        return text
    if _PLAIN_INTEGER.fullmatch(text):
        return int(text)
    if text in _NOT_JSON:
        raise ValueError(f"{text} is not a number that JSON can carry")
    if text[0] == "." and _STRAY_UNDERSCORE.match(text):
        return text
    return _number(text.replace("_", ""), text)


def normalize_integer(value: int) -> int | float:
    """An integer that does not fit into 64 bits as the float that a trip through JSON makes of it."""
    return value if _INT64_MIN <= value <= _INT64_MAX else float(value)


def normalize_number(value: float) -> int | float:
    """An integral float as the integer that its shortest decimal form spells, as a trip through JSON makes it."""
    if not value.is_integer():
        return value
    spelled = int(Decimal(repr(value)))
    return spelled if _INT64_MIN <= spelled <= _INT64_MAX else value


def _number(plain: str, text: str) -> Scalar:
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        value = _integer(integer)
        if _INT64_MIN <= value <= _INT64_MAX:
            return value
        if not integer[1] and value <= _UINT64_MAX:
            return float(value)
    if _FLOAT.fullmatch(plain) is None:
        return text
    number = float(plain)
    return text if math.isinf(number) else normalize_number(number)


def _integer(match: re.Match[str]) -> int:
    digits, base = next((text, base) for text, base in zip(match.groups()[1:], _BASES, strict=True) if text)
    return -int(digits, base) if match[1] == "-" else int(digits, base)
