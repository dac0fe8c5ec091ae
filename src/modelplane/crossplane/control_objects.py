"""What the control plane's cluster has beside packages and rights.

The function server runs twice, on two nodes where there are two, and a drain of nodes leaves one of them. Crossplane
calls it by a Service without an address of its own, so each of its connections reaches one of the servers; a server
keeps nothing that the other lacks. Nobody but Crossplane reaches its calls. Outgoing connections are not limited: the
API servers of workload clusters are anywhere.

The fleet's gateways get a GatewayClass with two Envoys each, which drain before they end.
"""

from collections.abc import Iterator, Mapping

from modelplane.api.labels import FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.objects import Manifest, manifest

REPLICAS = 2
CALL_PORT, ADMIN_PORT = 9443, 8080
CROSSPLANE_NAMESPACE = "crossplane-system"
_CROSSPLANE_PODS = {"app": "crossplane"}
_CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


def spread_of(function: str) -> Mapping[str, object]:
    """Fields of a pod's spec that put the servers on different nodes where there are some."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _pods(function)},
    }
    return {"topologySpreadConstraints": [spread]}


def availability(function: str) -> Iterator[Manifest]:
    """The function server's PodDisruptionBudget and NetworkPolicy."""
    selector = {"matchLabels": _pods(function)}
    yield manifest(
        "policy/v1",
        "PodDisruptionBudget",
        function,
        namespace=CROSSPLANE_NAMESPACE,
        spec={"maxUnavailable": 1, "selector": selector},
    )
    calls = {"from": [{"podSelector": {"matchLabels": _CROSSPLANE_PODS}}], "ports": [_port(CALL_PORT)]}
    yield manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        function,
        namespace=CROSSPLANE_NAMESPACE,
        spec={
            "podSelector": selector,
            "policyTypes": ["Ingress"],
            "ingress": [calls, {"ports": [_port(ADMIN_PORT)]}],
        },
    )


def pulled_with(secret: str) -> Mapping[str, object]:
    """Fields of a pod's spec. A kubelet goes on without a Secret that is not there."""
    return {"imagePullSecrets": [{"name": secret}]} if secret else {}


def _port(number: int) -> dict[str, object]:
    return {"protocol": "TCP", "port": number}


def _pods(function: str) -> dict[str, str]:
    """Crossplane's own label: those of a package's runtime are not ours to choose."""
    return {"pkg.crossplane.io/function": function}


def gateway_class() -> Iterator[Manifest]:
    group, version = "gateway.envoyproxy.io", "v1alpha1"
    deployed = {
        "envoyDeployment": {"replicas": REPLICAS},
        "envoyPDB": {"minAvailable": 1},
        "envoyService": {"externalTrafficPolicy": "Cluster"},
    }
    yield manifest(
        f"{group}/{version}",
        "EnvoyProxy",
        FLEET_GATEWAY,
        namespace=SYSTEM_NAMESPACE,
        spec={
            "provider": {"type": "Kubernetes", "kubernetes": deployed},
            "shutdown": {"drainTimeout": "60s", "minDrainDuration": "10s"},
        },
    )
    parameters = {"group": group, "kind": "EnvoyProxy", "name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}
    yield manifest(
        "gateway.networking.k8s.io/v1",
        "GatewayClass",
        FLEET_GATEWAY,
        spec={"controllerName": _CONTROLLER, "parametersRef": parameters},
    )
