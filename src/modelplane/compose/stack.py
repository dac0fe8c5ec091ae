"""The software of a cluster: Releases and objects from the table of this release, or a check of what others installed.

Order. A component is installed when all that it needs is ready, and is removed before any of that (`outlives`). One
that exists stays in the desired state whatever is not ready by then. It leaves by a decision only: an override turns it
off, or every class was read and none has such devices.

`spec.cluster.existing.components: Provided` installs nothing. What a component provides is looked for on the cluster by
objects that are small: an APIService for an API version, and DeviceClasses. A host that cannot read the cluster leaves
the condition Unknown.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceClass, InferenceCluster, Override, Software
from modelplane.api.objects import name_of, text_at
from modelplane.api.reasons import Reason
from modelplane.catalog.stack import StackComponent, at_path, is_in_range, load_stack, merged
from modelplane.compose.context import has_pools
from modelplane.compose.contract import ComposeRequest, Desired, Helm, Remote, Requirement, Target, keep, keep_order
from modelplane.compose.fabric_domains import has_compute_domains
from modelplane.compose.images import RegistryMirrors

PREFIX = "stack-"
_COMPONENTS = "spec.cluster.existing.components"
_MAX_MESSAGE = 1024
_BEFORE_GATEWAYS = frozenset({"gateway-class", "envoy-gateway"})
_VENDORS = {"nvidia": "nvidia.com", "amd": "amd.com"}
_READ_KINDS = {
    "observed-apiservices": ("apiregistration.k8s.io/v1", "APIService"),
    "observed-deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
    "observed-gatewayclasses": ("gateway.networking.k8s.io/v1", "GatewayClass"),
}


@dataclass(frozen=True, slots=True)
class StackPlan:
    desired: Mapping[str, Desired] = field(default_factory=dict)
    condition: Condition | None = None
    """RequirementsMet. None where nothing is installed or checked."""
    holds_gateway: bool = False
    """Whether the cluster's gateway waits for the software that runs it."""


@dataclass(frozen=True, slots=True)
class StackInputs:
    """What the stack depends on besides the spec."""

    classes: Mapping[str, InferenceClass | None]
    """The InferenceClasses of the pools; None for one that is not read."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a cloud knows of the cluster."""
    reachable: bool = True
    """Whether the cluster exists."""


def stack_fault(cluster: InferenceCluster) -> str | None:
    """Why the software cannot be installed as it is written, as a sentence that names the field."""
    known = {component.name: component for component in load_stack().components}
    overrides = {override.name: override for override in _software(cluster).overrides}
    for name in overrides:
        if name not in known:
            return f"spec.software.overrides: there is no component {name}; components: {', '.join(sorted(known))}"
    for component in known.values():
        for needed, versions in component.needs.items():
            version = overrides[needed].version if needed in overrides else None
            if version and not is_in_range(version, versions):
                return f"spec.software.overrides: {component.name} needs {needed} {versions}, not {version}"
    return None


def charts_fault(request: ComposeRequest[InferenceCluster]) -> str | None:
    """Why the software of a new cluster cannot be installed by this host."""
    if request.charts or not is_managed(request.resource):
        return None
    field = "spec.cluster.source" if request.resource.spec.cluster.existing is None else _COMPONENTS
    return (
        f"{field}: this control plane has no provider-helm to install software with; modelplane install --helm adds it"
    )


def is_managed(cluster: InferenceCluster) -> bool:
    """Whether Modelplane installs the software."""
    existing = cluster.spec.cluster.existing
    return cluster.spec.cluster.source != "Existing" or (existing is not None and existing.components == "Managed")


def is_checked(cluster: InferenceCluster) -> bool:
    existing = cluster.spec.cluster.existing
    return existing is not None and existing.components == "Provided"


def stack_requirements(cluster: InferenceCluster) -> dict[str, Requirement]:
    """What is read of a cluster whose software is checked."""
    if not is_checked(cluster):
        return {}
    name = ClusterName(cluster.metadata.name)
    return {key: Requirement(api, kind, cluster=name) for key, (api, kind) in _READ_KINDS.items()}


