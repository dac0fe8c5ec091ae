"""MetricMapping: composes nothing; says which of its metrics the collectors of clusters map."""

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.models import MetricMapping, MetricMappingStatus
from modelplane.api.objects import API_VERSION, name_of
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Requirement
from modelplane.compose.telemetry.metric_mappings import read_mappings

_MAPPINGS = "telemetry-mappings"


def compose(request: ComposeRequest[MetricMapping]) -> ComposeResult:
    name, kind = request.resource.metadata.name, ConditionType.ACCEPTED
    requirements = {_MAPPINGS: Requirement(API_VERSION, "MetricMapping")}
    found = request.fetched(_MAPPINGS)
    if found is None:
        waits = unknown(kind, Reason.UNRESOLVED, "MetricMappings are not read yet")
        return ComposeResult(conditions=(waits,), ready=summarise([waits]), requirements=requirements)
    try:
        others = [decode(MetricMapping, {**item, "status": {}}) for item in found if name_of(item) != name]
    except InputError as error:
        waits = unknown(kind, Reason.INVALID, f"another MetricMapping: {error}")
        return ComposeResult(conditions=(waits,), ready=summarise([waits]), requirements=requirements)
    faults = read_mappings([*others, request.resource]).faults.get(name, ())
    condition = fails(kind, Reason.INVALID, "; ".join(faults)) if faults else holds(kind, Reason.ACCEPTED)
    status = MetricMappingStatus(metrics=len(request.resource.spec.metrics) - len(faults))
    return ComposeResult(
        status=status, conditions=(condition,), ready=summarise([condition]), requirements=requirements
    )
