"""The resource.k8s.io/v1 objects that allocation reads, as frozen values in the API's own shape.

Only the fields that decide an allocation are here; unknown fields are ignored, as an API client ignores them. API
defaults are applied where a field is used (`effective_mode`, `effective_count`, `effective_operator`), so a value is
what was written.
"""

from typing import Annotated, TypeAlias

import msgspec

QuantityField: TypeAlias = str | int | float
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

EXACT_COUNT = "ExactCount"
ALL = "All"
EQUAL = "Equal"
EXISTS = "Exists"
NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
NO_EFFECT = "None"
TAINT_EFFECTS = (NO_SCHEDULE, NO_EXECUTE, NO_EFFECT)


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of the API: camel case on the wire, immutable here."""


class Metadata(_Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class Node(_Wire, frozen=True):
    metadata: Metadata


class NodeRequirement(_Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeTerm(_Wire, frozen=True):
    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeRequirement, ...] | None = None


class CoreNodeSelector(_Wire, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] | None = None


class ResourcePool(_Wire, frozen=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class Counter(_Wire, frozen=True):
    value: QuantityField = 0


class CounterSet(_Wire, frozen=True):
    name: str = ""
    counters: dict[str, Counter] | None = None


class CounterConsumption(_Wire, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceTaint(_Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class ValidRange(_Wire, frozen=True):
    min: QuantityField | None = None
    max: QuantityField | None = None
    step: QuantityField | None = None


class RequestPolicy(_Wire, frozen=True):
    default: QuantityField | None = None
    valid_values: tuple[QuantityField, ...] | None = None
    valid_range: ValidRange | None = None


class DeviceCapacity(_Wire, frozen=True):
    value: QuantityField = 0
    request_policy: RequestPolicy | None = None


class SliceDevice(_Wire, frozen=True):
    name: str
    attributes: dict[str, dict[str, object]] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None
    node_name: str | None = None
    node_selector: CoreNodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class SliceSpec(_Wire, frozen=True):
    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: CoreNodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[SliceDevice, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(_Wire, frozen=True):
    metadata: Metadata
    spec: SliceSpec


class CelExpression(_Wire, frozen=True):
    expression: str = ""


class ClaimSelector(_Wire, frozen=True):
    cel: CelExpression | None = None


class OpaqueConfiguration(_Wire, frozen=True):
    driver: str = ""
    parameters: object = None


class DeviceConfiguration(_Wire, frozen=True):
    """Parameters for a driver; the `requests` they are for, where a claim has them."""

    opaque: OpaqueConfiguration | None = None
    requests: tuple[str, ...] | None = None


class DeviceClassSpec(_Wire, frozen=True):
    selectors: tuple[ClaimSelector, ...] | None = None
    config: tuple[DeviceConfiguration, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(_Wire, frozen=True):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceToleration(_Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    @property
    def effective_operator(self) -> str:
        """The operator after API defaulting."""
        return self.operator or EQUAL


class CapacityRequirements(_Wire, frozen=True):
    requests: dict[str, QuantityField] | None = None


class BaseDeviceRequest(_Wire, frozen=True):
    """The common fields of `exactly` and of each alternative of `firstAvailable`."""

    device_class_name: str = ""
    selectors: tuple[ClaimSelector, ...] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] | None = None
    capacity: CapacityRequirements | None = None

    @property
    def effective_mode(self) -> str:
        """The allocation mode after API defaulting."""
        return self.allocation_mode or EXACT_COUNT

    @property
    def effective_count(self) -> int:
        """The count after API defaulting."""
        return self.count or (1 if self.effective_mode == EXACT_COUNT else 0)


class ExactRequest(BaseDeviceRequest, frozen=True):
    admin_access: bool | None = None


class SubRequest(BaseDeviceRequest, frozen=True):
    name: str = ""


class ClaimDeviceRequest(_Wire, frozen=True):
    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] | None = None


class Constraint(_Wire, frozen=True):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(_Wire, frozen=True):
    requests: tuple[ClaimDeviceRequest, ...] | None = None
    constraints: tuple[Constraint, ...] | None = None
    config: tuple[DeviceConfiguration, ...] | None = None


class ClaimSpec(_Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaim(_Wire, frozen=True):
    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()


class DeviceInUse(_Wire, frozen=True):
    """One result of another claim's allocation: a whole device, or with `share_id` a share of one."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityField] | None = None
    admin_access: bool | None = None
