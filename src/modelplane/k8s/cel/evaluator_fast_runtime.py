"""The runtime of generated functions. Each result is exact; on an exception the exact evaluator runs."""

from collections.abc import Callable, Iterable

from modelplane.k8s.cel.device_view import EMPTY, DomainMap
from modelplane.k8s.cel.equality import compare, contains, equal
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library.standard import checked_int, divide_ints, modulo_ints, not_equals
from modelplane.k8s.cel.values import contains_key, find
from modelplane.k8s.cel.work_budget import metered
from modelplane.k8s.quantity import Quantity
from modelplane.k8s.quantity import compare as compare_quantities
from modelplane.k8s.semver import Version

# The exceptions of a generated function.
FALLBACKS = (EvaluationError, EvaluationAborted, LookupError, RecursionError)


def _truth(value: object) -> bool:
    if value is True or value is False:
        return value
    raise EvaluationError("not a bool")


def _get(container: object, key: object) -> object:
    present, value = find(container, key)
    if present:
        return value
    raise EvaluationError("no such key")


def _every(items: Iterable[object], test: Callable[[object], bool]) -> bool:
    return all(map(test, items))


def _some(items: Iterable[object], test: Callable[[object], bool]) -> bool:
    return any(map(test, items))


def _one(items: Iterable[object], test: Callable[[object], bool]) -> bool:
    return sum([1 for item in items if test(item)]) == 1


def _mapped(items: Iterable[object], transform: Callable[[object], object]) -> list[object]:
    return [transform(item) for item in items]


def _kept(items: Iterable[object], test: Callable[[object], bool]) -> list[object]:
    return [item for item in items if test(item)]


def _every2(pairs: Iterable[tuple[object, object]], test: Callable[[object, object], bool]) -> bool:
    return all(test(first, second) for first, second in pairs)


def _some2(pairs: Iterable[tuple[object, object]], test: Callable[[object, object], bool]) -> bool:
    return any(test(first, second) for first, second in pairs)


def _one2(pairs: Iterable[tuple[object, object]], test: Callable[[object, object], bool]) -> bool:
    return sum([1 for first, second in pairs if test(first, second)]) == 1


def _mapped2(pairs: Iterable[tuple[object, object]], transform: Callable[[object, object], object]) -> list[object]:
    return [transform(first, second) for first, second in pairs]


NAMES: dict[str, object] = {
    "__builtins__": {},
    "EMPTY": EMPTY,
    "Quantity": Quantity,
    "Version": Version,
    "bool": bool,
    "checked_int": checked_int,
    "compare": compare,
    "divide": divide_ints,
    "metered": metered,
    "modulo": modulo_ints,
    "compare_quantities": compare_quantities,
    "contains": contains,
    "domains": DomainMap,
    "enumerate": enumerate,
    "equal": equal,
    "every": _every,
    "every2": _every2,
    "float": float,
    "get": _get,
    "has": contains_key,
    "int": int,
    "kept": _kept,
    "len": len,
    "mapped": _mapped,
    "mapped2": _mapped2,
    "not_equals": not_equals,
    "one": _one,
    "one2": _one2,
    "some": _some,
    "some2": _some2,
    "str": str,
    "truth": _truth,
    "type": type,
}
