"""InferenceClass: composes nothing; accepts or rejects the class."""

from modelplane.api.conditions import ConditionType, fails, holds, summarise
from modelplane.api.errors import InvalidObject
from modelplane.api.models import InferenceClass, InferenceClassStatus
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult
from modelplane.compose.free_parts import counted_once
from modelplane.compose.pool_hardware import class_kinds


def compose(request: ComposeRequest[InferenceClass]) -> ComposeResult:
    faults = _faults(request.resource)
    claimable = sum(device.count for device in counted_once(request.resource.spec.devices))
    status = InferenceClassStatus(claimable_devices=claimable)
    if faults:
        condition = fails(ConditionType.ACCEPTED, Reason.INVALID, "; ".join(faults))
    else:
        condition = holds(ConditionType.ACCEPTED, Reason.ACCEPTED, f"{claimable} claimable devices per node")
    return ComposeResult(status=status, conditions=(condition,), ready=summarise([condition]))


def _faults(resource: InferenceClass) -> list[str]:
    try:
        kinds = class_kinds(resource)
    except InvalidObject as error:
        return [str(error)]
    return [f"device {kind.name}: {kind.device.fault}" for kind in kinds if kind.device.fault]
