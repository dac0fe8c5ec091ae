"""The fleet router on Kubernetes, beside a gateway of Envoy Gateway: its Deployment, its plans, and how Envoy calls it.

The router gets the plans as files of ConfigMaps, so it needs no access to any API. A ConfigMap holds less than a
megabyte, so many services are spread over several. Envoy buffers bodies for it and fails open: without the router the
gateway's own routes are in force. A client's own routing headers are removed before anything reads them.

Envoy Gateway attaches an extension to a whole Gateway, and its retries stay inside one rule, so there is no second hop
here: a try on another endpoint is the BackendTrafficPolicy's, among the backends of a rule.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from modelplane.api.labels import FLEET_GATEWAY, REPLICA_HEADER, SYSTEM_NAMESPACE
from modelplane.api.objects import Manifest, manifest
from modelplane.compose.endpoint_routes import ENDPOINT_HEADER
from modelplane.compose.service_plan import ServicePlan, plan_document
from modelplane.compose.tenancy import OWN_SECURITY, POD_SECURITY

NAME: Final = "modelplane-router"
LABEL: Final = "modelplane.ai/router"
GRPC_PORT, HEALTH_PORT, ADMIN_PORT = 9012, 9013, 9091
_PLANS_PATH: Final = "/etc/modelplane/plans"
_MOST_BYTES: Final = 900_000
_REPLICAS: Final = 2
_NOTICE_S, _DRAIN_S, _SPARE_S = 5, 30, 10
_ENVOY_GATEWAY: Final = "gateway.envoyproxy.io/v1alpha1"


def router_objects(image: str, plans: Iterable[ServicePlan]) -> dict[str, Manifest]:
    """The objects by key, all in the system's namespace."""
    maps = {f"plans-{number}": item for number, item in enumerate(plan_maps(plans))}
    names = [str(_name(item)) for item in maps.values()]
    return {
        **maps,
        "deployment": _deployment(image, names),
        "service": _service(),
        "disruption": _disruption(),
        "extension": _extension(),
        "client-headers": _client_headers(),
    }


def plan_maps(plans: Iterable[ServicePlan]) -> Iterator[Manifest]:
    """The plans as ConfigMaps, in the order of their keys. There is always one."""
    data: dict[str, str] = {}
    size = number = 0
    for plan in sorted(plans, key=lambda each: each.key):
        text = plan_document(plan).decode()
        if data and size + len(text) > _MOST_BYTES:
            yield _plan_map(number, data)
            data, size, number = {}, 0, number + 1
        data[f"{plan.namespace}.{plan.name}.json"] = text
        size += len(text)
    yield _plan_map(number, data)


def _plan_map(number: int, data: dict[str, str]) -> Manifest:
    return manifest("v1", "ConfigMap", f"{NAME}-plans-{number}", namespace=SYSTEM_NAMESPACE, data=data)


def _name(item: Manifest) -> object:
    metadata = item["metadata"]
    return metadata["name"] if isinstance(metadata, dict) else ""


def _deployment(image: str, maps: Sequence[str]) -> Manifest:
    labels = {LABEL: FLEET_GATEWAY}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _NOTICE_S + _DRAIN_S + _SPARE_S,
        "securityContext": dict(POD_SECURITY),
        "containers": [_container(image)],
        "volumes": [{"name": "plans", "projected": {"sources": [{"configMap": {"name": name}} for name in maps]}}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
    }
    spec = {
        "replicas": _REPLICAS,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return manifest("apps/v1", "Deployment", NAME, namespace=SYSTEM_NAMESPACE, spec=spec)


def _container(image: str) -> Manifest:
    ports = (("grpc", GRPC_PORT), ("health", HEALTH_PORT), ("admin", ADMIN_PORT))
    return {
        "name": "router",
        "image": image,
        "args": ["router", "--plans", _PLANS_PATH, "--secure-serving", "false", "--usage-log", "-"],
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "readinessProbe": {"grpc": {"port": HEALTH_PORT}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "admin"}, "periodSeconds": 10},
        "lifecycle": {"preStop": {"sleep": {"seconds": _NOTICE_S}}},
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": dict(OWN_SECURITY),
        "volumeMounts": [{"name": "plans", "mountPath": _PLANS_PATH, "readOnly": True}],
    }


def _service() -> Manifest:
    ports = [{"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"}]
    spec = {"selector": {LABEL: FLEET_GATEWAY}, "ports": ports}
    return manifest("v1", "Service", NAME, namespace=SYSTEM_NAMESPACE, spec=spec)


def _disruption() -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {LABEL: FLEET_GATEWAY}}}
    return manifest("policy/v1", "PodDisruptionBudget", NAME, namespace=SYSTEM_NAMESPACE, spec=spec)


def _extension() -> Manifest:
    """One second of patience, then the static routes."""
    called = {
        "backendRefs": [{"name": NAME, "port": GRPC_PORT}],
        "processingMode": {"request": {"body": "Buffered"}, "response": {}, "allowModeOverride": True},
        "messageTimeout": "1s",
        "failOpen": True,
    }
    spec = {"targetRefs": [_gateway()], "extProc": [called]}
    return manifest(_ENVOY_GATEWAY, "EnvoyExtensionPolicy", NAME, namespace=SYSTEM_NAMESPACE, spec=spec)


def _client_headers() -> Manifest:
    removed = {"earlyRequestHeaders": {"remove": [ENDPOINT_HEADER, REPLICA_HEADER]}}
    spec = {"targetRefs": [_gateway()], "headers": removed}
    return manifest(_ENVOY_GATEWAY, "ClientTrafficPolicy", NAME, namespace=SYSTEM_NAMESPACE, spec=spec)


def _gateway() -> Manifest:
    return {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": FLEET_GATEWAY}
