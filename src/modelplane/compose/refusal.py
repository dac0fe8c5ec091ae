"""What this build stores and does not act on: a condition or a warning says so."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from modelplane.api.conditions import ConditionType, fails, summarise
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, keep_observed

Resource = TypeVar("Resource", bound=msgspec.Struct)

UNREAD_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "InferenceClass": (("spec", "provisioning"),),
    "InferenceCluster": (
        ("spec", "storage", "csiDrivers"),
        ("spec", "storage", "storageClassName"),
        ("spec", "nodePools", "[]", "capacityBlock"),
        ("spec", "nodePools", "[]", "minNodeCount"),
    ),
    "ModelService": (("spec", "endpoints", "[]", "overflow"),),
}
"""Fields that no composer reads, by kind; `[]` stands for every item of a list."""


def refuse(request: ComposeRequest[Resource], message: str) -> ComposeResult:
    """What is observed stays; the condition Accepted says that nothing is done."""
    problem = fails(ConditionType.ACCEPTED, Reason.NOT_SUPPORTED, message)
    return ComposeResult(desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]))
