"""When two values are equal, and which of two is the smaller.

Equality is total for CEL's own types: values of different types are unequal, numbers compare across their types. For
the types that Kubernetes adds, one of them on the left of `==` with another type on the right is an error, while on the
right of a string it is unequal. Inside lists and maps such an error counts as equal, as upstream.
"""

import math
from collections.abc import Callable
from typing import TypeGuard

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.cel.values import (
    NONE,
    CelDuration,
    KeyedMap,
    ListValue,
    MapValue,
    Optional,
    Rope,
    Timestamp,
    Uint,
    contains_key,
    find,
    is_list,
    is_map,
    list_size,
    map_items,
    no_overload,
    size_of,
)
from modelplane.k8s.cel.work_budget import metered, spend
from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import Quantity
from modelplane.k8s.semver import Version

_PER_ELEMENT = 10
_NUMBERS = frozenset({int, Uint, float})


def equal(left: object, right: object) -> bool:
    """`left == right`; null is equal to null only."""
    if left is None or right is None:
        return left is right
    return value_equal(left, right)


def value_equal(left: object, right: object) -> bool:
    """Equality as the left value's own type decides it."""
    rule = _EQUALITY.get(type(left))
    if rule is not None:
        return rule(left, right)
    if is_list(left):
        return _equal_lists(left, right)
    if is_map(left):
        return _equal_maps(left, right)
    return _equal_opaque(left, right)


def same_value(left: object, right: object) -> bool:
    """Equality that treats an error as false: membership in lists, `distinct`, `indexOf`."""
    try:
        return value_equal(left, right)
    except EvaluationError:
        return False


def _equal_string(left: str, right: object) -> bool:
    return type(right) is str and left == right


def _equal_number(left: float, right: object) -> bool:
    if not is_number(right):
        return False
    if type(left) is float or type(right) is float:
        return float(left) == float(right)
    return left == right


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an int, a uint or a double."""
    return type(value) in _NUMBERS


def _equal_bool(left: bool, right: object) -> bool:  # noqa: FBT001  a value of CEL, not a switch
    return left is right


def _equal_same_class(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right


def _equal_null(_left: None, right: object) -> bool:
    return right is None


def _equal_optional(left: Optional, right: object) -> bool:
    if not isinstance(right, Optional):
        return False
    if left is NONE or right is NONE:
        return left is right
    return value_equal(left.value, right.value)


def _equal_type(left: CelType, right: object) -> bool:
    return isinstance(right, CelType) and left.name == right.name


def _equal_quantity(left: Quantity, right: object) -> bool:
    if isinstance(right, Quantity):
        return left == right
    raise no_overload("_==_", left, right)


def _equal_cell(left: MutableQuantity, right: object) -> bool:
    if isinstance(right, MutableQuantity) and not right.derived:
        return left.equals(right)
    raise no_overload("_==_", left, right)


def _equal_opaque(left: object, right: object) -> bool:
    if type(left) is type(right):
        return left == right
    raise no_overload("_==_", left, right)


def _equal_element(left: object, right: object) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _equal_lists(left: ListValue, right: object) -> bool:
    custom: Callable[[object], bool] | None = getattr(left, "cel_equal", None)
    if custom is not None:
        return custom(right)
    if not is_list(right) or size_of(left) != size_of(right):
        return False
    spend(_PER_ELEMENT * list_size(left))
    return all(_equal_element(one, other) for one, other in zip(left, right, strict=True))


def _equal_maps(left: MapValue, right: object) -> bool:
    custom: Callable[[object], bool] | None = getattr(left, "cel_equal", None)
    if custom is not None:
        return custom(right)
    if not is_map(right) or size_of(left) != size_of(right):
        return False
    spend(_PER_ELEMENT * len(left))
    for key, value in map_items(left):
        found, other = find(right, key)
        if not found or not _equal_element(value, other):
            return False
    return True


_EQUALITY: dict[type, Callable[..., bool]] = {
    str: _equal_string,
    int: _equal_number,
    Uint: _equal_number,
    float: _equal_number,
    bool: _equal_bool,
    bytes: _equal_same_class,
    type(None): _equal_null,
    CelDuration: _equal_same_class,
    Timestamp: _equal_same_class,
    Optional: _equal_optional,
    CelType: _equal_type,
    Quantity: _equal_quantity,
    MutableQuantity: _equal_cell,
    Version: _equal_opaque,
    list: _equal_lists,
    tuple: _equal_lists,
    Rope: _equal_lists,
    dict: _equal_maps,
    KeyedMap: _equal_maps,
}


def contains(container: object, item: object) -> bool:
    """`item in container` for lists and maps."""
    custom: Callable[[object], bool] | None = getattr(container, "cel_contains", None)
    if custom is not None:
        return custom(item)
    if is_list(container):
        return any(same_value(item, element) for element in metered(container, _PER_ELEMENT))
    if is_map(container):
        return contains_key(container, item)
    raise no_overload("@in", item, container)


def compare(left: object, right: object) -> int:
    """-1, 0 or 1, or an error where the two have no order."""
    if is_number(left) and is_number(right):
        return _compare_numbers(left, right)
    if type(left) is str and type(right) is str:
        return -1 if left < right else int(left != right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return -1 if left < right else int(left != right)
    if isinstance(left, bool) and isinstance(right, bool):
        return int(left) - int(right)
    if (
        type(left) is type(right)
        and isinstance(left, CelDuration | Timestamp)
        and isinstance(right, CelDuration | Timestamp)
    ):
        return -1 if left.nanos < right.nanos else int(left.nanos != right.nanos)
    raise no_overload("compare", left, right)


def is_comparable(value: object) -> bool:
    """Whether values like this one have an order at all."""
    kind = type(value)
    return kind in _NUMBERS or kind in _ORDERED


_ORDERED = frozenset({str, bytes, bool, CelDuration, Timestamp})


def _compare_numbers(left: float, right: float) -> int:
    if type(left) is float or type(right) is float:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
    return -1 if left < right else int(left != right)
