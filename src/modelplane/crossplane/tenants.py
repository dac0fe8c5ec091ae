"""Namespaces of tenants on a workload cluster, which its InferenceCluster owns.

Replicas create the namespace and share it, so none of them may delete it, and no function is called when the last of
them is deleted. The InferenceCluster desires the namespace of each tenant that has a replica on it, and no others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, text_at
from modelplane.compose.contract import Desired
from modelplane.compose.tenancy import tenant_namespace
from modelplane.crossplane.provider_objects import ComposedObject

PREFIX = "tenant-"


def tenant_namespaces(
    cluster: InferenceCluster, replicas: Iterable[Manifest] | None, seen: Mapping[str, ComposedObject]
) -> dict[str, Desired]:
    """By composition key. While the replicas are unknown, the namespaces that exist stay."""
    if replicas is None:
        return {
            key: Desired(composed.observed.target, composed.observed.ready)
            for key, composed in seen.items()
            if key.startswith(PREFIX)
        }
    tenants = sorted({text_at(item, "metadata", "namespace") for item in replicas} - {""})
    return {PREFIX + tenant: _held(cluster, tenant, seen.get(PREFIX + tenant)) for tenant in tenants}


def _held(cluster: InferenceCluster, tenant: str, known: ComposedObject | None) -> Desired:
    ready = known is not None and known.observed.ready
    return Desired(replace(tenant_namespace(cluster, tenant), shared=False), ready)
