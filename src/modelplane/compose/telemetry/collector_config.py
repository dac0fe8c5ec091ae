"""The configuration of a cluster's collector.

Metrics: engines, pickers, fleet routers, Envoy AI Gateway and GPU exporters are scraped, their metrics mapped to the
names of the fleet, and everything else dropped. Traces: what the cluster sends by OTLP, with the name of the cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.api.labels import DEPLOYMENT, ENGINE, PICKER, REPLICA, ROLE, ROUTER, SERVING, TENANT
from modelplane.api.models import MappedMetric
from modelplane.compose.telemetry.sinks import AcceptedSink, Signal
from modelplane.compose.telemetry.statements import metric_statements

SECRETS_PATH: Final = "/etc/modelplane/secrets"
GRPC_PORT, HTTP_PORT, HEALTH_PORT = 4317, 4318, 13133
_ENGINE_TYPE: Final = "llm-d.ai/engine-type"
_PAGES: Final = {"nim": "/v1/metrics", "trtllm-serve": "/prometheus/metrics"}
"""Where engines have their metrics, other than at /metrics."""
_POD: Final = "__meta_kubernetes_pod"
_NAMESPACE: Final = "__meta_kubernetes_namespace"
_AI_GATEWAY_PORT: Final = "aigw-admin"
"""Of the processor that Envoy AI Gateway adds to the proxies."""
_PROCESSORS: Final = ("memory_limiter", "transform/modelplane", "filter/modelplane", "batch")


@dataclass(frozen=True, slots=True)
class CollectorInputs:
    cluster: str
    sinks: tuple[AcceptedSink, ...]
    metrics: tuple[MappedMetric, ...]
    extensions: Mapping[str, object]

    def takes(self, signal: Signal) -> tuple[AcceptedSink, ...]:
        return tuple(sink for sink in self.sinks if signal in sink.signals)


def collector_config(inputs: CollectorInputs) -> dict[str, object]:
    tokens = {_auth(sink): _token(sink) for sink in inputs.sinks if sink.token_key}
    extensions = {"health_check": {"endpoint": f"0.0.0.0:{HEALTH_PORT}"}, **tokens, **inputs.extensions}
    pipelines = _pipelines(inputs)
    return {
        "extensions": extensions,
        "receivers": _receivers(inputs, pipelines),
        "processors": _processors(inputs, pipelines),
        "exporters": {_exporter(sink): _settings(sink) for sink in inputs.sinks},
        "service": {
            "extensions": list(extensions),
            "pipelines": pipelines,
            # Its own metrics have no reader here, and a listener for them would be one more port.
            "telemetry": {"metrics": {"level": "none"}, "logs": {"encoding": "json"}},
        },
    }


def _pipelines(inputs: CollectorInputs) -> dict[str, dict[str, list[str]]]:
    metrics, traces = ([_exporter(sink) for sink in inputs.takes(signal)] for signal in ("Metrics", "Traces"))
    found: dict[str, dict[str, list[str]]] = {}
    if metrics:
        found["metrics"] = {"receivers": ["prometheus"], "processors": list(_PROCESSORS), "exporters": metrics}
    if traces:
        steps = ["memory_limiter", "resource/modelplane", "batch"]
        found["traces"] = {"receivers": ["otlp"], "processors": steps, "exporters": traces}
    return found


def _receivers(inputs: CollectorInputs, pipelines: Iterable[str]) -> dict[str, object]:
    scraped = {"prometheus": {"config": {"scrape_configs": scrape_configs(inputs.cluster)}}}
    listening = {"grpc": {"endpoint": f"0.0.0.0:{GRPC_PORT}"}, "http": {"endpoint": f"0.0.0.0:{HTTP_PORT}"}}
    received = {"otlp": {"protocols": listening}}
    return {**(scraped if "metrics" in pipelines else {}), **(received if "traces" in pipelines else {})}


def _processors(inputs: CollectorInputs, pipelines: Iterable[str]) -> dict[str, object]:
    found: dict[str, object] = {
        "memory_limiter": {"check_interval": "1s", "limit_percentage": 80, "spike_limit_percentage": 20},
        "batch": {},
    }
    if "metrics" in pipelines:
        statements = metric_statements(inputs.metrics)
        found["transform/modelplane"] = {"error_mode": "ignore", "metric_statements": statements}
        found["filter/modelplane"] = {"metrics": {"metric": ['not IsMatch(name, "^modelplane_")']}}
    if "traces" in pipelines:
        named = [{"key": "k8s.cluster.name", "value": inputs.cluster, "action": "upsert"}]
        found["resource/modelplane"] = {"attributes": named}
    return found


def scrape_configs(cluster: str) -> list[dict[str, object]]:
    """Jobs of the prometheus receiver."""
    of_pod = [
        _copied(f"{_POD}_label_{_meta(DEPLOYMENT)}", "deployment"),
        _copied(f"{_POD}_label_{_meta(REPLICA)}", "replica"),
        _copied(f"{_NAMESPACE}_label_{_meta(TENANT)}", "namespace"),
    ]
    of_engine = [_copied(f"{_POD}_label_{_meta(ENGINE)}", "engine"), _copied(f"{_POD}_label_{_meta(ROLE)}", "role")]
    pages = [_page(kind, path) for kind, path in _PAGES.items()]
    engines = [_kept(f"{_POD}_labelpresent_{_meta(SERVING)}", "true"), _port("http"), *pages, *of_pod, *of_engine]
    pickers = [_kept(f"{_POD}_labelpresent_{_meta(PICKER)}", "true"), _port("metrics"), *of_pod]
    routers = [_kept(f"{_POD}_labelpresent_{_meta(ROUTER)}", "true"), _port("admin")]
    exporters = [f"{_POD}_label_app", f"{_POD}_label_app_kubernetes_io_name"]
    gpus: list[dict[str, object]] = [
        {"source_labels": exporters, "regex": ".*dcgm-exporter.*", "action": "keep"},
        _port("metrics"),
        _copied(f"{_POD}_node_name", "node"),
    ]
    return [
        _job("modelplane-engines", "15s", cluster, engines, of_namespace=True),
        _job("modelplane-pickers", "15s", cluster, pickers, of_namespace=True),
        _job("modelplane-routers", "15s", cluster, routers),
        _job("modelplane-gateway-genai", "15s", cluster, [_port(_AI_GATEWAY_PORT)]),
        _job("modelplane-gpu", "30s", cluster, gpus),
    ]


def _job(
    name: str, interval: str, cluster: str, rules: list[dict[str, object]], *, of_namespace: bool = False
) -> dict[str, object]:
    """`of_namespace`: the labels of the pod's namespace are there as well."""
    found: dict[str, object] = {"role": "pod"}
    if of_namespace:
        found["attach_metadata"] = {"namespace": True}
    stamped = {"target_label": "cluster", "replacement": cluster, "action": "replace"}
    running = {"source_labels": [f"{_POD}_phase"], "regex": "Running", "action": "keep"}
    return {
        "job_name": name,
        "scrape_interval": interval,
        "scrape_timeout": "10s",
        "kubernetes_sd_configs": [found],
        "relabel_configs": [running, *rules, stamped],
    }


