"""The collector of one InferenceCluster: none without a TelemetryDestination, one with any number of them.

an input is not read, or cannot be        what exists stays
a destination is no longer listed         it is read by its name, and leaves when it is gone
a sink is refused                         it is left out, and the condition says why
the Secret of a sink is missing           a sink that has its copy stays as it is; another is left out
no sink is left, and none waits           the collector goes
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import COPIED_FROM, DEFAULT_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway, MetricMapping, TelemetryDestination
from modelplane.api.objects import (
    API_VERSION,
    Manifest,
    items_at,
    manifest,
    mapping_at,
    name_of,
    text_at,
    with_metadata,
)
from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason
from modelplane.compose.contract import (
    ComposeRequest,
    CopiedFrom,
    Desired,
    Observed,
    ReadyWhen,
    Remote,
    Requirement,
    keep,
)
from modelplane.compose.images import RegistryMirrors
from modelplane.compose.stack_upgrade import is_managed
from modelplane.compose.telemetry.collector_config import CollectorInputs, collector_config
from modelplane.compose.telemetry.collector_objects import (
    IMAGE,
    MADE_FOR,
    CollectorSite,
    collector_objects,
    secret_copy_name,
)
from modelplane.compose.telemetry.metric_mappings import MappingReport, read_mappings
from modelplane.compose.telemetry.monitors import cluster_monitors
from modelplane.compose.telemetry.sinks import AcceptedSink, SinkFault, SinkReport, read_sinks

DESTINATIONS, MAPPINGS, GATEWAY = "telemetry-destinations", "telemetry-mappings", "telemetry-gateway"
PREFIX, _SECRET = "telemetry-", "telemetry-secret-"
_COLLECTOR, _CONFIG = "telemetry-collector", "telemetry-config"
_KIND = ConditionType.TELEMETRY_READY
_MAX_MESSAGE = 1024
_Read = TypeVar("_Read", bound=msgspec.Struct)


class UnreadInput(InputError):  # noqa: N818 - an input, not a failure
    """An input is not there yet, or cannot be read: nothing is decided."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TelemetryPlan:
    desired: Mapping[str, Desired] = field(default_factory=dict)
    condition: Condition | None = None
    """TelemetryReady. None without a destination and a collector."""


def telemetry_requirements(request: ComposeRequest[InferenceCluster]) -> dict[str, Requirement]:
    found = {DESTINATIONS: Requirement(API_VERSION, "TelemetryDestination")}
    missing = {_named(name): _destination(name) for name in sorted(_unlisted(request))}
    destinations = [*(request.fetched(DESTINATIONS) or ()), *_by_name(request)]
    if not destinations:
        return {**found, **missing}
    names = {text_at(sink, "secretRef", "name") for item in destinations for sink in items_at(item, "spec", "sinks")}
    secrets = {secret_key(name): secret_requirement(name) for name in sorted(names - {""})}
    mappings = Requirement(API_VERSION, "MetricMapping")
    return {**found, **missing, MAPPINGS: mappings, GATEWAY: gateway_requirement(), **secrets}


def _named(name: str) -> str:
    return f"telemetry-destination-{name}"


def _destination(name: str) -> Requirement:
    return Requirement(API_VERSION, "TelemetryDestination", name=name)


def _unlisted(request: ComposeRequest[InferenceCluster]) -> set[str]:
    """Destinations that the collector was made for and that the list lacks: it may be late."""
    config = request.observed.get(_CONFIG)
    known = text_at(config.manifest, "metadata", "annotations", MADE_FOR) if config is not None else ""
    return set(filter(None, known.split(","))) - {name_of(item) for item in request.fetched(DESTINATIONS) or ()}


def _by_name(request: ComposeRequest[InferenceCluster]) -> list[Manifest]:
    return [item for name in sorted(_unlisted(request)) for item in request.fetched(_named(name)) or ()]


def secret_key(name: str) -> str:
    return f"{_SECRET}{name}"


def secret_requirement(name: str) -> Requirement:
    return Requirement("v1", "Secret", name=name, namespace=SYSTEM_NAMESPACE)


def gateway_requirement() -> Requirement:
    """Its outbound rule is that of the fleet."""
    return Requirement(API_VERSION, "InferenceGateway", name=DEFAULT_GATEWAY)


