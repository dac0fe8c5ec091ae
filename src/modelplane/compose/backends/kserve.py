"""KServe: an LLMInferenceService for each engine, or one for a pair of phases.

KServe merges presets of its own under what we write, and reads all of it as a template. So everything that matters is
written out in full: command and arguments, probes, the way to stop. Braces in what users wrote are escaped. Weights are
mounted as under any other backend, where KServe can be told to keep out of it.

Its presets for layers that are split over nodes do not exist; an empty one under the name that it looks for is enough.
The service names that one as well: KServe reconciles a service again when a preset that it names appears, and not when
one that it only looks for does.
Pods are found by KServe's own labels, because it gives leaders and workers the same ones of ours.
"""

from collections.abc import Mapping

from modelplane.api.labels import DECODE_PORT, ENGINE_PORT, REPLICA, ROLE, SERVING, TENANT
from modelplane.api.models import ReplicaEngine, Topology
from modelplane.api.names import make_name
from modelplane.api.objects import manifest
from modelplane.api.reasons import Reason
from modelplane.compose.backends.kserve_pods import CONTAINER, literal, pod_spec
from modelplane.compose.backends.kserve_releases import Release, release_of
from modelplane.compose.backends.lws import leader_and_worker
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.context import Context, RenderError, group_size, head_member, is_gang
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.engines import ENGINES, NIXL
from modelplane.compose.engines.launch import is_path
from modelplane.compose.engines.vllm import given_model
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.gang.gang_metadata import GangMetadata, companion_metadata, gang_of
from modelplane.compose.picker import GRPC_PORT, METRICS_PORT
from modelplane.compose.pods import cluster_metadata, render_pod, scheduling_spec
from modelplane.compose.ports import engine_container, engine_port, is_routed, serving_port
from modelplane.compose.shapes import spans_ranks
from modelplane.compose.workload_metadata import annotated, engine_label, workload_metadata

MAX_NAME = 21
"""KServe names a LeaderWorkerSet after the service with up to 18 characters more, and Kueue allows that 39."""
_ITS_OWN_LABELS = (ROLE, SERVING, "llm-d.ai/role")


def render(context: Context) -> Rendered:
    release = release_of(context.cluster.spec.backend)
    _check_ports(context)
    _check_connector(context)
    scheduler = SCHEDULERS[context.scheduling.type_]
    gang = gang_of(context, opaque=True)
    gang_metadata = scheduler.gang_metadata(gang)
    _check_labels(context, release, gang_metadata)
    heads = _heads(context)
    workloads = {f"workload-{head.name}-kserve": _service(context, head, gang_metadata, release) for head in heads}
    support = {**scheduler.objects(gang), **_presets(context, release, heads)}
    ports = (ENGINE_PORT, GRPC_PORT, METRICS_PORT) if _pooled(context) else (ENGINE_PORT,)
    pods = {REPLICA: context.name} if release.labels_pods else {"app.kubernetes.io/name": _name(context, heads[0])}
    return Rendered(workloads, {}, _backend_refs(context, release, heads), ports, support, pods)


def _heads(context: Context) -> tuple[ReplicaEngine, ...]:
    """The engines that have a service of their own. A prefill engine is part of its decode engine's."""
    engines = context.replica.spec.engines
    return tuple(engine for engine in engines if not (context.disaggregated and engine.phase == "Prefill"))


def _prefill(context: Context) -> ReplicaEngine | None:
    if not context.disaggregated:
        return None
    return next(engine for engine in context.replica.spec.engines if engine.phase == "Prefill")


def _name(context: Context, engine: ReplicaEngine) -> str:
    return make_name(context.name, context.name, engine.name, limit=MAX_NAME)


def _pooled(context: Context) -> bool:
    single = len(context.replica.spec.engines) == 1
    return context.disaggregated or (single and context.cluster.spec.backend.routing == "InferencePool")


