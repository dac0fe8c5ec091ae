"""What charts of the ecosystem start their picker with, as rendered for a release `pool` in a namespace `kit`.

Rendered by Helm 3.19.0 from the charts of the Gateway API Inference Extension v1.5.0 (`inferencepool`, `standalone`)
and of llm-d-router at ebab6879 of 2026-08-22 (`llm-d-router-gateway`, `llm-d-router-standalone`), with labels of the
engines and the values that a name says. A pod has the ports 9002, 9003 (health) and 9090 (metrics), which are the
defaults, and the configuration in /config.
"""

from typing import NamedTuple

CONFIG = """\
apiVersion: {version}
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
  parameters:
    scheme: "http"
    path: "/metrics"
    insecureSkipVerify: true
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
"""
EXTENSION = CONFIG.format(version="inference.networking.x-k8s.io/v1alpha1")
LLM_D = CONFIG.format(version="llm-d.ai/v1alpha1")
GRPC = LLM_D.replace("schedulingProfiles", "- type: vllmgrpc-parser\nschedulingProfiles") + (
    "requestHandler:\n  parsers:\n  - pluginRef: vllmgrpc-parser\n"
)


class Chart(NamedTuple):
    arguments: tuple[str, ...]
    config: str
    environment: dict[str, str]
    probes: tuple[str, ...] = ("inference-extension",)
    """The services that probes ask the health port for."""


_POOL = ("--pool-name", "pool", "--pool-namespace", "kit", "--pool-group", "inference.networking.k8s.io")
_COMMON = ("--zap-encoder", "json", "--config-file", "/config/default-plugins.yaml")
_HEALTH = ("--grpc-health-port", "9003")
_LEADER = "--ha-enable-leader-election"
_POD = {"NAMESPACE": "kit", "POD_NAME": "pool-epp-0"}


def _traced(service: str) -> dict[str, str]:
    return _POD | {
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=kit,k8s.node.name=node-1,k8s.pod.name=pool-epp-0",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
    }


STARTED = {
    "inferencepool": Chart((*_POOL, *_COMMON, "--v", "1", "--tracing=false"), EXTENSION, _POD),
    "inferencepool, metrics without authentication": Chart(
        (*_POOL, *_COMMON, "--v", "1", "--tracing=false", "--metrics-endpoint-auth=false"), EXTENSION, _POD
    ),
    "inferencepool, tracing": Chart(
        (*_POOL, *_COMMON, "--v", "1", "--tracing=true"), EXTENSION, _traced("gateway-api-inference-extension/epp")
    ),
    "standalone": Chart((*_POOL, *_COMMON, "--tracing=false"), EXTENSION, _POD),
    "llm-d-router-gateway": Chart((*_POOL, *_COMMON, *_HEALTH, "--tracing=false"), LLM_D, _POD),
    "llm-d-router-gateway, metrics without authentication": Chart(
        (*_POOL, *_COMMON, *_HEALTH, "--tracing=false", "--metrics-endpoint-auth=false"), LLM_D, _POD
    ),
    "llm-d-router-gateway, tracing": Chart(
        (*_POOL, *_COMMON, *_HEALTH, "--tracing=true"), LLM_D, _traced("llm-d-router/epp")
    ),
    "llm-d-router-gateway, verbose, engines that speak gRPC": Chart(
        (*_POOL, *_COMMON, *_HEALTH, "--v=4", "--tracing=false"), GRPC, _POD
    ),
    "llm-d-router-standalone, without a pool": Chart(
        ("--endpoint-selector", "app=engine", "--endpoint-target-ports", "8000", *_COMMON, *_HEALTH, "--tracing=false"),
        LLM_D,
        _POD,
    ),
}
REFUSED = {
    "inferencepool, 3 replicas": Chart(
        (*_POOL, *_COMMON, _LEADER, "--v", "1", "--tracing=false"), EXTENSION, _POD, ("liveness", "readiness")
    ),
    "llm-d-router-gateway, 2 replicas": Chart(
        (*_POOL, *_COMMON, _LEADER, *_HEALTH, "--tracing=false"), LLM_D, _POD, ("liveness", "readiness")
    ),
}
