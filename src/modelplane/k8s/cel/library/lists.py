"""Lists: Kubernetes' own functions, the lists extension version 3, sets, and maps under construction."""

from functools import cmp_to_key

from modelplane.k8s.cel.declarations import Body, FunctionDecl, Overload, overload
from modelplane.k8s.cel.equality import compare, contains, is_comparable, same_value
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.standard import add
from modelplane.k8s.cel.limits import check_list
from modelplane.k8s.cel.mutable_values import MutableMap
from modelplane.k8s.cel.values import (
    MAX_INT,
    CelDuration,
    ListValue,
    MapValue,
    Uint,
    contains_key,
    is_list,
    list_size,
    make_map,
    map_items,
    no_overload,
    runtime_type,
)
from modelplane.k8s.cel.work_budget import metered, spend

# Classes whose equality and hash in Python equal CEL's, unless mixed with others.
_HASHABLE = frozenset({str, int, bool, bytes})
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE: tuple[tuple[str, object], ...] = (
    ("int", 0),
    ("uint", Uint(0)),
    ("double", 0.0),
    ("duration", CelDuration(0)),
)

_PER_ELEMENT = 10
_SORT_EFFORT = 200


def is_sorted(items: ListValue) -> bool:
    """Whether the elements are in ascending order."""
    spend(_PER_ELEMENT * list_size(items))
    previous: object = None
    for index, item in enumerate(items):
        if not is_comparable(item):
            raise no_overload("isSorted", item)
        if index and _order(previous, item) > 0:
            return False
        previous = item
    return True


def _order(left: object, right: object) -> int:
    """The order of two values, or zero where they have none: upstream overlooks that error here."""
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


def _sum_from(zero: object) -> Body:
    def total(items: ListValue) -> object:
        numbers = [item for item in items if type(item) is int]
        if type(zero) is int and len(numbers) == list_size(items) and _sums_safely(numbers):
            return sum(numbers)
        spend(_PER_ELEMENT * list_size(items))
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _sums_safely(numbers: list[int]) -> bool:
    """Whether no order of adding the numbers up can overflow on the way."""
    return not numbers or len(numbers) * max(abs(max(numbers)), abs(min(numbers))) <= MAX_INT


def _extreme(name: str, sign: int) -> Body:
    def pick(items: ListValue) -> object:
        spend(_PER_ELEMENT * list_size(items))
        found: object = None
        for index, item in enumerate(items):
            if not is_comparable(item):
                raise no_overload(name, item)
            if index == 0 or _order(found, item) == sign:
                found = item
        if not list_size(items):
            raise EvaluationError(f"{name} called on empty list")
        return found

    return pick


def index_of(items: ListValue, wanted: object) -> int:
    """The first position of an equal element, or -1."""
    for index, item in enumerate(metered(items, _PER_ELEMENT)):
        if same_value(item, wanted):
            return index
    return -1


def last_index_of(items: ListValue, wanted: object) -> int:
    """The last position of an equal element, or -1."""
    last = -1
    for index, item in enumerate(metered(items, _PER_ELEMENT)):
        if same_value(item, wanted):
            last = index
    return last


