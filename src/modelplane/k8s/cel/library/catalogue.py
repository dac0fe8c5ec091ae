"""All functions together, in the order that upstream joins their overloads."""

from functools import cache

from modelplane.k8s.cel.declarations import FunctionDecl, collect, overload
from modelplane.k8s.cel.equality import same_value
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library import (
    conversion,
    formats,
    kubernetes,
    lists,
    network,
    optionals,
    regex,
    standard,
    strings,
    timestamps,
    urls,
)
from modelplane.k8s.cel.values import is_list

MAX_INCLUDES = 48


@cache
def base_functions() -> dict[str, FunctionDecl]:
    """The functions of every environment of Kubernetes 1.36."""
    return collect(
        standard.FUNCTIONS,
        conversion.FUNCTIONS,
        timestamps.FUNCTIONS,
        urls.FUNCTIONS,
        regex.FUNCTIONS,
        lists.KUBERNETES,
        kubernetes.AUTHORIZER,
        optionals.FUNCTIONS,
        kubernetes.QUANTITY,
        strings.FUNCTIONS,
        lists.SETS,
        network.IP_FUNCTIONS,
        network.CIDR_FUNCTIONS,
        formats.FUNCTIONS,
        lists.COMPREHENSIONS,
        kubernetes.SEMVER,
        lists.EXTENSION,
    )


def includes(target: object, wanted: object) -> bool:
    """`target.includes(wanted)`: membership in a list, equality with anything else."""
    if not is_list(target):
        return same_value(target, wanted)
    for index, item in enumerate(target):
        if index >= MAX_INCLUDES:
            raise EvaluationError(f"'includes' cannot be applied to lists longer than {MAX_INCLUDES} values")
        if same_value(item, wanted):
            return True
    return False


@cache
def list_attribute_functions() -> dict[str, FunctionDecl]:
    """The base with `includes`, which exists where device attributes may be lists."""
    added = overload("dra_includes_dyn_dyn", "dyn.includes(dyn) -> bool", includes)
    return base_functions() | collect((added,))
