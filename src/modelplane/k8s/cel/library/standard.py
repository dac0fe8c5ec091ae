"""CEL's own operators and functions, without the conversions and timestamps, which have modules of their own."""

import math

from modelplane.k8s.cel.declarations import Body, FunctionDecl, Overload, overload
from modelplane.k8s.cel.equality import compare, contains, equal
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library import regex
from modelplane.k8s.cel.library.timestamps import add_times, subtract_times
from modelplane.k8s.cel.limits import check_text
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    CelDuration,
    ListValue,
    Uint,
    concatenated,
    is_list,
    no_overload,
    runtime_type,
    size_of,
)

_LONG_TEXT = 2**20


def checked_int(number: int) -> int:
    """An integer result, or the overflow error."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def _checked_uint(number: int) -> Uint:
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def add(left: object, right: object) -> object:
    """`left + right`."""
    if type(left) is int and type(right) is int:
        return checked_int(left + right)
    if type(left) is str and type(right) is str:
        return add_texts(left, right)
    if type(left) is float and type(right) is float:
        return left + right
    if is_list(left) and is_list(right):
        return _add_lists(left, right)
    if type(left) is Uint and type(right) is Uint:
        return _checked_uint(left + right)
    if type(left) is bytes and type(right) is bytes:
        return left + right
    return add_times(left, right)


def add_texts(left: str, right: str) -> str:
    """Two texts behind each other."""
    if len(left) + len(right) > _LONG_TEXT:
        check_text(len(left) + len(right), ascii_only=left.isascii() and right.isascii())
    return left + right


def _add_lists(left: ListValue, right: ListValue) -> object:
    custom: Body | None = getattr(left, "cel_add", None)
    return concatenated(left, right) if custom is None else custom(right)


def subtract(left: object, right: object) -> object:
    """`left - right`."""
    if type(left) is int and type(right) is int:
        return checked_int(left - right)
    if type(left) is float and type(right) is float:
        return left - right
    if type(left) is Uint and type(right) is Uint:
        return _checked_uint(left - right)
    return subtract_times(left, right)


def multiply(left: object, right: object) -> object:
    """`left * right`."""
    if type(left) is int and type(right) is int:
        return checked_int(left * right)
    if type(left) is float and type(right) is float:
        return left * right
    if type(left) is Uint and type(right) is Uint:
        return _checked_uint(left * right)
    raise no_overload("_*_", left, right)


def divide(left: object, right: object) -> object:
    """`left / right`; integers are cut towards zero."""
    if type(left) is int and type(right) is int:
        return divide_ints(left, right)
    if type(left) is float and type(right) is float:
        return divide_floats(left, right)
    if type(left) is Uint and type(right) is Uint:
        return Uint(divide_ints(left, right))
    raise no_overload("_/_", left, right)


def divide_ints(left: int, right: int) -> int:
    """The quotient cut towards zero."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        return -quotient
    if quotient > MAX_INT and left < 0:
        raise EvaluationError("integer overflow")
    return quotient


def divide_floats(left: float, right: float) -> float:
    """The quotient of doubles; division by zero is not an error."""
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: object, right: object) -> object:
    """`left % right`, with the sign of `left`."""
    if type(left) is int and type(right) is int:
        return modulo_ints(left, right)
    if type(left) is Uint and type(right) is Uint:
        return Uint(modulo_ints(left, right))
    raise no_overload("_%_", left, right)


def modulo_ints(left: int, right: int) -> int:
    """The remainder with the sign of the dividend."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def negate(value: object) -> object:
    """`-value`."""
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if type(value) is CelDuration:
        return CelDuration(checked_int(-value.nanos))
    raise no_overload("-_", value)


def logical_not(value: object) -> bool:
    """`!value`."""
    if value is True or value is False:
        return not value
    raise no_overload("!_", value)


def less(left: object, right: object) -> bool:
    """`left < right`."""
    return compare(left, right) < 0


def less_equals(left: object, right: object) -> bool:
    """`left <= right`."""
    return compare(left, right) <= 0


def greater(left: object, right: object) -> bool:
    """`left > right`."""
    return compare(left, right) > 0


def greater_equals(left: object, right: object) -> bool:
    """`left >= right`."""
    return compare(left, right) >= 0


def not_equals(left: object, right: object) -> bool:
    """`left != right`; an error in comparing means that they differ."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def is_in(item: object, container: object) -> bool:
    """`item in container`."""
    return contains(container, item)


def size(value: object) -> int:
    """How many characters, bytes, elements or entries."""
    if runtime_type(value).name in _SIZED:
        found = size_of(value)
        if found is not None:
            return found
    raise no_overload("size", value)


_SIZED = frozenset({"string", "bytes", "list", "map"})


def string_contains(text: object, part: object) -> bool:
    """`text.contains(part)`."""
    if type(text) is str and type(part) is str:
        return part in text
    raise no_overload("contains", text, part)


def starts_with(text: object, prefix: object) -> bool:
    """`text.startsWith(prefix)`."""
    if type(text) is str and type(prefix) is str:
        return text.startswith(prefix)
    raise no_overload("startsWith", text, prefix)


