"""The hub on the control plane's cluster: what agents of workload clusters dial (design/0062).

One runs: the connections of agents are in its memory, and they are back within seconds of a restart. It may read and
write Secrets of the system's namespace, where its authority and the records of agents are.

Who calls through it needs the token of a cluster, and is one of those that need clusters: the function server, which
observes them, and the providers that carry objects and charts there.
"""

from collections.abc import Iterator, Mapping

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import GROUP, Json, Manifest, manifest
from modelplane.compose.tenancy import RESTRICTED
from modelplane.crossplane.control_objects import CROSSPLANE_NAMESPACE, pulled_with

HUB = "modelplane-hub"
AGENT_PORT, PROXY_PORT = 8443, 8444
PROVIDERS = ("provider-kubernetes", "provider-helm")
"""Packages that reach workload clusters. Those of clouds reach the clouds' own APIs."""
_RBAC = "rbac.authorization.k8s.io/v1"


def hub_objects(host: str, image: str, function: str, pull_secret: str = "") -> Iterator[Manifest]:
    """`host` is what agents dial, `function` the name of the function's package."""
    labels = {"app.kubernetes.io/name": HUB}
    yield manifest("v1", "ServiceAccount", HUB, namespace=SYSTEM_NAMESPACE)
    yield from _rights()
    deployment = _deployment(host, image, labels, pull_secret)
    yield manifest("apps/v1", "Deployment", HUB, namespace=SYSTEM_NAMESPACE, spec=deployment)
    proxy = {"selector": labels, "ports": [{"name": "proxy", "port": PROXY_PORT, "targetPort": PROXY_PORT}]}
    yield manifest("v1", "Service", HUB, namespace=SYSTEM_NAMESPACE, spec=proxy)
    dialled = {"name": "agents", "port": AGENT_PORT, "targetPort": AGENT_PORT}
    spec = {"type": "LoadBalancer", "selector": labels, "ports": [dialled]}
    yield manifest("v1", "Service", f"{HUB}-agents", namespace=SYSTEM_NAMESPACE, spec=spec)
    yield manifest(
        "networking.k8s.io/v1", "NetworkPolicy", HUB, namespace=SYSTEM_NAMESPACE, spec=_policy(labels, function)
    )


def _policy(labels: Mapping[str, str], function: str) -> Json:
    """Outgoing connections are not limited: it reaches the control plane's API, wherever that is."""
    packages = [("function", function), *(("provider", name) for name in PROVIDERS)]
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": CROSSPLANE_NAMESPACE}}
    callers = [
        {"namespaceSelector": namespace, "podSelector": {"matchLabels": {f"pkg.crossplane.io/{kind}": name}}}
        for kind, name in packages
    ]
    return {
        "podSelector": {"matchLabels": dict(labels)},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": callers, "ports": [{"protocol": "TCP", "port": PROXY_PORT}]},
            {"ports": [{"protocol": "TCP", "port": AGENT_PORT}]},
        ],
    }


def _rights() -> Iterator[Manifest]:
    subjects = [{"kind": "ServiceAccount", "name": HUB, "namespace": SYSTEM_NAMESPACE}]
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "patch"]}
    clusters = {"apiGroups": [GROUP], "resources": ["inferenceclusters"], "verbs": ["patch"]}
    for kind, name, namespace, rule in (
        ("Role", HUB, SYSTEM_NAMESPACE, secrets),
        ("ClusterRole", "modelplane:hub", "", clusters),
    ):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        yield manifest(_RBAC, kind, name, namespace=namespace, rules=[rule])
        yield manifest(_RBAC, f"{kind}Binding", name, namespace=namespace, roleRef=reference, subjects=subjects)


def _deployment(host: str, image: str, labels: Mapping[str, str], pull_secret: str) -> Json:
    probe = {"httpGet": {"path": "/healthz", "port": PROXY_PORT, "scheme": "HTTPS"}, "periodSeconds": 5}
    container = {
        "name": "hub",
        "image": image,
        "args": [f"--host={host}"],
        "ports": [
            {"name": "agents", "containerPort": AGENT_PORT},
            {"name": "proxy", "containerPort": PROXY_PORT},
        ],
        "readinessProbe": probe,
        "livenessProbe": {**probe, "periodSeconds": 20},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}},
        **mounted_scratch(),
    }
    pod = {"serviceAccountName": HUB, "containers": [container], **scratch(), **pulled_with(pull_secret)}
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }


def scratch() -> dict[str, object]:
    """Certificates become files for a moment: TLS reads no others."""
    return {"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}]}


def mounted_scratch() -> dict[str, object]:
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108  the pod's own
    return {"securityContext": dict(RESTRICTED), "volumeMounts": mounts}
