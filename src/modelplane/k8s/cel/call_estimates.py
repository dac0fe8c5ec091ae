"""Cost estimates of calls: the libraries' rules, then those of CEL's own functions.

A rule yields a cost and, where the function makes a text or a list, the size of its result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.sizes import MAX, ONE, UNKNOWN, Range, SizeEstimator, exactly, plus, scaled, times, wrapped
from modelplane.k8s.cel.syntax import Literal, Node
from modelplane.k8s.cel.types import CelType, TypeKind

_TEXT = 0.1
_REGEX = 0.25
_ALLOCATION = exactly(11)
_MAX_FORMAT_SIZE = 64
_NAME_REGEX_SIZE = 128
_MAX_INCLUDES = 48
_ADDRESS: Range = (4, 16)
_CHECK_COST = 350_000

CallEstimate: TypeAlias = "tuple[Range, Range | None] | None"


@dataclass(slots=True, eq=False)
class SizedNode:
    """An argument: where its value comes from and how large it can be, as far as either is known."""

    node: Node
    type: CelType
    path: tuple[str, ...]
    size: Range | None

    @property
    def known(self) -> Range:
        """The size, unbounded where it is not known."""
        return UNKNOWN if self.size is None else self.size


@dataclass(slots=True, eq=False)
class CallArgs:
    """A call to be estimated."""

    function: str
    target: SizedNode | None
    args: list[SizedNode]
    bounds: SizeEstimator


def ignores_sizes(function: str, overload: str) -> bool:
    """Whether a call costs one unit for any arguments."""
    rule = _BY_FUNCTION.get(function)
    if rule is not None:
        return rule is _nominal
    return not (overload in _SIZED or overload.endswith(("_sort", "_sortByAssociatedKeys")))


def estimate_call(overload: str, call: CallArgs) -> CallEstimate:
    """The cost without that of the arguments, and the size of the result; None where no rule applies."""
    rule = _BY_OVERLOAD.get(overload)
    if rule is None and overload.endswith(("_sort", "_sortByAssociatedKeys")):
        rule = _sort
    if rule is not None:
        found = rule(overload, call)
        if found is not None:
            return found
    rule = _BY_FUNCTION.get(call.function)
    if rule is not None:
        found = rule(overload, call)
        if found is not None:
            return found
    rule = _BY_FAMILY.get(overload)
    return None if rule is None else rule(overload, call)


def _nominal(_overload: str, _call: CallArgs) -> CallEstimate:
    return ONE, None


def _traversed_argument(_overload: str, call: CallArgs) -> CallEstimate:
    return scaled(call.args[0].known, _TEXT), None


def _includes(_overload: str, _call: CallArgs) -> CallEstimate:
    return (0, _MAX_INCLUDES), None


def _element(call: CallArgs, items: SizedNode) -> tuple[CelType, Range] | None:
    """The type of a list's elements and how large one can be."""
    if not items.type.params:
        return None
    element = items.type.params[0]
    size = call.bounds.size((*items.path, "@items") if items.path else (), element)
    return element, UNKNOWN if size is None else size


