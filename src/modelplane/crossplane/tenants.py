"""Namespaces of tenants on a workload cluster, which its InferenceCluster owns.

Replicas create the namespace and share it, so none of them may delete it, and no function is called when the last of
them is deleted. The InferenceCluster desires the namespace of each tenant that has a replica on it.

A namespace that exists stays until its InferenceCluster is deleted, even when no replica of the tenant is listed:
provider-kubernetes would delete it with everything in it, and a list may be empty or short. An empty namespace costs
nothing.
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
    """By composition key: of the tenants that have a replica, and of those whose namespace exists."""
    listed = {text_at(item, "metadata", "namespace") for item in replicas or ()}
    composed = {key.removeprefix(PREFIX) for key in seen if key.startswith(PREFIX)}
    tenants = sorted((listed | composed) - {""})
    return {PREFIX + tenant: _held(cluster, tenant, seen.get(PREFIX + tenant)) for tenant in tenants}


def _held(cluster: InferenceCluster, tenant: str, known: ComposedObject | None) -> Desired:
    ready = known is not None and known.observed.ready
    return Desired(replace(tenant_namespace(cluster, tenant), shared=False), ready)
