"""The software of a cluster: Releases and objects from the table of this release, or a check of what others installed.

Order. A component is installed when all that it needs is ready, and is removed before any of that (`outlives`). One
that exists stays in the desired state whatever is not ready by then. It leaves by a decision only: an override turns it
off, or every class was read and none has such devices. What models are served with stays while replicas run even then.

Changes. `stack_upgrade` decides when a change reaches the cluster. In the cluster it goes in the order of installation:
a component is changed when what it needs is changed and ready.

`spec.cluster.existing.components: Provided` installs nothing. What a component provides is looked for on the cluster by
objects that are small: an APIService for an API version, and DeviceClasses. A host that cannot read the cluster leaves
the condition Unknown.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.meta import ClusterName
from modelplane.api.models import InClusterScheduler, InferenceClass, InferenceCluster, SpecSoftware, StatusSoftware
from modelplane.api.objects import API_VERSION, Json, name_of, text_at
from modelplane.api.reasons import Reason
from modelplane.catalog.stack import StackComponent, at_path, digest_of, is_in_range, load_stack, merged
from modelplane.compose.context import has_pools
from modelplane.compose.contract import ComposeRequest, Desired, Helm, Remote, Requirement, Target, keep, keep_order
from modelplane.compose.fabric_domains import has_compute_domains
from modelplane.compose.images import RegistryMirrors
from modelplane.compose.in_cluster_scheduler import choose_scheduler
from modelplane.compose.releases import chart_of, problem_of
from modelplane.compose.stack_upgrade import SoftwareChange, is_managed, plan_upgrade
from modelplane.k8s.semver import VersionError

PREFIX = "stack-"
_COMPONENTS = "spec.cluster.existing.components"
_MAX_MESSAGE = 1024
_BEFORE_GATEWAYS = frozenset({"gateway-class", "envoy-gateway"})
_VENDORS = {"nvidia": "nvidia.com", "amd": "amd.com"}
_FLEET, _REPLICAS = "other-clusters", "replicas"
_APIS = "observed-apiservices"
_READ_KINDS = {
    _APIS: ("apiregistration.k8s.io/v1", "APIService"),
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
    status: StatusSoftware | None = None
    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    requeue_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class StackInputs:
    """What the stack depends on besides the spec."""

    classes: Mapping[str, InferenceClass | None]
    """The InferenceClasses of the pools; None for one that is not read."""
    facts: Mapping[str, str]
    """What a cloud knows of the cluster."""
    reachable: bool
    """Whether the cluster exists."""


def stack_fault(cluster: InferenceCluster) -> str | None:
    """Why the software cannot be installed as it is written, as a sentence that names the field."""
    known = [component.name for component in load_stack().components]
    overrides = {override.name: override for override in _software(cluster).overrides}
    for name in overrides:
        if name not in known:
            return f"spec.software.overrides: there is no component {name}; components: {', '.join(sorted(known))}"
    for component in components_of(cluster, ()):
        for needed, versions in component.needs.items():
            version = overrides[needed].version if needed in overrides else None
            if version and not is_in_range(version, versions):
                return f"spec.software.overrides: {component.name} needs {needed} {versions}, not {version}"
    return None


def _incompatibility(cluster: InferenceCluster) -> str | None:
    """Why this release cannot be installed on the cluster."""
    oldest, found = load_stack().kubernetes, cluster.status.kubernetes_version
    with suppress(VersionError):
        if found and not is_in_range(found.partition("-")[0].partition("+")[0], f">={oldest}"):
            return f"this release needs Kubernetes {oldest} or newer, and the cluster has a node of {found}"
    return stack_fault(cluster)


def charts_fault(request: ComposeRequest[InferenceCluster]) -> str | None:
    """Why the software of a new cluster cannot be installed by this host."""
    if request.charts or not is_managed(request.resource):
        return None
    field = "spec.cluster.source" if request.resource.spec.cluster.existing is None else _COMPONENTS
    return (
        f"{field}: this control plane has no provider-helm to install software with; modelplane install --helm adds it"
    )


def is_checked(cluster: InferenceCluster) -> bool:
    existing = cluster.spec.cluster.existing
    return existing is not None and existing.components == "Provided"


def stack_requirements(cluster: InferenceCluster) -> dict[str, Requirement]:
    """What is read of a cluster whose software is checked, or whose scheduler is found by its APIs."""
    keys = _READ_KINDS.keys() if is_checked(cluster) else {_APIS} if cluster.spec.scheduling.type_ == "Auto" else set()
    name = ClusterName(cluster.metadata.name)
    return {key: Requirement(api, kind, cluster=name) for key, (api, kind) in _READ_KINDS.items() if key in keys}


def chosen_scheduler(request: ComposeRequest[InferenceCluster]) -> InClusterScheduler | None:
    """What spec.scheduling.type Auto stands for."""
    cluster = request.resource
    includes = is_managed(cluster) or cluster.spec.stack == "Dynamo"
    installed = components_of(cluster, ()) if includes else ()
    return choose_scheduler(cluster, installed, _names(request, _APIS), has_replicas=_is_busy(request))


def plan_stack(request: ComposeRequest[InferenceCluster], inputs: StackInputs) -> StackPlan:
    if is_managed(request.resource):
        return _installed(request, inputs)
    if is_checked(request.resource):
        return StackPlan(condition=_checked(request, inputs))
    return StackPlan()


def components_of(cluster: InferenceCluster, classes: Iterable[InferenceClass | None]) -> tuple[StackComponent, ...]:
    """What the cluster needs, with its overrides."""
    stated = {each.name: each.enabled for each in _software(cluster).overrides if each.enabled is not None}
    features = features_of(cluster, classes)
    found = (each for each in load_stack().components if each.fits(cluster.spec.stack, cluster.spec.cluster.source))
    return tuple(each for each in found if stated.get(each.name, each.is_used_by(features) and not each.optional))


def features_of(cluster: InferenceCluster, classes: Iterable[InferenceClass | None]) -> frozenset[str]:
    """What a cluster has that needs software: GPUs of a vendor, ComputeDomains, its scheduler, backend and routing."""
    drivers = {device.driver for found in classes if found is not None for device in found.spec.devices}
    vendors = {name for name, domain in _VENDORS.items() if any(driver.endswith(domain) for driver in drivers)}
    backend = cluster.spec.backend
    routing = "InferencePool" if has_pools(backend) else backend.routing
    domains = {"ComputeDomain" for pool in cluster.spec.node_pools if has_compute_domains(cluster, pool.name)}
    return frozenset({*vendors, *domains, cluster.spec.stack, cluster.spec.scheduling.type_, backend.type_, routing})


def _installed(request: ComposeRequest[InferenceCluster], inputs: StackInputs) -> StackPlan:
    cluster = request.resource
    wanted = {component.name: component for component in components_of(cluster, inputs.classes.values())}
    targets = {name: _targets(cluster, component, inputs) for name, component in wanted.items()}
    ready = {name for name, made in targets.items() if _are_ready(request, made)}
    current = {name for name in ready if all(_is_applied(request, key, made) for key, made in targets[name].items())}
    is_read = inputs.reachable and all(found is not None for found in inputs.classes.values())
    change = SoftwareChange(
        load_stack().release,
        digest_of(targets) if is_read else None,
        tuple(name for name in wanted if name not in current),
        _incompatibility(cluster),
        installed=ready == wanted.keys(),
    )
    upgrade = plan_upgrade(cluster, change, request.fetched(_FLEET), request.now)
    held = upgrade.held or _software(cluster).paused
    users = _users(wanted, targets)
    desired: dict[str, Desired] = {}
    for name, component in wanted.items():
        needed = component.needs.keys() & wanted.keys()
        startable = inputs.reachable and needed <= ready and _fits(request, component, targets)
        changeable = not held and needed <= current
        for key, target in targets[name].items():
            if key in request.observed or startable:
                desired[key] = _desired(request, key, target, users[name], changeable=changeable)
    kept = _kept(request, inputs, desired, held=held)
    return StackPlan(
        keep_order(desired, kept, request.observed),
        _installation(request, targets, ready),
        bool((_BEFORE_GATEWAYS & wanted.keys()) - ready),
        _with_kept(upgrade.status, kept if not held and is_read else ()),
        {_FLEET: Requirement(API_VERSION, "InferenceCluster")} if upgrade.reads_fleet else {},
        upgrade.requeue_after_s,
    )


def _fits(
    request: ComposeRequest[InferenceCluster],
    component: StackComponent,
    targets: Mapping[str, Mapping[str, Target]],
) -> bool:
    """Whether a component works with the versions of what it needs: those that are installed, where some are."""
    for needed, versions in component.needs.items():
        for key, target in targets.get(needed, {}).items() if versions else ():
            seen = request.observed.get(key)
            chart = chart_of(seen.target if seen is not None else target)
            if chart is not None and not is_in_range(chart.version, versions):
                return False
    return True


def _is_applied(request: ComposeRequest[InferenceCluster], key: str, target: Target) -> bool:
    """Whether a chart was released as it is wanted. Objects are applied at once."""
    seen = request.observed.get(key)
    return not isinstance(target, Helm) or (seen is not None and chart_of(seen.target) == target)


def _kept(
    request: ComposeRequest[InferenceCluster], inputs: StackInputs, desired: Collection[str], *, held: bool
) -> dict[str, Desired]:
    """What exists and is not wanted, and stays: a change waits, a class that may need it is not read, or models run."""
    left = {key: item for key, item in request.observed.items() if key.startswith(PREFIX) and key not in desired}
    if not held and all(found is not None for found in inputs.classes.values()):
        left = {key: item for key, item in left.items() if _is_busy(request) and not _is_optional(key)}
    return {key: keep(item) for key, item in left.items()}


def _is_busy(request: ComposeRequest[InferenceCluster]) -> bool:
    """Whether replicas are on the cluster, or may be."""
    replicas = request.fetched(_REPLICAS)
    return replicas is None or bool(replicas)


def _is_optional(key: str) -> bool:
    """Whether nothing is served with it."""
    return any(component.optional and key == f"{PREFIX}{component.name}" for component in load_stack().components)


def _with_kept(status: StatusSoftware, kept: Collection[str]) -> StatusSoftware:
    if not kept:
        return status
    names = ", ".join(sorted(key.removeprefix(PREFIX) for key in kept))
    note = f"{names}: not needed any more, and kept while replicas run on the cluster"
    return msgspec.structs.replace(status, message="; ".join(filter(None, (status.message, note)))[:_MAX_MESSAGE])


def _desired(
    request: ComposeRequest[InferenceCluster], key: str, target: Target, users: tuple[str, ...], *, changeable: bool
) -> Desired:
    seen = request.observed.get(key)
    if seen is None:
        return Desired(target, outlives=users)
    return Desired(target if changeable else seen.target, seen.ready, users)


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
    name, mirrors = ClusterName(cluster.metadata.name), RegistryMirrors.of(cluster)
    if component.chart is None:
        return {
            f"{PREFIX}{component.name}-{text_at(item, 'kind').lower()}": Remote(
                name, _mirrored(item, component, mirrors)
            )
            for item in component.objects()
        }
    chart = component.chart
    override = next((each for each in _software(cluster).overrides if each.name == component.name), None)
    version = (override.version if override else None) or chart.version
    values = merged(_values(cluster, component, inputs), _mirrored_images(component.images, version, mirrors))
    made = Helm(
        cluster=name,
        chart=chart.name,
        repository=mirrors.of_repository(chart.repository),
        version=version,
        namespace=component.namespace,
        values=merged(values, override.values if override else {}),
        release=f"mp-{component.name}",
    )
    return {f"{PREFIX}{component.name}": made}


def _values(cluster: InferenceCluster, component: StackComponent, inputs: StackInputs) -> Mapping[str, object]:
    wanted = {cluster.spec.cluster.source, *features_of(cluster, inputs.classes.values())}
    values = component.values
    for name, more in component.values_for.items():
        values = merged(values, more) if name in wanted else values
    for path, fact in component.facts.items():
        values = merged(values, at_path(path, inputs.facts[fact])) if fact in inputs.facts else values
    return values


def _mirrored_images(images: Mapping[str, str], version: str, mirrors: RegistryMirrors) -> Json:
    """Those that a mirror has."""
    values: Json = {}
    for path, image in images.items():
        named = image.replace("{version}", version)
        if (found := mirrors.of_image(named)) != named:
            values = merged(values, at_path(path, found))
    return values


def _mirrored(item: Json, component: StackComponent, mirrors: RegistryMirrors) -> Json:
    kind = f"{text_at(item, 'kind')}."
    images = {path.removeprefix(kind): image for path, image in component.images.items() if path.startswith(kind)}
    return merged(item, _mirrored_images(images, "", mirrors)) if images else item


def _installation(
    request: ComposeRequest[InferenceCluster], targets: Mapping[str, Mapping[str, Target]], ready: Collection[str]
) -> Condition:
    """What failed is named before what waits for it."""
    left = [name for name in targets if name not in ready]
    if not left:
        return holds(ConditionType.REQUIREMENTS_MET, Reason.REQUIREMENTS_MET)
    problems = {name: problem for name in left if (problem := _problem(request, targets[name]))}
    message = f"{len(left)} of {len(targets)} components are not ready: {', '.join(left)}"
    failures = [f"{name}: {problem}" for name, problem in problems.items()]
    reason = Reason.INSTALLATION_FAILED if problems else Reason.INSTALLING
    return fails(ConditionType.REQUIREMENTS_MET, reason, "; ".join((*failures, message))[:_MAX_MESSAGE])


def _problem(request: ComposeRequest[InferenceCluster], targets: Iterable[str]) -> str:
    """The first of a component's objects that could not be applied has it."""
    found = (problem_of(request.observed[key]) for key in targets if key in request.observed)
    return next(filter(None, found), "")


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


def _software(cluster: InferenceCluster) -> SpecSoftware:
    return cluster.spec.software or SpecSoftware()
