"""KServe's LLMInferenceService: a Deployment or a LeaderWorkerSet for it and for its prefill, a Service, a pool.

    <name>-kserve              Deployment, where there is no worker
    <name>-kserve-mn           LeaderWorkerSet, where there is one; its size from data / dataLocal, or from pipeline
    <name>-kserve[-mn]-prefill the same for `prefill`
    <name>-kserve-workload-svc Service in front of the pods that take requests
    <name>-inference-pool      InferencePool, and <name>-epp-service with its picker, where `router.scheduler` is set

Decode pods get the routing sidecar and the picker its configuration, as KServe's presets have it: every prompt goes by
a prefill pod. Coarse: other presets are not merged (what is rendered here is complete), only looked up where none is
shipped, for splitting layers over nodes. Storage initializers, autoscaling, routes and gateways of its own, tracing and
certificates are left out. Stopping by annotation is honoured.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, is_about
from modelplane.sim.cluster.deployments import APPS
from modelplane.sim.cluster.inference_pools import POOL_GROUPS
from modelplane.sim.cluster.lws import KIND as LWS_KIND
from modelplane.sim.cluster.lws import LWS_GROUP
from modelplane.sim.cluster.objects import (
    annotation,
    condition_is,
    condition_of,
    controller_of,
    controller_ref,
    controller_reference,
    merged_conditions,
)
from modelplane.sim.cluster.pod_status import KSERVE_PART, KSERVE_SERVICE

KSERVE_GROUP = "serving.kserve.io"
KIND = "LLMInferenceService"
_STOP = "serving.kserve.io/stop"
_POOLS = tuple((group, "InferencePool") for group in POOL_GROUPS)
_CHILDREN = ((APPS, "Deployment"), (LWS_GROUP, LWS_KIND), ("", "Service"), *_POOLS)
_PORT, _GRPC_PORT = 8000, 9002
_PICKER_IMAGE = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.6.0"
_SIDECAR: Mapping[str, object] = {
    "name": "llm-d-routing-sidecar",
    "image": "ghcr.io/llm-d/llm-d-routing-sidecar:v0.6.0",
    "restartPolicy": "Always",
    "ports": [{"name": "http", "containerPort": _PORT}],
}
_PREFILL = "-prefill"
_PASSED_ON = ("kueue.x-k8s.io/",)
_PASSED_ANNOTATIONS = ("kueue.x-k8s.io/", "leaderworkerset.sigs.k8s.io/")


class LlmInferenceServices:
    """Keeps the objects of one LLMInferenceService, and its status."""

    name = "llminferenceservices"
    kinds = frozenset({(KSERVE_GROUP, KIND), (KSERVE_GROUP, "LLMInferenceServiceConfig"), *_CHILDREN})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, KSERVE_GROUP, KIND):
            return (change.ref,)
        if is_about(change, KSERVE_GROUP, "LLMInferenceServiceConfig"):
            return [ref_of(item) for item in self._store.list(KSERVE_GROUP, KIND, namespace=change.ref.namespace)]
        owner = controller_ref(change.manifest)
        return (owner,) if owner is not None and owner.kind == KIND else ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None or is_deleting(item):
            return Done()
        missing = self._missing_preset(item)
        if missing is None:
            self._apply(item, list(_children(item)))
        self._report(item, missing)
        return Done()

    def _missing_preset(self, item: Manifest) -> str | None:
        """KServe needs a preset for pipeline parallelism over nodes that no release ships."""
        for prefix, workload in _workloads(item):
            if not mapping_at(workload, "worker") or not int_at(workload, "parallelism", "pipeline"):
                continue
            role = "prefill-" if prefix else "decode-" if mapping_at(item, "spec", "prefill") else ""
            name = f"kserve-config-llm-{role}worker-pipeline-parallel"
            places = (namespace_of(item), "kserve")
            refs = [ObjectRef(KSERVE_GROUP, "LLMInferenceServiceConfig", place, name) for place in places]
            if all(self._store.get(ref) is None for ref in refs):
                return name
        return None

    def _apply(self, item: Manifest, wanted: list[Json]) -> None:
        refs = {ref_of(child) for child in wanted}
        for group, kind in _CHILDREN:
            for known in self._store.list(group, kind, namespace=namespace_of(item)):
                if controller_of(known).get("uid") == uid_of(item) and ref_of(known) not in refs:
                    self._store.delete(ref_of(known))
        for child in wanted:
            before = self._store.get(ref_of(child))
            if before is None:
                self._store.create(child)
            elif controller_of(before).get("uid") == uid_of(item):
                metadata = {**mapping_at(before, "metadata"), **mapping_at(child, "metadata")}
                self._store.replace({**before, **child, "metadata": metadata})

    def _report(self, item: Manifest, missing: str | None) -> None:
        wanted = [_condition("PresetsCombined")]
        if missing is not None:
            message = f"LLMInferenceServiceConfig {missing} not found"
            wanted = [_condition("PresetsCombined", "ConfigNotFound", message)]
        else:
            wanted += self._workload_conditions(item)
        failed = next((entry for entry in wanted if entry["status"] != "True"), None)
        reason, message = ("", "") if failed is None else (str(failed["reason"]), str(failed["message"]))
        wanted.append(_condition("Ready", reason, message))
        conditions = merged_conditions(items_at(item, "status", "conditions"), wanted, self._context.clock.now())
        status = {"observedGeneration": int_at(item, "metadata", "generation"), "conditions": conditions}
        self._store.replace_status({**item, "status": status})

    def _workload_conditions(self, item: Manifest) -> list[Json]:
        kinds = {"": "Main", _PREFILL: "Prefill"}
        found: list[Json] = []
        for suffix, workload in _workloads(item):
            multi = bool(mapping_at(workload, "worker"))
            ref = _workload_ref(item, suffix, multi=multi)
            name = f"{kinds[suffix]}{'Worker' if multi else ''}WorkloadReady".replace("MainWorker", "Worker")
            found.append(self._available(name, ref))
        if mapping_at(item, "spec", "router") and "scheduler" in mapping_at(item, "spec", "router"):
            ref = ObjectRef(APPS, "Deployment", namespace_of(item), f"{name_of(item)}-kserve-router-scheduler")
            found.append(self._available("SchedulerWorkloadReady", ref))
        unready = next((entry for entry in found if entry["status"] != "True"), None)
        reason, message = ("", "") if unready is None else (str(unready["reason"]), str(unready["message"]))
        return [*found, _condition("WorkloadsReady", reason, message)]

    def _available(self, name: str, ref: ObjectRef) -> Json:
        child = self._store.get(ref)
        if child is None:
            return _condition(name, "Stopped", f"{ref} not found")
        if condition_is(child, "Available"):
            return _condition(name)
        condition = condition_of(child, "Available") or condition_of(child, "Progressing")
        return _condition(
            name, str(condition.get("reason") or "NotAvailable"), str(condition.get("message") or "not available")
        )


def _workloads(item: Manifest) -> Iterator[tuple[str, Mapping[str, object]]]:
    yield "", mapping_at(item, "spec")
    prefill = mapping_at(item, "spec", "prefill")
    if prefill:
        yield _PREFILL, prefill


def _workload_ref(item: Manifest, suffix: str, *, multi: bool) -> ObjectRef:
    name = f"{name_of(item)}-kserve{'-mn' if multi else ''}{suffix}"
    group, kind = (LWS_GROUP, LWS_KIND) if multi else (APPS, "Deployment")
    return ObjectRef(group, kind, namespace_of(item), name)


def _children(item: Manifest) -> Iterator[Json]:
    if annotation(item, _STOP) == "true":
        return
    for suffix, workload in _workloads(item):
        multi = bool(mapping_at(workload, "worker"))
        ref = _workload_ref(item, suffix, multi=multi)
        routed = workload if suffix else _with_sidecar(item, workload)
        spec = _groups(item, suffix, routed) if multi else _pods(item, suffix, routed)
        yield _owned(item, f"{ref.group}/v1", ref.kind, ref.name, spec)
    port = {"name": "http", "port": _PORT, "targetPort": _PORT, "protocol": "TCP"}
    serving = _selector(item, "")
    name = f"{name_of(item)}-kserve-workload-svc"
    yield _owned(item, "v1", "Service", name, {"selector": serving, "ports": [port]})
    if "scheduler" in mapping_at(item, "spec", "router"):
        yield from _pool(item)


def _with_sidecar(item: Manifest, workload: Mapping[str, object]) -> Mapping[str, object]:
    """A decode workload with the routing sidecar before its engine."""
    if not mapping_at(item, "spec", "prefill"):
        return workload
    pod = mapping_at(workload, "template")
    return {**workload, "template": {**pod, "initContainers": [*items_at(pod, "initContainers"), _SIDECAR]}}


def _pool(item: Manifest) -> Iterator[Json]:
    """The pool with KServe's endpoint picker."""
    name, picker = f"{name_of(item)}-inference-pool", f"{name_of(item)}-epp-service"
    selector = {"app.kubernetes.io/name": name_of(item), KSERVE_PART: KSERVE_SERVICE}
    reference = {"name": picker, "port": {"number": _GRPC_PORT}, "failureMode": "FailOpen"}
    spec: Json = {"targetPorts": [{"number": _PORT}], "endpointPickerRef": reference}
    spec["selector"] = {"matchLabels": selector}
    first = text_at(item, "apiVersion").endswith("/v1alpha1")
    api = "inference.networking.x-k8s.io/v1alpha2" if first else "inference.networking.k8s.io/v1"
    yield _owned(item, api, "InferencePool", name, _first_pool_spec(spec) if first else spec)
    component = "llminferenceservice-router-scheduler"
    labels = {"app.kubernetes.io/name": name_of(item), "app.kubernetes.io/component": component}
    grpc = {"name": "grpc", "port": _GRPC_PORT, "targetPort": _GRPC_PORT, "protocol": "TCP"}
    yield _owned(item, "v1", "Service", picker, {"selector": labels, "ports": [grpc]})
    pods = {"replicas": 1, "selector": {"matchLabels": labels}, "template": _picker_template(item, name, labels)}
    yield _owned(item, "apps/v1", "Deployment", f"{name_of(item)}-kserve-router-scheduler", pods)


