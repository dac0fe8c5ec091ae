"""`format`: the clauses of a format text, the check of literal ones before anything runs, and their output.

Numbers come out as upstream prints them for en_US: `%f` with thousands separators, `%e` with a superscript exponent,
six digits behind the point and the precision used as the width instead.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.texts import text_of
from modelplane.k8s.cel.limits import check_text
from modelplane.k8s.cel.types import TypeKind
from modelplane.k8s.cel.values import ListValue, Uint, list_size, runtime_type

_CLAUSE = re.compile(r"(?:\.([0-9]*))?(.)?", re.DOTALL)
_DEFAULT_PRECISION = 6
_TIMES_TEN = "\N{MULTIPLICATION SIGN}10"
_MAX_PRECISION = 10_000_009
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})

# The static types of each clause; a string may replace a number that is not finite.
CLAUSE_KINDS: dict[str, frozenset[TypeKind]] = {
    "s": frozenset(
        {
            TypeKind.LIST,
            TypeKind.MAP,
            TypeKind.INT,
            TypeKind.UINT,
            TypeKind.DOUBLE,
            TypeKind.BOOL,
            TypeKind.STRING,
            TypeKind.TIMESTAMP,
            TypeKind.BYTES,
            TypeKind.DURATION,
            TypeKind.TYPE,
            TypeKind.NULL,
        }
    ),
    "d": frozenset({TypeKind.INT, TypeKind.UINT}),
    "f": frozenset({TypeKind.DOUBLE, TypeKind.STRING}),
    "e": frozenset({TypeKind.DOUBLE, TypeKind.STRING}),
    "b": frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.BOOL}),
    "x": frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.BYTES}),
    "X": frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.BYTES}),
    "o": frozenset({TypeKind.INT, TypeKind.UINT}),
}


class FormatError(Exception):
    """A format text that no list of values can satisfy."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a format text: literal text, or a verb with its precision."""

    words: str
    verb: str = ""
    precision: int | None = None


def clauses(text: str) -> Iterator[Clause]:
    """The parts of a format text in order, or FormatError at the first that is not one."""
    position = 0
    while (percent := text.find("%", position)) >= 0:
        if percent > position:
            yield Clause(text[position:percent])
        if text[percent + 1 : percent + 2] == "%":
            yield Clause("%")
            position = percent + 2
            continue
        clause, position = _verb(text, percent + 1)
        yield clause
    yield Clause(text[position:])


def _verb(text: str, start: int) -> tuple[Clause, int]:
    match = _CLAUSE.match(text, start)
    digits, verb = match.groups() if match else (None, None)
    if not verb:
        raise FormatError("unexpected end of the format text")
    if digits == "" or (digits and len(digits.lstrip("0")) > 18):  # noqa: PLR2004  what an int64 holds for certain
        raise FormatError("the precision of a clause is not a number")
    if verb not in CLAUSE_KINDS:
        raise FormatError(f'unrecognized formatting clause "{verb}"')
    return Clause("", verb, None if digits is None else int(digits)), match.end() if match else start


def format_string(text: str, args: ListValue) -> str:
    """The text with its clauses replaced by the values."""
    parts: list[str] = []
    used = length = 0
    try:
        for clause in clauses(text):
            if not clause.verb:
                parts.append(clause.words)
                continue
            if used >= list_size(args):
                raise EvaluationError(f"index {used} out of range")
            parts.append(_FORMATTERS[clause.verb](args[used], clause.precision))
            length += len(parts[-1])
            check_text(length, ascii_only=False)
            used += 1
    except FormatError as error:
        raise EvaluationError(str(error)) from None
    return "".join(parts)


def _wrong(verb: str, value: object) -> EvaluationError:
    return EvaluationError(f"%{verb} cannot format a value of type {runtime_type(value).name}")


def _string(value: object, _precision: int | None) -> str:
    return text_of(value)


def _integer(verb: str, base: str) -> Callable[[object, int | None], str]:
    def render(value: object, _precision: int | None) -> str:
        if type(value) is int or type(value) is Uint:
            return format(int(value), base)
        if verb == "b" and isinstance(value, bool):
            return "1" if value else "0"
        raise _wrong(verb, value)

    return render


def _hex(verb: str) -> Callable[[object, int | None], str]:
    render_integer = _integer(verb, verb)

    def render(value: object, precision: int | None) -> str:
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            return raw.hex() if verb == "x" else raw.hex().upper()
        return render_integer(value, precision)

    return render


def _double(verb: str, value: object) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return float(value.replace("Infinity", "inf"))
    raise _wrong(verb, value)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _fixed(value: object, precision: int | None) -> str:
    number = _double("f", value)
    digits = _DEFAULT_PRECISION if precision is None else precision
    if digits > _MAX_PRECISION:
        return "%!(NOVERB)"
    if not math.isfinite(number):
        return _not_finite(number)
    # Upstream keeps the precision in eight bits.
    return f"{number or 0.0:,.{digits % 256}f}"


def _scientific(value: object, precision: int | None) -> str:
    number = _double("e", value)
    width = _DEFAULT_PRECISION if precision is None else precision
    if width > _MAX_PRECISION:
        return "%!(NOVERB)"
    check_text(width, ascii_only=False)
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
    return f"{mantissa}{_TIMES_TEN}{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(width)


_FORMATTERS: dict[str, Callable[[object, int | None], str]] = {
    "s": _string,
    "d": _integer("d", "d"),
    "f": _fixed,
    "e": _scientific,
    "b": _integer("b", "b"),
    "x": _hex("x"),
    "X": _hex("X"),
    "o": _integer("o", "o"),
}
