"""The pod that runs an engine, the same under every backend.

What users wrote stays as it is. Added are the devices, the pool, the caches, the probes, a way to finish streams before
stopping, and what the cluster's scheduler wants. Of labels and annotations the user's count least, then the cluster's,
then the scheduler's, and ours win.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from modelplane.api.codec import encode
from modelplane.api.labels import (
    ENGINE,
    ENGINE_CONTAINER,
    GPU_TAINT,
    GPU_TAINTS,
    POOL,
    RESERVED_PREFIX,
    ROLE,
    ROUTING_SIDECAR_CONTAINER,
    SERVING,
)
from modelplane.api.models import Container, NodeResources, ReplicaEngine, ReplicaMember, Topology
from modelplane.api.queues import queue_scheduler, queue_template
from modelplane.api.reasons import Reason
from modelplane.compose.cache_check import cache_check
from modelplane.compose.claims import CLAIM, template_name
from modelplane.compose.compute_domains import CHANNEL, channel_template
from modelplane.compose.container_requests import with_least, with_requests
from modelplane.compose.context import ClusterRenderError, Context, grace_seconds, group_size, is_gang
from modelplane.compose.engines import ENGINES, NIXL
from modelplane.compose.engines.launch import SERVED_MODEL_NAME, Launch, LaunchRequest, group_env, pod_ip
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.compose.phase_agreement import host_cache, transfer_backend
from modelplane.compose.placeholders import PlaceholderValues, expand, placeholder_values, result_fault
from modelplane.compose.pod_references import copy_name, with_copies
from modelplane.compose.pod_template import (
    PROBES,
    check_template,
    mounts,
    pod_security,
    security,
    template_spec,
    template_volumes,
    with_probes,
)
from modelplane.compose.ports import engine_container, engine_port, is_routed
from modelplane.compose.tenancy import ENGINE_SECURITY, engine_security
from modelplane.compose.volumes import HUB, pod_volumes, volume_mounts
from modelplane.compose.warm_up import warm_up_containers

HTTP = "http"
_START_PERIOD_S = 10
_HOUR_S = 3600
_SLOW_VOLUME_MIB_S = 100
"""What a shared file system of the smallest size gives one reader."""
_PROBE_TIMEOUT_S = 5
_SHARED_MEMORY = "shared-memory"
_DOWNLOADS, DOWNLOADS_PATH = "downloads", "/mnt/downloads"
_HUB_PLACES = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "VLLM_CACHE_ROOT"})
"""Variables by which a user says where downloads go."""
_LAST_WORDS = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""A container that crashes leaves the end of its log in the pod's status, and with it the reason."""
_PHASE_ROLE = {"Prefill": "prefill", "Decode": "decode"}


@dataclass(frozen=True, slots=True)
class RenderedPod:
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, object]
    share: NodeResources | None = None
    """What its containers share of the node; None: they request what they say themselves."""

    def template(self) -> dict[str, object]:
        metadata: dict[str, object] = {"labels": dict(self.labels)}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"metadata": metadata, "spec": dict(self.spec)}


def render_pod(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, gang_metadata: GangMetadata
) -> RenderedPod:
    labels, annotations = metadata(context, member, gang_metadata)
    spec = _spec(context, engine, member, gang_metadata)
    labels |= own_labels(context, engine, member)
    return RenderedPod(labels, annotations, spec, _share(context, member))


def _share(context: Context, member: ReplicaMember) -> NodeResources | None:
    """None in a queue: it may have no quota of CPU or memory, and then admits no pod that requests some."""
    queued = queue_scheduler(context.scheduling) != "None" and queue_template(context.scheduling) is not None
    return None if queued else member.node_share