def _first_pool_spec(spec: Mapping[str, object]) -> Json:
    """As the pools of KServe 0.16 are written."""
    picker = mapping_at(spec, "endpointPickerRef")
    reference = {"name": picker.get("name"), "portNumber": _GRPC_PORT, "failureMode": picker.get("failureMode")}
    selector = dict(mapping_at(spec, "selector", "matchLabels"))
    return {"targetPortNumber": _PORT, "selector": selector, "extensionRef": reference}


def _picker_template(item: Manifest, pool: str, labels: Mapping[str, str]) -> Json:
    """The picker's pod: what the service says of it, with KServe's container."""
    scheduler = mapping_at(item, "spec", "router", "scheduler")
    given = mapping_at(scheduler, "template")
    own = next((entry for entry in items_at(given, "containers") if entry.get("name") == "main"), {})
    inline = mapping_at(scheduler, "config", "inline")
    config = inline or picker_config(disaggregated=bool(mapping_at(item, "spec", "prefill")))
    options = {
        "pool-name": pool,
        "pool-namespace": namespace_of(item),
        "grpc-port": str(_GRPC_PORT),
        "config-text": msgspec.json.encode(config).decode(),
    }
    container = {
        "name": "main",
        "image": _PICKER_IMAGE,
        "args": [word for name, value in options.items() for word in (f"--{name}", value)],
        "ports": [{"name": "grpc", "containerPort": _GRPC_PORT}],
        **own,
    }
    metadata: Json = {"labels": {**mapping_at(scheduler, "labels"), **labels}}
    if mapping_at(scheduler, "annotations"):
        metadata["annotations"] = dict(mapping_at(scheduler, "annotations"))
    return {"metadata": metadata, "spec": {**given, "containers": [container]}}


