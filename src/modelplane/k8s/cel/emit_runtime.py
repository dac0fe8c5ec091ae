"""What generated functions call. Each either answers exactly or raises, and raising means: ask the exact evaluator."""

from collections.abc import Callable, Iterable

from modelplane.k8s.cel.device_view import EMPTY, DomainMap
from modelplane.k8s.cel.effort import metered, work
from modelplane.k8s.cel.equality import compare, contains, equal
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library.standard import checked_int, divide_ints, modulo_ints, not_equals
from modelplane.k8s.cel.values import contains_key, find
from modelplane.k8s.quantity import Quantity
from modelplane.k8s.quantity import compare as compare_quantities
from modelplane.k8s.semver import Version

_ERROR_EFFORT = 40

# What is an error of the expression itself; a missing key comes straight from the dict that lacks it.
ABSORBED = (EvaluationError, LookupError)

# What a generated function may raise; nothing else can come out of it.
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


def _any_of(*terms: Callable[[], bool]) -> bool:
    failure: Exception | None = None
    for term in terms:
        try:
            if term():
                return True
        except ABSORBED as error:
            work(_ERROR_EFFORT)
            failure = failure or error.with_traceback(None)
    if failure is not None:
        raise failure
    return False


def _all_of(*terms: Callable[[], bool]) -> bool:
    failure: Exception | None = None
    for term in terms:
        try:
            if not term():
                return False
        except ABSORBED as error:
            work(_ERROR_EFFORT)
            failure = failure or error.with_traceback(None)
    if failure is not None:
        raise failure
    return True


def _absorbing_every(items: Iterable[object], test: Callable[[object], bool]) -> bool:
    failure: Exception | None = None
    for item in items:
        try:
            if not test(item):
                return False
        except ABSORBED as error:
            work(_ERROR_EFFORT)
            failure = error.with_traceback(None)
    if failure is not None:
        raise failure
    return True


def _absorbing_some(items: Iterable[object], test: Callable[[object], bool]) -> bool:
    failure: Exception | None = None
    for item in items:
        try:
            if test(item):
                return True
        except ABSORBED as error:
            work(_ERROR_EFFORT)
            failure = error.with_traceback(None)
    if failure is not None:
        raise failure
    return False


def _absorbing_every2(pairs: Iterable[tuple[object, object]], test: Callable[[object, object], bool]) -> bool:
    return _absorbing_every(pairs, _unpacked(test))


def _absorbing_some2(pairs: Iterable[tuple[object, object]], test: Callable[[object, object], bool]) -> bool:
    return _absorbing_some(pairs, _unpacked(test))


def _unpacked(test: Callable[..., bool]) -> Callable[[object], bool]:
    def run(pair: object) -> bool:
        assert isinstance(pair, tuple)  # noqa: S101  loops with two variables run over pairs
        return test(*pair)

    return run


def _lazy(compute: Callable[[], object]) -> Callable[[], object]:
    """A value that is computed when it is first read, and the same ever after."""
    known: list[object] = []

    def read() -> object:
        if not known:
            known.append(compute())
        return known[0]

    return read


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
    "absorbing_every": _absorbing_every,
    "absorbing_every2": _absorbing_every2,
    "absorbing_some": _absorbing_some,
    "absorbing_some2": _absorbing_some2,
    "all_of": _all_of,
    "any_of": _any_of,
    "lazy": _lazy,
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