def _backend_refs(
    context: Context, release: Release, heads: tuple[ReplicaEngine, ...]
) -> tuple[Mapping[str, object], ...]:
    if _pooled(context):
        name = f"{_name(context, heads[0])}-inference-pool"
        return ({"group": release.pool_group, "kind": "InferencePool", "name": name},)
    return tuple(
        {"name": f"{_name(context, head)}-kserve-workload-svc", "port": ENGINE_PORT, "weight": head.copies}
        for head in heads
    )


def _service(context: Context, head: ReplicaEngine, gang_metadata: GangMetadata, release: Release) -> Remote:
    spec: dict[str, object] = {
        "model": _model(context, head, release),
        **_workload(context, head, gang_metadata, release),
    }
    prefill = _prefill(context)
    if prefill is not None:
        spec["prefill"] = _workload(context, prefill, gang_metadata, release)
    if release.leaves_storage:
        spec["storageInitializer"] = {"enabled": False}
    presets = _preset_names(context, (head,))
    if presets:
        spec["baseRefs"] = [{"name": name} for name in presets]
    if _pooled(context):
        spec["router"] = {"route": _route(context), "scheduler": _picker(context, head, release)}
    labels, annotations = workload_metadata(context, head_member(head), gang_metadata)
    merged = {**labels, **engine_label(head)}
    item = context.object(release.api_version, "LLMInferenceService", _name(context, head), merged, spec=spec)
    return context.remote(annotated(item, annotations), ReadyWhen.READY)


def _route(context: Context) -> dict[str, object]:
    """Ours. KServe counts a pool as ready once the gateway of a route that it knows has accepted it."""
    return {"http": {"refs": [{"name": context.name}]}}


def _picker(context: Context, head: ReplicaEngine, release: Release) -> dict[str, object]:
    """KServe brings the picker; its pods carry what every pod of the cluster does, and go by the same scheduler."""
    gang_metadata = companion_metadata(SCHEDULERS[context.scheduling.type_], context)
    scheduling = scheduling_spec(context, gang_metadata)
    picker: dict[str, object] = {}
    if scheduling:
        picker["template"] = {"containers": [{"name": CONTAINER}], **scheduling}
    if not release.labels_pods:
        return picker
    labels, annotations = cluster_metadata(context, head_member(head))
    picker["labels"] = literal({**labels, **gang_metadata.pod_labels, **context.labels})
    annotations = {**annotations, **gang_metadata.pod_annotations}
    return {**picker, "annotations": literal(annotations)} if annotations else picker


def _model(context: Context, head: ReplicaEngine, release: Release) -> dict[str, object]:
    """What is served. Where KServe keeps out of storage, the address only says where the weights are."""
    weights = context.weights
    if weights is not None:
        path = f"/{weights.sub_path}" if weights.sub_path else ""
        if weights.image is not None:
            return {"uri": f"oci+native://{weights.image}", "name": context.deployment}
        return {"uri": f"pvc://{weights.claim_name}{path}", "name": context.deployment}
    named = given_model(engine_container(head_member(head)).args)[0] if head.type_ == "vLLM" else None
    if named is not None and is_path(named):
        named = None
    if named is None and not release.leaves_storage:
        message = f"engine {head.name}: KServe 0.16 needs a cache of weights, or the model's name in the args"
        raise RenderError(Reason.NOT_SUPPORTED, message)
    return {"uri": f"hf://{named or context.deployment}", "name": context.deployment}


def _workload(
    context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata, release: Release
) -> dict[str, object]:
    workload: dict[str, object] = {"replicas": engine.copies, "parallelism": _parallelism(engine)}
    first, worker = leader_and_worker(engine) if is_gang(engine) else (engine.members[0], None)
    pod = render_pod(context, engine, first, gang_metadata)
    if release.labels_pods:
        labels = {key: value for key, value in pod.labels.items() if key not in _ITS_OWN_LABELS}
        workload["labels"] = literal(labels)
        if pod.annotations:
            workload["annotations"] = literal(pod.annotations)
    workload["template"] = pod_spec(context, engine, first, pod, release)
    if worker is not None:
        other = render_pod(context, engine, worker, gang_metadata)
        workload["worker"] = pod_spec(context, engine, worker, other, release)
    return workload


