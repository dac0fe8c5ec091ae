"""What the Prometheus Operator scrapes: PodMonitors, for whoever has it instead of a collector.

Labels are honoured: `namespace` is that of the object that a metric is about, and not that of the pod that says it.
Engines are the exception, since they say nothing of namespaces.
"""

from typing import Final

from modelplane.api.labels import DEPLOYMENT, ENGINE, PICKER, REPLICA, ROLE, ROUTER, SERVING, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Json, manifest
from modelplane.compose.contract import ComposeRequest, Desired, Remote

GROUP: Final = "monitoring.coreos.com"
_PART_OF: Final = {"app.kubernetes.io/part-of": "modelplane"}
_ANYWHERE: Final = {"namespaceSelector": {"any": True}}


def function_monitor(function: str, namespace: str) -> Json:
    """Of the function server. Its page is large, and takes a while to write."""
    endpoint = {**_endpoint("metrics", "30s"), "scrapeTimeout": "20s", "honorLabels": True}
    selector = {"matchLabels": {"pkg.crossplane.io/function": function}}
    return _monitor("modelplane-function", {"selector": selector, "podMetricsEndpoints": [endpoint]}, namespace)


def router_monitor() -> Json:
    """Of fleet routers, which are beside the control plane."""
    return _monitor("modelplane-router", _pods(ROUTER, {**_endpoint("admin"), "honorLabels": True}))


def picker_monitor() -> Json:
    """Of the pickers of a cluster."""
    return _monitor("modelplane-picker", {**_ANYWHERE, **_pods(PICKER, {**_endpoint("metrics"), "honorLabels": True})})


def engine_monitor() -> Json:
    """Of the engines of a cluster, with the labels that say whose they are."""
    labels = {"deployment": DEPLOYMENT, "replica": REPLICA, "engine": ENGINE, "role": ROLE}
    relabelings = [
        {"sourceLabels": [f"__meta_kubernetes_pod_label_{_meta(label)}"], "targetLabel": name}
        for name, label in labels.items()
    ]
    endpoint = {**_endpoint("http"), "relabelings": relabelings}
    return _monitor("modelplane-engine", {**_ANYWHERE, **_pods(SERVING, endpoint)})


def cluster_monitors(request: ComposeRequest[InferenceCluster]) -> dict[str, Desired]:
    """On a cluster that says it has the operator."""
    if request.resource.spec.monitors != "PrometheusOperator":
        return {}
    name = ClusterName(request.resource.metadata.name)
    made = {"monitor-pickers": picker_monitor(), "monitor-engines": engine_monitor()}
    return {key: Desired(Remote(name, item), ready=key in request.observed) for key, item in made.items()}


def _endpoint(port: str, interval: str = "15s") -> Json:
    return {"port": port, "path": "/metrics", "interval": interval}


def _pods(label: str, endpoint: Json) -> Json:
    selector = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    return {"selector": selector, "podMetricsEndpoints": [endpoint]}


def _monitor(name: str, spec: Json, namespace: str = SYSTEM_NAMESPACE) -> Json:
    return manifest(f"{GROUP}/v1", "PodMonitor", name, namespace=namespace, labels=_PART_OF, spec=spec)


def _meta(label: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in label)