def _meta(label: str) -> str:
    """As Prometheus writes the name of a label."""
    return "".join(character if character.isalnum() else "_" for character in label)


def _kept(source: str, value: str) -> dict[str, object]:
    return {"source_labels": [source], "regex": value, "action": "keep"}


def _port(name: str) -> dict[str, object]:
    return _kept(f"{_POD}_container_port_name", name)


def _copied(source: str, target: str) -> dict[str, object]:
    return {"source_labels": [source], "target_label": target, "action": "replace"}


def _page(engine: str, path: str) -> dict[str, object]:
    source = f"{_POD}_label_{_meta(_ENGINE_TYPE)}"
    return {"source_labels": [source], "regex": engine, "target_label": "__metrics_path__", "replacement": path}


def _exporter(sink: AcceptedSink) -> str:
    return f"{sink.type_}/{sink.name}"


def _auth(sink: AcceptedSink) -> str:
    return f"bearertokenauth/sink-{sink.name}"


def _token(sink: AcceptedSink) -> dict[str, object]:
    """From a file, so that a new token needs no restart."""
    return {"filename": f"{SECRETS_PATH}/{sink.name}/{sink.token_key}"}


def _settings(sink: AcceptedSink) -> dict[str, object]:
    given = dict(sink.config)
    if sink.endpoint:
        given["endpoint"] = sink.endpoint
    if sink.token_key:
        given["auth"] = {"authenticator": _auth(sink)}
    return given
