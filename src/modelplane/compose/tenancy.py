"""What keeps tenants apart on a workload cluster.

Each namespace of the control plane has one of its own there. Pods of other tenants cannot reach a replica; the
cluster's own software (its gateway, what scrapes metrics) reaches the ports that answer, and the pods of a replica
reach each other on any port, for collectives and KV transfer choose theirs at run time.

Engines run unprivileged, without capabilities, under the default seccomp profile. Their images run as root and write to
their own file system, so the namespace enforces Baseline and reports what falls short of Restricted; what we add beside
the engines is Restricted in full.
"""

from collections.abc import Mapping

from modelplane.api.labels import REPLICA, TENANT
from modelplane.compose.context import Context
from modelplane.compose.contract import Remote
from modelplane.compose.manifests import manifest

_SECURITY_LEVELS = {"enforce": "baseline", "warn": "restricted", "audit": "restricted"}

ENGINE_SECURITY: Mapping[str, object] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
OWN_SECURITY: Mapping[str, object] = {**ENGINE_SECURITY, "readOnlyRootFilesystem": True, "runAsNonRoot": True}
POD_SECURITY: Mapping[str, object] = {"seccompProfile": {"type": "RuntimeDefault"}}


def tenant_namespace(context: Context) -> Remote:
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in _SECURITY_LEVELS.items()}
    labels = {**levels, TENANT: context.replica.metadata.namespace}
    return context.remote(manifest("v1", "Namespace", context.namespace, labels=labels), shared=True)


def network_policy(context: Context, ports: tuple[int, ...], pods: Mapping[str, str] | None = None) -> Remote:
    selector = {"matchLabels": dict(pods or {REPLICA: context.name})}
    outside = {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "DoesNotExist"}]}}
    ingress = [
        {"from": [{"podSelector": selector}]},
        {"from": [outside], "ports": [{"port": port, "protocol": "TCP"} for port in ports]},
    ]
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress}
    return context.remote(context.object("networking.k8s.io/v1", "NetworkPolicy", context.name, spec=spec))
