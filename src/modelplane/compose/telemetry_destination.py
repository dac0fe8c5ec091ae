"""TelemetryDestination: composes nothing; says which of its sinks the collectors of clusters use."""

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import TelemetryDestination, TelemetryDestinationStatus
from modelplane.api.objects import API_VERSION
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Requirement
from modelplane.compose.telemetry.cluster_telemetry import (
    DESTINATIONS,
    GATEWAY,
    UnreadInput,
    gateway_requirement,
    secret_key,
    secret_requirement,
    sink_report,
    usable_sinks,
)
from modelplane.compose.telemetry.sinks import AcceptedSink, SinkReport


def compose(request: ComposeRequest[TelemetryDestination]) -> ComposeResult:
    try:
        report = sink_report(request.fetched(DESTINATIONS), request.fetched(GATEWAY))
    except UnreadInput as error:
        waits = unknown(ConditionType.ACCEPTED, error.reason, str(error))
        return ComposeResult(conditions=(waits,), ready=summarise([waits]), requirements=_requirements(request))
    name = request.resource.metadata.name
    own = tuple(sink for sink in report.accepted if sink.destination == name)
    accepted, (secrets, usable) = _accepted(report, name), _secrets(request, own)
    conditions = (accepted, secrets)
    return ComposeResult(
        status=TelemetryDestinationStatus(sinks=usable),
        conditions=conditions,
        ready=summarise(conditions),
        requirements=_requirements(request),
    )


def _requirements(request: ComposeRequest[TelemetryDestination]) -> dict[str, Requirement]:
    names = sorted({sink.secret_ref.name for sink in request.resource.spec.sinks if sink.secret_ref is not None})
    return {
        DESTINATIONS: Requirement(API_VERSION, "TelemetryDestination"),
        GATEWAY: gateway_requirement(),
        **{secret_key(name): secret_requirement(name) for name in names},
    }


def _accepted(report: SinkReport, name: str) -> Condition:
    faults = report.faults.get(name, ())
    if not faults:
        return holds(ConditionType.ACCEPTED, Reason.ACCEPTED)
    reason = next((fault.reason for fault in faults if fault.reason is Reason.OUTBOUND_REFUSED), Reason.INVALID)
    return fails(ConditionType.ACCEPTED, reason, "; ".join(fault.message for fault in faults))


def _secrets(
    request: ComposeRequest[TelemetryDestination], own: tuple[AcceptedSink, ...]
) -> tuple[Condition, int | None]:
    """The condition, and how many sinks can be used: those of before while a Secret is not read."""
    kind = ConditionType.SECRETS_READY
    try:
        usable, faults = usable_sinks(SinkReport(own), request.required, {})
    except UnreadInput as error:
        return unknown(kind, error.reason, str(error)), request.resource.status.sinks
    if faults:
        return fails(kind, Reason.SECRET_MISSING, "; ".join(fault.message for _, fault in faults)), len(usable)
    if not any(sink.secret for sink in own):
        return holds(kind, Reason.NO_SECRETS), len(usable)
    return holds(kind, Reason.SECRETS_FOUND), len(usable)
