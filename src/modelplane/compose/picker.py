"""Routing that knows the engines: an InferencePool over the pods of a replica, and the picker that chooses among them.

A pool whose phases are separate fails closed: without the picker a prompt could reach a pod that cannot answer it.
Elsewhere a lost picker costs only the choice. The picker reads its configuration once, when it starts, so the name of
the configuration ends in a hash of it.

The picker serves TLS with a certificate of its own making: gateways encrypt towards a pool's picker and do not check
who it is, and have no setting to leave it.
"""

import hashlib
import json
from functools import cache

from modelplane.api.labels import PICKER as PICKER_LABEL
from modelplane.api.labels import SERVING
from modelplane.compose.context import Context, head_member
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.gang.gang_metadata import companion_metadata
from modelplane.compose.gateway_tracing import picker_tracing
from modelplane.compose.picker_peers import node_spread, peer_arguments, peer_objects, peer_ports, replicas_spec
from modelplane.compose.pods import RenderedPod, cluster_metadata, scheduling_spec
from modelplane.compose.ports import serving_port
from modelplane.compose.tenancy import OWN_SECURITY, POD_SECURITY
from modelplane.compose.workload_metadata import annotated, workload_metadata

SERVICE_ACCOUNT = "picker"
PICKER = "picker"
POOL_GROUP = "inference.networking.k8s.io"
GRPC_PORT, HEALTH_PORT, METRICS_PORT = 9002, 9003, 9090
_CONFIG_FILE = "config.yaml"
_CONFIG_PATH = "/etc/picker"
LABEL = PICKER_LABEL
_PREFIX_CACHE = {"maxPrefixBlocksToMatch": 256, "lruCapacityPerServer": 31250}
_LOAD_SCALE = {"minScaleRequests": 16, "maxScaleRequests": 48}
_CHOICE = (
    {"pluginRef": "failing-endpoint-filter"},
    {"pluginRef": "active-request-scorer", "weight": 5},
    {"pluginRef": "prefix-cache-scorer", "weight": 4},
    {"pluginRef": "no-hit-tokens-scorer", "weight": 2},
)
"""The picker's own default, written out: what is rendered does not change with the picker's image."""
_NOTICE_S, _DRAIN_S, _SPARE_S = 5, 30, 10
"""The drain of a picker: it still answers while gateways learn that it stops, then finishes its requests."""
_UNCACHED_TOKENS = 16
"""A prompt with fewer tokens that are not cached is not worth the way to another pod."""


def pool_name(context: Context) -> str:
    return context.child_name("pool")


def pool_objects(context: Context) -> dict[str, Remote]:
    """The pool with its picker. Keys are stable; the configuration's own name is not."""
    name = context.child_name(PICKER)
    config = _config_map(context)
    objects = {
        "pool": _pool(context, name),
        "picker-account": context.object("v1", "ServiceAccount", name),
        "picker-role": _role(context, name),
        "picker-binding": _binding(context, name),
        f"picker-config-{_digest(disaggregated=context.disaggregated)}": config,
        "picker-service": _service(context, name),
    }
    picker = _deployment(context, name, config_name(context))
    return {
        **{key: context.remote(item) for key, item in objects.items()},
        **peer_objects(context, _pods(context)),
        PICKER: context.remote(picker, ReadyWhen.AVAILABLE),
    }


def config_name(context: Context) -> str:
    return context.child_name(PICKER, _digest(disaggregated=context.disaggregated))


def picker_config(*, disaggregated: bool) -> dict[str, object]:
    """In the ecosystem's own form."""
    picking = [*_CHOICE, {"pluginRef": "max-score-picker"}]
    plugins: list[dict[str, object]] = [
        {"type": "approx-prefix-cache-producer", "parameters": _PREFIX_CACHE},
        {"type": "failing-endpoint-filter"},
        {"type": "active-request-scorer", "parameters": _LOAD_SCALE},
        {"type": "prefix-cache-scorer"},
        {"type": "no-hit-tokens-scorer"},
        {"type": "max-score-picker"},
    ]
    profiles: list[dict[str, object]] = [{"name": "default", "plugins": picking}]
    if disaggregated:
        plugins += _phase_plugins()
        profiles = [
            {"name": phase, "plugins": [{"pluginRef": f"{phase}-filter"}, *picking]} for phase in ("prefill", "decode")
        ]
    return {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    }


def _phase_plugins() -> list[dict[str, object]]:
    decider = "prefix-based-pd-decider"
    return [
        {"type": "prefill-filter"},
        {"type": "decode-filter"},
        {"type": decider, "parameters": {"nonCachedTokens": _UNCACHED_TOKENS}},
        {"type": "disagg-profile-handler", "parameters": {"deciders": {"prefill": decider}}},
    ]