def _parallelism(engine: ReplicaEngine) -> dict[str, object]:
    """For KServe it decides how many nodes a group has; the engine reads its own flags."""
    topology = engine.topology or Topology()
    sizes: dict[str, object] = {"tensor": topology.tensor_local or topology.tensor}
    if topology.expert:
        sizes["expert"] = True
    if _splits_ranks(engine):
        return {**sizes, "data": topology.data, "dataLocal": topology.data_local}
    return {**sizes, "pipeline": group_size(engine)} if is_gang(engine) else sizes


def _splits_ranks(engine: ReplicaEngine) -> bool:
    return engine.topology is not None and spans_ranks(engine.topology)


def _presets(context: Context, release: Release, heads: tuple[ReplicaEngine, ...]) -> dict[str, Remote]:
    names = _preset_names(context, heads)
    return {f"preset-{name}": context.remote(_preset(context, release, name), shared=True) for name in names}


def _preset_names(context: Context, heads: tuple[ReplicaEngine, ...]) -> list[str]:
    """Those that KServe looks for and does not ship."""
    prefill = _prefill(context)
    wanted = {"decode-" if prefill else "": heads, "prefill-": (prefill,) if prefill else ()}
    return [
        f"kserve-config-llm-{part}worker-pipeline-parallel"
        for part, engines in wanted.items()
        if any(is_gang(engine) and not _splits_ranks(engine) for engine in engines)
    ]


def _preset(context: Context, release: Release, name: str) -> dict[str, object]:
    return manifest(
        release.api_version,
        "LLMInferenceServiceConfig",
        name,
        namespace=context.namespace,
        labels={TENANT: context.replica.metadata.namespace},
        spec={"template": {"containers": [{"name": CONTAINER}]}},
    )


def _check_connector(context: Context) -> None:
    """KServe's routing sidecar is told the connector by a preset of its own."""
    for engine in context.replica.spec.engines:
        if is_routed(context, engine) and ENGINES[engine.type_].kv_connector != NIXL:
            message = f"engine {engine.name}: KServe's routing sidecar speaks {NIXL}, and {engine.type_} does not"
            raise RenderError(Reason.NOT_SUPPORTED, message)


def _check_ports(context: Context) -> None:
    if serving_port(context) != ENGINE_PORT:
        raise RenderError(Reason.NOT_SUPPORTED, f"KServe routes to port {ENGINE_PORT}; have the engine listen there")
    for engine in context.replica.spec.engines:
        if is_routed(context, engine) and engine_port(context, engine) != DECODE_PORT:
            message = f"engine {engine.name}: KServe's routing sidecar expects decode engines on port {DECODE_PORT}"
            raise RenderError(Reason.NOT_SUPPORTED, message)


def _check_labels(context: Context, release: Release, gang_metadata: GangMetadata) -> None:
    """Pods that miss what the scheduler goes by would slip past its quota, and what users asked for is not dropped."""
    if release.labels_pods:
        return
    if context.scheduling.default_labels or context.scheduling.default_annotations or gang_metadata.pod_annotations:
        message = "KServe 0.16 cannot label pods for the cluster's scheduler; use 0.17 or later"
        raise RenderError(Reason.NOT_SUPPORTED, message)
    for engine in context.replica.spec.engines:
        if any(member.template.metadata is not None for member in engine.members):
            message = f"engine {engine.name}: KServe 0.16 cannot put labels or annotations on pods; use 0.17 or later"
            raise RenderError(Reason.NOT_SUPPORTED, message)
