"""The fleet router on Kubernetes, beside a gateway of Envoy Gateway: its Deployment, its plans, and how Envoy calls it.

The router gets the plans as files of ConfigMaps, so it needs no access to any API. A ConfigMap holds less than a
megabyte, so many services are spread over several. Envoy buffers bodies for it and fails open: without the router the
gateway's own routes are in force. A client's own routing headers are removed before anything reads them.

Envoy Gateway attaches an extension to a whole Gateway, and its retries stay inside one rule, so there is no second hop
here: a try on another endpoint is the BackendTrafficPolicy's, among the backends of a rule.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from modelplane.api.labels import FLEET_GATEWAY, REPLICA_HEADER, SYSTEM_NAMESPACE
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, manifest, mapping_at, name_of
from modelplane.compose.caller_document import CallerDocument, write_callers
from modelplane.compose.endpoint_routes import ENDPOINT_HEADER, ROUTER_LABEL, labelled
from modelplane.compose.gateway_routes import CALLER_HEADER, unavailable
from modelplane.compose.service_plan import ServicePlan, plan_document, read_plan
from modelplane.compose.tenancy import OWN_SECURITY, POD_SECURITY

LABEL: Final = ROUTER_LABEL
CODE_DETAILS: Final = "response.code_details"
"""The attribute by which the router knows that the gateway reached nobody."""
PLANS: Final = "router-plans-"
"""How the keys of plans begin."""
EXTENSION: Final = "router-extension"
"""The key of the policy by which the gateway calls the router."""
_DEFAULT_NAME: Final = "modelplane-router"
_CALLERS: Final = "callers.json"
GRPC_PORT, HEALTH_PORT, ADMIN_PORT = 9012, 9013, 9091
PLANS_PATH: Final = "/etc/modelplane/plans"
HOP_PATH: Final = "/etc/modelplane/hop"
CLUSTER_AUTHORITIES: Final = "clusters.pem"
"""The file beside the plans with the CAs of clusters' gateways."""
MAP_BYTES: Final = 900_000
"""Of plans in a ConfigMap."""
OBJECT_MAP_BYTES: Final = 400_000
"""The same on another cluster: the Object that writes it there has it twice, as desired and as observed."""
_NOTICE_S, _DRAIN_S, _SPARE_S = 5, 30, 10
_ENVOY_GATEWAY: Final = "gateway.envoyproxy.io/v1alpha1"


class RouterSite(NamedTuple):
    """Where a router is, and what of it the gateway says."""

    gateway: str
    """The name of the Gateway."""
    image: str
    replicas: int = 2
    required: bool = False
    """Whether the gateway answers 503 when no router does: its callers may not call every service."""
    hop_secret: str = ""
    """The Secret with the certificate that gateways of clusters want; empty: none."""
    cluster_authorities: str = ""
    """The CAs of those gateways."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of its container."""
    map_bytes: int = MAP_BYTES
    """Of plans in one ConfigMap."""

    @property
    def name(self) -> str:
        return self._named("router", _DEFAULT_NAME)

    @property
    def metrics_name(self) -> str:
        return self._named("router-metrics", f"{_DEFAULT_NAME}-metrics")

    def _named(self, what: str, default: str) -> str:
        return make_name(self.gateway, self.gateway, what) if self.gateway != FLEET_GATEWAY else default


def router_objects(site: RouterSite, plans: Iterable[ServicePlan], callers: CallerDocument) -> dict[str, Manifest]:
    """The objects by key, all in the system's namespace."""
    maps = plan_maps(site, plans, callers)
    return {**maps, **running_objects(site, [name_of(item) for item in maps.values()])}


def running_objects(site: RouterSite, maps: Sequence[str]) -> dict[str, Manifest]:
    """All but the plans, which are in the ConfigMaps of these names."""
    return {
        "router": _deployment(site, maps),
        "router-service": _service(site),
        "router-metrics": _metrics_service(site),
        "router-disruption": _disruption(site),
        EXTENSION: _extension(site),
        "router-headers": _client_headers(site),
        "router-unanswered": _unanswered(site),
        "router-models": _models_route(site),
    }


def plan_maps(site: RouterSite, plans: Iterable[ServicePlan], callers: CallerDocument) -> dict[str, Manifest]:
    """The plans as ConfigMaps by key, in the order of their names. There is always one, with the callers."""
    data: dict[str, str] = {_CALLERS: write_callers(callers).decode()}
    if site.cluster_authorities:
        data[CLUSTER_AUTHORITIES] = site.cluster_authorities
    size, full = 0, []
    for plan in sorted(plans, key=lambda each: each.key):
        text = plan_document(plan).decode()
        if size and size + len(text) > site.map_bytes:
            full.append(data)
            data, size = {}, 0
        data[f"{plan.namespace}.{plan.name}.json"] = text
        size += len(text)
    keyed = ((f"{PLANS}{number}", found) for number, found in enumerate([*full, data]))
    return {
        key: manifest("v1", "ConfigMap", plan_map_name(site, key), namespace=SYSTEM_NAMESPACE, data=found)
        for key, found in keyed
    }


def read_plan_map(item: Manifest) -> list[ServicePlan]:
    """The plans of a ConfigMap; what is no plan is left out."""
    found = []
    for name, text in mapping_at(item, "data").items():
        with suppress(msgspec.DecodeError):
            found += [read_plan(str(text))] if name != _CALLERS else []
    return found


