"""The runtime cost of an evaluation, in upstream's units.

A unit is about the cost of reading a variable. Traversing a text costs a tenth of a unit per character, a pattern a
quarter per character of its own times that, making a list ten and a map thirty. Which rule applies to a call is decided
in this order: the overload, the function's name, the overload's family, else one unit.
"""

from collections.abc import Callable
from math import ceil
from typing import TypeAlias

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.library.formats import NamedFormat
from modelplane.k8s.cel.sizes import wrapped
from modelplane.k8s.cel.values import Optional, is_list, is_map, list_size, map_items, size_of
from modelplane.k8s.cel.work_budget import spend

LIST_COST, MAP_COST = 10, 30
_TEXT = 0.1
_REGEX = 0.25
_PER_ELEMENT = 8
_PARSED_ONCE = frozenset({"url", "lowerAscii", "upperAscii", "substring", "trim"}) | frozenset(
    {"cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"}
)
_TRAVERSED = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})

# An argument or a result that is an error: failed calls cost as much.
FAILED = object()

Args: TypeAlias = tuple[object, ...]
CostFunction: TypeAlias = Callable[[Args, object], int]


def _size(value: object) -> int:
    size = size_of(value)
    return 1 if size is None else size


def _inner_size(value: object) -> int:
    """The size of a value, or of what an optional holds."""
    return _inner_size(value.value) if isinstance(value, Optional) and value.value is not None else _size(value)


def text_cost(value: object, factor: float = _TEXT) -> int:
    """The cost of traversing a text."""
    return ceil(_size(value) * factor)


def equality_cost(left: object, right: object) -> int:
    """The cost of comparing two values, which is that of the shorter one."""
    return ceil(min(_inner_size(left), _inner_size(right)) * _TEXT)


def _traversal_cost(value: object) -> int:
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * _TEXT)
    if isinstance(value, bytes):
        return int(len(value) * _TEXT)
    if isinstance(value, range):
        return len(value)
    if is_list(value):
        spend(_PER_ELEMENT * list_size(value))
        return sum([_traversal_cost(item) for item in value])
    if is_map(value):
        return sum([_traversal_cost(key) + _traversal_cost(item) for key, item in map_items(value)])
    return 1


def _regex_cost(args: Args, _result: object) -> int:
    return ceil((1.0 + _size(args[0])) * _TEXT) * ceil(_size(args[1]) * _REGEX)


def _self_compare(items: object) -> int:
    if not is_list(items):
        raise EvaluationAborted("what is to be sorted or made distinct is not a list")
    size = list_size(items)
    if not size:
        return 11
    factor = 2.1 if isinstance(items[0], str | bytes) else 2.0
    return int(float(size * size) * factor) + 11


def _contains_ip(args: Args, _result: object) -> int:
    return ceil(2 * _size(args[0]) * _TEXT)


def _contains_cidr(args: Args, _result: object) -> int:
    return ceil(2 * _size(args[0]) * _TEXT) + text_cost(args[0]) + 1


def _validate(args: Args, _result: object) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return ceil((1.0 + _size(args[1])) * _TEXT) * ceil(args[0].regex_size * _REGEX)


def _sets(factor: int) -> CostFunction:
    return lambda args, _result: 1 + _size(args[0]) * _size(args[1]) * factor


def _flatten(args: Args, _result: object) -> int:
    depth = args[1] if len(args) > 1 else 1
    if not isinstance(depth, int):
        raise EvaluationAborted("the depth to flatten could not be computed")
    return wrapped(_unsigned(float(_size(args[0])) * float(depth)) + 11)


def _unsigned(number: float) -> int:
    """A double as an unsigned integer, the way the machines that run Kubernetes convert it."""
    if -(2.0**63) <= number < 2.0**64:
        return wrapped(int(number))
    return 2**63


def _output_size(_args: Args, result: object) -> int:
    return _size(result) + 11


_BY_OVERLOAD: dict[str, CostFunction] = {
    "list_slice": _output_size,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output_size,
    "list_reverse": _output_size,
    "list_distinct": lambda args, _result: _self_compare(args[0]),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_ip": lambda _args, _result: 1,
    "cidr_contains_ip_string": lambda args, result: _contains_ip(args, result) + text_cost(args[1]),
    "cidr_contains_cidr_string": lambda args, result: _contains_cidr(args, result) + text_cost(args[1]),
}
_BY_FUNCTION: dict[str, CostFunction] = {
    "check": lambda _args, _result: 350_000,
    "replace": lambda args, _result: text_cost(args[0], 2 * _TEXT),
    "split": lambda args, _result: text_cost(args[0], 2 * _TEXT),
    "join": lambda _args, result: text_cost(result, 2 * _TEXT),
    "find": _regex_cost,
    "findAll": _regex_cost,
    "ip": lambda args, _result: text_cost(args[0]),
    "ip.isCanonical": lambda args, _result: text_cost(args[0], 2 * _TEXT),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    **{name: lambda args, _result: _traversal_cost(args[0]) for name in _TRAVERSED},
    **{name: lambda args, _result: text_cost(args[0]) for name in _PARSED_ONCE},
}
_BY_FAMILY: dict[str, CostFunction] = {
    "starts_with_string": lambda args, _result: text_cost(args[0]),
    "ends_with_string": lambda args, _result: text_cost(args[0]),
    "string_to_bytes": lambda args, _result: text_cost(args[0]),
    "bytes_to_string": lambda args, _result: text_cost(args[0]),
    "strings_quote": lambda args, _result: text_cost(args[0]),
    "string_format": lambda args, _result: text_cost(args[0]),
    "in_list": lambda args, _result: _size(args[1]),
    "add_string": lambda args, _result: ceil((_size(args[0]) + _size(args[1])) * _TEXT),
    "add_bytes": lambda args, _result: ceil((_size(args[0]) + _size(args[1])) * _TEXT),
    "matches_string": _regex_cost,
    "contains_string": lambda args, _result: text_cost(args[0]) * text_cost(args[1]),
    **{
        f"{name}_{kind}": lambda args, _result: equality_cost(args[0], args[1])
        for name in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}


def cost_function(function: str, overload: str) -> CostFunction | None:
    """The cost of a call, or None where it is one unit; the overload is empty where several may run."""
    found = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function) or _BY_FAMILY.get(overload)
    if found is not None:
        return found
    if overload.endswith("_sort"):
        return lambda args, _result: _self_compare(args[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda args, _result: _self_compare(args[1])
    return None
