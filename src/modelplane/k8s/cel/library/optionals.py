"""Optional values. `or` and `orValue` evaluate their argument lazily, so the evaluator runs them."""

from modelplane.k8s.cel.declarations import FunctionDecl, Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.standard import never
from modelplane.k8s.cel.values import NONE, CelDuration, ListValue, Optional, Timestamp, list_size, size_of

_ZERO_TIME = -62135596800 * 10**9


def of(value: object) -> Optional:
    """An optional with a value; null is a value."""
    return Optional(value)


def of_non_zero(value: object) -> Optional:
    """An optional with a value, unless that is zero, false, null or empty."""
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: object) -> bool:
    if value is None or value is False:
        return True
    if isinstance(value, Timestamp):
        return value.nanos == _ZERO_TIME
    if isinstance(value, CelDuration):
        return value.nanos == 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value == 0
    return not isinstance(value, bool) and not hasattr(value, "cel_size") and size_of(value) == 0


def none() -> Optional:
    """The optional without a value."""
    return NONE


def value_of(optional: Optional) -> object:
    """The value inside, or an error."""
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    if isinstance(optional.value, EvaluationError):
        raise optional.value
    return optional.value


def has_value(optional: Optional) -> bool:
    """Whether there is a value inside."""
    return optional is not NONE


def first(items: ListValue) -> Optional:
    """The first element, if there is one."""
    return Optional(items[0]) if list_size(items) else NONE


def last(items: ListValue) -> Optional:
    """The last element, if there is one."""
    return Optional(items[list_size(items) - 1]) if list_size(items) else NONE


def unwrap(items: ListValue) -> list[object]:
    """The values of all optionals that have one."""
    values: list[object] = []
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("optional.unwrap: every element must be an optional")
        if item is not NONE:
            values.append(item.value)
    return values


FUNCTIONS: tuple[Overload | FunctionDecl, ...] = (
    overload("optional_of", "optional.of(V) -> optional(V)", of),
    overload("optional_ofNonZeroValue", "optional.ofNonZeroValue(V) -> optional(V)", of_non_zero),
    overload("optional_none", "optional.none() -> optional(V)", none),
    overload("optional_value", "optional(V).value() -> V", value_of),
    overload("optional_hasValue", "optional(V).hasValue() -> bool", has_value),
    overload("optional_or_optional", "optional(V).or(optional(V)) -> optional(V)"),
    overload("optional_orValue_value", "optional(V).orValue(V) -> V"),
    overload("select_optional_field", "_?._(dyn, string) -> optional(V)", never),
    overload("list_optindex_optional_int", "_[?_](list(V), int) -> optional(V)", never),
    overload("optional_list_optindex_optional_int", "_[?_](optional(list(V)), int) -> optional(V)", never),
    overload("map_optindex_optional_value", "_[?_](map(K, V), K) -> optional(V)", never),
    overload("optional_map_optindex_optional_value", "_[?_](optional(map(K, V)), K) -> optional(V)", never),
    FunctionDecl(
        "_[_]",
        (
            overload("optional_list_index_int", "_[_](optional(list(V)), int) -> optional(V)"),
            overload("optional_map_index_value", "_[_](optional(map(K, V)), K) -> optional(V)"),
        ),
        never,
    ),
    overload("list_last", "list(V).last() -> optional(V)", last),
    overload("list_first", "list(V).first() -> optional(V)", first),
    overload("optional_unwrap", "optional.unwrap(list(optional(V))) -> list(V)", unwrap),
    overload("optional_unwrapOpt", "list(optional(V)).unwrapOpt() -> list(V)", unwrap),
)
