"""What keeps tenants apart on a workload cluster.

Each namespace of the control plane has one of its own there. Pods of other tenants cannot reach a replica; the
cluster's own software (its gateway, what scrapes metrics) reaches the ports that answer, and the pods of a replica
reach each other on any port, for collectives and KV transfer choose theirs at run time.

Engines run unprivileged, without capabilities, under the default seccomp profile. Their images run as root and write to
their own file system, so the namespace enforces Baseline and reports what falls short of Restricted; what we add beside
the engines is Restricted in full. Remote memory over a fast network has to lock memory, which Baseline does not allow:
where a cluster has such a network its namespaces enforce nothing, and only engines on those pools may do it.
"""

from collections.abc import Mapping

from modelplane.api.labels import REPLICA, TENANT
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, NodePool
from modelplane.api.objects import manifest
from modelplane.compose.context import Context, remote_namespace
from modelplane.compose.contract import Remote

ENGINE_SECURITY: Mapping[str, object] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
OWN_SECURITY: Mapping[str, object] = {**ENGINE_SECURITY, "readOnlyRootFilesystem": True, "runAsNonRoot": True}
POD_SECURITY: Mapping[str, object] = {"seccompProfile": {"type": "RuntimeDefault"}}
_USER = 65532
RESTRICTED: Mapping[str, object] = {**OWN_SECURITY, **POD_SECURITY, "runAsUser": _USER, "runAsGroup": _USER}
"""A container of a pod that is not ours to write whole: Pod Security's restricted level, as the images' user."""


def tenant_namespace(cluster: InferenceCluster, tenant: str) -> Remote:
    """The namespace of a tenant on a cluster. Replicas share it."""
    modes = {"enforce": _enforced(cluster), "warn": "restricted", "audit": "restricted"}
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in modes.items()}
    namespace = manifest("v1", "Namespace", remote_namespace(tenant), labels={**levels, TENANT: tenant})
    return Remote(ClusterName(cluster.metadata.name), namespace, shared=True)


def _enforced(cluster: InferenceCluster) -> str:
    """What pods of the cluster may need. KServe's presets for ranks over nodes add capabilities that we cannot take."""
    if cluster.spec.backend.type_ == "KServe" or any(_has_fabric(pool) for pool in cluster.spec.node_pools):
        return "privileged"
    return "baseline"


def engine_security(context: Context, pool: str) -> dict[str, object]:
    """The security context of an engine on a pool."""
    fast = any(found.name == pool and _has_fabric(found) for found in context.cluster.spec.node_pools)
    if not fast:
        return dict(ENGINE_SECURITY)
    return {**ENGINE_SECURITY, "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}}


def _has_fabric(pool: NodePool) -> bool:
    return pool.fabric is not None and pool.fabric.type_ != "None"


def network_policy(context: Context, ports: tuple[int, ...], pods: Mapping[str, str] | None = None) -> Remote:
    selector = {"matchLabels": dict(pods or {REPLICA: context.name})}
    outside = {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "DoesNotExist"}]}}
    ingress = [
        {"from": [{"podSelector": selector}]},
        {"from": [outside], "ports": [{"port": port, "protocol": "TCP"} for port in ports]},
    ]
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress}
    return context.remote(context.object("networking.k8s.io/v1", "NetworkPolicy", context.name, spec=spec))