def plan_stack(request: ComposeRequest[InferenceCluster], inputs: StackInputs) -> StackPlan:
    if is_managed(request.resource):
        return _installed(request, inputs)
    if is_checked(request.resource):
        return StackPlan(condition=_checked(request, inputs))
    return StackPlan()


def components_of(cluster: InferenceCluster, classes: Iterable[InferenceClass | None]) -> tuple[StackComponent, ...]:
    """What the cluster needs, with its overrides."""
    overrides = {override.name: override for override in _software(cluster).overrides}
    found = load_stack().find(cluster.spec.stack, cluster.spec.cluster.source, features_of(cluster, classes))
    return tuple(component for component in found if _is_on(component, overrides.get(component.name)))


def features_of(cluster: InferenceCluster, classes: Iterable[InferenceClass | None]) -> frozenset[str]:
    """What a cluster has that needs software: GPUs of a vendor, ComputeDomains, its scheduler, backend and routing."""
    drivers = {device.driver for found in classes if found is not None for device in found.spec.devices}
    vendors = {name for name, domain in _VENDORS.items() if any(driver.endswith(domain) for driver in drivers)}
    backend = cluster.spec.backend
    routing = "InferencePool" if has_pools(backend) else backend.routing
    domains = {"ComputeDomain" for pool in cluster.spec.node_pools if has_compute_domains(cluster, pool.name)}
    return frozenset({*vendors, *domains, cluster.spec.scheduling.type_, backend.type_, routing})


def _is_on(component: StackComponent, override: Override | None) -> bool:
    if override is not None and override.enabled is not None:
        return override.enabled
    return not component.optional


def _installed(request: ComposeRequest[InferenceCluster], inputs: StackInputs) -> StackPlan:
    cluster = request.resource
    wanted = {component.name: component for component in components_of(cluster, inputs.classes.values())}
    targets = {name: _targets(cluster, component, inputs) for name, component in wanted.items()}
    ready = {name for name, made in targets.items() if _are_ready(request, made)}
    users = _users(wanted, targets)
    desired: dict[str, Desired] = {}
    for name, component in wanted.items():
        startable = inputs.reachable and not (component.needs.keys() & wanted.keys()) - ready
        for key, target in targets[name].items():
            if key in request.observed or startable:
                desired[key] = _desired(request, key, target, users[name])
    late = bool((_BEFORE_GATEWAYS & wanted.keys()) - ready)
    return StackPlan(
        keep_order(desired, _unexplained(request, inputs, desired), request.observed),
        _installation(wanted, ready),
        late,
    )


def _unexplained(
    request: ComposeRequest[InferenceCluster], inputs: StackInputs, desired: Collection[str]
) -> dict[str, Desired]:
    """What exists and is not needed, while a class that may need it is not read."""
    if all(found is not None for found in inputs.classes.values()):
        return {}
    left = {key: item for key, item in request.observed.items() if key.startswith(PREFIX) and key not in desired}
    return {key: keep(item) for key, item in left.items()}


def _desired(request: ComposeRequest[InferenceCluster], key: str, target: Target, users: tuple[str, ...]) -> Desired:
    seen = request.observed.get(key)
    if seen is None:
        return Desired(target, outlives=users)
    return Desired(seen.target if _software(request.resource).paused else target, seen.ready, users)


def _are_ready(request: ComposeRequest[InferenceCluster], targets: Iterable[str]) -> bool:
    return all(key in request.observed and request.observed[key].ready for key in targets)


def _users(
    wanted: Mapping[str, StackComponent], targets: Mapping[str, Mapping[str, Target]]
) -> dict[str, tuple[str, ...]]:
    """The keys of what has to be gone before a component may go."""
    return {
        name: (
            *(key for user in wanted.values() if name in user.needs for key in targets[user.name]),
            *(["gateway"] if name in _BEFORE_GATEWAYS else []),
        )
        for name in wanted
    }