def picker_config(*, disaggregated: bool) -> Json:
    """The configuration of KServe's picker: by cached prefix and by load."""
    scorers: list[Json] = [
        {"pluginRef": "prefix-cache-scorer", "weight": 2},
        {"pluginRef": "queue-scorer", "weight": 1},
    ]
    picking: list[Json] = [{"pluginRef": "max-score-picker"}, *scorers]
    types = ["approx-prefix-cache-producer", "prefix-cache-scorer", "queue-scorer", "max-score-picker"]
    plugins: list[Json] = [{"type": name} for name in types]
    profiles: list[Json] = [{"name": "default", "plugins": picking}]
    if disaggregated:
        decider = "always-disagg-pd-decider"
        plugins += [{"type": name} for name in ("prefill-filter", "decode-filter", decider)]
        plugins.append({"type": "disagg-profile-handler", "parameters": {"deciders": {"prefill": decider}}})
        profiles = [
            {"name": phase, "plugins": [{"pluginRef": f"{phase}-filter"}, *picking]} for phase in ("prefill", "decode")
        ]
    kind = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}
    return {**kind, "plugins": plugins, "schedulingProfiles": profiles}


def _selector(item: Manifest, suffix: str) -> dict[str, str]:
    role = "prefill" if suffix else "decode" if mapping_at(item, "spec", "prefill") else "both"
    return {
        "app.kubernetes.io/name": name_of(item),
        "app.kubernetes.io/part-of": "llminferenceservice",
        KSERVE_PART: KSERVE_SERVICE,
        "llm-d.ai/role": role,
    }


