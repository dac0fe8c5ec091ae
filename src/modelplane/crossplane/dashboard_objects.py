"""The dashboard on the control plane's cluster (design/0048): one pod that lists and watches what it shows.

It may write nothing and read no Secret. The token that opens the page is that of a Secret which whoever installs makes;
the kubelet mounts it, and until it is there nobody gets in. Pods of the cluster do not reach the page: people do, by
`kubectl port-forward`, which enters the pod past its NetworkPolicy. There is no PodDisruptionBudget: of one pod it
would stop every drain.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import Json, Manifest, manifest
from modelplane.compose.tenancy import RESTRICTED
from modelplane.crossplane.control_objects import pulled_with
from modelplane.views.dashboard_kinds import read_resources

DASHBOARD: Final = "modelplane-dashboard"
PAGE_PORT, PROBE_PORT = 8081, 8080
TOKEN_SECRET, TOKEN_KEY = "modelplane-dashboard-token", "token"
_MOUNT: Final = "/etc/modelplane/dashboard"
_ROLE: Final = "modelplane:dashboard"
_RBAC: Final = "rbac.authorization.k8s.io"


def dashboard_objects(image: str, pull_secret: str = "") -> Iterator[Manifest]:
    labels = {"app.kubernetes.io/name": DASHBOARD}
    yield manifest("v1", "ServiceAccount", DASHBOARD, namespace=SYSTEM_NAMESPACE)
    yield from _rights()
    deployment = _deployment(image, labels, pull_secret)
    yield manifest("apps/v1", "Deployment", DASHBOARD, namespace=SYSTEM_NAMESPACE, spec=deployment)
    page = {"name": "page", "port": PAGE_PORT, "targetPort": PAGE_PORT}
    yield manifest("v1", "Service", DASHBOARD, namespace=SYSTEM_NAMESPACE, spec={"selector": labels, "ports": [page]})
    yield manifest("networking.k8s.io/v1", "NetworkPolicy", DASHBOARD, namespace=SYSTEM_NAMESPACE, spec=_policy(labels))


def _rights() -> Iterator[Manifest]:
    plurals: dict[str, list[str]] = {}
    for resource in read_resources().values():
        plurals.setdefault(resource.group, []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(found), "verbs": ["list", "watch"]}
        for group, found in sorted(plurals.items())
    ]
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _ROLE}
    subjects = [{"kind": "ServiceAccount", "name": DASHBOARD, "namespace": SYSTEM_NAMESPACE}]
    yield manifest(f"{_RBAC}/v1", "ClusterRole", _ROLE, rules=rules)
    yield manifest(f"{_RBAC}/v1", "ClusterRoleBinding", _ROLE, roleRef=reference, subjects=subjects)


def _deployment(image: str, labels: Mapping[str, str], pull_secret: str) -> Json:
    token = {"secretName": TOKEN_SECRET, "optional": True, "items": [{"key": TOKEN_KEY, "path": TOKEN_KEY}]}
    pod = {
        "serviceAccountName": DASHBOARD,
        "containers": [_container(image)],
        "volumes": [{"name": "token", "secret": token}],
        **pulled_with(pull_secret),
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }


def _container(image: str) -> Json:
    ready = {"httpGet": {"path": "/readyz", "port": PROBE_PORT}, "periodSeconds": 5}
    alive = {"httpGet": {"path": "/healthz", "port": PROBE_PORT}, "periodSeconds": 20}
    flags = {"address": "", "port": PAGE_PORT, "probe-port": PROBE_PORT, "token-file": f"{_MOUNT}/{TOKEN_KEY}"}
    return {
        "name": "dashboard",
        "image": image,
        "args": [f"--{name}={value}" for name, value in flags.items()],
        "ports": [{"name": "page", "containerPort": PAGE_PORT}, {"name": "probes", "containerPort": PROBE_PORT}],
        "readinessProbe": ready,
        "livenessProbe": alive,
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": dict(RESTRICTED),
        "volumeMounts": [{"name": "token", "mountPath": _MOUNT, "readOnly": True}],
    }


def _policy(labels: Mapping[str, str]) -> Json:
    """Outgoing connections are not limited: the playground calls gateways, wherever they are."""
    return {
        "podSelector": {"matchLabels": dict(labels)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": PROBE_PORT}]}],
    }