def own_labels(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> dict[str, str]:
    labels = {**context.labels, ENGINE: engine.name, ROLE: member.role.lower()}
    if member.role != "Worker":
        labels[SERVING] = context.name
    if engine.phase is not None:
        labels["llm-d.ai/role"] = _PHASE_ROLE[engine.phase]
    metrics = (engine.server and engine.server.metrics) or ENGINES[engine.type_].label
    if metrics:
        labels["llm-d.ai/engine-type"] = metrics
    return labels


def metadata(
    context: Context, member: ReplicaMember, gang_metadata: GangMetadata
) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a pod, less our own labels."""
    user = member.template.metadata
    labels, annotations = cluster_metadata(context, member)
    return (
        {**(user.labels if user else {}), **labels, **gang_metadata.pod_labels},
        {**(user.annotations if user else {}), **annotations, **gang_metadata.pod_annotations},
    )


def cluster_metadata(context: Context, member: ReplicaMember) -> tuple[dict[str, str], dict[str, str]]:
    """What the cluster puts on every pod and on what makes the pods, with the placeholders replaced."""
    scheduling = context.scheduling
    if not scheduling.default_labels and not scheduling.default_annotations:
        return {}, {}
    values = placeholder_values(context, member)
    labels = _expanded(scheduling.default_labels, values)
    fault = result_fault(labels)
    if fault is not None:
        raise ClusterRenderError(Reason.INVALID, fault)
    return labels, _expanded(scheduling.default_annotations, values)


def _expanded(entries: Mapping[str, str], values: PlaceholderValues) -> dict[str, str]:
    """Less what is under our own prefix: those keys are ours alone, on every object."""
    return {key: expand(text, values) for key, text in entries.items() if not key.startswith(RESERVED_PREFIX)}


def launch_of(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> Launch:
    container = engine_container(member)
    if container.command:
        return Launch(container.command, container.args)
    weights = context.weights
    request = LaunchRequest(
        engine=engine.name,
        args=container.args,
        role=member.role,
        nodes=group_size(engine),
        port=engine_port(context, engine),
        topology=engine.topology or Topology(),
        coordination=engine.coordination,
        served_names=_served_names(context),
        model_path=weights.mount_path if weights else None,
        adapters=tuple((volume.cache, volume.mount_path) for volume in context.adapters),
        phase=engine.phase if context.disaggregated else None,
        transfer_backend=transfer_backend(context),
        host_cache=host_cache(context, member),
        moved=is_routed(context, engine),
    )
    return ENGINES[engine.type_].launch(request)


def _served_names(context: Context) -> tuple[str, ...]:
    """The deployment's name, its repository's, and one that no other deployment of the fleet has."""
    repository = context.weights.repository if context.weights else None
    return (context.deployment, *([repository] if repository else []), _fleet_name(context))


def _fleet_name(context: Context) -> str:
    return f"{context.replica.metadata.namespace}/{context.deployment}"


def drain_seconds(engine: ReplicaEngine, member: ReplicaMember) -> int:
    """How long a pod that is stopped goes on answering: new requests go elsewhere, streams in flight finish."""
    stated = engine.server.drain_seconds if engine.server is not None else None
    return grace_seconds(engine, member) * 3 // 4 if stated is None else stated


def start_budget_s(context: Context) -> int:
    """How long an engine may take to load: whole hours, one at least, and what a slow volume needs for the weights.

    It follows from the stated size, which a cache keeps, so that no pod is replaced when a measured one is known.
    """
    reading_s = sum(volume.size_gib for volume in context.volumes) * 1024 / _SLOW_VOLUME_MIB_S
    return max(1, ceil(reading_s / _HOUR_S)) * _HOUR_S


def probes(context: Context, port: int, path: str = "/health") -> dict[str, object]:
    attempts = start_budget_s(context) // _START_PERIOD_S
    check = {"httpGet": {"path": path, "port": port}, "timeoutSeconds": _PROBE_TIMEOUT_S}
    return {
        "startupProbe": {**check, "periodSeconds": _START_PERIOD_S, "failureThreshold": attempts},
        "readinessProbe": {**check, "periodSeconds": 5, "failureThreshold": 3},
    }


def _spec(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, gang_metadata: GangMetadata
) -> dict[str, object]:
    template = member.template.spec
    ours: list[dict[str, object]] = [
        {"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory"}},
        *([{"name": _DOWNLOADS, "emptyDir": {}}] if keeps_downloads(context, member) else ()),
        *pod_volumes(context.volumes),
    ]
    names = (str(volume["name"]) for volume in ours)
    check_template(engine, member, names, routed=is_routed(context, engine))
    containers = [_container(context, engine, member, container) for container in template.containers]
    if member.role != "Worker":
        containers += warm_up_containers(context, engine_port(context, engine))
    beside = (ROUTING_SIDECAR_CONTAINER,) if is_routed(context, engine) else ()
    containers = with_requests(containers, _share(context, member), beside)
    containers = with_least(containers, gang_metadata.least)
    spec: dict[str, object] = {
        "nodeSelector": {POOL: member.node_pool_name},
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(template),
        "terminationGracePeriodSeconds": grace_seconds(engine, member),
        "containers": containers,
        "volumes": [*ours, *template_volumes(context, template)],
        **template_spec(context, engine, template, cache_check(context, containers)),
    }
    tolerations = _tolerations(context, engine)
    if tolerations:
        spec["tolerations"] = tolerations
    claims = _claims(context, engine, member)
    if claims:
        spec["resourceClaims"] = [{"name": each, "resourceClaimTemplateName": name} for each, name in claims.items()]
    if template.image_pull_secrets:
        names = (copy_name(context.name, "Secret", secret.name) for secret in template.image_pull_secrets)
        spec["imagePullSecrets"] = [{"name": name} for name in names]
    return {**spec, **scheduling_spec(context, gang_metadata)}


def scheduling_spec(context: Context, gang_metadata: GangMetadata) -> dict[str, object]:
    spec: dict[str, object] = {}
    name = context.scheduling.scheduler_name or gang_metadata.scheduler_name
    if name:
        spec["schedulerName"] = name
    if context.priority:
        spec["priorityClassName"] = context.priority
    if gang_metadata.gate:
        spec["schedulingGates"] = [{"name": gang_metadata.gate}]
    return spec


def _tolerations(context: Context, engine: ReplicaEngine) -> list[dict[str, object]]:
    """The deployment's own, and the taint of GPU nodes for an engine that claims devices there.

    A leader that claims nothing still runs beside its workers, on the same tainted pool.
    """
    found = [encode(toleration) for toleration in context.replica.spec.tolerations]
    if any(member.device_requests for member in engine.members):
        found += [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _taints(engine)]
    return found


def _taints(engine: ReplicaEngine) -> list[str]:
    """The taints that vendors put on nodes with the devices that the engine claims."""
    classes = {request.device_class_name for member in engine.members for request in member.device_requests}
    vendors = {GPU_TAINTS.get(name.partition(".")[2], GPU_TAINT) for name in classes}
    return sorted(vendors, reverse=True)


def _container(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, container: Container
) -> dict[str, object]:
    rendered = {**encode(container), **_LAST_WORDS}
    if container.name != ENGINE_CONTAINER:
        return {**with_copies(context.name, rendered), "securityContext": security(container, ENGINE_SECURITY)}
    launch = launch_of(context, engine, member)
    replaced = {"command", "args", *PROBES}
    rendered = {key: value for key, value in rendered.items() if key not in replaced}
    rendered |= {"command": list(launch.command), "args": list(launch.args)}
    rendered["securityContext"] = security(container, engine_security(context, member.node_pool_name))
    rendered["env"] = _env(context, engine, member, launch)
    rendered["volumeMounts"] = _mounts(context, engine, member, container)
    claims = [{"name": name} for name in _claims(context, engine, member)]
    if claims:
        resources = rendered.get("resources")
        rendered["resources"] = {**(resources if isinstance(resources, dict) else {}), "claims": claims}
    drain = drain_seconds(engine, member)
    if drain:
        rendered["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}, **_lifecycle(container)}
    if member.role != "Worker":
        health = (engine.server and engine.server.health_path) or ENGINES[engine.type_].health
        ours = probes(context, engine_port(context, engine), health)
        rendered |= _ports(engine_port(context, engine), container, HTTP if not is_routed(context, engine) else None)
        rendered |= with_probes(container, ours)
    return {key: value for key, value in with_copies(context.name, rendered).items() if value != []}


def _claims(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> dict[str, str]:
    """The claims of a pod, by name, each with its template."""
    claims = {CLAIM: template_name(context, engine, member)} if member.device_requests else {}
    channel = channel_template(context, engine)
    return {**claims, CHANNEL: channel} if channel is not None else claims


def _mounts(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, container: Container
) -> list[dict[str, object]]:
    ours: list[dict[str, object]] = [
        {"name": _SHARED_MEMORY, "mountPath": "/dev/shm"},  # noqa: S108  a mount inside the container
        *([{"name": _DOWNLOADS, "mountPath": DOWNLOADS_PATH}] if keeps_downloads(context, member) else ()),
        *volume_mounts(context.volumes),
    ]
    return mounts(engine, container, ours, frozenset(volume.mount_path for volume in context.volumes))


def _lifecycle(container: Container) -> dict[str, object]:
    return encode(container.lifecycle) if container.lifecycle else {}


def keeps_downloads(context: Context, member: ReplicaMember) -> bool:
    """Whether the engine fetches its own weights, and gets a volume for them that outlives a restart."""
    given = {variable.name for variable in engine_container(member).env}
    return context.weights is None and not given & _HUB_PLACES


def _hub_env(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> list[dict[str, object]]:
    """Where libraries of the Hugging Face hub find or keep files.

    An engine whose arguments are the user's own may name the repository: it is found on the volume.
    """
    if keeps_downloads(context, member):
        return [{"name": "HF_HOME", "value": DOWNLOADS_PATH}]
    weights = context.weights
    own_words = engine.type_ == "Custom" or bool(engine_container(member).command)
    if weights is None or not (weights.staged and weights.repository and own_words):
        return []
    return [{"name": "HF_HUB_CACHE", "value": f"{weights.mount_path}/{HUB}"}]


def _ports(port: int, container: Container, name: str | None) -> dict[str, object]:
    first = {"containerPort": port, **({"name": name} if name else {})}
    others = [encode(other) for other in container.ports[1:] if other.container_port != port]
    return {"ports": [first, *others]}


def _env(context: Context, engine: ReplicaEngine, member: ReplicaMember, launch: Launch) -> list[dict[str, object]]:
    """Ours first, so that the user's may refer to it; a name that the user gives is the user's."""
    container = engine_container(member)
    served: dict[str, object] = {"name": SERVED_MODEL_NAME, "value": _fleet_name(context)}
    ours = [served, *launch.env, *_hub_env(context, engine, member)]
    if is_gang(engine):
        ours = [*(dict(entry) for entry in context.group_env or group_env()), *ours]
    if context.disaggregated and ENGINES[engine.type_].kv_connector == NIXL:
        ours.append(pod_ip("VLLM_NIXL_SIDE_CHANNEL_HOST"))
    given = {variable.name for variable in container.env}
    return [*(entry for entry in ours if entry["name"] not in given), *(encode(entry) for entry in container.env)]