def plan_telemetry(request: ComposeRequest[InferenceCluster], *, reachable: bool) -> TelemetryPlan:
    """`reachable`: whether the cluster exists."""
    plan = _collector_plan(request, reachable=reachable)
    monitors = cluster_monitors(request)
    startable = {key: item for key, item in monitors.items() if reachable or key in request.observed}
    return replace(plan, desired={**plan.desired, **startable})


def _collector_plan(request: ComposeRequest[InferenceCluster], *, reachable: bool) -> TelemetryPlan:
    seen = {key: item for key, item in request.observed.items() if key.startswith(PREFIX)}
    try:
        destinations = _destinations(request, seen)
        if not destinations:
            return TelemetryPlan(condition=_none(request.resource))
        report = sink_report(destinations, request.fetched(GATEWAY))
        mappings = _mappings(request.fetched(MAPPINGS))
        usable, faults = usable_sinks(report, request.required, seen)
    except UnreadInput as error:
        if not seen and error.reason is Reason.UNRESOLVED and request.fetched(DESTINATIONS) is None:
            return TelemetryPlan()
        return TelemetryPlan(_kept(seen), unknown(_KIND, error.reason, str(error)))
    if not usable:
        waits = any(fault.reason is Reason.SECRET_MISSING for _, fault in faults)
        return TelemetryPlan(_kept(seen) if waits else {}, _condition(faults, usable, seen))
    desired = _desired(request, usable, mappings, report)
    startable = {key: item for key, item in desired.items() if reachable or key in seen}
    return TelemetryPlan(startable, _condition(faults, usable, seen))


def _destinations(request: ComposeRequest[InferenceCluster], seen: Mapping[str, Observed]) -> tuple[Manifest, ...]:
    listed, unlisted = request.fetched(DESTINATIONS), _unlisted(request)
    if listed is None or any(request.fetched(_named(name)) is None for name in unlisted):
        raise UnreadInput(Reason.UNRESOLVED, "TelemetryDestinations are not read yet")
    found = (*listed, *_by_name(request))
    if not found and not unlisted and seen:
        raise UnreadInput(Reason.UNRESOLVED, "the configuration of the collector is not read yet")
    return found


def sink_report(destinations: tuple[Manifest, ...] | None, gateways: tuple[Manifest, ...] | None) -> SinkReport:
    """UnreadInput where a destination or the outbound rule is not read."""
    declared = _decoded(TelemetryDestination, destinations)
    if gateways is None:
        raise UnreadInput(Reason.UNRESOLVED, f"InferenceGateway {DEFAULT_GATEWAY} is not read yet")
    try:
        outbound = decode(InferenceGateway, {**gateways[0], "status": {}}).spec.outbound if gateways else None
        rule = OutboundRule.read(outbound.allow if outbound is not None else ())
    except (InputError, ValueError) as error:
        message = f"InferenceGateway {DEFAULT_GATEWAY}: spec.outbound.allow: {error}"
        raise UnreadInput(Reason.INVALID, message) from error
    return read_sinks(declared, rule)


NamedFault = tuple[str, SinkFault]
"""The name of a TelemetryDestination, and what is wrong with it."""


def usable_sinks(
    report: SinkReport, required: Mapping[str, tuple[Manifest, ...]], seen: Mapping[str, Observed]
) -> tuple[tuple[AcceptedSink, ...], list[NamedFault]]:
    """Sinks whose Secrets are there, and everything that is wrong with the others."""
    faults = [(name, fault) for name, found in report.faults.items() for fault in found]
    usable: list[AcceptedSink] = []
    for sink in report.accepted:
        problem = _secret_problem(sink, required)
        if problem:
            faults.append((sink.destination, SinkFault(Reason.SECRET_MISSING, problem)))
        if not problem or secret_key(sink.secret) in seen:
            usable.append(sink)
    return tuple(usable), faults


def _secret_problem(sink: AcceptedSink, required: Mapping[str, tuple[Manifest, ...]]) -> str:
    if not sink.secret:
        return ""
    found, shown = required.get(secret_key(sink.secret)), f"Secret {SYSTEM_NAMESPACE}/{sink.secret}"
    if found is None:
        raise UnreadInput(Reason.UNRESOLVED, f"{shown} is not read yet")
    if not found:
        return f"{shown} of sink {sink.name} does not exist"
    missing = sink.token_key and sink.token_key not in mapping_at(found[0], "data")
    return f"{shown} of sink {sink.name} has no key {sink.token_key}" if missing else ""


