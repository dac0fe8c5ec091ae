"""Kubernetes' resource.Quantity: parse, canonical form, order and arithmetic, bit for bit.

Identity. A `Quantity` is an immutable value, `unscaled * 10**exponent`, together with the notation it was written in
and the internal form upstream would hold it in. Two quantities are equal when their numbers are, whatever the
notation.

Forms. Upstream keeps either an int64 with a decimal scale (`Form.FAST`) or an arbitrary decimal (`Form.BIG`), and
users can see which: `isInteger()` and `asInteger()` succeed in the fast form only. Text becomes fast when it has at
most 18 digits and no more than nine decimal places, or, with a binary suffix, no fraction point and few enough
digits. Everything else is big, rounded away from zero to whole nanos; binary suffixes saturate at 2**63-1 there,
decimal ones never do.

Order is numeric. Every value is a whole number of nanos, so `nanos` is computed once and `compare` is one integer
comparison.

Effects. A `Quantity` never changes. What upstream does to its operands while an expression runs is modelled by
`mutable_quantity`.

Left coarse. A decimal exponent may be as large as 2**31-1, and upstream then builds a number of two billion digits.
Such values stay symbolic here: past `_MATERIALISED_EXPONENT` a number parses, compares and prints without being
written out, and arithmetic that would need more than `_MAX_SUM_DIGITS` digits is a `QuantityError`. No smaller value
is affected: that far out the approximate float is infinite in either representation (but for a sum with a zero
written finer than 1e-323, where upstream's is not a number).
"""

import enum
import math
import re
from dataclasses import dataclass
from functools import lru_cache

from modelplane.api.errors import InputError
from modelplane.k8s._digits import count_digits, format_digits, parse_digits

_NANO = -9
_MAX_FAST_DIGITS = 18
_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_MATERIALISED_EXPONENT = 4_096
_MAX_SUM_DIGITS = 20_000
_SHOWN_TEXT = 64
_SHORT_TEXT = 32

# Possessive throughout: a digit taken by one part is never offered to the next, so scanning is linear.
_GRAMMAR = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX_OF = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}
# Decimal digits that a binary suffix spends of the fifteen the fast form trusts.
_BINARY_SUFFIX_DIGITS = {10: 3, 20: 6, 30: 9, 40: 12, 50: 15, 60: 18}


class QuantityError(InputError):
    """Text that is not a quantity, or arithmetic whose result is too long to write out."""


class Notation(enum.StrEnum):
    """The family of suffixes a quantity is printed with."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class NumberFormat(enum.Enum):
    """How upstream holds the number; visible through `isInteger()` and `asInteger()`."""

    FAST = enum.auto()
    BIG = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """`unscaled * 10**exponent`; `nanos` is that number in billionths, or None where it is too long to write out."""

    unscaled: int
    exponent: int
    form: NumberFormat
    notation: Notation
    nanos: int | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return compare(self, other) == 0

    def __hash__(self) -> int:
        return hash(self.nanos if self.nanos is not None else _reduced(self))

    def __lt__(self, other: "Quantity") -> bool:
        return compare(self, other) < 0

    def __le__(self, other: "Quantity") -> bool:
        return compare(self, other) <= 0

    def __str__(self) -> str:
        return canonical(self)

    @property
    def representation(self) -> tuple[int, int, NumberFormat]:
        """All that an expression can observe of the quantity: equal representations behave the same."""
        return self.unscaled, self.exponent, self.form


def fast(unscaled: int, exponent: int = 0, notation: Notation = Notation.DECIMAL_SI) -> Quantity:
    """A quantity in the fast form; `unscaled` must fit in an int64."""
    return Quantity(unscaled, exponent, NumberFormat.FAST, notation, _nanos(unscaled, exponent))


def from_int(number: int) -> Quantity:
    """Upstream's form of an integer operand of `add` and `sub`."""
    return fast(number, 0, Notation.DECIMAL_EXPONENT)


def promoted(quantity: Quantity) -> Quantity:
    """The same number in the big form."""
    return _big(quantity.unscaled, quantity.exponent, quantity.notation)


