"""What runs the collector of a cluster: its configuration, a Deployment of one pod, a Service for traces, its rights.

The rights are to watch pods and namespaces, by which it finds what it scrapes. They are written with the kubeconfig of
an administrator only, which Modelplane has where it installs software: to grant anything is no right of others.

A configuration that the collector refuses keeps the new pod from becoming ready, and the old one goes on.
"""

import hashlib
import json
from typing import Final, NamedTuple

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.names import make_name
from modelplane.api.objects import Json, Manifest, manifest, with_metadata
from modelplane.compose.telemetry.collector_config import GRPC_PORT, HEALTH_PORT, HTTP_PORT, SECRETS_PATH
from modelplane.compose.telemetry.sinks import AcceptedSink
from modelplane.compose.tenancy import OWN_SECURITY, POD_SECURITY

NAME: Final = "modelplane-collector"
LABEL: Final = "modelplane.ai/collector"
IMAGE: Final = "docker.io/otel/opentelemetry-collector-contrib:0.161.0"
_CONFIG_PATH: Final = "/etc/modelplane/collector"
_CONFIG_FILE: Final = "collector.yaml"
MADE_FOR: Final = "modelplane.ai/telemetry-destinations"
"""Annotation of the configuration: the TelemetryDestinations in it."""
_DIGEST: Final = "modelplane.ai/config-digest"
_RBAC: Final = "rbac.authorization.k8s.io"
_USER: Final = 10001


class CollectorSite(NamedTuple):
    image: str
    config: Manifest
    sinks: tuple[AcceptedSink, ...]
    destinations: tuple[str, ...]
    """Names of all that it was made for."""
    grants: bool
    """Whether the kubeconfig may write the collector's rights. Elsewhere `modelplane cluster role` prints them."""

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(sorted({sink.secret for sink in self.sinks if sink.secret}))


def collector_objects(site: CollectorSite) -> dict[str, Json]:
    """By key, all in the system's namespace but the rights."""
    text = json.dumps(site.config, indent=1) + "\n"
    role, binding = collector_rights()
    return {
        "account": _object("v1", "ServiceAccount"),
        **({"role": role, "binding": binding} if site.grants else {}),
        "config": with_metadata(
            _object("v1", "ConfigMap", data={_CONFIG_FILE: text}), annotations={MADE_FOR: ",".join(site.destinations)}
        ),
        "service": _service(),
        "collector": _deployment(site, hashlib.sha256(text.encode()).hexdigest()[:8]),
    }


def collector_rights() -> tuple[Json, Json]:
    """A ClusterRole and what binds it. Whoever applies them must have these rights, and may write such objects."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME}
    watched = [{"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "watch"]}]
    return (
        manifest(f"{_RBAC}/v1", "ClusterRole", NAME, rules=watched),
        manifest(f"{_RBAC}/v1", "ClusterRoleBinding", NAME, roleRef=role, subjects=[subject]),
    )


def secret_copy_name(secret: str) -> str:
    return make_name(f"telemetry-{secret}", secret)


def _object(api_version: str, kind: str, **body: object) -> Json:
    return manifest(api_version, kind, NAME, namespace=SYSTEM_NAMESPACE, labels={LABEL: NAME}, **body)


def _service() -> Json:
    ports = [
        {"name": "otlp-grpc", "port": GRPC_PORT, "targetPort": GRPC_PORT, "appProtocol": "kubernetes.io/h2c"},
        {"name": "otlp-http", "port": HTTP_PORT, "targetPort": HTTP_PORT},
    ]
    return _object("v1", "Service", spec={"selector": {LABEL: NAME}, "ports": ports})


def _deployment(site: CollectorSite, digest: str) -> Json:
    pod = {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "securityContext": {**POD_SECURITY, "runAsUser": _USER, "fsGroup": _USER},
        "containers": [_container(site)],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            *({"name": f"sink-{sink.name}", "secret": _source(sink)} for sink in site.sinks if sink.secret),
        ],
    }
    template = {"metadata": {"labels": {LABEL: NAME}, "annotations": {_DIGEST: digest}}, "spec": pod}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {LABEL: NAME}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": template,
    }
    return _object("apps/v1", "Deployment", spec=spec)


def _source(sink: AcceptedSink) -> Json:
    return {"secretName": secret_copy_name(sink.secret)}


def _container(site: CollectorSite) -> Json:
    ports = (("otlp-grpc", GRPC_PORT), ("otlp-http", HTTP_PORT), ("health", HEALTH_PORT))
    mounts = [{"name": "config", "mountPath": _CONFIG_PATH, "readOnly": True}]
    mounts += [
        {"name": f"sink-{sink.name}", "mountPath": f"{SECRETS_PATH}/{sink.name}", "readOnly": True}
        for sink in site.sinks
        if sink.secret
    ]
    probe = {"httpGet": {"path": "/", "port": "health"}, "periodSeconds": 5}
    return {
        "name": "collector",
        "image": site.image,
        "args": [f"--config={_CONFIG_PATH}/{_CONFIG_FILE}"],
        "envFrom": [{"secretRef": {"name": secret_copy_name(name)}} for name in site.secrets],
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "readinessProbe": probe,
        "livenessProbe": {**probe, "initialDelaySeconds": 10, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": dict(OWN_SECURITY),
        "volumeMounts": mounts,
    }
