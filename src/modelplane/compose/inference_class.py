"""InferenceClass: composes nothing; accepts or rejects the class."""

from modelplane.api.conditions import ConditionType, fails, holds, summarise
from modelplane.api.models import InferenceClass, InferenceClassStatus
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult
from modelplane.compose.fleet_snapshot import class_kinds


def compose(request: ComposeRequest[InferenceClass]) -> ComposeResult:
    kinds = class_kinds(request.resource)
    faults = [f"device {kind.name}: {kind.device.fault}" for kind in kinds if kind.device.fault]
    claimable = sum(kind.count for kind in kinds if kind.device_class)
    status = InferenceClassStatus(claimable_devices=claimable)
    if faults:
        condition = fails(ConditionType.ACCEPTED, Reason.INVALID, "; ".join(faults))
    else:
        condition = holds(ConditionType.ACCEPTED, Reason.ACCEPTED, f"{claimable} claimable devices per node")
    return ComposeResult(status=status, conditions=(condition,), ready=summarise([condition]))
