"""The function protocol: RunFunctionRequest to FunctionCall, FunctionResult to RunFunctionResponse."""

from datetime import timedelta

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.objects import Manifest, value_at
from modelplane.compose.contract import Event, EventType, Requirement
from modelplane.crossplane.calls import FunctionCall, FunctionResult
from modelplane.crossplane.structs import StructCodec

MOST_BYTES = 4 * 1024 * 1024
"""The largest gRPC message that Crossplane accepts; it has no flag for more."""
_WARN_SHARE = 0.8
_STATUS = {
    ConditionStatus.TRUE: fnv1.STATUS_CONDITION_TRUE,
    ConditionStatus.FALSE: fnv1.STATUS_CONDITION_FALSE,
    ConditionStatus.UNKNOWN: fnv1.STATUS_CONDITION_UNKNOWN,
}
_SEVERITY = {EventType.NORMAL: fnv1.SEVERITY_NORMAL, EventType.WARNING: fnv1.SEVERITY_WARNING}
_RESERVED = frozenset({"Ready", "Synced", "Healthy", "UpToDate", "Responsive"})
SIZE_CONDITION = "WithinMessageLimit"


def read(request: fnv1.RunFunctionRequest, structs: StructCodec) -> FunctionCall:
    return FunctionCall(
        composite=structs.decode(request.observed.composite.resource),
        composed={key: structs.decode_observed(item.resource) for key, item in request.observed.resources.items()},
        required={
            key: tuple([structs.decode(item.resource) for item in found.items])
            for key, found in request.required_resources.items()
        },
    )


def write(request: fnv1.RunFunctionRequest, call: FunctionCall, answer: FunctionResult, structs: StructCodec) -> bytes:
    """The serialized response: the desired state of earlier functions in the pipeline, overlaid with ours."""
    response = _response_to(request)
    response.meta.ttl.FromTimedelta(timedelta(seconds=answer.ttl_s))
    size = 0
    for key, composed in answer.resources.items():
        resource = response.desired.resources[key]
        resource.resource.Clear()
        size += structs.encode_into(resource.resource, composed.manifest)
        resource.ready = fnv1.READY_TRUE if composed.ready else fnv1.READY_FALSE
    size += structs.encode_into(response.desired.composite.resource, {"status": answer.status})
    if size > MOST_BYTES:
        # To serialize a hundred megabytes stops every other call for half a second.
        return _too_large(request, size)
    response.desired.composite.ready = fnv1.READY_TRUE if answer.ready else fnv1.READY_FALSE
    for condition in answer.conditions:
        if condition.type not in _RESERVED:
            response.conditions.append(_condition(condition))
    response.results.extend(_result(event) for event in answer.events)
    for name, requirement in answer.requirements.items():
        response.requirements.resources[name].CopyFrom(_selector(requirement))
    return _checked_size(request, response, reported=_has_size_condition(call.composite))


def refuse(request: fnv1.RunFunctionRequest, why: str) -> bytes:
    """A fatal result: Crossplane applies nothing and shows the message on the composite."""
    response = _response_to(request)
    response.results.append(fnv1.Result(severity=fnv1.SEVERITY_FATAL, message=why))
    return _serialized(response)


def _response_to(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    response = fnv1.RunFunctionResponse(meta=fnv1.ResponseMeta(tag=request.meta.tag))
    response.desired.CopyFrom(request.desired)
    response.context.CopyFrom(request.context)
    return response


def _checked_size(request: fnv1.RunFunctionRequest, response: fnv1.RunFunctionResponse, *, reported: bool) -> bytes:
    """A response over the limit becomes a fatal result; one near it sets a condition, which is cleared afterwards."""
    packed = _serialized(response)
    near = len(packed) > MOST_BYTES * _WARN_SHARE
    if not near and not reported:
        return packed
    if len(packed) > MOST_BYTES:
        return _too_large(request, len(packed))
    response.conditions.append(
        fnv1.Condition(
            type=SIZE_CONDITION,
            status=fnv1.STATUS_CONDITION_FALSE if near else fnv1.STATUS_CONDITION_TRUE,
            reason="NearlyTooLarge" if near else "Fits",
            message=f"{_of_most(len(packed))}. Split this object into several before it grows" if near else "",
        )
    )
    return _serialized(response)


def _too_large(request: fnv1.RunFunctionRequest, size: int) -> bytes:
    return refuse(request, f"{_of_most(size)}. Nothing is changed. Split this object into several")


def _of_most(size: int) -> str:
    return f"the response has {size / 2**20:.1f} MiB; Crossplane accepts {MOST_BYTES / 2**20:.0f} MiB"


def _serialized(response: fnv1.RunFunctionResponse) -> bytes:
    """Serialized here and not by gRPC, because its size is needed and ByteSize would serialize it a second time."""
    packed: bytes = response.SerializeToString()
    return packed


def _has_size_condition(composite: Manifest) -> bool:
    conditions = value_at(composite, "status", "conditions")
    return any(item.get("type") == SIZE_CONDITION for item in conditions) if isinstance(conditions, list) else False


def _condition(condition: Condition) -> fnv1.Condition:
    return fnv1.Condition(
        type=condition.type,
        status=_STATUS[ConditionStatus(condition.status)],
        reason=str(condition.reason),
        message=condition.message,
    )


def _result(event: Event) -> fnv1.Result:
    return fnv1.Result(severity=_SEVERITY[event.type], reason=str(event.reason), message=event.message)


def _selector(requirement: Requirement) -> fnv1.ResourceSelector:
    selector = fnv1.ResourceSelector(api_version=requirement.api_version, kind=requirement.kind)
    if requirement.name is not None:
        selector.match_name = requirement.name
    elif requirement.labels:
        selector.match_labels.labels.update(requirement.labels)
    if requirement.namespace is not None:
        selector.namespace = requirement.namespace
    return selector
