"""The structured allocator's rules: which devices a claim gets on a node, or why it gets none.

For one question, `allocate`. For many over the same cluster, build the parts once:

    inventory = Inventory(decode_slices(documents), features)
    allocator = Allocator(inventory, Usage.of(decode_in_use(documents), features))
    outcome = allocator.allocate(prepare_claims(claims, classes, features), node)
"""

from collections.abc import Iterable, Sequence

from modelplane.k8s.dra.allocator import DEFAULT_STEPS, Allocator, NodeAllocation, Placement
from modelplane.k8s.dra.claim_rules import claim_problems, class_problems
from modelplane.k8s.dra.decode import decode_claims, decode_classes, decode_in_use, decode_node, decode_slices
from modelplane.k8s.dra.features import Features, features_from
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.outcome import (
    Allocated,
    ClaimResult,
    DeviceId,
    DeviceResult,
    Fatal,
    GaveUp,
    NoFit,
    Outcome,
    PoolNote,
    Rejection,
    RejectionCount,
    RequestExplanation,
)
from modelplane.k8s.dra.plan import AllocationPlan, prepare_claims
from modelplane.k8s.dra.resources import DeviceClass, DeviceInUse, Node, ResourceClaim, ResourceSlice
from modelplane.k8s.dra.slice_rules import slice_problems
from modelplane.k8s.dra.usage import DeviceUsage

__all__ = [
    "DEFAULT_STEPS",
    "Allocated",
    "AllocationPlan",
    "Allocator",
    "ClaimResult",
    "DeviceClass",
    "DeviceId",
    "DeviceInUse",
    "DeviceResult",
    "DeviceUsage",
    "Fatal",
    "Features",
    "GaveUp",
    "Inventory",
    "NoFit",
    "Node",
    "NodeAllocation",
    "Outcome",
    "Placement",
    "PoolNote",
    "Rejection",
    "RejectionCount",
    "RequestExplanation",
    "ResourceClaim",
    "ResourceSlice",
    "allocate",
    "claim_problems",
    "class_problems",
    "decode_claims",
    "decode_classes",
    "decode_in_use",
    "decode_node",
    "decode_slices",
    "features_from",
    "prepare_claims",
    "slice_problems",
]


def allocate(  # noqa: PLR0913  the allocator's inputs, one parameter each, all but three by name
    claims: Sequence[ResourceClaim],
    node: Node,
    slices: Iterable[ResourceSlice],
    *,
    classes: Iterable[DeviceClass],
    allocated: Iterable[DeviceInUse] = (),
    features: Features | None = None,
    max_steps: int = DEFAULT_STEPS,
) -> Outcome:
    """Allocate the claims of one pod on one node, given the devices in use."""
    gates = features or Features()
    allocator = Allocator(Inventory(slices, gates), DeviceUsage.of(allocated, gates), max_steps=max_steps)
    return allocator.allocate(prepare_claims(claims, classes, gates), node)