def _big(unscaled: int, exponent: int, notation: Notation) -> Quantity:
    return Quantity(unscaled, exponent, NumberFormat.BIG, notation, _nanos(unscaled, exponent))


def _nanos(unscaled: int, exponent: int) -> int | None:
    if unscaled == 0:
        return 0
    if exponent > _MATERIALISED_EXPONENT:
        return None
    return _shifted(unscaled, exponent - _NANO)


def _shifted(number: int, places: int) -> int:
    """`number * 10**places`, which must be a whole number."""
    return int(number * 10**places) if places >= 0 else int(number // 10**-places)


def parse_quantity(text: str) -> Quantity:
    """The quantity that `text` spells, or QuantityError. Nothing is trimmed."""
    return _parse_short(text) if len(text) <= _SHORT_TEXT else _parse(text)


@lru_cache(maxsize=4_096)
def _parse_short(text: str) -> Quantity:
    return _parse(text)


def _parse(text: str) -> Quantity:
    match = _GRAMMAR.fullmatch(text)
    if match is None or not text:
        raise QuantityError(f"{_shown(text)} is not a quantity: expected a number and a suffix such as m, k, Mi or e3")
    sign, zeros, whole, fraction, suffix = match.groups(default="")
    notation, exponent = _interpret(suffix, text)
    digits = (whole or "0") + fraction
    if notation is Notation.BINARY_SI:
        is_fast = not fraction and len(digits) + _BINARY_SUFFIX_DIGITS[exponent] < 15  # noqa: PLR2004  float64's digits
        magnitude, scale = parse_digits(digits) << exponent, -len(fraction)
    else:
        magnitude, scale = parse_digits(digits), _wrap_int32(exponent - len(fraction))
        is_fast = len(digits) <= _MAX_FAST_DIGITS and scale >= _NANO
    if is_fast:
        return fast(-magnitude if sign == "-" else magnitude, scale, notation)
    if not (zeros or whole or fraction):
        raise QuantityError(f"{_shown(text)} is not a quantity: it has no digits")
    return _parse_big(magnitude, scale, notation, negative=sign == "-")


def is_quantity(text: str) -> bool:
    """Whether `parse_quantity` accepts the text."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def quantity_from_json(value: object) -> Quantity:
    """The quantity in a decoded JSON field: a text, with blanks around it forgiven, or a bare number."""
    if isinstance(value, str):
        return parse_quantity(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_quantity(str(value))
    raise QuantityError(f"{_shown(repr(value))} is not a quantity: expected a text or a number")


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHOWN_TEXT else f'"{text[:_SHOWN_TEXT]}…"'


def _interpret(suffix: str, text: str) -> tuple[Notation, int]:
    """The notation and the exponent (of ten, or of two in binary notation) of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return Notation.DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return Notation.BINARY_SI, _BINARY_SUFFIXES[suffix]
    number = suffix[1:]
    if suffix[0] not in "eE" or not number.lstrip("+-").isdecimal():
        raise QuantityError(f'{_shown(text)} is not a quantity: unknown suffix "{suffix[:_SHOWN_TEXT]}"')
    exponent = parse_digits(number.lstrip("+-")) * (-1 if number[0] == "-" else 1)
    if not _MIN_INT64 <= exponent <= _MAX_INT64:
        raise QuantityError(f"{_shown(text)} is not a quantity: the exponent does not fit in 64 bits")
    return Notation.DECIMAL_EXPONENT, _wrap_int32(exponent)


def _wrap_int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _parse_big(magnitude: int, exponent: int, notation: Notation, *, negative: bool) -> Quantity:
    if magnitude != 0:
        magnitude, exponent = _rounded_to_nanos(magnitude, exponent)
    if notation is Notation.BINARY_SI and magnitude != 0:
        if magnitude > _MAX_INT64 * 10**9:
            magnitude, exponent = _MAX_INT64, 0
        elif magnitude < 10**9:
            notation = Notation.DECIMAL_SI
    return _big(-magnitude if negative else magnitude, exponent, notation)


def _rounded_to_nanos(magnitude: int, exponent: int) -> tuple[int, int]:
    """A positive number as whole nanos, rounded up; left as it is where it is too long to write out."""
    if exponent > _MATERIALISED_EXPONENT:
        return magnitude, exponent
    if exponent >= _NANO:
        return _shifted(magnitude, exponent - _NANO), _NANO
    dropped = _NANO - exponent
    if dropped > count_digits(magnitude):
        return 1, _NANO
    return -(-magnitude // 10**dropped), _NANO


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1 by number, independent of notation and form."""
    left_nanos, right_nanos = left.nanos, right.nanos
    if left_nanos is None or right_nanos is None:
        return _compare_symbolic(left, right)
    return (left_nanos > right_nanos) - (left_nanos < right_nanos)


def _compare_symbolic(left: Quantity, right: Quantity) -> int:
    left_sign, right_sign = sign(left), sign(right)
    if left_sign != right_sign:
        return 1 if left_sign > right_sign else -1
    left_length, right_length = _length(left), _length(right)
    if left_length != right_length:
        return left_sign if left_length > right_length else -left_sign
    # Equal lengths bound the distance of the exponents by the digits at hand, so the difference can be written out.
    lowest = min(left.exponent, right.exponent)
    left_number = _shifted(left.unscaled, left.exponent - lowest)
    right_number = _shifted(right.unscaled, right.exponent - lowest)
    return (left_number > right_number) - (left_number < right_number)


def _length(quantity: Quantity) -> int:
    return count_digits(quantity.unscaled) + quantity.exponent


def sign(quantity: Quantity) -> int:
    """-1, 0 or 1."""
    return (quantity.unscaled > 0) - (quantity.unscaled < 0)


def as_integer(quantity: Quantity) -> int | None:
    """The number where the fast form can give it as an int64, else None; a whole number in the big form is None."""
    if quantity.form is NumberFormat.BIG or quantity.exponent < 0:
        return None
    if quantity.unscaled == 0:
        return 0
    if quantity.exponent > _MAX_FAST_DIGITS:
        return None
    number = _shifted(quantity.unscaled, quantity.exponent)
    return number if _MIN_INT64 <= number <= _MAX_INT64 else None


def as_approximate_float(quantity: Quantity) -> float:
    """The unscaled number times a power of ten, both rounded to doubles first, as upstream multiplies them."""
    try:
        base = float(quantity.unscaled)
    except OverflowError:
        base = math.inf if quantity.unscaled > 0 else -math.inf
    return base if quantity.exponent == 0 else base * _power_of_ten(quantity.exponent)


def _power_of_ten(exponent: int) -> float:
    """Go's math.Pow10: a product or quotient of two table entries, which is not always the nearest double."""
    blocks, rest = divmod(abs(exponent), 32)
    if 0 <= exponent <= 308:  # noqa: PLR2004  the largest finite power of ten
        return float(f"1e{32 * blocks}") * float(f"1e{rest}")
    if -323 <= exponent < 0:  # noqa: PLR2004  the smallest denormal power of ten
        return float(f"1e-{32 * blocks}") / float(f"1e{rest}")
    return math.inf if exponent > 0 else 0.0


def add(left: Quantity, right: Quantity) -> Quantity:
    """The sum, in the form and notation upstream gives it."""
    notation = right.notation if left.unscaled == 0 else left.notation
    if left.form is NumberFormat.FAST and right.form is NumberFormat.FAST:
        total = _add_fast(left, right.unscaled, right.exponent, notation)
        if total is not None:
            return total
    return _add_big(left, right.unscaled, right.exponent, notation)


def subtract(left: Quantity, right: Quantity) -> Quantity:
    """The difference, in the form and notation upstream gives it."""
    notation = right.notation if left.unscaled == 0 else left.notation
    if left.form is NumberFormat.FAST and right.form is NumberFormat.FAST:
        # Upstream negates in an int64, where the smallest number is its own negative.
        negated = right.unscaled if right.unscaled == _MIN_INT64 else -right.unscaled
        total = _add_fast(left, negated, right.exponent, notation)
        if total is not None:
            return total
    return _add_big(left, -right.unscaled, right.exponent, notation)


def _add_fast(left: Quantity, unscaled: int, exponent: int, notation: Notation) -> Quantity | None:
    """The sum in the fast form, or None where an int64 overflows on the way."""
    if unscaled == 0:
        return fast(left.unscaled, left.exponent, notation)
    if left.unscaled == 0:
        return fast(unscaled, exponent, notation)
    distance = left.exponent - exponent
    if abs(distance) > _MAX_FAST_DIGITS:
        return None
    left_number = _shifted(left.unscaled, max(distance, 0))
    right_number = _shifted(unscaled, max(-distance, 0))
    for number in (left_number, right_number, left_number + right_number):
        if not _MIN_INT64 <= number <= _MAX_INT64:
            return None
    return fast(left_number + right_number, min(left.exponent, exponent), notation)


def _add_big(left: Quantity, unscaled: int, exponent: int, notation: Notation) -> Quantity:
    lowest = min(left.exponent, exponent)
    if left.unscaled != 0 and unscaled != 0:
        longest = max(_length(left), count_digits(unscaled) + exponent) - lowest
        if longest > _MAX_SUM_DIGITS:
            raise QuantityError(f"the sum of two quantities would have more than {_MAX_SUM_DIGITS} digits")
    elif max(abs(left.exponent), abs(exponent)) > _MATERIALISED_EXPONENT:
        return _big(left.unscaled or unscaled, left.exponent if left.unscaled else exponent, notation)
    total = _shifted(left.unscaled, left.exponent - lowest) + _shifted(unscaled, exponent - lowest)
    # A symbolic number is equal to one written out in nanos, so nothing remains of its exponent when it cancels.
    return _big(total, _NANO if total == 0 and lowest > _MATERIALISED_EXPONENT else lowest, notation)


def canonical(quantity: Quantity) -> str:
    """The form a quantity is written back in: the largest suffix that leaves no fraction."""
    if quantity.unscaled == 0:
        return "0"
    if quantity.notation is Notation.BINARY_SI and _prints_binary(quantity):
        return _canonical_binary((quantity.nanos or 0) // 10**9)
    mantissa, exponent = _reduced(quantity)
    mantissa, exponent = mantissa * 10 ** (exponent % 3), exponent - exponent % 3
    if quantity.notation is Notation.DECIMAL_EXPONENT:
        return format_digits(mantissa) + (f"e{exponent}" if exponent else "")
    # Upstream prints no suffix at all where it has none for the exponent, which loses the magnitude.
    return format_digits(mantissa) + _DECIMAL_SUFFIX_OF.get(exponent, "")


def _prints_binary(quantity: Quantity) -> bool:
    nanos = quantity.nanos
    return nanos is not None and abs(nanos) >= 1024 * 10**9 and nanos % 10**9 == 0


def _canonical_binary(number: int) -> str:
    exponent = 0
    while number % 1024 == 0:
        number, exponent = number // 1024, exponent + 10
    return format_digits(number) + _BINARY_SUFFIX_OF.get(exponent, "")


def _reduced(quantity: Quantity) -> tuple[int, int]:
    """A non-zero number without its trailing decimal zeros."""
    mantissa, exponent = quantity.unscaled, quantity.exponent
    for step in (4096, 512, 64, 8, 1):
        power = 10**step
        while mantissa % power == 0:
            mantissa, exponent = mantissa // power, exponent + step
    return mantissa, exponent


def decimal_text(quantity: Quantity) -> str:
    """The exact number in plain decimal digits, or QuantityError where it is too long to write out."""
    if quantity.nanos is None:
        raise QuantityError(f"a quantity with exponent {quantity.exponent} is too long to write out")
    whole, fraction = divmod(abs(quantity.nanos), 10**9)
    text = format_digits(whole) + f".{fraction:09d}".rstrip("0").rstrip(".")
    return "-" + text if quantity.nanos < 0 else text