def ends_with(text: object, suffix: object) -> bool:
    """`text.endsWith(suffix)`."""
    if type(text) is str and type(suffix) is str:
        return text.endswith(suffix)
    raise no_overload("endsWith", text, suffix)


def matches(text: object, pattern: object) -> bool:
    """`text.matches(pattern)`: whether the pattern occurs anywhere."""
    if type(text) is str and type(pattern) is str:
        return regex.search(pattern, text)
    raise no_overload("matches", text, pattern)


def type_of_value(value: object) -> CelType:
    """`type(value)`."""
    return runtime_type(value)


def identity(value: object) -> object:
    """`dyn(value)`."""
    return value


def not_strictly_false(value: object) -> bool:
    """Whether a fold continues: for everything but false."""
    return value is not False


_ORDERED_PAIRS = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


def _operator(name: str, body: Body | None, *signatures: tuple[str, str]) -> FunctionDecl:
    return FunctionDecl(name, tuple([overload(key, f"{name}{rest}") for key, rest in signatures]), body)


def _ordering(name: str, prefix: str, body: Body) -> FunctionDecl:
    variants = [(f"{prefix}_{key}", f"({one}, {other}) -> bool") for key, one, other in _ORDERED_PAIRS]
    return _operator(name, body, *variants)


def _unguarded(signature: Overload) -> FunctionDecl:
    return FunctionDecl(signature.function, (signature,), guarded=False)


def never(*args: object) -> object:
    """The body of operators that the evaluator itself carries out."""
    raise no_overload("operator", *args)


FUNCTIONS: tuple[FunctionDecl | Overload, ...] = (
    _operator("_?_:_", never, ("conditional", "(bool, A, A) -> A")),
    _operator("_&&_", never, ("logical_and", "(bool, bool) -> bool")),
    _operator("_||_", never, ("logical_or", "(bool, bool) -> bool")),
    _operator("!_", logical_not, ("logical_not", "(bool) -> bool")),
    _operator("@not_strictly_false", not_strictly_false, ("not_strictly_false", "(bool) -> bool")),
    _operator("_==_", equal, ("equals", "(A, A) -> bool")),
    _operator("_!=_", not_equals, ("not_equals", "(A, A) -> bool")),
    _operator(
        "_+_",
        add,
        ("add_bytes", "(bytes, bytes) -> bytes"),
        ("add_double", "(double, double) -> double"),
        ("add_duration_duration", "(duration, duration) -> duration"),
        ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
        ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("add_int64", "(int, int) -> int"),
        ("add_list", "(list(A), list(A)) -> list(A)"),
        ("add_string", "(string, string) -> string"),
        ("add_uint64", "(uint, uint) -> uint"),
    ),
    _operator(
        "_/_",
        divide,
        ("divide_double", "(double, double) -> double"),
        ("divide_int64", "(int, int) -> int"),
        ("divide_uint64", "(uint, uint) -> uint"),
    ),
    _operator("_%_", modulo, ("modulo_int64", "(int, int) -> int"), ("modulo_uint64", "(uint, uint) -> uint")),
    _operator(
        "_*_",
        multiply,
        ("multiply_double", "(double, double) -> double"),
        ("multiply_int64", "(int, int) -> int"),
        ("multiply_uint64", "(uint, uint) -> uint"),
    ),
    _operator("-_", negate, ("negate_double", "(double) -> double"), ("negate_int64", "(int) -> int")),
    _operator(
        "_-_",
        subtract,
        ("subtract_double", "(double, double) -> double"),
        ("subtract_duration_duration", "(duration, duration) -> duration"),
        ("subtract_int64", "(int, int) -> int"),
        ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
        ("subtract_uint64", "(uint, uint) -> uint"),
    ),
    _ordering("_<_", "less", less),
    _ordering("_<=_", "less_equals", less_equals),
    _ordering("_>_", "greater", greater),
    _ordering("_>=_", "greater_equals", greater_equals),
    _operator("_[_]", never, ("index_list", "(list(A), int) -> A"), ("index_map", "(map(A, B), A) -> B")),
    _operator("@in", is_in, ("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")),
    FunctionDecl(
        "size",
        (
            overload("size_bytes", "size(bytes) -> int"),
            overload("bytes_size", "bytes.size() -> int"),
            overload("size_list", "size(list(A)) -> int"),
            overload("list_size", "list(A).size() -> int"),
            overload("size_map", "size(map(A, B)) -> int"),
            overload("map_size", "map(A, B).size() -> int"),
            overload("size_string", "size(string) -> int"),
            overload("string_size", "string.size() -> int"),
        ),
        size,
    ),
    _operator("type", type_of_value, ("type", "(A) -> type(A)")),
    _operator("dyn", identity, ("to_dyn", "(A) -> dyn")),
    _unguarded(overload("contains_string", "string.contains(string) -> bool", string_contains)),
    _unguarded(overload("ends_with_string", "string.endsWith(string) -> bool", ends_with)),
    _unguarded(overload("starts_with_string", "string.startsWith(string) -> bool", starts_with)),
    FunctionDecl(
        "matches",
        (
            overload("matches", "matches(string, string) -> bool"),
            overload("matches_string", "string.matches(string) -> bool"),
        ),
        matches,
    ),
)