def _pods(item: Manifest, suffix: str, workload: Mapping[str, object]) -> Json:
    labels = _selector(item, suffix)
    return {
        "replicas": int_at(workload, "replicas", default=1),
        "selector": {"matchLabels": labels},
        "template": _template(workload, "template", labels),
    }


def _groups(item: Manifest, suffix: str, workload: Mapping[str, object]) -> Json:
    labels = _selector(item, suffix)
    return {
        "replicas": int_at(workload, "replicas", default=1),
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {
            "size": group_size_of(workload),
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": _template(workload, "template", labels),
            "workerTemplate": _template(workload, "worker", _worker_labels(item)),
        },
    }


def _worker_labels(item: Manifest) -> dict[str, str]:
    """Without those by which pods that take requests are found."""
    return {"app.kubernetes.io/name": name_of(item), "app.kubernetes.io/part-of": "llminferenceservice"}


def group_size_of(workload: Mapping[str, object]) -> int:
    """Pods of a group: ranks by ranks on a node, or the stages of the pipeline."""
    data, local = (int_at(workload, "parallelism", field) for field in ("data", "dataLocal"))
    if data and local:
        return max(1, data // local)
    return int_at(workload, "parallelism", "pipeline", default=1)


def _template(workload: Mapping[str, object], field: str, labels: Mapping[str, str]) -> Json:
    metadata: Json = {"labels": {**mapping_at(workload, "labels"), **labels}}
    if mapping_at(workload, "annotations"):
        metadata["annotations"] = dict(mapping_at(workload, "annotations"))
    return {"metadata": metadata, "spec": mapping_at(workload, field)}


def _owned(item: Manifest, api: str, kind: str, name: str, spec: Json) -> Json:
    labels = {key: value for key, value in labels_of(item).items() if key.startswith(_PASSED_ON)}
    marks = mapping_at(item, "metadata", "annotations")
    annotations = {key: value for key, value in marks.items() if key.startswith(_PASSED_ANNOTATIONS)}
    api = api.removeprefix("/")
    made = manifest(api, kind, name, namespace=namespace_of(item), labels=labels or None, spec=spec)
    extra: Json = {"ownerReferences": [controller_reference(item)]}
    return with_metadata(made, **(extra | ({"annotations": annotations} if annotations else {})))


def _condition(kind: str, reason: str = "", message: str = "") -> Json:
    """True without a reason."""
    status = "False" if reason else "True"
    return {"type": kind, "status": status, **({"reason": reason, "message": message} if reason else {})}