def _targets(cluster: InferenceCluster, component: StackComponent, inputs: StackInputs) -> dict[str, Target]:
    name = ClusterName(cluster.metadata.name)
    if component.chart is None:
        items = component.objects()
        return {f"{PREFIX}{component.name}-{text_at(item, 'kind').lower()}": Remote(name, item) for item in items}
    chart, mirrors = component.chart, RegistryMirrors.of(cluster)
    override = next((each for each in _software(cluster).overrides if each.name == component.name), None)
    made = Helm(
        cluster=name,
        chart=chart.name,
        repository=mirrors.of_repository(chart.repository),
        version=(override.version if override else None) or chart.version,
        namespace=component.namespace,
        values=merged(_values(cluster, component, inputs, mirrors), override.values if override else {}),
        release=f"mp-{component.name}",
    )
    return {f"{PREFIX}{component.name}": made}


def _values(
    cluster: InferenceCluster, component: StackComponent, inputs: StackInputs, mirrors: RegistryMirrors
) -> Mapping[str, object]:
    wanted = {cluster.spec.cluster.source, *features_of(cluster, inputs.classes.values())}
    values = component.values
    for name, more in component.values_for.items():
        values = merged(values, more) if name in wanted else values
    for path, fact in component.facts.items():
        values = merged(values, at_path(path, inputs.facts[fact])) if fact in inputs.facts else values
    for path, image in component.images.items():
        found = mirrors.of_image(image)
        values = merged(values, at_path(path, found)) if found != image else values
    return values


def _installation(wanted: Collection[str], ready: Collection[str]) -> Condition:
    left = [name for name in wanted if name not in ready]
    if not left:
        return holds(ConditionType.REQUIREMENTS_MET, Reason.REQUIREMENTS_MET)
    message = f"{len(left)} of {len(wanted)} components are not ready: {', '.join(left)}"
    return fails(ConditionType.REQUIREMENTS_MET, Reason.INSTALLING, message[:_MAX_MESSAGE])


def _checked(request: ComposeRequest[InferenceCluster], inputs: StackInputs) -> Condition:
    missing, unread = missing_components(
        components_of(request.resource, inputs.classes.values()),
        {kind: _names(request, key) for key, (_, kind) in _READ_KINDS.items()},
    )
    if missing:
        message = f"missing: {'; '.join(missing)}"
        return fails(ConditionType.REQUIREMENTS_MET, Reason.REQUIREMENTS_MISSING, message[:_MAX_MESSAGE])
    classes = [name for name, found in inputs.classes.items() if found is None]
    if unread or classes:
        what = f"{', '.join(sorted(unread))} of the cluster" if unread else f"InferenceClass {', '.join(classes)}"
        return unknown(ConditionType.REQUIREMENTS_MET, Reason.UNRESOLVED, f"{what}: not read yet")
    return holds(ConditionType.REQUIREMENTS_MET, Reason.REQUIREMENTS_MET)


def missing_components(
    components: Iterable[StackComponent], there: Mapping[str, Collection[str] | None]
) -> tuple[list[str], set[str]]:
    """Components that a cluster lacks, each with what was not found, and the kinds that were not read.

    `there` has the names of the objects of each kind, or None where they were not read.
    """
    missing: list[str] = []
    unread: set[str] = set()
    for component in components:
        lacks = []
        for wanted in component.provides.objects():
            names = there.get(wanted.kind)
            if names is None:
                unread.add(wanted.kind)
            elif wanted.name not in names:
                lacks.append(wanted.shown)
        if lacks:
            missing.append(f"{component.name} ({', '.join(lacks)})")
    return missing, unread


def _names(request: ComposeRequest[InferenceCluster], key: str) -> Collection[str] | None:
    found = request.fetched(key)
    return None if found is None else {name_of(item) for item in found}


def _software(cluster: InferenceCluster) -> Software:
    return cluster.spec.software or Software()