def slice_list(items: ListValue, start: int, end: int) -> list[object]:
    """The elements from `start` up to `end`."""
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if list_size(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {list_size(items)}")
    return bounded(items)[start:end]


def bounded(items: ListValue) -> list[object]:
    """The elements in a list of their own, unless there are more than any honest expression would copy."""
    check_list(list_size(items))
    spend(list_size(items))
    return list(items)


def flatten(items: object, depth: object = 1) -> list[object]:
    """The elements with `depth` levels of lists inside dissolved."""
    if not is_list(items) or type(depth) is not int:
        raise no_overload("flatten", items, depth)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    return _flattened(items, depth)


def _flattened(items: ListValue, depth: int) -> list[object]:
    result: list[object] = []
    for item in metered(items, _PER_ELEMENT):
        if depth > 0 and is_list(item):
            result += _flattened(item, depth - 1)
        else:
            result.append(item)
        check_list(len(result))
    return result


def sort(items: object) -> object:
    """The elements in ascending order."""
    if not is_list(items):
        raise no_overload("sort", items)
    return sort_by_keys(items, items)


def sort_by_keys(items: object, keys: object) -> object:
    """The elements in ascending order of their keys."""
    if not is_list(items) or not is_list(keys):
        raise no_overload("@sortByAssociatedKeys", items, keys)
    spend(_SORT_EFFORT)
    elements, order = bounded(items), bounded(keys)
    if len(elements) != len(order):
        raise EvaluationError("sortBy: the keys and the list have different sizes")
    if not elements:
        return items
    if not is_comparable(order[0]):
        raise EvaluationError("list elements must be comparable")
    kind = runtime_type(order[0])
    if len(order) > 1 and any(runtime_type(key) is not kind for key in order):
        raise EvaluationError("list elements must have the same type")
    by_key = cmp_to_key(_order)
    pairs = sorted(zip(map(by_key, order), range(len(order)), strict=True))
    return [elements[position] for _, position in pairs]


def make_range(count: int) -> range:
    """The numbers from zero up to a count."""
    check_list(count)
    return range(count)


def reverse(items: ListValue) -> list[object]:
    """The elements from last to first."""
    return bounded(items)[::-1]


def distinct(items: ListValue) -> ListValue:
    """The elements without those equal to an earlier one."""
    kinds = {type(item) for item in items}
    if len(kinds) == 1 and kinds <= _HASHABLE:
        return list(dict.fromkeys(items))
    seen: list[object] = []
    for item in items:
        spend(_PER_ELEMENT * len(seen))
        if not any(same_value(item, other) for other in seen):
            seen.append(item)
    return seen


def sets_contains(items: ListValue, wanted: ListValue) -> bool:
    """Whether the first list has every element of the second."""
    return all(contains(items, item) for item in wanted)


def sets_equivalent(left: ListValue, right: ListValue) -> bool:
    """Whether each list has every element of the other."""
    return sets_contains(left, right) and sets_contains(right, left)


def sets_intersects(left: ListValue, right: ListValue) -> bool:
    """Whether the lists share an element."""
    return any(contains(right, item) for item in left)


def insert_entry(mapping: MapValue, key: object, value: object) -> MapValue:
    """The map with one more entry; a key that is there already is an error."""
    if isinstance(mapping, MutableMap):
        return mapping.insert(key, value)
    if contains_key(mapping, key):
        raise EvaluationError(f"insert failed: key {key} already exists")
    return make_map([*map_items(mapping), (key, value)])


def insert_map(mapping: MapValue, entries: MapValue) -> MapValue:
    """The map with the entries of another."""
    for key, value in map_items(entries):
        mapping = insert_entry(mapping, key, value)
    return mapping


def _templated(name: str, identifier: str, result: str, body: Body, types: tuple[str, ...]) -> list[Overload]:
    return [
        overload(identifier.format(kind), f"list({kind}).{name}() -> {result.format(kind)}", body) for kind in types
    ]


KUBERNETES: tuple[Overload, ...] = (
    *_templated("isSorted", "list_{0}_is_sorted_bool", "bool", is_sorted, _COMPARABLE),
    *[
        overload(f"list_{kind}_sum_{kind}", f"list({kind}).sum() -> {kind}", _sum_from(zero))
        for kind, zero in _SUMMABLE
    ],
    *_templated("max", "list_{0}_max_{0}", "{0}", _extreme("max", -1), _COMPARABLE),
    *_templated("min", "list_{0}_min_{0}", "{0}", _extreme("min", 1), _COMPARABLE),
    overload("list_a_index_of_int", "list(A).indexOf(A) -> int", index_of),
    overload("list_a_last_index_of_int", "list(A).lastIndexOf(A) -> int", last_index_of),
)

# The names of durations and timestamps inside overload identifiers are those of their protobuf messages.
_KEY_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

EXTENSION: tuple[Overload | FunctionDecl, ...] = (
    overload("list_slice", "list(T).slice(int, int) -> list(T)", slice_list),
    FunctionDecl(
        "flatten",
        (
            overload("list_flatten", "list(list(T)).flatten() -> list(T)", flatten),
            overload("list_flatten_int", "list(dyn).flatten(int) -> list(dyn)", flatten),
        ),
        guarded=False,
    ),
    FunctionDecl(
        "sort",
        tuple(
            overload(f"list_{_KEY_NAMES.get(kind, kind)}_sort", f"list({kind}).sort() -> list({kind})")
            for kind in _COMPARABLE
        ),
        sort,
    ),
    FunctionDecl(
        "@sortByAssociatedKeys",
        tuple(
            overload(
                f"list_{_KEY_NAMES.get(kind, kind)}_sortByAssociatedKeys",
                f"list(T).@sortByAssociatedKeys(list({kind})) -> list(T)",
            )
            for kind in _COMPARABLE
        ),
        sort_by_keys,
    ),
    overload("lists_range", "lists.range(int) -> list(int)", make_range),
    overload("list_reverse", "list(T).reverse() -> list(T)", reverse),
    overload("list_distinct", "list(T).distinct() -> list(T)", distinct),
)

SETS: tuple[Overload, ...] = (
    overload("list_sets_contains_list", "sets.contains(list(T), list(T)) -> bool", sets_contains),
    overload("list_sets_equivalent_list", "sets.equivalent(list(T), list(T)) -> bool", sets_equivalent),
    overload("list_sets_intersects_list", "sets.intersects(list(T), list(T)) -> bool", sets_intersects),
)

COMPREHENSIONS: tuple[Overload, ...] = (
    overload("@mapInsert_map_key_value", "cel.@mapInsert(map(K, V), K, V) -> map(K, V)", insert_entry),
    overload("@mapInsert_map_map", "cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)", insert_map),
)