@cache
def _config_text(*, disaggregated: bool) -> str:
    """JSON is YAML."""
    return json.dumps(picker_config(disaggregated=disaggregated), indent=1) + "\n"


@cache
def _digest(*, disaggregated: bool) -> str:
    return hashlib.sha256(_config_text(disaggregated=disaggregated).encode()).hexdigest()[:8]


def _pool(context: Context, picker: str) -> dict[str, object]:
    spec = {
        "selector": {"matchLabels": {SERVING: context.name}},
        "targetPorts": [{"number": serving_port(context)}],
        "endpointPickerRef": {
            "name": picker,
            "port": {"number": GRPC_PORT},
            "failureMode": "FailClose" if context.disaggregated else "FailOpen",
        },
    }
    return context.object(f"{POOL_GROUP}/v1", "InferencePool", pool_name(context), spec=spec)


def _config_map(context: Context) -> dict[str, object]:
    data = {_CONFIG_FILE: _config_text(disaggregated=context.disaggregated)}
    return context.object("v1", "ConfigMap", config_name(context), data=data, immutable=True)


def _role(context: Context, name: str) -> dict[str, object]:
    """What the picker watches, and nothing more: pods, its own pool, and what stands beside it by either group name."""
    watch = ["list", "watch"]
    beside = ["inferenceobjectives", "inferencemodelrewrites"]
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": watch},
        {
            "apiGroups": [POOL_GROUP],
            "resources": ["inferencepools"],
            "resourceNames": [pool_name(context)],
            "verbs": watch,
        },
        {"apiGroups": ["llm-d.ai", "inference.networking.x-k8s.io"], "resources": beside, "verbs": watch},
    ]
    return context.object("rbac.authorization.k8s.io/v1", "Role", name, rules=rules)


def _binding(context: Context, name: str) -> dict[str, object]:
    return context.object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": context.namespace}],
    )


def _pods(context: Context) -> dict[str, str]:
    """The labels by which its pods are found."""
    return {LABEL: context.name}


def _service(context: Context, name: str) -> dict[str, object]:
    port = {"name": "grpc", "port": GRPC_PORT, "targetPort": GRPC_PORT, "protocol": "TCP"}
    spec = {"selector": _pods(context), "ports": [port]}
    return context.object("v1", "Service", name, spec=spec)


def _deployment(context: Context, name: str, config: str) -> dict[str, object]:
    member = head_member(context.replica.spec.engines[0])
    gang_metadata = companion_metadata(SCHEDULERS[context.scheduling.type_], context)
    labels, annotations = cluster_metadata(context, member)
    pod = RenderedPod(
        labels={**labels, **gang_metadata.pod_labels, **_pods(context), **context.labels},
        annotations={**annotations, **gang_metadata.pod_annotations},
        spec={
            "serviceAccountName": name,
            "terminationGracePeriodSeconds": _NOTICE_S + _DRAIN_S + _SPARE_S,
            "enableServiceLinks": False,
            "securityContext": dict(POD_SECURITY),
            "containers": [_container(context)],
            "volumes": [{"name": "config", "configMap": {"name": config}}],
            **node_spread(context, _pods(context)),
            **scheduling_spec(context, gang_metadata),
        },
    )
    selector = {"matchLabels": _pods(context)}
    spec = {**replicas_spec(context), "selector": selector, "template": pod.template()}
    workload_labels, workload_annotations = workload_metadata(context, member, gang_metadata)
    item = context.object("apps/v1", "Deployment", name, workload_labels, spec=spec)
    return annotated(item, workload_annotations)


def _container(context: Context) -> dict[str, object]:
    health = {"grpc": {"port": HEALTH_PORT}, "periodSeconds": 5, "timeoutSeconds": 2}
    tracing, environment = picker_tracing(context.cluster)
    return {
        "name": PICKER,
        "image": context.images.picker,
        "args": [
            f"--pool-name={pool_name(context)}",
            f"--pool-namespace={context.namespace}",
            f"--grpc-port={GRPC_PORT}",
            f"--grpc-health-port={HEALTH_PORT}",
            f"--metrics-port={METRICS_PORT}",
            f"--config-file={_CONFIG_PATH}/{_CONFIG_FILE}",
            "--metrics-endpoint-auth=false",
            *peer_arguments(context),
            *tracing,
        ],
        **environment,
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
            *peer_ports(context),
        ],
        "readinessProbe": health,
        "livenessProbe": {**health, "failureThreshold": 6},
        "lifecycle": {"preStop": {"sleep": {"seconds": _NOTICE_S}}},
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": dict(OWN_SECURITY),
        "volumeMounts": [{"name": "config", "mountPath": _CONFIG_PATH, "readOnly": True}],
    }
