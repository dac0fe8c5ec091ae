"""Quantities and versions inside expressions.

The evaluator holds quantities in cells, because upstream lets an expression see what comparing and adding did to them.
The fast path holds plain quantities, which is only correct for expressions that cannot see the difference; see
`MUTATION_SENSITIVE`.
"""

from modelplane.k8s import quantity as q
from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import no_overload
from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import Quantity, QuantityError
from modelplane.k8s.semver import Version, VersionError, as_int64, compare_versions, is_version, parse_version

# Functions whose result depends on more than the quantity's number.
MUTATION_SENSITIVE = frozenset({"add", "sub", "asInteger", "isInteger"})


def to_quantity(text: str) -> MutableQuantity:
    """`quantity(text)`."""
    return MutableQuantity(plain_quantity(text))


def plain_quantity(text: object) -> Quantity:
    """The number of `quantity(text)`."""
    if not isinstance(text, str):
        raise no_overload("quantity", text)
    try:
        return q.parse_quantity(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _number(value: object) -> Quantity:
    if isinstance(value, MutableQuantity):
        return value.quantity
    assert isinstance(value, Quantity)  # noqa: S101  checked by the overload's guard
    return value


def compare_quantities(left: object, right: object) -> int:
    """`left.compareTo(right)`."""
    if isinstance(left, MutableQuantity) and isinstance(right, MutableQuantity):
        return left.compare(right)
    return q.compare(_number(left), _number(right))


def _is_greater(left: object, right: object) -> bool:
    return compare_quantities(left, right) > 0


def _is_less(left: object, right: object) -> bool:
    return compare_quantities(left, right) < 0


def _sign(value: object) -> int:
    return q.sign(_number(value))


def _approximate_float(value: object) -> float:
    return q.as_approximate_float(_number(value))


def _as_integer(value: MutableQuantity) -> int:
    number = q.as_integer(value.quantity)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _is_integer(value: MutableQuantity) -> bool:
    return q.as_integer(value.quantity) is not None


def _add(left: MutableQuantity, right: MutableQuantity) -> MutableQuantity:
    try:
        return left.add(right)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _subtract(left: MutableQuantity, right: MutableQuantity) -> MutableQuantity:
    try:
        return left.subtract(right)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _add_int(left: MutableQuantity, right: int) -> MutableQuantity:
    return _add(left, MutableQuantity(q.from_int(right)))


def _subtract_int(left: MutableQuantity, right: int) -> MutableQuantity:
    return _subtract(left, MutableQuantity(q.from_int(right)))


QUANTITY: tuple[Overload, ...] = (
    overload("string_to_quantity", "quantity(string) -> Quantity", to_quantity),
    overload("is_quantity_string", "isQuantity(string) -> bool", q.is_quantity),
    overload("quantity_sign", "sign(Quantity) -> int", _sign),
    overload("quantity_is_greater_than", "Quantity.isGreaterThan(Quantity) -> bool", _is_greater),
    overload("quantity_is_less_than", "Quantity.isLessThan(Quantity) -> bool", _is_less),
    overload("quantity_compare_to", "Quantity.compareTo(Quantity) -> int", compare_quantities),
    overload("quantity_get_float", "Quantity.asApproximateFloat() -> double", _approximate_float),
    overload("quantity_get_int", "Quantity.asInteger() -> int", _as_integer),
    overload("quantity_is_integer", "Quantity.isInteger() -> bool", _is_integer),
    overload("quantity_add", "Quantity.add(Quantity) -> Quantity", _add),
    overload("quantity_add_int", "Quantity.add(int) -> Quantity", _add_int),
    overload("quantity_sub", "Quantity.sub(Quantity) -> Quantity", _subtract),
    overload("quantity_sub_int", "Quantity.sub(int) -> Quantity", _subtract_int),
)


def to_version(text: str, normalize: bool = False) -> Version:  # noqa: FBT001, FBT002  CEL's own argument
    """`semver(text)` and `semver(text, true)`."""
    try:
        return parse_version(text, normalize=normalize)
    except VersionError as error:
        raise EvaluationError(str(error)) from None


def _is_version(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002  as above
    return is_version(text, normalize=normalize)


def _is_newer(left: Version, right: Version) -> bool:
    return left.key > right.key


def _is_older(left: Version, right: Version) -> bool:
    return left.key < right.key


def _major(version: Version) -> int:
    return as_int64(version.major)


def _minor(version: Version) -> int:
    return as_int64(version.minor)


def _patch(version: Version) -> int:
    return as_int64(version.patch)


SEMVER: tuple[Overload, ...] = (
    overload("string_to_semver", "semver(string) -> Semver", to_version),
    overload("string_bool_to_semver", "semver(string, bool) -> Semver", to_version),
    overload("is_semver_string", "isSemver(string) -> bool", _is_version),
    overload("is_semver_string_bool", "isSemver(string, bool) -> bool", _is_version),
    overload("semver_is_greater_than", "Semver.isGreaterThan(Semver) -> bool", _is_newer),
    overload("semver_is_less_than", "Semver.isLessThan(Semver) -> bool", _is_older),
    overload("semver_compare_to", "Semver.compareTo(Semver) -> int", compare_versions),
    overload("semver_major", "Semver.major() -> int", _major),
    overload("semver_minor", "Semver.minor() -> int", _minor),
    overload("semver_patch", "Semver.patch() -> int", _patch),
)

_AUTHORIZER = (
    ("authorizer_path", "Authorizer.path(string) -> PathCheck"),
    ("authorizer_group", "Authorizer.group(string) -> GroupCheck"),
    ("authorizer_serviceaccount", "Authorizer.serviceAccount(string, string) -> Authorizer"),
    ("groupcheck_resource", "GroupCheck.resource(string) -> ResourceCheck"),
    ("resourcecheck_subresource", "ResourceCheck.subresource(string) -> ResourceCheck"),
    ("resourcecheck_namespace", "ResourceCheck.namespace(string) -> ResourceCheck"),
    ("resourcecheck_name", "ResourceCheck.name(string) -> ResourceCheck"),
    ("pathcheck_check", "PathCheck.check(string) -> Decision"),
    ("resourcecheck_check", "ResourceCheck.check(string) -> Decision"),
    ("decision_errored", "Decision.errored() -> bool"),
    ("decision_error", "Decision.error() -> string"),
    ("decision_allowed", "Decision.allowed() -> bool"),
    ("decision_reason", "Decision.reason() -> string"),
    ("authorizer_fieldselector", "ResourceCheck.fieldSelector(string) -> ResourceCheck"),
    ("authorizer_labelselector", "ResourceCheck.labelSelector(string) -> ResourceCheck"),
)


def _unreachable(*_args: object) -> object:
    raise EvaluationError("no authorizer is available here")


# Declared, because the names take part in type checking; no value of these types is ever within reach.
AUTHORIZER: tuple[Overload, ...] = tuple(overload(key, signature, _unreachable) for key, signature in _AUTHORIZER)
