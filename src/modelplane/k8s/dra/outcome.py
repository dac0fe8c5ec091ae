"""The outcomes of an allocation attempt: a closed set, in which "did not fit" never shares a type with "broke".

    Allocated   every claim got its devices on this node; take the results
    NoFit       the claims cannot be satisfied on this node now; try another node, or wait
    Fatal       an input is wrong (an expression that fails, a class that does not exist); abort the attempt, mend it
    GaveUp      the search ran out of its step budget; nothing is known about this node

`NoFit.invalid_pools` names pools on the node that were left out because their slices contradict each other: report them
when no node fits.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from modelplane.k8s.dra.resources import CoreNodeSelector, DeviceToleration
from modelplane.k8s.quantity import Quantity


class DeviceId(NamedTuple):
    """A device's identity in a cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device given to one request. `request` is `parent/alternative` where an alternative was chosen."""

    request: str
    device: DeviceId
    admin_access: bool = False
    consumed_capacity: Mapping[str, Quantity] | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether this is a share of a device that others may use too; such a result needs a share id when stored."""
        return self.consumed_capacity is not None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The devices of one claim, and the nodes for a pod that uses them; no selector means any node."""

    claim: str
    devices: tuple[DeviceResult, ...]
    node_selector: CoreNodeSelector | None


class Rejection(enum.Enum):
    """Why a device was not given to a request."""

    TAKEN = "in use"
    CLASS_SELECTOR = "class selector is false"
    REQUEST_SELECTOR = "request selector is false"
    NODE = "not reachable from the node"
    BINDING_CONDITIONS = "has binding conditions, which are off"
    CAPACITY_UNKNOWN = "does not have a requested capacity"
    CAPACITY = "not enough capacity"
    COUNTERS = "shared counters exhausted"
    TAINT = "tainted"
    CONSTRAINT = "constraint not satisfied"
    GIVEN_BACK = "was chosen, but then the rest did not fit"


@dataclass(frozen=True, slots=True)
class RejectionCount:
    """The number of devices that failed one check; `detail` names the selector or constraint."""

    reason: Rejection
    detail: str
    devices: int


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """The result of one request, or of one alternative of it."""

    claim: str
    request: str
    device_class: str
    wanted: str
    considered: int
    rejected: tuple[RejectionCount, ...]

    def __str__(self) -> str:
        reasons = "; ".join(
            f"{count.devices} {count.reason.value}{f' ({count.detail})' if count.detail else ''}"
            for count in self.rejected
        )
        return (
            f"claim {self.claim}, request {self.request} (class {self.device_class}) wants {self.wanted}: "
            f"{self.considered} devices considered{': ' if reasons else ''}{reasons}"
        )


@dataclass(frozen=True, slots=True)
class PoolNote:
    """A pool that offers nothing, and why."""

    driver: str
    pool: str
    reason: str


@dataclass(frozen=True, slots=True)
class Allocated:
    """Every claim got its devices."""

    claims: tuple[ClaimResult, ...]

    @property
    def count(self) -> int:
        """Devices over all claims."""
        return sum(len(claim.devices) for claim in self.claims)


@dataclass(frozen=True, slots=True)
class NoFit:
    """The claims cannot be satisfied on this node now."""

    requests: tuple[RequestExplanation, ...]
    invalid_pools: tuple[PoolNote, ...] = ()
    incomplete_pools: tuple[PoolNote, ...] = ()

    def __str__(self) -> str:
        pools = (*self.invalid_pools, *self.incomplete_pools)
        notes = [f"pool {note.driver}/{note.pool} offers nothing: {note.reason}" for note in pools]
        return "\n".join([str(request) for request in self.requests] + notes)


@dataclass(frozen=True, slots=True)
class Fatal:
    """An input is wrong; no other node would help."""

    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The step budget ran out before the search was done."""

    steps: int
    requests: tuple[RequestExplanation, ...] = field(default=())


Outcome: TypeAlias = Allocated | NoFit | Fatal | GaveUp
