"""Spans of gateways on Kubernetes: how Envoy Gateway is set up to make them, and where what is beside it sends its own.

Envoy passes the context of its span on in `traceparent`, so that a fleet router, a picker and an engine add to the same
trace. The gateway of a cluster and its pickers send to the cluster's collector.
"""

from typing import Final

from modelplane.api.labels import CLUSTER_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway
from modelplane.api.objects import Json, manifest
from modelplane.compose.contract import ComposeRequest, Desired, Remote
from modelplane.compose.telemetry.collector_config import GRPC_PORT, HTTP_PORT
from modelplane.compose.telemetry.collector_objects import NAME

PROXY: Final = "tracing"
"""The key of the object that sets Envoy up."""
_GROUP: Final = "gateway.envoyproxy.io"
_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_COLLECTOR: Final = f"{NAME}.{SYSTEM_NAMESPACE}.svc"


def gateway_proxy(gateway: InferenceGateway, name: str) -> dict[str, Json]:
    """The object of a fleet gateway by key, where it is traced."""
    tracing = gateway.spec.tracing
    if tracing is None:
        return {}
    return {PROXY: _proxy(name, tracing.host, tracing.grpc_port, tracing.sample_percent)}


def router_environment(gateway: InferenceGateway) -> tuple[tuple[str, str], ...]:
    """Variables of the fleet router. It traces what the gateway does."""
    tracing = gateway.spec.tracing
    return () if tracing is None else ((_ENDPOINT, f"http://{tracing.host}:{tracing.http_port}"),)


def cluster_proxy(request: ComposeRequest[InferenceCluster]) -> dict[str, Desired]:
    """The object of a cluster's gateway, where it is traced."""
    cluster, percent = request.resource, sample_percent(request.resource)
    if percent is None:
        return {}
    item = _proxy(CLUSTER_GATEWAY, _COLLECTOR, GRPC_PORT, percent)
    return {PROXY: Desired(Remote(ClusterName(cluster.metadata.name), item), ready=PROXY in request.observed)}


def sample_percent(cluster: InferenceCluster) -> int | None:
    """Of requests at the gateway of a cluster. None: it makes no spans."""
    gateway = cluster.spec.gateway
    return None if gateway is None or gateway.tracing is None else gateway.tracing.sample_percent


def gateway_infrastructure(gateway: InferenceGateway, name: str) -> Json:
    """What the Gateway says of its proxy."""
    return _infrastructure(name) if gateway.spec.tracing is not None else {}


def cluster_infrastructure(cluster: InferenceCluster) -> Json:
    """The same for the gateway of a cluster."""
    return _infrastructure(CLUSTER_GATEWAY) if sample_percent(cluster) is not None else {}


def _infrastructure(name: str) -> Json:
    return {"infrastructure": {"parametersRef": {"group": _GROUP, "kind": "EnvoyProxy", "name": name}}}


def picker_tracing(cluster: InferenceCluster) -> tuple[list[str], Json]:
    """Arguments of a picker, and what else its container has. It traces what the gateway does."""
    if sample_percent(cluster) is None:
        return [], {}
    return ["--tracing-share=0"], {"env": [{"name": _ENDPOINT, "value": f"http://{_COLLECTOR}:{HTTP_PORT}"}]}


def _proxy(name: str, host: str, port: int, percent: int) -> Json:
    provider = {"type": "OpenTelemetry", "host": host, "port": port}
    spec = {"telemetry": {"tracing": {"samplingRate": percent, "provider": provider}}}
    return manifest(f"{_GROUP}/v1alpha1", "EnvoyProxy", name, namespace=SYSTEM_NAMESPACE, spec=spec)