def plan_map_name(site: RouterSite, key: str) -> str:
    """The name of the ConfigMap with this key."""
    return f"{site.name}-plans-{key.removeprefix(PLANS)}"


def _deployment(site: RouterSite, maps: Sequence[str]) -> Manifest:
    labels = {LABEL: site.gateway}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _NOTICE_S + _DRAIN_S + _SPARE_S,
        "securityContext": dict(POD_SECURITY),
        "containers": [_container(site)],
        "volumes": _volumes(site, maps),
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
        "replicas": site.replicas,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return manifest("apps/v1", "Deployment", site.name, namespace=SYSTEM_NAMESPACE, spec=spec)


def _volumes(site: RouterSite, maps: Sequence[str]) -> list[Manifest]:
    plans: Manifest = {"name": "plans", "projected": {"sources": [{"configMap": {"name": name}} for name in maps]}}
    hop: Manifest = {"name": "hop", "secret": {"secretName": site.hop_secret}}
    return [plans, hop] if site.hop_secret else [plans]


def _container(site: RouterSite) -> Manifest:
    mounts = [{"name": "plans", "mountPath": PLANS_PATH, "readOnly": True}]
    args = ["router", "--plans", PLANS_PATH, "--secure-serving", "false", "--usage-log", "-"]
    if site.hop_secret:
        mounts.append({"name": "hop", "mountPath": HOP_PATH, "readOnly": True})
        args += ["--hop-identity", HOP_PATH]
    ports = (("grpc", GRPC_PORT), ("health", HEALTH_PORT), ("admin", ADMIN_PORT))
    return {
        "name": "router",
        "image": site.image,
        "args": args,
        **({"env": [{"name": name, "value": value} for name, value in site.environment]} if site.environment else {}),
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "readinessProbe": {"grpc": {"port": HEALTH_PORT}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "admin"}, "periodSeconds": 10},
        "lifecycle": {"preStop": {"sleep": {"seconds": _NOTICE_S}}},
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": dict(OWN_SECURITY),
        "volumeMounts": mounts,
    }


def _service(site: RouterSite) -> Manifest:
    ports = [{"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"}]
    spec = {"selector": {LABEL: site.gateway}, "ports": ports}
    return manifest("v1", "Service", site.name, namespace=SYSTEM_NAMESPACE, spec=spec)


def _metrics_service(site: RouterSite) -> Manifest:
    """Headless: each router counts for itself, so whoever reads its metrics must reach each of them."""
    ports = [{"name": "admin", "port": ADMIN_PORT, "targetPort": "admin"}]
    spec = {"clusterIP": "None", "selector": {LABEL: site.gateway}, "ports": ports}
    return manifest("v1", "Service", site.metrics_name, namespace=SYSTEM_NAMESPACE, spec=spec)


def _disruption(site: RouterSite) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {LABEL: site.gateway}}}
    return manifest("policy/v1", "PodDisruptionBudget", site.name, namespace=SYSTEM_NAMESPACE, spec=spec)


def _extension(site: RouterSite) -> Manifest:
    """One second of patience, then the static routes, or nothing where what callers may call must hold."""
    called = {
        "backendRefs": [{"name": site.name, "port": GRPC_PORT}],
        "processingMode": {
            "request": {"body": "Buffered"},
            "response": {"attributes": [CODE_DETAILS]},
            "allowModeOverride": True,
        },
        "messageTimeout": "1s",
        "failOpen": not site.required,
        "statusOnError": 503,
    }
    return _policy(site, "EnvoyExtensionPolicy", {"extProc": [called]})


def _client_headers(site: RouterSite) -> Manifest:
    """Taken off before keys are checked, which name the caller again. A further attempt would pass limits by."""
    removed = [ENDPOINT_HEADER, REPLICA_HEADER, CALLER_HEADER, "x-envoy-attempt-count"]
    return _policy(site, "ClientTrafficPolicy", {"headers": {"earlyRequestHeaders": {"remove": removed}}})


def _policy(site: RouterSite, kind: str, spec: Manifest) -> Manifest:
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": site.gateway}
    return manifest(_ENVOY_GATEWAY, kind, site.name, namespace=SYSTEM_NAMESPACE, spec={"targetRefs": [target], **spec})


def _models_route(site: RouterSite) -> Manifest:
    """Where requests that name a service by its model come in. Envoy Gateway calls the router for routes only."""
    paths = [{"path": {"type": "PathPrefix", "value": value}} for value in ("/v1", "/anthropic/v1")]
    reference = {"group": _ENVOY_GATEWAY.partition("/")[0], "kind": "HTTPRouteFilter", "name": site.name}
    rule = {"matches": paths, "filters": [{"type": "ExtensionRef", "extensionRef": reference}]}
    parent = {"name": site.gateway, "namespace": SYSTEM_NAMESPACE}
    spec = {"parentRefs": [parent], "rules": [rule]}
    return labelled(
        manifest("gateway.networking.k8s.io/v1", "HTTPRoute", site.name, namespace=SYSTEM_NAMESPACE, spec=spec)
    )


def _unanswered(site: RouterSite) -> Manifest:
    """What such a request gets when the router is away: Envoy Gateway's routes do not read bodies."""
    sentence = "The fleet router does not answer. Services answer at /NAMESPACE/SERVICE/v1."
    response = unavailable(sentence)
    return manifest(
        _ENVOY_GATEWAY, "HTTPRouteFilter", site.name, namespace=SYSTEM_NAMESPACE, spec={"directResponse": response}
    )