def _mappings(items: tuple[Manifest, ...] | None) -> MappingReport:
    return read_mappings(_decoded(MetricMapping, items))


def _decoded(kind: type[_Read], items: tuple[Manifest, ...] | None) -> list[_Read]:
    if items is None:
        raise UnreadInput(Reason.UNRESOLVED, f"{kind.__name__}s are not read yet")
    found = []
    for item in items:
        try:
            found.append(decode(kind, {**item, "status": {}}))
        except InputError as error:
            raise UnreadInput(Reason.INVALID, f"{kind.__name__} {name_of(item)}: {error}") from error
    return found


def _kept(seen: Mapping[str, Observed]) -> dict[str, Desired]:
    return {key: keep(item) for key, item in seen.items()}


def _desired(
    request: ComposeRequest[InferenceCluster],
    usable: tuple[AcceptedSink, ...],
    mappings: MappingReport,
    report: SinkReport,
) -> dict[str, Desired]:
    cluster, name = request.resource, ClusterName(request.resource.metadata.name)
    image = cluster.spec.backend.images.collector or RegistryMirrors.of(cluster).of_image(IMAGE)
    config = collector_config(CollectorInputs(name, usable, mappings.metrics, report.extensions))
    site = CollectorSite(image, config, usable, tuple(sorted(report.destinations)), is_managed(cluster))
    targets = {
        **{secret_key(secret): _copy(request, name, secret) for secret in site.secrets},
        **{
            f"{PREFIX}{key}": Remote(name, item, ReadyWhen.AVAILABLE if key == "collector" else ReadyWhen.CREATED)
            for key, item in collector_objects(site).items()
        },
    }
    return {
        key: Desired(target, _is_ready(request, key), () if key == _COLLECTOR else (_COLLECTOR,))
        for key, target in targets.items()
    }


def _copy(request: ComposeRequest[InferenceCluster], cluster: ClusterName, secret: str) -> Remote:
    """The copy of a Secret; the one that is there while the original is not."""
    found = request.fetched(secret_key(secret))
    if not found:
        kept = request.observed[secret_key(secret)].target
        assert isinstance(kept, Remote)  # noqa: S101  a sink without either is not usable
        return kept
    made = manifest("v1", "Secret", secret_copy_name(secret), namespace=SYSTEM_NAMESPACE, type="Opaque")
    made = with_metadata(made, annotations={COPIED_FROM: f"{SYSTEM_NAMESPACE}/{secret}"})
    version = text_at(found[0], "metadata", "resourceVersion")
    return replace(
        Remote(cluster, made), copied_from=CopiedFrom("v1", "Secret", secret, SYSTEM_NAMESPACE, version=version)
    )


def _is_ready(request: ComposeRequest[InferenceCluster], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready


def _none(cluster: InferenceCluster) -> Condition | None:
    """A condition that was written stays until it is written again."""
    said = any(condition.type == _KIND for condition in cluster.status.conditions)
    return holds(_KIND, Reason.NO_DESTINATIONS) if said else None


def _condition(faults: list[NamedFault], usable: tuple[AcceptedSink, ...], seen: Mapping[str, Observed]) -> Condition:
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        name, fault = faults[0]
        return fails(_KIND, fault.reason, f"TelemetryDestination {name}: {fault.message}{more}"[:_MAX_MESSAGE])
    refused = next((f"{name_of(item.manifest)}: {item.refused}" for item in seen.values() if item.refused), "")
    if refused:
        message = f"the cluster refuses an object of the collector: {refused}"
        return fails(_KIND, Reason.COLLECTOR_FAILED, message[:_MAX_MESSAGE])
    if _COLLECTOR not in seen or not seen[_COLLECTOR].ready:
        return fails(_KIND, Reason.COLLECTOR_STARTING, "the collector is not available")
    sinks = f"{len(usable)} sink{'s' if len(usable) > 1 else ''}"
    return holds(_KIND, Reason.COLLECTOR_RUNNING, f"{sinks}: {', '.join(sink.name for sink in usable)}")
