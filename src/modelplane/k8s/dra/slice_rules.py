"""Validation of a new ResourceSlice, as in the API server.

Each problem is one sentence that begins with the field. Rules that need other slices (a device name used twice in a
pool, a counter set that no slice has) are not the API's: they make a pool invalid when it is used.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from modelplane.k8s.dra.capacity import nanos_of, whole
from modelplane.k8s.dra.claim_rules import duplicates, quantity_problems, too_many
from modelplane.k8s.dra.names import (
    is_dns_label,
    is_dns_subdomain,
    is_driver_name,
    is_label_key,
    is_label_value,
    is_pool_name,
    is_qualified_name,
)
from modelplane.k8s.dra.resources import (
    TAINT_EFFECTS,
    CoreNodeSelector,
    Counter,
    CounterConsumption,
    CounterSet,
    DeviceCapacity,
    DeviceTaint,
    NodeRequirement,
    QuantityField,
    RequestPolicy,
    ResourceSlice,
    SliceDevice,
    SliceSpec,
    ValidRange,
)
from modelplane.k8s.quantity import Quantity, compare, quantity_from_json
from modelplane.k8s.semver import is_valid_attribute

_MAX_DEVICES = 128
_MAX_DEVICES_WITH_EXTRAS = 64
_MAX_NAMES_PER_DEVICE = 32
_MAX_VALUES_PER_DEVICE = 48
_MAX_VALUE_BYTES = 64
_MAX_TAINTS = 16
_MAX_COUNTER_SETS = 8
_MAX_CONSUMPTIONS = 2
_MAX_COUNTERS = 32
_MAX_VALID_VALUES = 10
_MAX_CONDITIONS = 4
_LISTS = ("bools", "ints", "strings", "versions")
_SCALARS = ("bool", "int", "string", "version")


def slice_problems(item: ResourceSlice) -> tuple[str, ...]:
    """Why the API would refuse the slice; empty where it would not."""
    return tuple(_slice_problems(item))


def _slice_problems(item: ResourceSlice) -> Iterator[str]:
    spec = item.spec
    if not is_dns_subdomain(item.metadata.name):
        yield "metadata.name: must be a DNS subdomain"
    if not is_driver_name(spec.driver):
        yield "spec.driver: must be a DNS subdomain of at most 63 bytes"
    if not is_pool_name(spec.pool.name):
        yield "spec.pool.name: must be DNS subdomains separated by slashes"
    if spec.pool.resource_slice_count <= 0:
        yield "spec.pool.resourceSliceCount: must be greater than zero"
    if spec.pool.generation < 0:
        yield "spec.pool.generation: must not be negative"
    yield from _slice_scope_problems(spec)
    if spec.shared_counters is not None and spec.devices is not None:
        yield "spec: only one of sharedCounters and devices is allowed"
    devices = spec.devices or ()
    yield from too_many(devices, _device_limit(devices), "spec.devices")
    yield from duplicates((device.name for device in devices), "spec.devices")
    for index, device in enumerate(devices):
        yield from _device_problems(device, spec, f"spec.devices[{index}]")
    yield from _counter_set_problems(spec.shared_counters or ())


def _device_limit(devices: Sequence[SliceDevice]) -> int:
    extras = any(
        device.taints
        or device.consumes_counters
        or any(kind in value for value in (device.attributes or {}).values() for kind in _LISTS)
        for device in devices
    )
    return _MAX_DEVICES_WITH_EXTRAS if extras else _MAX_DEVICES


def _slice_scope_problems(spec: SliceSpec) -> Iterator[str]:
    yield from _scope_problems("spec", node_name=spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)
    if spec.per_device_node_selection is False:
        yield "spec.perDeviceNodeSelection: must be true or absent"
    if spec.node_selector is not None and len(spec.node_selector.node_selector_terms or ()) != 1:
        yield "spec.nodeSelector.nodeSelectorTerms: must have exactly one term"
    given = (spec.node_name, spec.node_selector is not None, spec.all_nodes, spec.per_device_node_selection)
    if sum(1 for field in given if field) != 1:
        yield "spec: exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required"


def _scope_problems(
    path: str, *, node_name: str | None, all_nodes: bool | None, selector: CoreNodeSelector | None
) -> Iterator[str]:
    if node_name is not None and not is_dns_subdomain(node_name):
        yield f"{path}.nodeName: must be a DNS subdomain"
    if all_nodes is False:
        yield f"{path}.allNodes: must be true or absent"
    if selector is None:
        return
    terms = selector.node_selector_terms or ()
    if not terms:
        yield f"{path}.nodeSelector.nodeSelectorTerms: must have at least one term"
    for term in terms:
        for requirement in term.match_expressions or ():
            yield from _requirement_problems(requirement, f"{path}.nodeSelector")
        for requirement in term.match_fields or ():
            yield from _field_requirement_problems(requirement, f"{path}.nodeSelector")


def _requirement_problems(requirement: NodeRequirement, path: str) -> Iterator[str]:
    values = requirement.values or ()
    expected = {
        "In": len(values) > 0,
        "NotIn": len(values) > 0,
        "Exists": not values,
        "DoesNotExist": not values,
        "Gt": len(values) == 1,
        "Lt": len(values) == 1,
    }
    if not expected.get(requirement.operator, False):
        yield f"{path}: {requirement.key}: operator {requirement.operator} does not take {len(values)} values"
    if not is_label_key(requirement.key) or not all(is_label_value(value) for value in values):
        yield f"{path}: {requirement.key}: must be a label key with label values"


def _field_requirement_problems(requirement: NodeRequirement, path: str) -> Iterator[str]:
    values = requirement.values or ()
    if requirement.operator not in {"In", "NotIn"} or len(values) != 1:
        yield f"{path}: field {requirement.key}: takes In or NotIn with exactly one value"
    if requirement.key != "metadata.name" or not all(is_dns_subdomain(value) for value in values):
        yield f"{path}: field {requirement.key}: must be metadata.name with the name of a node"


def _device_problems(device: SliceDevice, spec: SliceSpec, path: str) -> Iterator[str]:
    if not is_dns_label(device.name):
        yield f"{path}.name: must be a DNS label"
    attributes, capacity = device.attributes or {}, device.capacity or {}
    if len(attributes) + len(capacity) > _MAX_NAMES_PER_DEVICE:
        yield f"{path}: must have at most {_MAX_NAMES_PER_DEVICE} attributes and capacities"
    if sum(_value_count(value) for value in attributes.values()) > _MAX_VALUES_PER_DEVICE:
        yield f"{path}: must have at most {_MAX_VALUES_PER_DEVICE} attribute values"
    for name, value in attributes.items():
        yield from _name_problems(name, f"{path}.attributes")
        yield from _attribute_problems(value, f"{path}.attributes[{name}]")
    for name, entry in capacity.items():
        yield from _name_problems(name, f"{path}.capacity")
        yield from _capacity_problems(
            entry, f"{path}.capacity[{name}]", shareable=device.allow_multiple_allocations is True
        )
    yield from too_many(device.taints or (), _MAX_TAINTS, f"{path}.taints")
    for index, taint in enumerate(device.taints or ()):
        yield from _taint_problems(taint, f"{path}.taints[{index}]")
    yield from _consumption_problems(device.consumes_counters or (), f"{path}.consumesCounters")
    yield from _device_scope_problems(device, spec, path)
    yield from _condition_problems(device, path)


def _name_problems(name: str, path: str) -> Iterator[str]:
    if not is_qualified_name(name):
        yield f"{path}[{name}]: must be an identifier, or a domain and an identifier separated by a slash"


def _value_count(value: Mapping[str, object]) -> int:
    lists = [entries for kind in _LISTS if isinstance(entries := value.get(kind), list | tuple)]
    return sum(len(entries) for entries in lists) or 1


def _attribute_problems(value: Mapping[str, object], path: str) -> Iterator[str]:
    given = [kind for kind in (*_SCALARS, *_LISTS) if value.get(kind) is not None]
    if len(given) != 1:
        yield f"{path}: exactly one value is required"
    for kind in given:
        entry = value[kind]
        entries = entry if isinstance(entry, list | tuple) else (entry,)
        if kind in _LISTS and not entries:
            yield f"{path}.{kind}: must not be empty"
        for item in entries:
            yield from _scalar_problems(kind.removesuffix("s"), item, f"{path}.{kind}")


def _scalar_problems(kind: str, value: object, path: str) -> Iterator[str]:
    types: Mapping[str, type] = {"bool": bool, "int": int, "string": str, "version": str}
    if not isinstance(value, types[kind]) or (kind == "int" and isinstance(value, bool)):
        yield f"{path}: {value!r} is not a value of that type"
    elif kind == "version" and isinstance(value, str) and not is_valid_attribute(value):
        yield f"{path}: must be a version of semver 2.0.0 with at most {_MAX_VALUE_BYTES} bytes"
    elif kind == "string" and isinstance(value, str) and len(value.encode()) > _MAX_VALUE_BYTES:
        yield f"{path}: must have at most {_MAX_VALUE_BYTES} bytes"
    elif kind == "int" and isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield f"{path}: must fit in 64 bits"


def _capacity_problems(entry: DeviceCapacity, path: str, *, shareable: bool) -> Iterator[str]:
    policy = entry.request_policy
    values: list[QuantityField] = [entry.value]
    if policy is not None:
        bounds = policy.valid_range or ValidRange()
        optional = (policy.default, bounds.min, bounds.max, bounds.step)
        values += [value for value in optional if value is not None]
        values += policy.valid_values or ()
    problems = [problem for value in values for problem in quantity_problems(value, path)]
    yield from problems
    if policy is None or problems:
        return
    if shareable:
        yield from _policy_problems(quantity_from_json(entry.value), policy, f"{path}.requestPolicy")
    else:
        yield f"{path}.requestPolicy: needs allowMultipleAllocations"


def _policy_problems(value: Quantity, policy: RequestPolicy, path: str) -> Iterator[str]:
    if policy.valid_values and policy.valid_range is not None:
        yield f"{path}: only one of validValues and validRange is allowed"
    elif (policy.valid_values or policy.valid_range is not None) and policy.default is None:
        yield f"{path}.default: is required with validValues or validRange"
    elif policy.default is not None and policy.valid_values:
        options = [quantity_from_json(option) for option in policy.valid_values]
        yield from _options_problems(value, quantity_from_json(policy.default), options, f"{path}.validValues")
    elif policy.default is not None and policy.valid_range is not None:
        yield from _range_problems(value, quantity_from_json(policy.default), policy.valid_range, f"{path}.validRange")


def _options_problems(value: Quantity, default: Quantity, options: Sequence[Quantity], path: str) -> Iterator[str]:
    yield from too_many(options, _MAX_VALID_VALUES, path)
    yield from duplicates((whole(option) for option in options), path)
    if any(compare(left, right) > 0 for left, right in itertools.pairwise(options)):
        yield f"{path}: must ascend"
    if any(compare(option, value) > 0 for option in options):
        yield f"{path}: must not exceed the capacity"
    if not any(compare(option, default) == 0 for option in options):
        yield f"{path}: must contain the default"


def _range_problems(value: Quantity, default: Quantity, bounds: ValidRange, path: str) -> Iterator[str]:
    if bounds.min is None:
        yield f"{path}.min: is required"
        return
    minimum = quantity_from_json(bounds.min)
    if compare(minimum, value) > 0 or compare(default, minimum) < 0:
        yield f"{path}.min: must not exceed the capacity or the default"
    maximum = None if bounds.max is None else quantity_from_json(bounds.max)
    if maximum is not None and (
        compare(minimum, maximum) > 0 or compare(maximum, value) > 0 or compare(default, maximum) > 0
    ):
        yield f"{path}.max: must be between the minimum and the capacity, and not below the default"
    if bounds.step is not None:
        yield from _step_problems(value, default, (minimum, maximum, quantity_from_json(bounds.step)), f"{path}.step")


def _step_problems(
    value: Quantity, default: Quantity, bounds: tuple[Quantity, Quantity | None, Quantity], path: str
) -> Iterator[str]:
    minimum, maximum, step = bounds
    if whole(step) <= 0:
        yield f"{path}: must be at least one"
        return
    if nanos_of(minimum) + nanos_of(step) > nanos_of(value):
        yield f"{path}: one step above the minimum must not exceed the capacity"
    for bound in (default, maximum):
        if bound is not None and (whole(bound) - whole(minimum)) % whole(step):
            yield f"{path}: default and maximum must be a number of steps above the minimum"


def _taint_problems(taint: DeviceTaint, path: str) -> Iterator[str]:
    if not is_label_key(taint.key):
        yield f"{path}.key: must be a label key"
    if not is_label_value(taint.value):
        yield f"{path}.value: must be a label value"
    if taint.effect not in TAINT_EFFECTS:
        yield f"{path}.effect: must be one of {', '.join(TAINT_EFFECTS)}"


def _consumption_problems(consumptions: Sequence[CounterConsumption], path: str) -> Iterator[str]:
    yield from too_many(consumptions, _MAX_CONSUMPTIONS, path)
    yield from duplicates((consumption.counter_set for consumption in consumptions), path)
    for index, consumption in enumerate(consumptions):
        if not is_dns_label(consumption.counter_set):
            yield f"{path}[{index}].counterSet: must be a DNS label"
        yield from _counter_problems(consumption.counters or {}, f"{path}[{index}].counters")


def _counter_set_problems(counter_sets: Sequence[CounterSet]) -> Iterator[str]:
    path = "spec.sharedCounters"
    yield from too_many(counter_sets, _MAX_COUNTER_SETS, path)
    yield from duplicates((counter_set.name for counter_set in counter_sets), path)
    for index, counter_set in enumerate(counter_sets):
        if not is_dns_label(counter_set.name):
            yield f"{path}[{index}].name: must be a DNS label"
        yield from _counter_problems(counter_set.counters or {}, f"{path}[{index}].counters")


def _counter_problems(counters: Mapping[str, Counter], path: str) -> Iterator[str]:
    if not counters:
        yield f"{path}: must not be empty"
    if len(counters) > _MAX_COUNTERS:
        yield f"{path}: must have at most {_MAX_COUNTERS} counters"
    for name, counter in counters.items():
        if not is_dns_label(name):
            yield f"{path}[{name}]: must be a DNS label"
        yield from quantity_problems(counter.value, f"{path}[{name}].value")


def _device_scope_problems(device: SliceDevice, spec: SliceSpec, path: str) -> Iterator[str]:
    given = (device.node_name is not None, device.node_selector is not None, device.all_nodes is not None)
    if spec.per_device_node_selection is not True:
        if any(given):
            yield f"{path}: nodeName, nodeSelector and allNodes need perDeviceNodeSelection in the slice"
        return
    yield from _scope_problems(
        path, node_name=device.node_name, all_nodes=device.all_nodes, selector=device.node_selector
    )
    if sum(given) != 1:
        yield f"{path}: exactly one of nodeName, nodeSelector, allNodes is required"


def _condition_problems(device: SliceDevice, path: str) -> Iterator[str]:
    ready, failed = device.binding_conditions or (), device.binding_failure_conditions or ()
    for field, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        yield from too_many(conditions, _MAX_CONDITIONS, f"{path}.{field}")
        yield from duplicates(conditions, f"{path}.{field}")
        if not all(is_label_key(condition) for condition in conditions):
            yield f"{path}.{field}: must be label keys"
    if set(ready) & set(failed):
        yield f"{path}.bindingFailureConditions: must not overlap with bindingConditions"
    if bool(ready) != bool(failed):
        yield f"{path}: bindingConditions and bindingFailureConditions need each other"
