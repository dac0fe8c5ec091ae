"""Who removes a tenant's namespace from a workload cluster: the cluster, once no replica of the tenant is on it.

Replicas make the namespace when they need it and share it, so none of them may remove it; and Crossplane calls nobody
when the last of them is deleted. The cluster knows which replicas are on it, so it holds the namespaces of their
tenants and lets go of them afterwards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, text_at
from modelplane.compose.contract import Desired
from modelplane.compose.tenancy import tenant_namespace
from modelplane.crossplane.provider_objects import Carried

PREFIX = "tenant-"


def tenant_namespaces(
    cluster: InferenceCluster, replicas: Iterable[Manifest] | None, seen: Mapping[str, Carried]
) -> dict[str, Desired]:
    """By composition key. While it is not known which replicas are there, what is held stays held."""
    if replicas is None:
        return {
            key: Desired(carried.observed.target, carried.observed.ready)
            for key, carried in seen.items()
            if key.startswith(PREFIX)
        }
    tenants = sorted({text_at(item, "metadata", "namespace") for item in replicas} - {""})
    return {PREFIX + tenant: _held(cluster, tenant, seen.get(PREFIX + tenant)) for tenant in tenants}


def _held(cluster: InferenceCluster, tenant: str, known: Carried | None) -> Desired:
    ready = known is not None and known.observed.ready
    return Desired(replace(tenant_namespace(cluster, tenant), shared=False), ready)
