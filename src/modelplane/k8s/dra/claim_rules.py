"""Validation of a new ResourceClaim or DeviceClass, as in the API server.

Each problem is one sentence that begins with the field. The rules are those of Kubernetes 1.36 that depend on the
object alone; admission that depends on the requester (admin access needs a labelled namespace) is not here.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from modelplane.k8s.cel import CompileError, Gates, compile_selector
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.names import (
    is_dns_label,
    is_dns_subdomain,
    is_driver_name,
    is_extended_resource_name,
    is_fully_qualified_name,
    is_label_key,
    is_label_value,
)
from modelplane.k8s.dra.resources import (
    ALL,
    EQUAL,
    EXACT_COUNT,
    EXISTS,
    TAINT_EFFECTS,
    BaseDeviceRequest,
    ClaimDeviceRequest,
    ClaimSelector,
    Constraint,
    DeviceClass,
    DeviceConfiguration,
    DeviceToleration,
    ResourceClaim,
)
from modelplane.k8s.quantity import QuantityError, quantity_from_json

_MAX_REQUESTS = 32
_MAX_ALTERNATIVES = 8
_MAX_SELECTORS = 32
_MAX_CONSTRAINTS = 32
_MAX_CONFIGS = 32
_MAX_PARAMETERS_BYTES = 10 * 1024
_MAX_REFERENCE_PARTS = 2


def claim_problems(claim: ResourceClaim, features: Features) -> tuple[str, ...]:
    """Why the API would refuse the claim; empty where it would not."""
    return tuple(_claim_problems(claim, features.gates))


def class_problems(device_class: DeviceClass, features: Features) -> tuple[str, ...]:
    """Why the API would refuse the class; empty where it would not."""
    return tuple(_class_problems(device_class, features.gates))


def _claim_problems(claim: ResourceClaim, gates: Gates) -> Iterator[str]:
    if not is_dns_subdomain(claim.metadata.name):
        yield "metadata.name: must be a DNS subdomain"
    devices = claim.spec.devices
    requests = devices.requests or ()
    path = "spec.devices"
    yield from too_many(requests, _MAX_REQUESTS, f"{path}.requests")
    yield from duplicates((request.name for request in requests), f"{path}.requests")
    for index, request in enumerate(requests[:_MAX_REQUESTS]):
        yield from _request_problems(request, gates, f"{path}.requests[{index}]")
    known = _reference_names(requests)
    yield from too_many(devices.constraints or (), _MAX_CONSTRAINTS, f"{path}.constraints")
    for index, constraint in enumerate(devices.constraints or ()):
        yield from _constraint_problems(constraint, known, f"{path}.constraints[{index}]")
    yield from _config_problems(devices.config or (), known, f"{path}.config")


def _class_problems(device_class: DeviceClass, gates: Gates) -> Iterator[str]:
    if not is_dns_subdomain(device_class.metadata.name):
        yield "metadata.name: must be a DNS subdomain"
    spec = device_class.spec
    yield from _selector_problems(spec.selectors or (), gates, "spec.selectors")
    yield from _config_problems(spec.config or (), set(), "spec.config")
    if spec.extended_resource_name is not None and not is_extended_resource_name(spec.extended_resource_name):
        yield "spec.extendedResourceName: must be a valid extended resource name"


def _reference_names(requests: Iterable[ClaimDeviceRequest]) -> set[str]:
    """The names that constraints and configuration may use: requests, and their alternatives as request/alternative."""
    names: set[str] = set()
    for request in requests:
        names.add(request.name)
        names.update(f"{request.name}/{alternative.name}" for alternative in request.first_available or ())
    return names


def _request_problems(request: ClaimDeviceRequest, gates: Gates, path: str) -> Iterator[str]:
    if not is_dns_label(request.name):
        yield f"{path}.name: must be a DNS label"
    alternatives = request.first_available or ()
    if bool(alternatives) == (request.exactly is not None):
        yield f"{path}: exactly one of exactly and firstAvailable is required"
        return
    if request.exactly is not None:
        yield from _subrequest_problems(request.exactly, gates, f"{path}.exactly")
    yield from too_many(alternatives, _MAX_ALTERNATIVES, f"{path}.firstAvailable")
    yield from duplicates((alternative.name for alternative in alternatives), f"{path}.firstAvailable")
    for index, alternative in enumerate(alternatives):
        inner = f"{path}.firstAvailable[{index}]"
        if not is_dns_label(alternative.name):
            yield f"{inner}.name: must be a DNS label"
        yield from _subrequest_problems(alternative, gates, inner)


def _subrequest_problems(subrequest: BaseDeviceRequest, gates: Gates, path: str) -> Iterator[str]:
    if not is_dns_subdomain(subrequest.device_class_name):
        yield f"{path}.deviceClassName: must be a DNS subdomain"
    yield from _selector_problems(subrequest.selectors or (), gates, f"{path}.selectors")
    if subrequest.effective_mode == ALL and subrequest.count:
        yield f"{path}.count: must not be given with allocationMode All"
    elif subrequest.effective_mode == EXACT_COUNT and subrequest.effective_count <= 0:
        yield f"{path}.count: must be greater than zero"
    elif subrequest.effective_mode not in {ALL, EXACT_COUNT}:
        yield f"{path}.allocationMode: must be {ALL} or {EXACT_COUNT}"
    for index, toleration in enumerate(subrequest.tolerations or ()):
        yield from _toleration_problems(toleration, f"{path}.tolerations[{index}]")
    amounts = subrequest.capacity.requests or {} if subrequest.capacity is not None else {}
    for name, value in amounts.items():
        yield from quantity_problems(value, f"{path}.capacity.requests[{name}]")


def _selector_problems(selectors: Sequence[ClaimSelector], gates: Gates, path: str) -> Iterator[str]:
    yield from too_many(selectors, _MAX_SELECTORS, path)
    for index, selector in enumerate(selectors[:_MAX_SELECTORS]):
        if selector.cel is None:
            yield f"{path}[{index}].cel: is required"
            continue
        try:
            compile_selector(selector.cel.expression, gates=gates)
        except CompileError as error:
            yield f"{path}[{index}].cel.expression: {error}"


def _toleration_problems(toleration: DeviceToleration, path: str) -> Iterator[str]:
    if toleration.key and not is_label_key(toleration.key):
        yield f"{path}.key: must be a label key"
    operator = toleration.effective_operator
    if operator == EXISTS and toleration.value:
        yield f"{path}.value: must be empty for operator {EXISTS}"
    elif operator == EQUAL and not is_label_value(toleration.value):
        yield f"{path}.value: must be a label value"
    elif operator not in {EXISTS, EQUAL}:
        yield f"{path}.operator: must be {EXISTS} or {EQUAL}"
    if toleration.effect and toleration.effect not in TAINT_EFFECTS:
        yield f"{path}.effect: must be one of {', '.join(TAINT_EFFECTS)}"


def _constraint_problems(constraint: Constraint, known: set[str], path: str) -> Iterator[str]:
    yield from _reference_problems(constraint.requests or (), known, f"{path}.requests")
    if constraint.match_attribute is not None:
        if not is_fully_qualified_name(constraint.match_attribute):
            yield f"{path}.matchAttribute: must be a domain and a name separated by a slash"
    elif constraint.distinct_attribute is not None:
        if not is_fully_qualified_name(constraint.distinct_attribute):
            yield f"{path}.distinctAttribute: must be a domain and a name separated by a slash"
    else:
        yield f"{path}: exactly one of matchAttribute and distinctAttribute is required"


def _reference_problems(names: Sequence[str], known: set[str], path: str) -> Iterator[str]:
    yield from too_many(names, _MAX_REQUESTS, path)
    yield from duplicates(names, path)
    for index, name in enumerate(names):
        parts = name.split("/")
        if len(parts) > _MAX_REFERENCE_PARTS or not all(is_dns_label(part) for part in parts) or name not in known:
            yield f"{path}[{index}]: {name} is not a request of the claim, nor request/alternative"


def _config_problems(configs: Sequence[DeviceConfiguration], known: set[str], path: str) -> Iterator[str]:
    yield from too_many(configs, _MAX_CONFIGS, path)
    for index, config in enumerate(configs):
        yield from _reference_problems(config.requests or (), known, f"{path}[{index}].requests")
        if config.opaque is None:
            yield f"{path}[{index}].opaque: is required"
            continue
        if not is_driver_name(config.opaque.driver):
            yield f"{path}[{index}].opaque.driver: must be a driver name"
        if not isinstance(config.opaque.parameters, dict):
            yield f"{path}[{index}].opaque.parameters: must be an object"
        elif len(msgspec.json.encode(config.opaque.parameters)) > _MAX_PARAMETERS_BYTES:
            yield f"{path}[{index}].opaque.parameters: must have at most {_MAX_PARAMETERS_BYTES} bytes"


def too_many(items: Sequence[object], limit: int, path: str) -> Iterator[str]:
    """A problem where a list is longer than its limit."""
    if len(items) > limit:
        yield f"{path}: must have at most {limit} items, has {len(items)}"


def duplicates(keys: Iterable[object], path: str) -> Iterator[str]:
    """A problem for every key that came before."""
    seen: set[object] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield f"{path}[{index}]: duplicate {key}"
        seen.add(key)


def quantity_problems(value: object, path: str) -> Iterator[str]:
    """A problem where a value is not a quantity."""
    try:
        quantity_from_json(value)
    except QuantityError as error:
        yield f"{path}: {error}"
