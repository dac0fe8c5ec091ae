"""What a kubeconfig of a workload cluster must be allowed: no more than Modelplane writes and reads there.

It is no cluster-admin, and grants nothing: the rights of a cluster's collector are applied by whoever applies these.
Kubernetes cannot limit a right to namespaces that are made later, so Secrets may be read and written in all of them.
Installing software (`components: Managed`) takes cluster-admin, for charts bring roles of their own.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import Json, Manifest, manifest
from modelplane.compose.telemetry.collector_objects import collector_rights

ROLE: Final = "modelplane-workload"
_WRITE: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_READ: Final = ("get", "list", "watch")

WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("configmaps", "namespaces", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"),
    "apps": ("deployments",),
    "batch": ("jobs",),
    "cert-manager.io": ("certificates", "issuers"),
    "gateway.envoyproxy.io": (
        "backends",
        "backendtrafficpolicies",
        "clienttrafficpolicies",
        "envoyextensionpolicies",
        "envoyproxies",
        "httproutefilters",
        "securitypolicies",
    ),
    "gateway.networking.k8s.io": ("gateways", "httproutes"),
    "grove.io": ("podcliquesets",),
    "inference.networking.k8s.io": ("inferencepools",),
    "kai.scheduler": ("topologies",),
    "kueue.x-k8s.io": ("localqueues",),
    "leaderworkerset.x-k8s.io": ("leaderworkersets",),
    "monitoring.coreos.com": ("podmonitors",),
    "nvidia.com": ("dynamographdeployments",),
    "networking.k8s.io": ("networkpolicies",),
    "policy": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io": ("rolebindings", "roles"),
    "resource.k8s.io": ("resourceclaimtemplates",),
    "resource.nvidia.com": ("computedomains",),
    "scheduling.run.ai": ("podgroups",),
    "scheduling.volcano.sh": ("podgroups",),
    "serving.kserve.io": ("llminferenceserviceconfigs", "llminferenceservices"),
    "storage.k8s.io": ("storageclasses",),
}
"""What composers put on a cluster, by API group."""

READ: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("nodes", "pods", "pods/log"),
    "apiregistration.k8s.io": ("apiservices",),
    "cert-manager.io": ("certificaterequests",),
    "gateway.networking.k8s.io": ("gatewayclasses",),
    "kueue.x-k8s.io": ("clusterqueues", "workloads"),
    "resource.k8s.io": ("deviceclasses", "resourceclaims", "resourceslices"),
    "scheduling.run.ai": ("queues",),
    "scheduling.volcano.sh": ("queues",),
    "inference.networking.x-k8s.io": ("inferencemodelrewrites", "inferenceobjectives"),
    "llm-d.ai": ("inferencemodelrewrites", "inferenceobjectives"),
}
"""What is watched there, and what the endpoint picker is allowed: nobody can grant what they may not do."""


def workload_role(account: str = "modelplane", namespace: str = SYSTEM_NAMESPACE) -> tuple[Json, ...]:
    """A ServiceAccount, the role and what binds them, and the collector's, to apply on a workload cluster."""
    rules = [*_rules(WRITTEN, _WRITE), *_rules(READ, _READ)]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    who = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    rbac = "rbac.authorization.k8s.io/v1"
    token = {"kubernetes.io/service-account.name": account}
    secret = manifest(
        "v1", "Secret", f"{account}-token", namespace=namespace, type="kubernetes.io/service-account-token"
    )
    return (
        manifest("v1", "Namespace", namespace),
        manifest("v1", "ServiceAccount", account, namespace=namespace),
        {**secret, "metadata": {"name": f"{account}-token", "namespace": namespace, "annotations": token}},
        manifest(rbac, "ClusterRole", ROLE, rules=rules),
        manifest(rbac, "ClusterRoleBinding", ROLE, roleRef=role, subjects=who),
        *collector_rights(),
    )


def _rules(kinds: Mapping[str, tuple[str, ...]], verbs: Iterable[str]) -> list[Json]:
    return [
        {"apiGroups": [group], "resources": list(names), "verbs": list(verbs)} for group, names in sorted(kinds.items())
    ]


def allows(rules: Iterable[Manifest], group: str, resource: str, verb: str) -> bool:
    """Whether one of the rules allows it."""
    return any(
        group in _texts(rule, "apiGroups") and resource in _texts(rule, "resources") and verb in _texts(rule, "verbs")
        for rule in rules
    )


def _texts(rule: Manifest, name: str) -> tuple[str, ...]:
    found = rule.get(name)
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()