def _list_search(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    element = _element(call, call.target)
    if element is None:
        return scaled(call.target.known, _TEXT), None
    each = ONE
    if element[0].kind in {TypeKind.STRING, TypeKind.BYTES}:
        each = plus(each, scaled(element[1], _TEXT))
    return times(call.target.known, each), None


def _url(_overload: str, call: CallArgs) -> CallEstimate:
    size = call.args[0].known
    return scaled(size, _TEXT), size


def _same_length(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    size = call.target.known
    return scaled(size, _TEXT), size


def _replace(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None or len(call.args) < 2:  # noqa: PLR2004  what to replace, and with what
        return None
    text, old, new = call.target.known, call.args[0].known, call.args[1].known
    most = _most_replaced(text[1], old[0], new[1])
    least = _least_replaced(text[0], old[1], new[0])
    size = plus(times((least[0], most[0]), new), (least[1], most[1]))
    return scaled(text, 2 * _TEXT), size


def _most_replaced(text: int, old: int, new: int) -> tuple[int, int]:
    """How many replacements the longest result has, and how much of the text it keeps."""
    if old == 0:
        return (text + 1 if text < MAX else text), text
    if new <= old:
        return 0, text
    return _quotient(text, old), 0


def _least_replaced(text: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return (text + 1 if text < MAX else text), text
    if old <= new:
        return 0, text
    return _quotient(text, old), 0


def _quotient(text: int, part: int) -> int:
    quotient = float(text) / float(part)
    # A double beyond the range of uint64 converts to 2**63 on the machines that run Kubernetes.
    return 2**63 if quotient >= 2.0**64 else ceil(quotient)


def _split(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    size = call.target.known
    most = size[1]
    if len(call.args) > 1 and isinstance(call.args[1].node, Literal):
        limit = call.args[1].node.value
        if type(limit) is int:
            most = wrapped(limit)
    return scaled(size, 2 * _TEXT), (0, most)


def _join(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    count = call.target.known
    element = _element(call, call.target)
    size = (0, 0) if element is None else times(count, element[1])
    if call.args:
        separators = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        size = plus(size, times(call.args[0].known, separators))
    return scaled(size, _TEXT), size


def _find(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None or not call.args:
        return None
    text = call.target.known
    cost = times(scaled(plus(text, ONE), _TEXT), scaled(call.args[0].known, _REGEX))
    return cost, (0, text[1])


def _parse_ip(overload: str, call: CallArgs) -> CallEstimate:
    return (ONE, None) if overload == "cidr_ip" or not call.args else _traversed_argument(overload, call)


def _is_canonical(_overload: str, call: CallArgs) -> CallEstimate:
    return scaled(call.args[0].known, 2 * _TEXT), None


def _contains_ip(overload: str, call: CallArgs) -> CallEstimate:
    cost = scaled(plus(_ADDRESS, _ADDRESS), _TEXT)
    if overload == "cidr_contains_ip_string":
        cost = plus(cost, scaled(call.args[0].known, _TEXT))
    return cost, None


def _contains_cidr(overload: str, call: CallArgs) -> CallEstimate:
    cost = plus(plus(scaled(plus(_ADDRESS, _ADDRESS), _TEXT), scaled(_ADDRESS, _TEXT)), ONE)
    if overload == "cidr_contains_cidr_string":
        cost = plus(cost, scaled(call.args[0].known, _TEXT))
    return cost, None


def _validate(_overload: str, call: CallArgs) -> CallEstimate:
    return scaled(scaled(call.args[0].known, _TEXT), _NAME_REGEX_SIZE * _REGEX), None


def _selector_text(_overload: str, call: CallArgs) -> CallEstimate:
    if len(call.args) != 1:
        return None
    size = call.args[0].known
    return plus(plus(exactly(10), scaled(size, _TEXT)), scaled(scaled(size, 0.5), 50.0)), None


def _authorize(_overload: str, _call: CallArgs) -> CallEstimate:
    return exactly(_CHECK_COST), None


_UNIT_EQUALITY = frozenset({t.IP, t.CIDR, t.QUANTITY, t.SEMVER}) | frozenset(
    t.struct(f"kubernetes.authorization.{name}")
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)


def _equals(_overload: str, call: CallArgs) -> CallEstimate:
    left, right = call.args
    if left.type.name != right.type.name:
        return None
    if left.type in _UNIT_EQUALITY:
        return ONE, None
    if left.type is t.FORMAT:
        return scaled((1, _MAX_FORMAT_SIZE), _TEXT), None
    if left.type is t.URL:
        size = ONE if right.size is None else right.size
        return scaled((1, size[1]), _TEXT), None
    return None


def _allocated(factor: float, size: Range) -> CallEstimate:
    return plus(scaled(size, factor), _ALLOCATION), size


def _literal_int(argument: SizedNode, default: int) -> int:
    if isinstance(argument.node, Literal) and type(argument.node.value) is int:
        return max(argument.node.value, 0)
    return default


def _slice(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    start = _literal_int(call.args[0], 0)
    end = _literal_int(call.args[1], call.target.known[1])
    return _allocated(1.0, exactly(wrapped(end - start)))


def _range(_overload: str, call: CallArgs) -> CallEstimate:
    return _allocated(1.0, exactly(_literal_int(call.args[0], MAX)))


def _reverse(_overload: str, call: CallArgs) -> CallEstimate:
    return None if call.target is None else _allocated(1.0, call.target.known)


def _flatten(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    depth = _literal_int(call.args[0], MAX) if call.args else 1
    return _allocated(float(depth), call.target.known)


def _distinct(_overload: str, call: CallArgs) -> CallEstimate:
    return None if call.target is None else _allocated(2.0, times(call.target.known, call.target.known))


def _sort(overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    keys = call.args[0] if call.args else call.target
    factor = 2.0 + _TEXT if overload.startswith(("list_string_", "list_bytes_")) else 2.0
    return _allocated(factor, times(keys.known, keys.known))


def _sets(factor: float) -> Callable[[str, CallArgs], CallEstimate]:
    def estimate(_overload: str, call: CallArgs) -> CallEstimate:
        return plus(scaled(times(call.args[0].known, call.args[1].known), factor), ONE), None

    return estimate


def _format(_overload: str, call: CallArgs) -> CallEstimate:
    return None if call.target is None else (scaled(call.target.known, _TEXT), None)


def _string_to_bytes(_overload: str, call: CallArgs) -> CallEstimate:
    size = call.args[0].known
    return scaled(size, _TEXT), (size[0], wrapped(size[1] * 4))


def _bytes_to_string(_overload: str, call: CallArgs) -> CallEstimate:
    size = call.args[0].known
    return scaled(size, _TEXT), (size[0] // 4, size[1])


def _quote(_overload: str, call: CallArgs) -> CallEstimate:
    size = call.args[0].known
    return scaled(size, _TEXT), (wrapped(size[0] + 2), wrapped(size[1] * 2 + 2))


def _in_list(_overload: str, call: CallArgs) -> CallEstimate:
    return scaled(call.args[1].known, 1.0), None


def _matches(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    return times(scaled(plus(call.target.known, ONE), _TEXT), scaled(call.args[0].known, _REGEX)), None


def _contains(_overload: str, call: CallArgs) -> CallEstimate:
    if call.target is None:
        return None
    return times(scaled(call.target.known, _TEXT), scaled(call.args[0].known, _TEXT)), None


_Rule: TypeAlias = Callable[[str, CallArgs], CallEstimate]

_BY_OVERLOAD: dict[str, _Rule] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1.0),
    "list_sets_intersects_list": _sets(1.0),
    "list_sets_equivalent_list": _sets(2.0),
    "dra_includes_dyn_dyn": _includes,
}
_NOMINAL = (
    "serviceAccount path group resource subresource namespace name allowed reason error errored "
    "masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast "
    "format.named sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub "
    "major minor patch getScheme getHostname getHost getPort getEscapedPath getQuery"
)
_BY_FUNCTION: dict[str, _Rule] = {
    "check": _authorize,
    "fieldSelector": _selector_text,
    "labelSelector": _selector_text,
    "url": _url,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _parse_ip,
    "ip.isCanonical": _is_canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _list_search),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_length),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversed_argument),
    **dict.fromkeys(_NOMINAL.split(), _nominal),
}
_BY_FAMILY: dict[str, _Rule] = {
    "string_format": _format,
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    "starts_with_string": _traversed_argument,
    "ends_with_string": _traversed_argument,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
}

_ORDERED = ("less", "less_equals", "greater", "greater_equals")
COMPARISONS = frozenset({f"{name}_{kind}" for name in _ORDERED for kind in ("string", "bytes")}) | {
    "equals",
    "not_equals",
}
# Overloads whose cost, or whose result's size, depends on the sizes of their arguments.
_SIZED = _BY_OVERLOAD.keys() | _BY_FAMILY.keys() | COMPARISONS | {"conditional", "add_string", "add_bytes", "add_list"}
